"""The formats by name."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from stages.assets.hands.spec import HandSpec
from stages.grasp.errors import GraspFormatError
from stages.grasp.formats.acronym import read_acronym, write_acronym
from stages.grasp.formats.dexgraspbench import read_dexgraspbench, write_dexgraspbench
from stages.grasp.formats.dexgraspnet import read_dexgraspnet, write_dexgraspnet
from stages.grasp.formats.graspgen import read_graspgen, write_graspgen
from stages.grasp.formats.record import ImportedGrasps


class Format(NamedTuple):
    """How one format is read and written; see docs/formats.md."""

    reader: Callable[[Path, HandSpec], list[ImportedGrasps]]
    writer: Callable[[Path, Sequence[ImportedGrasps], HandSpec], None]
    suffix: str


FORMATS: dict[str, Format] = {
    "acronym": Format(read_acronym, write_acronym, ".h5"),
    "dexgraspbench": Format(read_dexgraspbench, write_dexgraspbench, ".npy"),
    "dexgraspnet": Format(read_dexgraspnet, write_dexgraspnet, ".npy"),
    "graspgen": Format(read_graspgen, write_graspgen, ".json"),
}


def read_grasps(path: str | Path, format: str, hand: HandSpec) -> list[ImportedGrasps]:
    """The grasps of a file, one set for each scale of the object (most formats hold one).

    Raises GraspFormatError when the file is not of that format or does not fit `hand`,
    FileNotFoundError when it is missing, HandNotFoundError when the hand's model files are.
    """
    path = Path(path)
    return _format(path, format).reader(path, hand)


def write_grasps(
    path: str | Path, format: str, sets: Sequence[ImportedGrasps], hand: HandSpec
) -> None:
    """Write sets of `hand` on one object, whole or not at all.

    Raises GraspFormatError when a set is not of `hand` or the format cannot hold it.
    """
    path = Path(path)
    chosen = _format(path, format)
    if path.suffix != chosen.suffix:
        raise GraspFormatError(
            path,
            f"suffix of a {format} file",
            expected=chosen.suffix,
            got=repr(path.suffix),
            fix="rename the file",
        )
    for imported in sets:
        if imported.grasps.joint_names != hand.joint_names:
            raise GraspFormatError(
                path,
                f"joints of the grasps of {imported.grasps.hand!r}",
                expected=f"those of hand {hand.name!r}, {list(hand.joint_names)}",
                got=str(list(imported.grasps.joint_names)),
                fix="pass the hand that the grasps were made for",
            )
    chosen.writer(path, sets, hand)


def _format(path: Path, name: str) -> Format:
    if name not in FORMATS:
        raise GraspFormatError(
            path, "format", expected=f"one of {sorted(FORMATS)}", got=repr(name), fix="name one"
        )
    return FORMATS[name]
