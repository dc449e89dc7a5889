"""The conductor: knows the graph of stages, knows no physics and no rays."""
