"""Which objects, how they are split, and what is made of each mesh."""

from dataclasses import dataclass, field

from stages.assets.errors import AssetConfigError
from stages.contract import CONFIG_PATH, OPTIONAL, PLAN_ONLY

SPLITS = ("train", "val", "test")


@dataclass(frozen=True, kw_only=True, slots=True)
class ConvexConfig:
    """CoACD (Wei et al. 2022) and the remeshing before it. All of it is part of the cache key."""

    threshold: float = 0.05  # concavity allowed, relative to the object's size; CoACD's default
    max_convex_hull: int = 32  # pieces; contacts cost time per piece. -1: no limit
    max_hull_vertices: int = 64  # per piece; collision cost grows with them
    preprocess_resolution: int = 30  # voxels along the longest side of the manifold remeshing
    # Cuts are searched coarsely and more of them allowed: on the YCB mug this takes 29 s instead
    # of 44 s with CoACD's finer search and 16 pieces, and halves what is filled of its hollow.
    resolution: int = 400  # surface samples for the concavity
    mcts_nodes: int = 5  # tree search: cut planes per axis, iterations, depth
    mcts_iterations: int = 15
    mcts_max_depth: int = 1
    single_hull_ratio: float = 0.97  # volume over hull volume from which the hull alone is used
    seed: int = 0

    def __post_init__(self) -> None:
        problems: list[str] = []
        if not 0.01 <= self.threshold <= 1:
            problems.append(f"threshold: expected 0.01 to 1, got {self.threshold}")
        if self.max_convex_hull != -1 and self.max_convex_hull < 1:
            problems.append(f"max_convex_hull: expected -1 or >= 1, got {self.max_convex_hull}")
        if self.max_hull_vertices < 4:
            problems.append(f"max_hull_vertices: expected >= 4, got {self.max_hull_vertices}")
        if not 20 <= self.preprocess_resolution <= 100:
            problems.append(
                f"preprocess_resolution: expected 20 to 100, got {self.preprocess_resolution}"
            )
        for name in ("resolution", "mcts_nodes", "mcts_iterations", "mcts_max_depth"):
            if getattr(self, name) < 1:
                problems.append(f"{name}: expected >= 1, got {getattr(self, name)}")
        if problems:
            raise AssetConfigError("assets.convex: " + "; ".join(problems))


@dataclass(frozen=True, kw_only=True, slots=True)
class AssetsConfig:
    """Objects, their split and their physical numbers.

    `objects` entries: "ycb://011_banana", "ycb://*", a mesh path or a glob; relative ones start
    from `asset_root`, and that from the folder of the config file.
    """

    objects: tuple[str, ...] = field(default=("ycb://*",), metadata=PLAN_ONLY)
    asset_root: str = field(default=".", metadata=PLAN_ONLY | CONFIG_PATH)
    # An object goes to a split by the hash of its id, so adding objects moves none of the others.
    train_fraction: float = field(default=0.8, metadata=PLAN_ONLY)
    val_fraction: float = field(default=0.1, metadata=PLAN_ONLY)  # the rest is test
    # Object ids named here go where they are named, whatever their hash.
    train_ids: tuple[str, ...] = field(default=(), metadata=PLAN_ONLY)
    val_ids: tuple[str, ...] = field(default=(), metadata=PLAN_ONLY)
    test_ids: tuple[str, ...] = field(default=(), metadata=PLAN_ONLY)
    scale: float = 1.0  # source units -> metres, e.g. 0.001 for a mesh in millimetres
    min_extent: float = 0.005  # m, longest side of the bounding box after scaling
    max_extent: float = 1.0  # m
    density: float = 400.0  # kg/m^3; YCB's published masses over the scans' volumes lie between
    # 200 (cracker box) and 1000 (soup can); 400 is near their middle
    mass: float | None = None  # kg for every object, overrides the density
    licence: str = "unspecified"  # of the meshes given by path; sources of packages know theirs
    max_object_bytes: int = 200_000_000  # larger files are refused
    max_faces: int = 20_000  # of the mesh that rays hit; denser ones are thinned by clustering
    # Carry the colours that lie in the mesh file itself (ply, glb) as colours of the vertices.
    colour: bool = field(default=False, metadata=OPTIONAL)
    convex: ConvexConfig = field(default_factory=ConvexConfig)
    convex_timeout_s: float = field(default=120.0, metadata=PLAN_ONLY)  # wall clock; decides only
    # whether there is a record, never what is in it
    stable_merge_deg: float = 5.0  # poses whose down directions are closer are one pose
    stable_min_probability: float = 0.02  # rarer poses are left out or merged
    stable_max_poses: int = 12

    def __post_init__(self) -> None:
        problems: list[str] = []
        if not self.objects:
            problems.append(
                "objects: expected at least one entry, got none; e.g. [ycb://011_banana, ycb://*]"
            )
        for name in ("train_fraction", "val_fraction"):
            if not 0 <= getattr(self, name) <= 1:
                problems.append(f"{name}: expected 0 to 1, got {getattr(self, name)}")
        if self.train_fraction + self.val_fraction > 1 + 1e-9:
            problems.append(
                "train_fraction + val_fraction: expected at most 1 (the rest is test), got "
                f"{self.train_fraction + self.val_fraction:g}"
            )
        problems += self._twice()
        if not self.scale > 0:
            problems.append(f"scale: expected > 0, got {self.scale}")
        if not 0 < self.min_extent < self.max_extent:
            problems.append(
                f"min_extent, max_extent: expected 0 < min < max metres, got {self.min_extent}, "
                f"{self.max_extent}"
            )
        if not self.density > 0:
            problems.append(f"density: expected kg/m^3 > 0, got {self.density}")
        if self.mass is not None and not self.mass > 0:
            problems.append(f"mass: expected kg > 0, got {self.mass}")
        if not self.convex_timeout_s > 0:
            problems.append(f"convex_timeout_s: expected s > 0, got {self.convex_timeout_s}")
        if self.max_faces < 100:
            problems.append(f"max_faces: expected >= 100, got {self.max_faces}")
        if self.stable_max_poses < 1:
            problems.append(f"stable_max_poses: expected >= 1, got {self.stable_max_poses}")
        if problems:
            raise AssetConfigError("assets: " + "; ".join(problems))

    def split_ids(self) -> dict[str, tuple[str, ...]]:
        """Split -> object ids that are named for it."""
        return {"train": self.train_ids, "val": self.val_ids, "test": self.test_ids}

    def _twice(self) -> list[str]:
        problems: list[str] = []
        where: dict[str, str] = {}
        for split, ids in self.split_ids().items():
            for object_id in ids:
                if object_id in where:
                    problems.append(
                        f"object {object_id!r} is in {where[object_id]}_ids and in {split}_ids; "
                        "an object belongs to one split, else test scenes show trained objects"
                    )
                where[object_id] = split
        return problems
