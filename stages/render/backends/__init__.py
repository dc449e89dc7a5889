"""Renderers behind one protocol: name -> "module:class", imported when chosen."""

BACKENDS = {
    "embree": "stages.render.backends.embree:EmbreeBackend",
    "maniskill": "stages.render.backends.maniskill:ManiSkillBackend",
}

DRAW_GRAINS = ("embree",)
"""Backends that draw `Scene.grain_positions` and the bin; the others refuse granular scenes."""
