"""What past versions wrote still reads; what a newer one wrote is refused in clear words."""

import json
import zipfile
from pathlib import Path

import numpy as np
import pytest

from pipeline.errors import VersionError
from pipeline.store import VERSION_TEXT, Store
from schemas.dataset import SCHEMA_VERSION
from stages.shard.digest import dataset_digest
from stages.shard.errors import DatasetError
from stages.shard.layout import COMMIT, seal, unseal
from stages.shard.read import PointCloudDataset
from stages.shard.verify import verify_dataset
from tests.pipeline.toy import run_toy

FIXTURES = Path(__file__).parent / "fixtures"
DIGESTS = {1: "3413198b571edc7edca76e9890c085a8161449af6c39a18e1af2535b59ac5b7f"}
"""Of the dataset that each schema version wrote; see fixtures/README.md."""
TOY = {"walk": {"count": 3, "steps": 4, "fail": ["w002"]}, "max_failure_fraction": 0.5}
TOY_DIGEST = "f7c07059b53357f86f430c06e13ae9e0b6ccfaffc1a5a28472dfdabdcc0e1033"


def unpack(name: str, folder: Path) -> Path:
    with zipfile.ZipFile(FIXTURES / name) as archive:
        archive.extractall(folder)
    return folder


def test_every_schema_version_has_a_fixture() -> None:
    assert sorted(DIGESTS) == list(range(1, SCHEMA_VERSION + 1))


@pytest.mark.parametrize("version", sorted(DIGESTS))
def test_a_dataset_of_a_past_version_reads(tmp_path: Path, version: int) -> None:
    out = unpack(f"dataset_schema_{version}.zip", tmp_path)
    assert verify_dataset(out) == []
    assert dataset_digest(out) == DIGESTS[version]
    dataset = PointCloudDataset(out, hand="panda_gripper", protocol="fc")
    assert len(dataset) == 4
    assert sum(len(item["points"]) for item in dataset) == 255
    assert all(np.isfinite(np.asarray(item["points"])).all() for item in dataset)


def test_a_dataset_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    out = unpack("dataset_schema_1.zip", tmp_path)
    newer = SCHEMA_VERSION + 1
    (out / COMMIT).write_bytes(seal(unseal(out / COMMIT) | {"schema_version": newer}))
    with pytest.raises(DatasetError, match=rf"schema version {newer}.*install a newer release"):
        PointCloudDataset(out)
    assert [p.kind for p in verify_dataset(out)] == ["version"]


def test_an_output_of_layout_1_is_gone_on_with(tmp_path: Path) -> None:
    out = unpack("output_layout_1.zip", tmp_path)
    markers = {p: p.read_bytes() for p in out.glob("blocks/*/*.json")}
    assert all(json.loads(data)["layout"] == 1 for data in markers.values())
    result, digest = run_toy(out, TOY)
    assert result.did_nothing
    assert digest == TOY_DIGEST
    assert (out / "version").read_bytes() == VERSION_TEXT
    assert {p: p.read_bytes() for p in markers} == markers
    grown, _ = run_toy(out, TOY | {"walk": {"count": 4, "steps": 4}})
    assert grown.summaries[0].done_now == 1


def test_an_output_of_a_newer_layout_is_refused(tmp_path: Path) -> None:
    out = unpack("output_layout_1.zip", tmp_path)
    (out / "version").write_bytes(b"3 layout-3\n")
    with pytest.raises(VersionError, match="version 3, this program reads 1 and 2"):
        Store(out).open()
