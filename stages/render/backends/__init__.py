"""Renderers behind one protocol: name -> "module:class", imported when chosen."""

from stages.render.errors import RenderConfigError

BACKENDS = {
    "embree": "stages.render.backends.embree:EmbreeBackend",
    "maniskill": "stages.render.backends.maniskill:ManiSkillBackend",
}

DRAW_GRAINS = ("embree",)
"""Backends that draw `Scene.grain_positions` and the bin; the others refuse granular scenes."""

CAST_RAYS = ("embree",)
"""Backends that know the triangle of a hit, for colours, and cameras with lens distortion."""


def check_rays(backend: str, *, colour: bool, distortion: bool) -> None:
    """Raise RenderConfigError when the config asks for what only a caster of rays has."""
    if backend in BACKENDS and backend not in CAST_RAYS:
        wanted = {"colour: true": colour, "camera.distortion": distortion}
        for name in (name for name, asked in wanted.items() if asked):
            raise RenderConfigError(
                f"backend: {backend} has no render.{name}; leave it out, or use "
                f"{' or '.join(CAST_RAYS)}"
            )


def check_grains(backend: str) -> None:
    """Raise RenderConfigError unless the backend draws grains."""
    if backend not in DRAW_GRAINS:
        raise RenderConfigError(
            f"backend: {backend} does not draw grains, but there are granular scenes; use "
            f"{' or '.join(DRAW_GRAINS)}, or set scene.granular: 0"
        )
