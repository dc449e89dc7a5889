"""Dry grains: pouring, rigid frictional contact by implicit time stepping, bodies that push."""
