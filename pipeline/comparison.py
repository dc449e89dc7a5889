"""The report of `pipeline compare`: real frames, the same by rays, and a dataset's clouds."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from pipeline.captures import Mesh, paired, read_capture, read_mesh
from pipeline.config import build_config, load_config
from pipeline.errors import UserError
from pipeline.pictures.frames import error_picture
from pipeline.pictures.points import Image, save, tile
from pipeline.registry import Registry
from schemas.camera import Intrinsics
from schemas.frames import invert, pose_to_matrix
from stages.render.backends.protocol import RayBackend
from stages.render.closeness import Features, energy_distance, features, scale, statistics
from stages.render.register import register
from stages.render.retake import Retake, ray_backend, retake
from stages.render.sensor_config import SensorConfig
from stages.shard.clouds import CloudTable
from stages.shard.open import load_manifest

Float = NDArray[np.float64]
REAL, EXACT, SENSOR, DATASET = "real", "no noise", "sensor", "dataset"
SEED = 1  # of the sensor; any does


@dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    """`captures` holds JSON values, one dict a capture; `pictures` one row of three a capture."""

    sensor: str
    captures: list[dict[str, Any]]
    pictures: list[Image]
    titles: list[str]

    def lines(self) -> list[str]:
        """One line a capture."""
        out: list[str] = []
        for c in self.captures:
            far = {kind: c[kind]["energy"]["distance"] for kind in c["kinds"] if kind != REAL}
            said = ", ".join(f"{kind} {value:.3f}" for kind, value in far.items())
            closer = "closer" if far[SENSOR] < far[EXACT] else "NOT closer"
            out.append(f"{c['capture']} ({c['object']}): distance to real: {said}; {closer}")
        return out


def read_sensor(source: Path) -> SensorConfig:
    """The sensor that a dataset was made with, or that a config names."""
    registry = Registry()
    if source.suffix in (".yaml", ".yml"):
        return cast(SensorConfig, load_config(source, registry=registry).sections["render"].sensor)
    values = load_manifest(source)["config"].get("render", {}).get("sensor", {})
    config = build_config({"render": {"sensor": values}}, registry=registry, source=str(source))
    return cast(SensorConfig, config.sections["render"].sensor)


def compare_all(
    source: Path,
    sensor: SensorConfig,
    captures: Sequence[Path],
    objects: Sequence[str],
    clouds: int,
) -> Report:
    """Every capture against its retakes, and against the clouds of its object in `source`."""
    backend = ray_backend()
    found: list[dict[str, Any]] = []
    pictures: list[Image] = []
    titles: list[str] = []
    for path, entry in paired(captures, objects):
        capture, (name, mesh) = read_capture(path), read_mesh(entry)
        pose = register(capture.points(), *mesh)
        again = retake(backend, capture, mesh, pose.T_cam_object)
        exact, K = again.silhouette, capture.intrinsics
        if not len(exact.pixel):
            raise UserError(f"compare: {capture.name}: the registered object is out of the image")
        depths = {
            REAL: capture.depth,
            EXACT: again.depth(SensorConfig(), SEED),
            SENSOR: again.depth(sensor, SEED),
        }
        real = features(capture.depth, exact)
        unit = scale(real)
        row: dict[str, Any] = {"capture": capture.name, "object": name}
        row["registration_median_mm"] = round(1000 * pose.median, 3)
        for kind, depth in depths.items():
            row[kind] = statistics(depth, exact, K, pose.T_cam_object)
            if kind != REAL:
                row[kind]["energy"] = energy_distance(real, features(depth, exact), unit)
            pictures.append(error_picture(depth, exact))
            titles.append(f"{capture.name}: {kind}\n{_caption(row[kind])}")
        if source.is_dir():
            row |= _of_dataset(source, name, mesh, backend, clouds, (real, unit))
        row["kinds"] = [kind for kind in (*depths, DATASET) if kind in row]
        found.append(row)
    label = "none" if not sensor.enabled else sensor.preset or "own numbers"
    return Report(sensor=label, captures=found, pictures=pictures, titles=titles)


def _caption(values: dict[str, Any]) -> str:
    noise = values["noise_median_mm"]
    said = "nothing measured" if noise is None else f"noise {noise:.2f} mm"
    return f"{said}, missing {values['missing']:.1%}"


def _of_dataset(
    out: Path,
    name: str,
    mesh: Mesh,
    backend: RayBackend,
    most: int,
    real: tuple[Features, Float],
) -> dict[str, Any]:
    """{DATASET: statistics} over clouds that show the object alone; {} when there are none."""
    rows: list[dict[str, Any]] = []
    parts: list[Features] = []
    for split in load_manifest(out)["splits"]:
        table = CloudTable(out=out, split=split, frame="camera", min_points=1)
        for i in range(len(table)):
            if len(rows) == most:
                break
            cloud = table.read(i, i + 1)[0]
            if tuple(cloud["object_ids"]) != (name,):
                continue
            K = Intrinsics.from_array(cloud["intrinsics"])
            T = invert(cloud["T_world_cam"]) @ pose_to_matrix(cloud["object_poses"][0])
            exact = Retake(backend, K, mesh, T, None).silhouette
            if len(exact.pixel):
                depth = _depth_image(cloud["points"], K)
                rows.append(statistics(depth, exact, K, T))
                parts.append(features(depth, exact, block=len(parts) + 1))
    if not rows:
        return {}
    joined = Features(
        values=np.concatenate([p.values for p in parts]),
        tile=np.concatenate([p.tile for p in parts]),
    )
    middle = {
        key: round(float(np.median([r[key] for r in rows if r[key] is not None] or [0])), 4)
        for key in ("pixels", "missing", "noise_median_mm", "noise_90_mm", "noise_bias_mm")
    }
    density = sorted((d for r in rows for d in r["density"]), key=lambda d: d["distance_m"])
    extents = np.median([r["extents_mm"] for r in rows], axis=0)
    values: dict[str, Any] = {"clouds": len(rows), **middle}
    values |= {"extents_mm": [round(float(v), 1) for v in extents], "density": density}
    values["energy"] = energy_distance(real[0], joined, real[1])
    return {DATASET: values}


def _depth_image(points_cam: NDArray[np.float32], K: Intrinsics) -> Float:
    """(H, W) m: points back on the pixels that they came from."""
    depth = np.full((K.height, K.width), np.nan)
    p = points_cam.astype(np.float64)
    column = np.floor(K.fx * p[:, 0] / p[:, 2] + K.cx).astype(np.int64)
    row = np.floor(K.fy * p[:, 1] / p[:, 2] + K.cy).astype(np.int64)
    inside = (column >= 0) & (column < K.width) & (row >= 0) & (row < K.height)
    depth[row[inside], column[inside]] = p[inside, 2]
    return depth


def write_report(report: Report, folder: Path) -> None:
    """report.md, report.json and report.png; the folder is made."""
    folder.mkdir(parents=True, exist_ok=True)
    values = {"sensor": report.sensor, "captures": report.captures}
    (folder / "report.json").write_text(json.dumps(values, indent=1), encoding="utf-8")
    save(tile(report.pictures, report.titles, 3), folder / "report.png")
    (folder / "report.md").write_text(_markdown(report), encoding="utf-8")


def _markdown(report: Report) -> str:
    lines = [
        "# Real frames and training clouds",
        "",
        f"Sensor: {report.sensor}. Each capture is registered to its object and taken again by",
        "rays from the same pose, without noise and with the sensor; `dataset` are clouds of the",
        "object alone, from other poses. Noise is the distance along the surface normal. Distance:",
        "energy distance of (error, roughness, missing) to the real frame; null: its 95th",
        "percentile when image tiles change sides at random.",
        "",
        "| capture | clouds | noise median, 90 % mm | missing | extents mm | distance | null | p |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for c in report.captures:
        for kind in c["kinds"]:
            v, e = c[kind], c[kind].get("energy")
            tail = f"{e['distance']:.3f} | {e['null_95']:.3f} | {e['p']:.3f}" if e else "| |"
            noise = "-" if v["noise_90_mm"] is None else f"{v['noise_median_mm']:.2f}, "
            noise += "" if v["noise_90_mm"] is None else f"{v['noise_90_mm']:.2f}"
            size = " x ".join(f"{x:.0f}" for x in v["extents_mm"])
            lines.append(
                f"| {c['capture']} | {kind} | {noise} | {v['missing']:.1%} | {size} | {tail} |"
            )
    lines += ["", "| capture | clouds | points per cm2 of surface at distance m |", "|---|---|---|"]
    for c in report.captures:
        for kind in c["kinds"]:
            steps = c[kind]["density"]
            steps = steps[:: max(1, len(steps) // 6)]
            said = ", ".join(f"{d['points_per_cm2']:.0f} at {d['distance_m']:.2f}" for d in steps)
            lines.append(f"| {c['capture']} | {kind} | {said} |")
    fits = ", ".join(f"{c['capture']} {c['registration_median_mm']:.2f}" for c in report.captures)
    lines += [
        "",
        f"Median distance after registration, mm: {fits}.",
        "",
        "![errors](report.png)",
        "",
    ]
    lines += [f"- {line}" for line in report.lines()]
    return "\n".join(lines) + "\n"
