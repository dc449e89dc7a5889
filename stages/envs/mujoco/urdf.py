"""URDF -> MJCF-ready XML: what MuJoCo's importer needs changed, done on the XML tree.

The importer merges the top link into the world, makes no actuators, reads only obj, stl and msh
meshes, and rejects massless moving links (it keeps `mimic`, as an equality).
So: links above the root are dropped, a `world` link with a floating joint is put above it, visual
meshes are dropped, collision meshes are handed over as bytes (converted where needed), links
that move without a mass get a small one, and inertias are balanced.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import trimesh

from stages.assets.hands.errors import HandError, HandNotFoundError
from stages.assets.hands.models import find_mesh

ROOT_JOINT = "root_free"
OBJ_PART = re.compile(rb"^[og] ", re.MULTILINE)
SMALL_MASS, SMALL_INERTIA = 1e-3, 1e-6  # kg, kg m^2: a gram, 3 cm from the joint


@dataclass(frozen=True, kw_only=True, slots=True)
class PreparedUrdf:
    xml: str
    assets: dict[str, bytes]


def prepare_urdf(path: Path, root_body: str, *, floating: bool = True) -> PreparedUrdf:
    """The URDF at `path` with `root_body` as its root, ready for MjSpec.from_string.

    A `floating` root hangs on a free joint; otherwise it stands fixed in the world.
    """
    robot = ElementTree.parse(path).getroot()
    keep_subtree(robot, root_body)
    for link in robot.findall("link"):
        for visual in link.findall("visual"):
            link.remove(visual)
    fill_masses(robot)
    assets: dict[str, bytes] = {}
    for mesh in robot.iter("mesh"):
        name = mesh.get("filename", "")
        key, content = _mesh_bytes(path, name)
        assets[key] = content
        mesh.set("filename", key)
    for old in robot.findall("mujoco"):
        robot.remove(old)
    # A top link called "world" is merged into MuJoCo's world, so the free joint is at top level.
    ElementTree.SubElement(robot, "link", name="world")
    joint = ElementTree.SubElement(robot, "joint", name=ROOT_JOINT)
    joint.set("type", "floating" if floating else "fixed")
    ElementTree.SubElement(joint, "parent", link="world")
    ElementTree.SubElement(joint, "child", link=root_body)
    extension = ElementTree.SubElement(robot, "mujoco")
    ElementTree.SubElement(
        extension,
        "compiler",
        balanceinertia="true",  # published inertias often break the triangle inequality
        strippath="false",
        fusestatic="false",  # keep fingertip bodies and their names
        discardvisual="false",
    )
    return PreparedUrdf(xml=ElementTree.tostring(robot, encoding="unicode"), assets=assets)


def keep_subtree(robot: ElementTree.Element, root_body: str) -> None:
    """Drop every link and joint that is not `root_body` or below it, and `mimic` of such joints.

    Raises HandError for an unknown `root_body`, for a `mimic` of a joint that is not there or does
    not move, and for joints that mimic each other in a circle.
    """
    moving = [j.get("name", "") for j in robot.findall("joint") if j.get("type") != "fixed"]
    joints = {_link_of(joint, "child"): joint for joint in robot.findall("joint")}
    links = {link.get("name", ""): link for link in robot.findall("link")}
    if root_body not in links:
        raise HandError(f"root_body {root_body!r} is not a link; links: {', '.join(links)}")
    for name, link in links.items():
        above = name
        while above != root_body and above in joints:
            above = _link_of(joints[above], "parent")
        inside = above == root_body
        if not inside:
            robot.remove(link)
        if name in joints and (not inside or name == root_body):
            robot.remove(joints[name])
    _check_mimic(mimics(robot), moving)
    kept = {joint.get("name") for joint in robot.findall("joint")}
    for joint in robot.findall("joint"):
        mimic = joint.find("mimic")
        if mimic is not None and mimic.get("joint") not in kept:
            joint.remove(mimic)  # what it followed was above the root


def mimics(robot: ElementTree.Element) -> dict[str, ElementTree.Element]:
    """The `mimic` of every joint that has one, by the joint's name."""
    found = {joint.get("name", ""): joint.find("mimic") for joint in robot.findall("joint")}
    return {name: mimic for name, mimic in found.items() if mimic is not None}


def _check_mimic(found: Mapping[str, ElementTree.Element], moving: Sequence[str]) -> None:
    masters = {name: mimic.get("joint", "") for name, mimic in found.items()}
    for name, master in masters.items():
        if master not in moving:
            raise HandError(
                f"joint {name!r} mimics {master!r}, which is no joint that moves; expected one of "
                f"{', '.join(moving)}; mend the URDF"
            )
        chain = [name]
        while (above := masters.get(chain[-1])) is not None:
            chain.append(above)
            if above in chain[:-1]:
                raise HandError(
                    f"joints mimic each other in a circle: {' -> '.join(chain)}; expected one that "
                    "leads; take its mimic out of the URDF"
                )


def fill_masses(robot: ElementTree.Element) -> None:
    """Give SMALL_MASS to links that move without any mass, such as those between two axes of a
    universal joint. A link without `inertial` but with collision shapes is left to MuJoCo, which
    takes their volume at 1000 kg/m^3."""
    links = {link.get("name", ""): link for link in robot.findall("link")}
    joints = robot.findall("joint")
    rigid: dict[str, list[str]] = {}
    for joint in joints:
        if joint.get("type") == "fixed":
            rigid.setdefault(_link_of(joint, "parent"), []).append(_link_of(joint, "child"))

    def has_mass(name: str) -> bool:
        link = links[name]
        mass = link.find("inertial/mass")
        own = float(mass.get("value", 0)) > 0 if mass is not None else False
        shapes = link.find("inertial") is None and link.find("collision") is not None
        return own or shapes or any(has_mass(child) for child in rigid.get(name, []))

    for joint in joints:
        name = _link_of(joint, "child")
        if joint.get("type") == "fixed" or has_mass(name):
            continue
        link = links[name]
        for old in link.findall("inertial"):
            link.remove(old)
        inertial = ElementTree.SubElement(link, "inertial")
        ElementTree.SubElement(inertial, "mass", value=str(SMALL_MASS))
        diagonal, zero = dict.fromkeys(("ixx", "iyy", "izz"), str(SMALL_INERTIA)), "0"
        ElementTree.SubElement(inertial, "inertia", diagonal, ixy=zero, ixz=zero, iyz=zero)


def _link_of(joint: ElementTree.Element, role: str) -> str:
    element = joint.find(role)
    return "" if element is None else element.get("link", "")


def _mesh_bytes(urdf: Path, name: str) -> tuple[str, bytes]:
    """(asset name, bytes in a format MuJoCo reads) of the mesh that `urdf` calls `name`."""
    found = find_mesh(urdf, name)
    if found is None:
        raise HandNotFoundError(
            f"{urdf.name}: collision mesh {name!r} is missing; looked in {urdf.parent}"
            + (" and every folder above it" if name.startswith("package://") else "")
        )
    key = name.replace("://", "_").replace("/", "_")
    content = found.read_bytes()
    suffix = found.suffix.lower()
    ascii_stl = suffix == ".stl" and content[:5] == b"solid" and b"facet" in content[:500]
    # Of an OBJ in several objects or groups MuJoCo would take the faces of the first alone.
    parts = suffix == ".obj" and len(OBJ_PART.findall(content)) > 1
    if suffix in (".obj", ".stl") and not ascii_stl and not parts:
        return key, content
    mesh = trimesh.load(found, force="mesh")  # scene transforms are baked in
    return f"{key}.stl", bytes(mesh.export(file_type="stl"))
