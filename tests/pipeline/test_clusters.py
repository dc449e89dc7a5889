"""Clusters that a run starts itself: real processes, and a queue that runs its jobs at once."""

import os
import stat
import sys
from pathlib import Path
from typing import Any

import asyncssh
import pytest

from pipeline.errors import ConfigError, UserError
from pipeline.executors.clusters import START_S, start_executor
from pipeline.executors.dask import DaskExecutor
from tests.pipeline.ssh import ssh_server
from tests.pipeline.toy import planned, run_toy

BASE: dict[str, Any] = {"walk": {"count": 8}, "block_size": 2, "max_failure_fraction": 0.6}
# What a cluster says of its own parts while it starts and ends is not ours.
CATEGORIES = ("DeprecationWarning", "FutureWarning", "ResourceWarning", "UserWarning")
pytestmark = [pytest.mark.filterwarnings(f"ignore::{name}") for name in CATEGORIES]


def test_a_local_cluster_gives_the_same_records(tmp_path: Path) -> None:
    plain = run_toy(tmp_path / "plain", BASE)[1]
    executor = start_executor("local", workers=2)
    assert executor.slots == 2
    assert executor.dashboard.startswith("http://")
    _, digest = run_toy(tmp_path / "cluster", BASE, executor=executor)
    assert digest == plain


def test_repeats_keep_their_reasons(tmp_path: Path) -> None:
    """w001 throws and w005 kills its worker: their neighbours are repeated and say why."""
    data = BASE | {"walk": {"count": 16, "throw": ["w001"], "die": ["w005"]}}
    executor = start_executor("local", workers=2)
    result, _ = run_toy(tmp_path, data, executor=executor, targets="walk")
    states = result.states["walk"]
    assert result.summaries[0].codes == {"ok": 14, "crashed": 2}
    assert states["w001"].message.startswith("ArithmeticError: no walk for w001")
    assert states["w000"].message.startswith("before: raised in a block of 2: ArithmeticError")
    # in its block, or because it waited for a worker that another item killed
    assert states["w004"].message.startswith("before: died")
    assert "KilledWorker" in states["w005"].message
    assert states["w007"].message == ""


def test_only_the_killers_are_blamed(tmp_path: Path) -> None:
    """Dask blames whatever waited for a worker that died; repeated alone, nobody else did."""
    killers = ["w001", "w006", "w007", "w012"]
    data = BASE | {"walk": {"count": 14, "die": killers}, "block_size": 1}
    executor = start_executor("local", workers=2)
    result, _ = run_toy(tmp_path, data, executor=executor, targets="walk")
    states = result.states["walk"]
    assert [name for name in states if states[name].code == "crashed"] == killers


def test_gpu_stages_run_where_a_gpu_is_offered(tmp_path: Path) -> None:
    data = BASE | {"gpu_stages": ["pair"]}
    executor = start_executor("local", workers=2, options={"resources": {"GPU": 1}})
    assert run_toy(tmp_path / "gpu", data, executor=executor)[1] == run_toy(tmp_path / "a", BASE)[1]
    executor = start_executor("local", workers=1)
    with pytest.raises(UserError, match=r"stage pair asks for a GPU .* no worker offers one"):
        run_toy(tmp_path / "none", data, executor=executor)
    with pytest.raises(ConfigError, match="gpu_stages: unknown 'pear'; did you mean pair"):
        planned({"gpu_stages": ["pear"]})
    assert planned(data)["pair"].keys == planned(BASE)["pair"].keys


@pytest.mark.parametrize(
    ("kind", "more", "message"),
    [
        ("local", {"workers": 0}, "expected --workers of at least 1, got 0"),
        ("local", {"hosts": ["a"]}, "--host: belongs to --cluster ssh"),
        ("local", {"options": {"processes": False}}, "local does not take"),
        ("local", {"options": {"colour": "red"}}, "cannot be started"),
        ("ssh", {}, "give the machines with --host"),
        ("grid", {}, "choose from local, ssh, slurm"),
    ],
)
def test_mistakes_are_named(kind: str, more: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        start_executor(kind, **({"workers": 1} | more))


def test_what_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    for module in ("asyncssh", "dask_jobqueue"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(UserError, match="needs asyncssh; install the extra `cluster`"):
        start_executor("ssh", workers=1, hosts=["a"])
    with pytest.raises(UserError, match="needs dask-jobqueue; install the extra `cluster`"):
        start_executor("slurm", workers=1)


SBATCH = """#!/bin/sh
# A queue of one machine: the job starts at once and is known by its process id.
# The script is deleted once it is submitted, so the queue keeps its own copy, as SLURM does.
cp "$1" "$0.$$"
sh "$0.$$" > "$0.log" 2>&1 &
echo "Submitted batch job $!"
"""


def test_jobs_of_a_queue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """dask-jobqueue writes real job scripts; only the queue is a stand-in."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match="sbatch is not on the PATH"):
        start_executor("slurm", workers=1)
    monkeypatch.undo()
    for name, text in (("sbatch", SBATCH), ("scancel", '#!/bin/sh\nkill "$1"\n')):
        path = tmp_path / name
        path.write_text(text)
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setitem(START_S, "slurm", 60.0)  # a job that never starts fails the test
    options = {"memory": "1GB", "walltime": "00:10:00", "interface": "lo",
               "scheduler_options": {"dashboard_address": ":0"}}  # fmt: skip
    executor = start_executor("slurm", workers=1, options=options)
    _, digest = run_toy(tmp_path / "out", BASE, executor=executor)
    assert isinstance(executor, DaskExecutor)
    assert digest == run_toy(tmp_path / "plain", BASE)[1]


@pytest.mark.slow
def test_machines_that_are_reached_by_ssh(tmp_path: Path) -> None:
    """Scheduler and workers are started over real SSH sessions; the machine is this one."""
    plain = run_toy(tmp_path / "plain", BASE)[1]
    with ssh_server() as connection:
        options = {"connect_options": connection, "remote_python": sys.executable,
                   "scheduler_options": {"dashboard_address": ":0"}}  # fmt: skip
        executor = start_executor("ssh", workers=2, hosts=["127.0.0.1"], options=options)
        executor._client.wait_for_workers(2, timeout=60)
        assert executor.slots == 2
        assert run_toy(tmp_path / "cluster", BASE, executor=executor)[1] == plain
        stranger = {**connection, "client_keys": [asyncssh.generate_private_key("ssh-ed25519")]}
        with pytest.raises(UserError, match=r"ssh: cannot be started: .*Permission denied"):
            start_executor(
                "ssh", workers=1, hosts=["127.0.0.1"],
                options={**options, "connect_options": stranger},
            )  # fmt: skip
