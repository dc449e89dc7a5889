"""The only modules of this room that import tensorstore and torch."""
