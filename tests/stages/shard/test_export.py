"""Exports read back bit-equal; the card says what the manifest says."""

import io
import json
import tarfile

import numpy as np
import pytest
import yaml
from click.testing import CliRunner

from pipeline.cli import main
from stages.shard.card import card_text
from stages.shard.clouds import CloudTable
from stages.shard.export import FORMATS
from stages.shard.open import load_manifest, read_shard


def run(*words):
    return CliRunner().invoke(main, [str(w) for w in words])


def read_npz(folder, split):
    for path in sorted((folder / split).glob("*.npz")):
        yield path.stem, dict(np.load(path))


def read_ply(folder, split):
    types = {"float": "<f4", "uchar": "u1", "ushort": "<u2"}
    for path in sorted((folder / split).glob("*.ply")):
        header, _, data = path.read_bytes().partition(b"end_header\n")
        words = [line.split() for line in header.decode().splitlines()]
        vertex = np.frombuffer(data, [(w[2], types[w[1]]) for w in words if w[0] == "property"])
        count = next(int(w[2]) for w in words if w[0] == "element")
        assert count == len(vertex)
        cloud = json.loads(path.with_suffix(".json").read_text())
        columns = {"points": ["x", "y", "z"], "segment": ["segment"],
                   "normals": ["nx", "ny", "nz"], "colour": ["red", "green", "blue"]}  # fmt: skip
        for key, names in columns.items():
            if names[0] in vertex.dtype.names:
                stacked = np.stack([vertex[n] for n in names], axis=1)
                cloud[key] = stacked[:, 0] if key == "segment" else stacked
        yield path.stem, cloud


def read_webdataset(folder, split):
    samples = {}
    for path in sorted(folder.glob(f"{split}-*.tar")):
        with tarfile.open(path) as tar:
            for member in tar:
                key, _, name = member.name.partition(".")
                data = tar.extractfile(member).read()
                sample = samples.setdefault(key, {})
                if name == "json":
                    sample |= json.loads(data)
                else:
                    sample[name.removesuffix(".npy")] = np.load(io.BytesIO(data))
    yield from samples.items()


READERS = {"npz": read_npz, "ply": read_ply, "webdataset": read_webdataset}


@pytest.mark.parametrize("format_", FORMATS)
def test_it_reads_back_bit_equal(dataset, tmp_path, format_, monkeypatch):
    monkeypatch.setattr("stages.shard.export.CLOUDS_PER_TAR", 5)
    to = tmp_path / "exported"
    done = run("export", dataset, "--format", format_, "--to", to)
    assert done.exit_code == 0, done.output
    assert "40 clouds" in done.output
    assert json.loads((to / "dataset.json").read_text()) == load_manifest(dataset)
    for split in ("train", "val"):
        table = CloudTable(out=dataset, split=split)
        wanted = {f"{s}-{v:04d}": i for i, (s, v) in enumerate(table.index.keys)}
        found = dict(READERS[format_](to, split))
        assert found.keys() == wanted.keys()
        for key, i in wanted.items():
            stored = table.read(i, i + 1)[0] | {"frame": "camera"}
            del stored["index"]
            assert found[key].keys() == stored.keys()
            for name, value in stored.items():
                got = np.asarray(found[key][name])
                np.testing.assert_array_equal(got.reshape(np.shape(value)), np.asarray(value))
                if name in ("points", "segment"):
                    assert got.dtype == value.dtype
        grasps = read_shard(dataset / f"shards/{split}-grasps.zarr")
        arrays = dict(np.load(to / f"{split}-grasps.npz"))
        assert arrays.keys() == grasps.arrays.keys()
        for name, array in grasps.arrays.items():
            np.testing.assert_array_equal(arrays[name], array, strict=True)
        assert json.loads((to / f"{split}-grasps.json").read_text()) == grasps.groups


def test_nothing_is_written_over_and_nothing_half_is_left(dataset, tmp_path, monkeypatch):
    to = tmp_path / "exported"
    to.mkdir()
    (to / "mine.txt").write_text("keep")
    done = run("export", dataset, "--format", "npz", "--to", to)
    assert done.exit_code == 2
    assert "there already" in done.output
    assert [p.name for p in to.iterdir()] == ["mine.txt"]

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("stages.shard.export._json", full)
    done = run("export", dataset, "--format", "ply", "--to", tmp_path / "other")
    assert done.exit_code == 2
    assert "No space left" in done.output
    assert sorted(p.name for p in tmp_path.iterdir()) == ["exported"]
    done = run("export", dataset, "--format", "npz", "--to", tmp_path / "x", "--split", "dev")
    assert "choose one of: train, val" in done.output
    done = run("export", tmp_path, "--format", "npz", "--to", tmp_path / "x")
    assert "expected a complete dataset" in done.output


def test_the_card_says_what_the_manifest_says(records, tmp_path):
    records.write(tmp_path)
    assert run("card", tmp_path).exit_code == 0
    text = (tmp_path / "README.md").read_text()
    assert text == card_text(tmp_path)
    head = yaml.safe_load(text.split("---")[1])
    manifest = load_manifest(tmp_path)
    assert head["license"] == "cc0-1.0"
    assert head["size_categories"] == ["n<1K"]
    splits = {s["name"]: s for s in head["dataset_info"]["splits"]}
    assert splits["train"]["num_examples"] == manifest["statistics"]["train"]["clouds"] == 32
    files = [p for p in (tmp_path / "shards").glob("train-*.zarr/**/*") if p.is_file()]
    assert splits["train"]["num_bytes"] == sum(p.stat().st_size for p in files)
    features = {f["name"]: f for f in head["features"]}
    assert features["points"] == {"name": "points", "dtype": "float32", "unit": "m"}
    assert features.keys() == manifest["fields"].keys()
    assert "| train | jaw | 14 | fc | 14 |" in text
    (tmp_path / "README.md").write_text("by hand")
    done = run("card", tmp_path)
    assert done.exit_code == 2
    assert "someone else" in done.output
    assert run("card", tmp_path, "--to", tmp_path / "CARD.md").exit_code == 0
