"""A real cluster of one worker process gives the records of every other executor."""

import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline.errors import UserError
from pipeline.executors.dask import DaskExecutor
from tests.pipeline.toy import run_toy

BASE = {"walk": {"count": 6}, "block_size": 2, "max_failure_fraction": 0.5}


@pytest.fixture(scope="module")
def scheduler() -> Iterator[str]:
    from distributed import LocalCluster

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the cluster's own deprecations are not ours
        cluster = LocalCluster(
            n_workers=1, threads_per_worker=1, processes=True, dashboard_address=None
        )
    try:
        yield cluster.scheduler_address
    finally:
        cluster.close()


def test_same_records_on_a_cluster(tmp_path: Path, scheduler: str) -> None:
    plain = run_toy(tmp_path / "plain", BASE)[1]
    result, digest = run_toy(tmp_path / "dask", BASE, executor=DaskExecutor(scheduler))
    assert digest == plain
    assert result.summaries[0].done_now == 6


def test_faults_on_a_cluster_are_coded(tmp_path: Path, scheduler: str) -> None:
    data = BASE | {"walk": {"count": 6, "throw": ["w001"], "hang": ["w004"]}, "item_timeout_s": 1}
    result, _ = run_toy(tmp_path, data, executor=DaskExecutor(scheduler))
    assert result.summaries[0].codes == {"crashed": 1, "timed_out": 1, "ok": 4}


def test_no_scheduler_is_the_user_s_mistake() -> None:
    with pytest.raises(UserError, match="no Dask scheduler answers there"):
        DaskExecutor("tcp://127.0.0.1:9", timeout_s=1)
