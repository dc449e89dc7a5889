"""Labelling protocols: `fc` (force closure in free space) and `tabletop` (lift)."""
