"""URDF -> the URDF that SAPIEN loads: a hand alone, on six virtual joints when it floats.

Meshes get absolute paths, since the text is written elsewhere. `mimic` is taken out: SAPIEN makes
tendons of it, which no control reaches, so a controller leads followers instead. A follower of a
follower is tied to the joint that leads both.
"""

import atexit
import copy
import hashlib
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from xml.etree import ElementTree

from stages.assets.hands.errors import HandError, HandNotFoundError
from stages.assets.hands.models import find_mesh
from stages.envs.mujoco.urdf import fill_masses, keep_subtree, mimics

BASE_LINK = "floating_base"
ROOT_JOINTS = (
    "root_x_axis_joint",
    "root_y_axis_joint",
    "root_z_axis_joint",
    "root_x_rot_joint",
    "root_y_rot_joint",
    "root_z_rot_joint",
)
"""The virtual joints, from the fixed base to the hand: three slides, then turns about x, y, z."""
REACH = 10.0  # m, of a slide either way
TURN = 12.566370614359172  # rad, two turns either way


@dataclass(frozen=True, kw_only=True, slots=True)
class Follower:
    """A joint that URDF's `mimic` ties to another: q = multiplier * q_master + offset."""

    joint: str
    master: str  # a leading joint, never a follower
    multiplier: float
    offset: float


@dataclass(frozen=True, kw_only=True, slots=True)
class SapienUrdf:
    path: Path
    links: tuple[str, ...]
    followers: tuple[Follower, ...]


@lru_cache(maxsize=64)
def sapien_urdf(
    path: Path, root_body: str, leading: tuple[str, ...], *, floating: bool
) -> SapienUrdf:
    """The part of the URDF at `path` from `root_body` on, written for SAPIEN.

    The joints `leading` are those of a grasp; what else has a `mimic` follows them. A `floating`
    hand hangs on ROOT_JOINTS, which come first among its joints. Raises HandNotFoundError when a
    mesh is missing, HandError when `root_body` is, or for a `mimic` that leads to no leading joint.
    """
    robot = ElementTree.parse(path).getroot()
    keep_subtree(robot, root_body)
    followers = _take_mimic(robot, leading)
    for link in robot.findall("link"):
        _draw_missing(path, link)
    for mesh in robot.iter("mesh"):
        name = mesh.get("filename", "")
        found = find_mesh(path, name)
        if found is None:
            raise HandNotFoundError(f"{path.name}: mesh {name!r} is missing near {path.parent}")
        mesh.set("filename", str(found.resolve()))
    if floating:
        _add_root_joints(robot, root_body)
    fill_masses(robot)
    links = tuple(link.get("name", "") for link in robot.findall("link"))
    text = ElementTree.tostring(robot, encoding="unicode")
    target = _folder() / f"{path.stem}_{hashlib.sha256(text.encode()).hexdigest()[:16]}.urdf"
    target.write_text(text, encoding="utf-8")
    return SapienUrdf(path=target, links=links, followers=followers)


@lru_cache(maxsize=1)
def _folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="grasp-clouds-urdf-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _draw_missing(path: Path, link: ElementTree.Element) -> None:
    """Draw a link by its collision shapes where the file of a visual mesh is not there."""
    visuals = link.findall("visual")
    names = [mesh.get("filename", "") for visual in visuals for mesh in visual.iter("mesh")]
    if all(find_mesh(path, name) for name in names):
        return
    for visual in visuals:
        link.remove(visual)
    for collision in link.findall("collision"):
        visual = copy.deepcopy(collision)
        visual.tag = "visual"
        link.append(visual)


def _take_mimic(robot: ElementTree.Element, leading: Sequence[str]) -> tuple[Follower, ...]:
    found = mimics(robot)
    for joint in robot.findall("joint"):
        for mimic in joint.findall("mimic"):
            joint.remove(mimic)
    out: list[Follower] = []
    for name in found:
        master, multiplier, offset = name, 1.0, 0.0
        while master not in leading and master in found:
            mimic = found[master]
            offset += multiplier * float(mimic.get("offset", 0.0))
            multiplier *= float(mimic.get("multiplier", 1.0))
            master = mimic.get("joint", "")
        if master not in leading:
            raise HandError(
                f"joint {name!r} follows {master!r}, which nothing drives; name {master!r} in "
                f"joint_names, which are {', '.join(leading)}"
            )
        if master != name:
            out.append(Follower(joint=name, master=master, multiplier=multiplier, offset=offset))
    return tuple(out)


def _add_root_joints(robot: ElementTree.Element, root_body: str) -> None:
    axes = ("1 0 0", "0 1 0", "0 0 1")
    links = [BASE_LINK, *(f"{name.removesuffix('_joint')}_link" for name in ROOT_JOINTS[:-1])]
    for name in links:
        ElementTree.SubElement(robot, "link", name=name)
    for i, name in enumerate(ROOT_JOINTS):
        slide = i < 3
        joint = ElementTree.SubElement(
            robot, "joint", name=name, type="prismatic" if slide else "revolute"
        )
        ElementTree.SubElement(joint, "parent", link=links[i])
        ElementTree.SubElement(joint, "child", link=[*links[1:], root_body][i])
        ElementTree.SubElement(joint, "axis", xyz=axes[i % 3])
        bound = str(REACH if slide else TURN)
        ElementTree.SubElement(
            joint, "limit", lower=f"-{bound}", upper=bound, effort="1000", velocity="1000"
        )
