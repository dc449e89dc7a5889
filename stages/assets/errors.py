"""Errors of the object assets: what was wrong, what was expected, what came, what to do."""

from collections.abc import Iterable
from difflib import get_close_matches


class AssetConfigError(ValueError):
    """The assets config contradicts itself or asks for something that cannot be."""


class NoObjectsError(FileNotFoundError):
    """An entry of `objects` matches no mesh."""

    def __init__(self, entry: str, searched: str, available: Iterable[str] = ()) -> None:
        names = sorted(available)
        near = get_close_matches(entry.rpartition("/")[2], names, n=3, cutoff=0.4)
        hint = f"; nearest: {', '.join(near)}" if near else ""
        super().__init__(
            f"assets.objects: {entry!r} matches no mesh in {searched}{hint}. "
            "Correct the entry or put the meshes there"
        )


class DuplicateObjectError(ValueError):
    """Two meshes would get the same object id."""

    def __init__(self, object_id: str, first: str, second: str) -> None:
        super().__init__(
            f"assets.objects: {first!r} and {second!r} both give object id {object_id!r} (the "
            "file's name without its ending); rename one or leave one out"
        )


class EscapingPathError(ValueError):
    """A relative entry leaves the folder of the config file."""

    def __init__(self, entry: str, root: str) -> None:
        super().__init__(
            f"assets.objects: {entry!r} leaves the folder {root} that relative paths start from; "
            "move the meshes below it or give an absolute path"
        )


class MeshFileError(ValueError):
    """A mesh file cannot be read as triangles."""


class ConvexError(RuntimeError):
    """The convex decomposition failed; `code` is the outcome code."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
