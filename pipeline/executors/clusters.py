"""Dask clusters that a run starts and ends itself: `--cluster local | ssh | slurm`.

`workers` counts processes of one thread each: in all (local), on every host (ssh), or jobs of one
process (slurm). What a site needs beyond that, its queue or its account, is an option of the
cluster's class, given with `--cluster-option` or in Dask's own configuration files.
"""

import shutil
import warnings
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

from pipeline.errors import UserError
from pipeline.executors.dask import DaskExecutor

KINDS = ("local", "ssh", "slurm")
START_S = {
    "local": 60.0,
    "ssh": 60.0,
    "slurm": 3600.0,
}  # wait for the first worker; queues are slow
SLURM_MEMORY = "8GB"  # of a job, unless an option says otherwise


def start_executor(
    kind: str, *, workers: int, hosts: Sequence[str] = (), options: Mapping[str, Any] | None = None
) -> DaskExecutor:
    """An executor on a new cluster. `hosts` (ssh): where workers run; the first also schedules.

    Raises UserError when the cluster cannot be started, with what to install or to change.
    """
    import dask.config

    import_module("distributed")  # its defaults must be there before one is changed

    if workers < 1:
        raise UserError(f"--cluster {kind}: expected --workers of at least 1, got {workers}")
    if hosts and kind != "ssh":
        raise UserError(f"--host: belongs to --cluster ssh, got --cluster {kind}")
    chosen = dict(options or {})
    # A block whose worker died is ours to repeat, once and alone, with the reason kept.
    with dask.config.set({"distributed.scheduler.allowed-failures": 0}):
        try:
            cluster = _start(kind, workers, hosts, chosen)
        except TypeError as error:
            raise UserError(f"--cluster-option: {kind} does not take {chosen}: {error}") from error
        except (OSError, RuntimeError, ValueError) as error:
            raise UserError(f"--cluster {kind}: cannot be started: {error}") from error
    return DaskExecutor(cluster.scheduler_address, timeout_s=START_S[kind], cluster=cluster)


def _start(kind: str, workers: int, hosts: Sequence[str], options: dict[str, Any]) -> Any:
    if kind == "local":
        return _local(workers, options)
    if kind == "ssh":
        return _ssh(workers, hosts, options)
    if kind == "slurm":
        return _slurm(workers, options)
    raise UserError(f"--cluster {kind}: unknown; choose from {', '.join(KINDS)}")


def _local(workers: int, options: dict[str, Any]) -> Any:
    from distributed import LocalCluster

    # Port 0: several runs may share a machine. Memory is watched by the blocks' own limits.
    values: dict[str, Any] = {"dashboard_address": ":0", "memory_limit": 0} | options
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the cluster's own deprecations are not the user's
        return LocalCluster(n_workers=workers, threads_per_worker=1, processes=True, **values)


def _ssh(workers: int, hosts: Sequence[str], options: dict[str, Any]) -> Any:
    if not hosts:
        raise UserError("--cluster ssh: give the machines with --host, once for each")
    try:
        import_module("asyncssh")
    except ImportError as error:
        raise UserError(
            "--cluster ssh: needs asyncssh; install the extra `cluster` of this package"
        ) from error
    from distributed import SSHCluster

    worker = {"nthreads": 1, "n_workers": workers} | options.pop("worker_options", {})
    return SSHCluster([hosts[0], *hosts], worker_options=worker, **options)


def _slurm(workers: int, options: dict[str, Any]) -> Any:
    try:
        jobqueue: Any = import_module("dask_jobqueue")
    except ImportError as error:
        raise UserError(
            "--cluster slurm: needs dask-jobqueue; install the extra `cluster` of this package"
        ) from error
    if shutil.which("sbatch") is None:
        raise UserError(
            "--cluster slurm: sbatch is not on the PATH; run on a machine that submits to SLURM"
        )
    values: dict[str, Any] = {"cores": 1, "processes": 1, "memory": SLURM_MEMORY} | options
    cluster: Any = jobqueue.SLURMCluster(**values)
    cluster.scale(jobs=workers)
    return cluster
