"""The field dictionary of a dataset: what every array of a shard holds, in which unit and frame.

`stages.shard.write` checks it before anything is written and stores it as the attributes of each
array; `verify` checks it again on what lies on the disk. `*` stands for a hand or a protocol.
"""

from schemas.errors import SchemaError
from schemas.field import CLOUD_FRAME, Field

SCHEMA_VERSION = 1
"""Raised when a field changes its meaning; older versions keep a reader."""


def _qpos(what: str) -> Field:
    return Field(
        dtype="float64",
        shape=("grasp", "qpos"),
        unit="m (xyz), 1 (quaternion), rad or m (joints)",
        frame="world of object_pose",
        description=f"hand at the {what}: root xyz, wxyz, then joints in `joint_names` order",
    )


def _distance(what: str, no_data: str = "NaN") -> Field:
    return Field(
        dtype="float64", shape=("grasp",), unit="m", frame="", description=what, low=0.0,
        no_data=no_data,
    )  # fmt: skip


def _contacts(where: str) -> Field:
    return Field(
        dtype="int32", shape=("grasp",), unit="", frame="", low=-1, no_data="-1",
        description=f"hand-object contacts at {where}",
    )  # fmt: skip


def _quality(what: str, high: float | None = None) -> Field:
    return Field(
        dtype="float64", shape=("grasp",), unit="", frame="", low=0.0, high=high, no_data="NaN",
        description=f"{what}, from the contacts at the grasp pose; no data without any",
    )  # fmt: skip


CLOUD_FIELDS: dict[str, Field] = {
    "points": Field(
        dtype="float32", shape=("point", 3), unit="m", frame=CLOUD_FRAME,
        description="points of all clouds, one after another; see cloud_offsets",
    ),
    "segment": Field(
        dtype="uint16", shape=("point",), unit="", frame="",
        description="segment id: 0 background, 1 table, 2.. objects in scene order",
    ),
    "normals": Field(
        dtype="float32", shape=("point", 3), unit="", frame=CLOUD_FRAME, low=-1, high=1,
        optional=True, description="unit normal of the face that was hit, towards the camera; "
        "only with render.normals",
    ),
    "colour": Field(
        dtype="uint8", shape=("point", 3), unit="", frame="", no_data="0 0 0", optional=True,
        description="RGB of the object's vertices; unknown for the table and for objects whose "
        "file has no colours; only with render.colour",
    ),
    "cloud_offsets": Field(
        dtype="int64", shape=("cloud+1",), unit="", frame="", low=0,
        description="cloud c is points[cloud_offsets[c]:cloud_offsets[c + 1]]",
    ),
    "cloud_scene": Field(
        dtype="int32", shape=("cloud",), unit="", frame="", low=0, strings="scene_ids",
        description="row of the cloud's scene in the scenes/ arrays and in scene_ids",
    ),
    "view": Field(
        dtype="int32", shape=("cloud",), unit="", frame="", low=0,
        description="number of the view within its scene",
    ),
    "valid_count": Field(
        dtype="int64", shape=("cloud",), unit="", frame="", low=0,
        description="points that survived the crop, before sampling",
    ),
    "intrinsics": Field(
        dtype="float64", shape=("cloud", 6), unit="pixel", frame="image", low=0,
        description="fx fy cx cy width height; OpenCV, pixel centres at +0.5",
    ),
    "distortion": Field(
        dtype="float64", shape=("cloud", 6), unit="", frame="image", optional=True,
        description="lens: model (0 none, 1 brown_conrady, 2 kannala_brandt), then k1 k2 p1 p2 k3 "
        "or k1 k2 k3 k4 0 as in OpenCV; absent when no lens is distorted",
    ),
    "depth_step": Field(
        dtype="float64", shape=("cloud",), unit="m", frame="", low=0, optional=True,
        description="depth came in steps of this size, the middle of each is kept: every depth is "
        "within half a step of the exact one; 0 is exact; absent when all are",
    ),
    "T_world_cam": Field(
        dtype="float64", shape=("cloud", 4, 4), unit="m", frame="world <- camera",
        description="camera pose, OpenCV axes (x right, y down, z forward)",
    ),
    "scenes/object_offsets": Field(
        dtype="int64", shape=("scene+1",), unit="", frame="", low=0,
        description="objects of scene s are rows object_offsets[s]:object_offsets[s + 1]",
    ),
    "scenes/object_index": Field(
        dtype="int32", shape=("placed",), unit="", frame="", low=0, strings="object_ids",
        description="which object, an index into object_ids",
    ),
    "scenes/object_pose": Field(
        dtype="float64", shape=("placed", 7), unit="m (xyz), 1 (quaternion)",
        frame="world <- object", description="xyz, wxyz of the object at rest",
    ),
    "scenes/object_scale": Field(
        dtype="float64", shape=("placed",), unit="", frame="", low=0,
        description="scale of the source mesh, already applied",
    ),
    "scenes/object_mass": Field(
        dtype="float64", shape=("placed",), unit="kg", frame="", low=0,
        description="mass of the object",
    ),
    "scenes/table_pose": Field(
        dtype="float64", shape=("scene", 7), unit="m (xyz), 1 (quaternion)",
        frame="world <- table", description="xyz, wxyz of the table top; its z is the normal",
    ),
    "scenes/table_size": Field(
        dtype="float64", shape=("scene", 2), unit="m", frame="table", low=0, no_data="0 0",
        description="length and width of the table top; zeros without a table",
    ),
    "scenes/settle_time": Field(
        dtype="float64", shape=("scene",), unit="s", frame="", low=0,
        description="simulated time until at rest",
    ),
    "scenes/buried_fraction": Field(
        dtype="float64", shape=("placed",), unit="", frame="", low=0, high=1, no_data="NaN",
        optional=True,
        description="share of the open directions of the object's surface that the grains take; "
        "no data in a scene without grains",
    ),
    "scenes/exposed_area": Field(
        dtype="float64", shape=("placed",), unit="m^2", frame="", low=0, no_data="NaN",
        optional=True,
        description="surface of the object that looks at the sky, each place by the share of its "
        "directions that the grains leave open; no data in a scene without grains",
    ),
    "scenes/grain_offsets": Field(
        dtype="int64", shape=("scene+1",), unit="", frame="", low=0, optional=True,
        description="grains of scene s are rows grain_offsets[s]:grain_offsets[s + 1]",
    ),
    "scenes/grain_position": Field(
        dtype="float32", shape=("grain", 3), unit="m", frame="world", optional=True,
        description="centres of the grains at rest",
    ),
    "scenes/grain_radius": Field(
        dtype="float64", shape=("scene",), unit="m", frame="", low=0, no_data="0", optional=True,
        description="radius of the scene's grains; 0 without",
    ),
    "scenes/bin_size": Field(
        dtype="float64", shape=("scene", 3), unit="m", frame="table", low=0, no_data="0 0 0",
        optional=True,
        description="inside of the bin around the table's origin: x, y, height; zeros without",
    ),
    "visibility/*/row_offsets": Field(
        dtype="int64", shape=("cloud+1",), unit="", frame="", low=0, optional=True,
        description="cloud c has the rows row_offsets[c]:row_offsets[c + 1] below, one for each "
        "grasp of each of its objects; only with shard.visibility",
    ),
    "visibility/*/object_slot": Field(
        dtype="int32", shape=("seen",), unit="", frame="", low=0, optional=True,
        description="place of the grasp's object in the scene: segment id less 2",
    ),
    "visibility/*/grasp_index": Field(
        dtype="int64", shape=("seen",), unit="", frame="", low=0, optional=True,
        description="identity of the grasp within (hand, object)",
    ),
    "visibility/*/share": Field(
        dtype="float32", shape=("seen",), unit="", frame="", low=0, high=1, no_data="NaN",
        optional=True,
        description="share of the surface around the grasp's contacts that has points of the "
        "cloud near it; no data for a grasp without contact",
    ),
}  # fmt: skip
"""Arrays of `<split>-NNNNN.zarr`."""

GRASP_FIELDS: dict[str, Field] = {
    "objects/vertex_offsets": Field(
        dtype="int64", shape=("object+1",), unit="", frame="", low=0,
        description="object i of object_ids has vertices[vertex_offsets[i]:vertex_offsets[i + 1]]",
    ),
    "objects/vertices": Field(
        dtype="float32", shape=("vertex", 3), unit="m", frame="object",
        description="vertices of the repaired meshes, scale applied",
    ),
    "objects/face_offsets": Field(
        dtype="int64", shape=("object+1",), unit="", frame="", low=0,
        description="object i of object_ids has faces[face_offsets[i]:face_offsets[i + 1]]",
    ),
    "objects/faces": Field(
        dtype="int32", shape=("face", 3), unit="", frame="", low=0,
        description="triangles, indices into the object's own vertices, outward by right hand",
    ),
    "grasps/*/object_index": Field(
        dtype="int32", shape=("grasp",), unit="", frame="", low=0, strings="object_ids",
        description="which object, an index into object_ids",
    ),
    "grasps/*/object_pose": Field(
        dtype="float64", shape=("grasp", 7), unit="m (xyz), 1 (quaternion)",
        frame="world <- object",
        description="xyz, wxyz of the object in the world that the qpos rows are given in",
    ),
    "grasps/*/pregrasp_qpos": _qpos("pregrasp"),
    "grasps/*/grasp_qpos": _qpos("grasp"),
    "grasps/*/squeeze_qpos": _qpos("squeeze"),
    "grasps/*/grasp_index": Field(
        dtype="int64", shape=("grasp",), unit="", frame="", low=0,
        description="identity of the grasp within (hand, object)",
    ),
    "labels/*/*/labelled": Field(
        dtype="bool", shape=("grasp",), unit="", frame="",
        description="false: this grasp has no label under this protocol; other fields no data",
    ),
    "labels/*/*/success": Field(
        dtype="bool", shape=("grasp",), unit="", frame="", no_data="false",
        description="the protocol's verdict",
    ),
    "labels/*/*/outcome": Field(
        dtype="int32", shape=("grasp",), unit="", frame="", low=-1, no_data="-1",
        strings="outcome_codes", description="why, an index into outcome_codes",
    ),
    "labels/*/*/direction_success": Field(
        dtype="bool", shape=("grasp", 6), unit="", frame="world", no_data="false",
        description="held against a force along +x -x +y -y +z -z",
    ),
    "labels/*/*/final_object_pose": Field(
        dtype="float64", shape=("grasp", 7), unit="m (xyz), 1 (quaternion)",
        frame="world <- object", no_data="NaN",
        description="xyz, wxyz of the object at the end of the last trial",
    ),
    "labels/*/*/translation": _distance("largest motion of the object over the trials"),
    "labels/*/*/rotation": Field(
        dtype="float64", shape=("grasp",), unit="rad", frame="", low=0, no_data="NaN",
        description="largest turn of the object over the trials",
    ),
    "labels/*/*/contacts_grasp": _contacts("the grasp pose"),
    "labels/*/*/contacts_squeeze": _contacts("the squeeze pose"),
    "labels/*/*/contacts_end": _contacts("the end"),
    "labels/*/*/hand_object_penetration": _distance("penetration at the grasp pose"),
    "labels/*/*/self_penetration": _distance("of the hand in itself at the grasp pose"),
    "labels/*/*/contact_number": Field(
        dtype="int32", shape=("grasp",), unit="", frame="", low=-1, no_data="-1",
        description="bodies of the hand within contact_threshold of the object, at the grasp pose",
    ),
    "labels/*/*/contact_distance": _distance(
        "mean over the fingers of the distance to the object, at most contact_margin each"
    ),
    "labels/*/*/contact_consistency": _distance("largest minus smallest finger distance"),
    "labels/*/*/qp": _quality("wrench left over against weak forces along the axes, mean"),
    "labels/*/*/qp_dfc": _quality("wrench left over without an external force"),
    "labels/*/*/q1": _quality("Ferrari and Canny's largest ball of wrenches; larger is better"),
    "labels/*/*/tdg": _quality("mean 1 - cos of wanted force and answering wrench", high=2.0),
    "labels/*/*/dfc": _quality("wrench of unit normal forces at all contacts"),
    "labels/*/*/confidence": Field(
        dtype="float64", shape=("grasp",), unit="", frame="", low=0, high=1, no_data="NaN",
        description="share of the perturbed repeats that succeed; no data when none were run",
    ),
    "labels/*/*/lift": Field(
        dtype="float64", shape=("grasp",), unit="m", frame="world", no_data="NaN", optional=True,
        description="how far the object had risen at the end; rollout alone",
    ),
}  # fmt: skip
"""Arrays of `<split>-grasps.zarr`."""

FIELDS: dict[str, Field] = CLOUD_FIELDS | GRASP_FIELDS


def field_name(name: str) -> str:
    """The key in FIELDS of an array by its path in the shard, e.g. `labels/allegro/fc/success`."""
    parts = name.split("/")
    if parts[0] in ("grasps", "labels", "visibility"):
        parts[1:-1] = ["*"] * (len(parts) - 2)
    return "/".join(parts)


def field_of(name: str) -> Field:
    """The entry of an array by its path in the shard."""
    try:
        return FIELDS[field_name(name)]
    except KeyError:
        raise SchemaError(
            f"array {name!r}: not in the field dictionary of schema version {SCHEMA_VERSION}; "
            f"known: {', '.join(FIELDS)}"
        ) from None
