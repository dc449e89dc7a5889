"""Write stages/crop/conformance: the crop's inputs and outputs, computed a pixel at a time.

    python scripts/write_conformance.py [--check]

An implementation of its own: scalars of float32 in plain loops, straight from the description of
the crop. It shares with `stages.crop` the spec's fields, `schemas.distortion` and numpy's
generator.
"""

import argparse
import io
import json
import math
import sys
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from schemas.camera import Intrinsics  # noqa: E402
from schemas.distortion import Distortion  # noqa: E402
from schemas.frames import look_at  # noqa: E402
from stages.crop.spec import CropSpec  # noqa: E402

FOLDER = ROOT / "stages" / "crop" / "conformance"
PROVENANCE = "made by scripts/write_conformance.py: formula and seed, scalar float32 loops"
WIDTH, HEIGHT = 40, 30
F = np.float32
NAMES = {"background": 0, "table": 1, "object:0": 2, "object:1": 3, "hand/palm": 40000}


def scene(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """(H, W) depth of a slanted table with two bumps, holes and odd values; ids."""
    rng = np.random.default_rng(seed)
    row, column = np.mgrid[0:HEIGHT, 0:WIDTH]
    depth = 0.9 - 0.008 * row + 0.0005 * column
    ids = np.ones((HEIGHT, WIDTH), np.uint16)
    for k, (r, c, radius, high) in enumerate(((11, 12, 7, 0.12), (20, 28, 6, 0.07))):
        inside = (row - r) ** 2 + (column - c) ** 2 < radius**2
        depth[inside] -= high
        ids[inside] = 2 + k
    ids[:3], ids[-2:, -5:] = 0, 40000
    depth += rng.normal(0, 0.001, depth.shape)
    depth = depth.astype(np.float32)
    depth[rng.random(depth.shape) < 0.1] = np.nan
    depth[0, :6] = [0.0, -0.5, np.inf, -np.inf, 30.0, 1e-30]
    return depth, ids


def cropped(
    depth: np.ndarray,
    K: Intrinsics,
    spec: CropSpec,
    seed: int,
    segment: np.ndarray | None,
    T_world_cam: np.ndarray | None,
    table_pose: np.ndarray | None,
) -> dict[str, Any]:
    """The crop, one pixel after the other."""
    kept: list[tuple[int, int, tuple[Any, Any, Any]]] = []
    for index in range(depth.size):
        z = F(depth.flat[index])
        if not (z > F(0) and z < F(np.inf)):
            continue
        if not (z > F(spec.min_depth) and z < F(spec.max_depth)):
            continue
        number = 0 if segment is None else int(segment.flat[index])
        if not survives(spec, number):
            continue
        x, y = slope(K, index)
        if not (math.isfinite(x) and math.isfinite(y)):
            continue
        point = (F(F(x) * z), F(F(y) * z), z)
        if spec.box_min is not None and spec.box_max is not None:
            here = point
            if spec.box_frame == "world":
                here = mapped(relative(T_world_cam, table_pose), point)
            low, high = spec.box_min, spec.box_max
            if not all(F(a) <= v <= F(b) for a, v, b in zip(low, here, high, strict=True)):
                continue
        kept.append((index, number, point))
    if spec.outlier_cell > 0:
        kept = dense(kept, spec)
    if spec.frame == "world":
        kept = [(i, n, mapped(T_world_cam, p)) for i, n, p in kept]
    count = len(kept)
    rows = sampled([p for *_, p in kept], spec, seed)
    kept = [kept[i] for i in rows]
    return {
        "points": np.array([p for *_, p in kept], np.float32).reshape(-1, 3),
        "out_segment": np.array([n for _, n, _ in kept], np.uint16),
        "pixel": np.array([i for i, *_ in kept], np.int64),
        "valid_count": np.int64(count),
    }


def survives(spec: CropSpec, number: int) -> bool:
    names = [name for name, i in NAMES.items() if i == number]
    if spec.extract_segments:
        return any(fnmatchcase(n, p) for n in names for p in spec.extract_segments)
    if spec.remove_segments:
        return not any(fnmatchcase(n, p) for n in names for p in spec.remove_segments)
    return True


def slope(K: Intrinsics, index: int) -> tuple[float, float]:
    """x/z and y/z of a pixel's centre, rounded to float32."""
    x = (index % K.width + 0.5 - K.cx) / K.fx
    y = (index // K.width + 0.5 - K.cy) / K.fy
    if K.distortion:
        x, y = (float(v[0]) for v in K.distortion.undistort(np.array([x]), np.array([y])))
    return float(F(x)), float(F(y))


def relative(T_world_cam: Any, table_pose: Any) -> np.ndarray:
    """T_table_cam: float64, before it is rounded."""
    w, x, y, z = table_pose[3:]
    R = np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )
    inverse = np.eye(4)
    inverse[:3, :3], inverse[:3, 3] = R.T, -R.T @ table_pose[:3]
    return inverse @ T_world_cam


def mapped(T: Any, point: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
    """Left to right, each product and each sum rounded to float32."""
    out = []
    for i in range(3):
        total = F(F(T[i, 0]) * point[0])
        total = F(total + F(F(T[i, 1]) * point[1]))
        total = F(total + F(F(T[i, 2]) * point[2]))
        out.append(F(total + F(T[i, 3])))
    return out[0], out[1], out[2]


def dense(kept: list[Any], spec: CropSpec) -> list[Any]:
    """Points with enough points in the 27 cells around their own; cells start at the minimum."""
    if not kept:
        return kept
    low = [min(p[axis] for *_, p in kept) for axis in range(3)]
    cell = F(spec.outlier_cell)
    cells = [tuple(int(np.floor(F(F(p[a] - low[a]) / cell))) for a in range(3)) for *_, p in kept]
    held: dict[tuple[int, ...], int] = {}
    for mine in cells:
        held[mine] = held.get(mine, 0) + 1
    around = [(i, j, k) for i in (-1, 0, 1) for j in (-1, 0, 1) for k in (-1, 0, 1)]
    out = []
    for row, (i, j, k) in zip(kept, cells, strict=True):
        near = sum(held.get((i + a, j + b, k + c), 0) for a, b, c in around)
        if near >= spec.outlier_min_points:
            out.append(row)
    return out


def sampled(points: list[Any], spec: CropSpec, seed: int) -> list[int]:
    rng = np.random.default_rng(seed)
    everything = list(range(len(points)))
    if spec.sampling == "random" and len(points) > spec.num_points:
        return sorted(rng.choice(len(points), spec.num_points, replace=False).tolist())
    if spec.sampling == "farthest" and len(points) > spec.num_points:
        chosen = [int(rng.integers(len(points)))]
        nearest_chosen = [F(np.inf)] * len(points)
        while len(chosen) < spec.num_points:
            for i in everything:
                nearest_chosen[i] = min(nearest_chosen[i], squared(points[i], points[chosen[-1]]))
            chosen.append(max(everything, key=lambda i: nearest_chosen[i]))
        return sorted(chosen)
    if spec.sampling == "voxel":
        nearest: dict[tuple[int, ...], tuple[float, int]] = {}
        for i, p in enumerate(points):
            scaled = [float(v) / spec.voxel_size for v in p]
            cell = tuple(math.floor(v) for v in scaled)
            off = sum((v - c - 0.5) ** 2 for v, c in zip(scaled, cell, strict=True))
            if cell not in nearest or off < nearest[cell][0]:
                nearest[cell] = off, i
        return sorted(i for _, i in nearest.values())
    return everything


def squared(a: Any, b: Any) -> Any:
    dx, dy, dz = (F(u - v) for u, v in zip(a, b, strict=True))
    return F(F(F(dx * dx) + F(dy * dy)) + F(dz * dz))


def cases() -> dict[str, dict[str, Any]]:
    """Name -> every array of its file."""
    lens = Distortion.from_dict({"model": "brown_conrady", "k1": -0.25, "k2": 0.05, "p1": 0.002})
    K = Intrinsics(fx=44.0, fy=45.5, cx=20.25, cy=14.75, width=WIDTH, height=HEIGHT)
    bent = replace(K, distortion=lens)
    T = look_at([0.25, -0.5, 0.6], [0.02, 0.01, 0.05], roll=0.1)
    half = math.sqrt(0.5)
    table = np.array([0.01, -0.02, 0.03, math.cos(0.2), 0, 0, math.sin(0.2)])
    turned = np.array([0.01, -0.02, 0.03, half, half, 0, 0])
    everything = CropSpec(extract_segments=())
    objects = CropSpec()
    box = {"box_min": (-0.3, -0.25, -0.02), "box_max": (0.25, 0.3, 0.4)}
    listed: dict[str, tuple[CropSpec, Intrinsics, np.ndarray | None]] = {
        "everything": (everything, K, None),
        "objects": (objects, K, None),
        "names": (CropSpec(extract_segments=("object:1", "hand/*")), K, None),
        "removed": (CropSpec(extract_segments=(), remove_segments=("table",)), K, None),
        "extract_wins": (replace(objects, remove_segments=("object:*",)), K, None),
        "depths": (replace(everything, min_depth=0.7, max_depth=0.85), K, None),
        "box_camera": (
            replace(everything, box_frame="camera", box_min=(-0.2, -0.1, 0.5),
                    box_max=(0.1, 0.3, 0.8)), K, None,
        ),
        "box_world": (replace(everything, **box), K, table),
        "box_turned_table": (replace(everything, **box), K, turned),
        "world": (replace(objects, frame="world", **box), K, table),
        "outliers": (replace(everything, outlier_cell=0.02, outlier_min_points=9), K, None),
        "random": (replace(everything, sampling="random", num_points=200), K, None),
        "random_few": (replace(objects, sampling="random", num_points=2048), K, None),
        "voxel_world": (replace(everything, sampling="voxel", voxel_size=0.03, frame="world"), K,
                        None),
        "farthest": (replace(objects, sampling="farthest", num_points=40), K, None),
        "lens": (replace(everything, frame="world", **box), bent, table),
        "all_of_it": (
            replace(objects, frame="world", outlier_cell=0.02, outlier_min_points=5,
                    sampling="random", num_points=64, min_depth=0.2, max_depth=2.0, **box),
            bent, table,
        ),
    }  # fmt: skip
    out = {}
    for number, (name, (spec, camera, pose)) in enumerate(listed.items()):
        depth, ids = scene(number)
        segment = ids if spec.extract_segments or spec.remove_segments else None
        world = T if pose is not None or spec.frame == "world" else None
        meta = {
            "spec": spec.to_dict(), "seed": number, "provenance": PROVENANCE,
            "segment_table": None if segment is None else NAMES,
        }  # fmt: skip
        arrays: dict[str, Any] = {
            "depth": depth, "intrinsics": camera.to_array(), "segment": segment,
            "distortion": camera.distortion.to_array(), "T_world_cam": world, "table_pose": pose,
            "meta": np.array(json.dumps(meta)),
        }  # fmt: skip
        arrays |= cropped(depth, camera, spec, number, segment, world, pose)
        out[name] = {k: v for k, v in arrays.items() if v is not None}
    return out


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    check = parser.parse_args().check
    made = cases()
    stale = {p.stem for p in FOLDER.glob("*.npz")} - set(made)
    for name, arrays in made.items():
        path = FOLDER / f"{name}.npz"
        if not check:
            file = io.BytesIO()
            np.savez_compressed(file, **arrays)
            path.write_bytes(file.getvalue())
            continue
        with np.load(path, allow_pickle=False) as data:
            same = set(data.files) == set(arrays) and all(
                np.array_equal(data[k], arrays[k], equal_nan=arrays[k].dtype.kind == "f")
                for k in data.files
            )
        if not same:
            sys.exit(f"{path}: is not what {Path(__file__).name} writes")
    if stale:
        sys.exit(f"{FOLDER}: nobody writes {', '.join(sorted(stale))}")


if __name__ == "__main__":
    main()
