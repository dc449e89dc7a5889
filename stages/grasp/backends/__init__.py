"""Rays (Embree) and contacts (MuJoCo) for the samplers."""
