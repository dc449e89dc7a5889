"""The benchmark runs, and its gears are solids."""

import json
from pathlib import Path

import numpy as np
import pytest
import trimesh
from click.testing import CliRunner

from benchmarks.bench_granular import main
from benchmarks.gears import helical_gear


def test_a_gear_is_closed_and_as_large_as_its_pitch_circle() -> None:
    mesh = trimesh.Trimesh(*helical_gear(0.03, 0.02), process=False)
    assert mesh.is_watertight
    assert mesh.is_winding_consistent
    assert mesh.volume == pytest.approx(np.pi * 0.03**2 * 0.02, rel=0.1)


def test_every_part_of_the_benchmark_gives_a_row(tmp_path: Path) -> None:
    file, plot = tmp_path / "rows.json", tmp_path / "plot.png"
    options = ["--device", "cpu", "--grains", "60", "--bodies", "0,1", "--buckets", "2"]
    options += ["--tower-grains", "80", "--realtime-grains", "60", "--timestep", "1e-3"]
    done = CliRunner().invoke(main, [*options, "--seconds", "0.01", "--rounds", "2",
                                     "--json", str(file), "--plot", str(plot)])  # fmt: skip
    assert done.exit_code == 0, done.output
    rows = json.loads(file.read_text())["rows"]
    assert [row["part"] for row in rows] == [
        "grains", "bodies", "bodies", "buckets", "split", "split", "realtime",
    ]  # fmt: skip
    assert plot.read_bytes().startswith(b"\x89PNG")
    assert all(row["grain_steps_per_s"] > 0 for row in rows)
