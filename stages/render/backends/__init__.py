"""Renderers behind one protocol: name -> "module:class", imported when chosen."""

from stages.render.errors import RenderConfigError

BACKENDS = {
    "embree": "stages.render.backends.embree:EmbreeBackend",
    "maniskill": "stages.render.backends.maniskill:ManiSkillBackend",
}

DRAW_GRAINS = ("embree",)
"""Backends that draw `Scene.grain_positions` and the bin; the others refuse granular scenes."""


def check_grains(backend: str) -> None:
    """Raise RenderConfigError unless the backend draws grains."""
    if backend not in DRAW_GRAINS:
        raise RenderConfigError(
            f"backend: {backend} does not draw grains, but there are granular scenes; use "
            f"{' or '.join(DRAW_GRAINS)}, or set scene.granular: 0"
        )
