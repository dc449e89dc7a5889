"""Grasp candidates: pregrasp, grasp and squeeze, spread over the object."""
