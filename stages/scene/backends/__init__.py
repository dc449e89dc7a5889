"""Physics for settling."""
