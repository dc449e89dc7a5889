"""Clouds from cameras: rays against meshes, then the crop. It never steps physics."""
