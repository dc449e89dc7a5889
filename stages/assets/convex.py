"""Convex pieces of a mesh: CoACD in a process that can be killed, kept by content."""

import contextlib
import hashlib
import itertools
import json
import os
import signal
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import IO
from zipfile import BadZipFile

import numpy as np

from stages.assets.config import ConvexConfig
from stages.assets.errors import ConvexError
from stages.assets.hull import Hull, convex_hull, in_order
from stages.assets.inertia import mass_properties
from stages.assets.load import Mesh
from stages.assets.repair import open_edges
from stages.storage import cache_folder, write_atomic

CACHE_VERSION = 2
"""Part of every key; raise it when the pieces of an equal mesh and config would change."""
SLIVER = 1e-4
"""Pieces below this share of the whole hull's volume are dropped: cutting dust that engines
refuse or that costs contacts without changing the shape."""


def convex_pieces(mesh: Mesh, config: ConvexConfig, timeout_s: float) -> list[Hull]:
    """Pieces of `mesh` in canonical order, from the cache when it has them.

    Raises ConvexError with code "convex_timeout" or "convex_failed".
    """
    key = cache_key(mesh, config)
    path = cache_folder() / "convex" / key[:2] / f"{key}.npz"
    kept = _read(path)
    if kept is not None:
        return kept
    whole = convex_hull(mesh.vertices)
    if whole is None:
        raise ConvexError("convex_failed", "the mesh is flat: its hull has no volume")
    pieces = _single(mesh, whole, config)
    if pieces is None:
        parts = _snapped(_decompose(mesh, config, timeout_s), mesh, config)
        hulls = [convex_hull(points) for points in parts]
        pieces = [h for h in hulls if h is not None and h.volume > SLIVER * whole.volume]
        if not pieces:
            raise ConvexError("convex_failed", "CoACD returned no piece that has a volume")
    pieces = in_order(pieces)
    _write(path, pieces)
    return pieces


def cache_key(mesh: Mesh, config: ConvexConfig) -> str:
    """sha256 over the mesh's arrays, the parameters and the library's version."""
    from importlib.metadata import version

    digest = hashlib.sha256()
    header = [CACHE_VERSION, version("coacd"), asdict(config)]
    digest.update(json.dumps(header, sort_keys=True).encode())
    for array, dtype in ((mesh.vertices, "<f8"), (mesh.faces, "<i8")):
        digest.update(str(array.shape).encode())
        digest.update(np.ascontiguousarray(array, dtype).tobytes())
    return digest.hexdigest()


def _single(mesh: Mesh, whole: Hull, config: ConvexConfig) -> list[Hull] | None:
    """The hull alone, when the mesh is closed and nearly fills it."""
    if open_edges(mesh.faces):
        return None
    volume = mass_properties(mesh.vertices, mesh.faces).volume
    if volume < config.single_hull_ratio * whole.volume:
        return None
    return [whole]


def _decompose(mesh: Mesh, config: ConvexConfig, timeout_s: float) -> list[np.ndarray]:
    """Points of each piece, from a child that is killed with its group after `timeout_s`."""
    options = {
        "threshold": config.threshold,
        "max_convex_hull": config.max_convex_hull,
        "preprocess_mode": "on",  # "auto" remeshes open scans only, and is 5x slower on the rest
        "preprocess_resolution": config.preprocess_resolution,
        "resolution": config.resolution,
        "mcts_nodes": config.mcts_nodes,
        "mcts_iterations": config.mcts_iterations,
        "mcts_max_depth": config.mcts_max_depth,
        "decimate": True,
        "max_ch_vertex": config.max_hull_vertices,
        "seed": config.seed,
    }
    root = str(Path(__file__).resolve().parents[2])
    environment = dict(os.environ)
    environment["PYTHONPATH"] = os.pathsep.join(
        part for part in (root, environment.get("PYTHONPATH", "")) if part
    )
    # One thread: equal results everywhere, and the runner has one process per core already.
    environment["OMP_NUM_THREADS"] = "1"
    with tempfile.TemporaryDirectory(prefix="grasp-clouds-convex-") as folder:
        source, target = Path(folder) / "in.npz", Path(folder) / "out.npz"
        np.savez(source, vertices=mesh.vertices, faces=mesh.faces, options=json.dumps(options))
        child = subprocess.Popen(
            [sys.executable, "-m", "stages.assets.convex_worker", source, target, str(timeout_s)],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        try:
            _, stderr = child.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            raise ConvexError(
                "convex_timeout",
                f"the convex decomposition took more than {timeout_s:g} s; raise "
                "assets.convex_timeout_s, or assets.convex.threshold for fewer pieces",
            ) from None
        finally:
            if child.poll() is None:
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            if child.stderr is not None:
                child.stderr.close()
        if child.returncode != 0 or not target.is_file():
            last = stderr.decode(errors="replace").strip().splitlines()[-1:] or ["no message"]
            raise ConvexError(
                "convex_failed",
                f"CoACD ended with status {child.returncode}: {last[0]}; repair the mesh or try "
                "another assets.convex.preprocess_resolution",
            )
        with np.load(target) as arrays:
            points, offsets = arrays["points"], arrays["offsets"]
    return [points[a:b] for a, b in itertools.pairwise(offsets)]


def _snapped(parts: list[np.ndarray], mesh: Mesh, config: ConvexConfig) -> list[np.ndarray]:
    """The parts with every corner near the surface put on it.

    CoACD works on a manifold remeshing whose surface lies about a quarter of a voxel outside of
    the mesh (0.7 mm for an object of 80 mm), so that fingers would touch before they do. Corners
    within two voxels of the surface belong on it; the others are cuts inside or span a hollow.
    """
    import trimesh

    reach = 2 * float(np.ptp(mesh.vertices, axis=0).max()) / config.preprocess_resolution
    surface = trimesh.Trimesh(mesh.vertices, mesh.faces, process=False)
    corners = np.concatenate(parts)
    nearest, distance, _ = trimesh.proximity.closest_point(surface, corners)
    corners = np.where((distance <= reach)[:, None], nearest, corners)
    return np.split(corners, np.cumsum([len(part) for part in parts])[:-1])


def _read(path: Path) -> list[Hull] | None:
    try:
        with path.open("rb") as file, np.load(file) as arrays:
            v, f = arrays["vertex_offsets"], arrays["face_offsets"]
            return [
                Hull(
                    vertices=arrays["vertices"][v[i] : v[i + 1]],
                    faces=arrays["faces"][f[i] : f[i + 1]],
                    volume=float(arrays["volumes"][i]),
                )
                for i in range(len(v) - 1)
            ]
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, EOFError, BadZipFile):
        return None  # a damaged entry is made again; its replacement is atomic


def _write(path: Path, pieces: list[Hull]) -> None:
    def write(file: IO[bytes]) -> None:
        np.savez(
            file,
            vertices=np.concatenate([p.vertices for p in pieces]),
            faces=np.concatenate([p.faces for p in pieces]),
            vertex_offsets=np.cumsum([0, *(len(p.vertices) for p in pieces)]),
            face_offsets=np.cumsum([0, *(len(p.faces) for p in pieces)]),
            volumes=np.array([p.volume for p in pieces]),
        )

    with contextlib.suppress(OSError):  # a read-only home costs time, not results
        write_atomic(path, write)
