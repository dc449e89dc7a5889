"""Renderers behind one protocol: name -> "module:class", imported when chosen."""

BACKENDS = {
    "embree": "stages.render.backends.embree:EmbreeBackend",
    "maniskill": "stages.render.backends.maniskill:ManiSkillBackend",
}
