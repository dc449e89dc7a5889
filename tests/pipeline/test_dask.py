"""A real cluster of one worker process gives the records of every other executor."""

import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline.errors import UserError
from pipeline.executors.dask import DaskExecutor
from scripts.inject_faults import Cluster
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


@pytest.mark.parametrize("back", [True, False])
def test_a_scheduler_that_goes_away_is_waited_for(tmp_path: Path, back: bool) -> None:
    """Killed with its workers once a block is committed, and started again at the same port."""
    data = BASE | {"walk": {"count": 12, "pause_s": 0.3}}
    cluster = Cluster()
    executor = DaskExecutor(cluster.address, timeout_s=30, return_s=60 if back else 3)

    def fault() -> None:
        while not list((tmp_path / "dask" / "blocks").glob("walk/*.json")):
            time.sleep(0.02)
        cluster.close()
        if back:
            cluster.start()

    thread = threading.Thread(target=fault)
    thread.start()
    try:
        if back:
            result, digest = run_toy(tmp_path / "dask", data, executor=executor)
            assert result.summaries[0].codes == {"ok": 12}
        else:
            with pytest.raises(UserError, match="went away and were not back within 3 s"):
                run_toy(tmp_path / "dask", data, executor=executor)
            digest = run_toy(tmp_path / "dask", data)[1]
        assert digest == run_toy(tmp_path / "plain", data | {"walk": {"count": 12}})[1]
    finally:
        thread.join()
        cluster.close()


def test_no_scheduler_is_the_user_s_mistake() -> None:
    with pytest.raises(UserError, match="no Dask scheduler answers there"):
        DaskExecutor("tcp://127.0.0.1:9", timeout_s=1)
