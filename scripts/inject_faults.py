"""Injects faults into runs of a small dataset and checks that nothing is lost.

    python scripts/inject_faults.py --faults 200 --seed 0

Fault i of a seed is always the same kind at the same place; only a process's moment of death is up
to the machine. After each: `run` finishes, `verify` passes, and the digest of the dataset equals
that of an undisturbed run. Prints a table; exit code 1 when any fault was not found or not healed.
"""

import os
import random
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import click

ROOT = Path(__file__).resolve().parents[1]
STAGES = ("assets", "scene", "render", "grasp", "label")
DAMAGES = ("truncated", "zeroed", "flipped bit", "deleted")
CONFIG = """\
seed: 7
assets: {objects: [cube.obj, bar.obj], train_fraction: 1.0, val_fraction: 0.0}
scene: {floating: 1, tabletop: 1, clutter: 0}
render:
  views: 2
  crop: {sampling: random, num_points: 64}
  camera: {preset: "", fx: 120, fy: 120, cx: 80, cy: 60, width: 160, height: 120}
grasp: {hands: [panda_gripper], grasps_per_object: 2, chunk: 1, anchors: 64}
label: {protocols: [fc]}
max_failure_fraction: 0.9
"""
TARGETS = {
    "data": ("blocks/*/*.npz", "shards/*.zarr/**/c/**/*", "index.parquet"),
    "metadata": ("shards/*.zarr/**/zarr.json", "dataset.json", "version", "run.json"),
    "marker": ("blocks/*/*.json", "shards/*.commit.json", "dataset.commit.json"),
}
"""What a torn file may be, by class. A lost run.json is no fault: a run needs none."""


@dataclass(kw_only=True, slots=True)
class Site:
    """One fault: a copy of the finished output, and what became of it."""

    base: Path  # holds the config, the finished output and the copy
    rng: random.Random
    number: int
    landed: bool = False
    found: bool | None = None  # by verify; None where there is nothing on the disk to find
    trouble: list[str] = field(default_factory=list[str])
    said: str = ""

    @property
    def out(self) -> Path:
        return self.base / f"out{self.number}"

    def command(self, *extra: str) -> list[str]:
        where = ["--config", str(self.base / "two.yaml"), "--out", str(self.out)]
        return [sys.executable, "-m", "pipeline", "run", "all", *where, *extra]

    def start(self, *extra: str, limit: int | None = None) -> "subprocess.Popen[str]":
        """A run of its own, whose files may grow to `limit` bytes."""

        def restrict() -> None:
            if limit is not None:
                resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

        return subprocess.Popen(
            self.command("--block-size", "1", *extra),
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            preexec_fn=restrict,
        )

    def unmake(self, stage: str) -> None:
        """Take away what `stage` and all after it made, so that the next run starts there."""
        later = STAGES[STAGES.index(stage) :] if stage in STAGES else ()
        for name in later:
            shutil.rmtree(self.out / "blocks" / name)
        shutil.rmtree(self.out / "shards")
        for name in ("dataset.json", "dataset.commit.json", "index.parquet"):
            (self.out / name).unlink()


def call(*args: object) -> tuple[int, str]:
    """(exit code, output) of a command in this process; a traceback counts as exit code 99."""
    from click.testing import CliRunner

    from pipeline.cli import main

    done = CliRunner().invoke(main, [str(a) for a in args])
    crash = done.exception is not None and not isinstance(done.exception, SystemExit)
    return (99 if crash else done.exit_code), done.output + (repr(done.exception) if crash else "")


def tear(site: Site, damage: str, kind: str) -> None:
    """Damage one file; verify must find it; in every second case `repair` drops it."""
    files = sorted(p for pattern in TARGETS[kind] for p in site.out.glob(pattern) if p.is_file())
    if damage == "deleted":
        files = [p for p in files if p.name != "run.json"]
    groups: dict[str, list[Path]] = {}
    for path in files:  # every sort of file is as likely, however many there are of it
        groups.setdefault(f"{path.relative_to(site.out).parts[0]}{path.suffix}", []).append(path)
    path = site.rng.choice(groups[site.rng.choice(sorted(groups))])
    data = bytearray(path.read_bytes())
    if damage == "deleted":
        path.unlink()
    elif damage == "truncated":
        path.write_bytes(data[: site.rng.randrange(len(data))])
    elif damage == "zeroed":
        path.write_bytes(bytes(len(data)))
    else:
        data[site.rng.randrange(len(data))] ^= 1 << site.rng.randrange(8)
        path.write_bytes(data)
    site.landed, site.said = True, path.relative_to(site.out).as_posix()
    code, text = call("verify", site.out)
    site.found = code in (1, 2)
    if code == 99:
        site.trouble.append(f"verify: {text}")
    if site.number % 2:
        sound = {p: p.read_bytes() for p in files if p != path}
        code, text = call("repair", site.out)
        if code:
            site.trouble.append(f"repair: {text}")
        shard = next((p for p in path.parents if p.suffix == ".zarr"), path)
        shard = path.with_name(path.name.removesuffix(".commit.json")) if shard == path else shard
        lost = [p for p in sound if not p.exists() and not p.is_relative_to(shard)]
        lost = [p for p in lost if p.stem != path.stem and p.name != "dataset.commit.json"]
        if lost := [p for p in lost if p != shard.with_name(f"{shard.name}.commit.json")]:
            site.trouble.append(f"repair dropped what was sound: {lost}")


def wait_for(process: "subprocess.Popen[str]", stage: str, out: Path) -> None:
    """Until the run says that it is in `stage`, or writes shards, or has ended."""
    if stage == "shard":
        while process.poll() is None and not (out / "shards").exists():
            time.sleep(0.002)
        return
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith(f"{stage}:"):
            return


def workers_of(pid: int) -> list[int]:
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in task.read_text().split():
            words = Path(f"/proc/{child}/cmdline").read_bytes()
            if b"spawn_main" in words:
                found.append(int(child))
    return found


def in_stage(site: Site, *extra: str) -> "subprocess.Popen[str]":
    """A run stopped at a random moment of a random stage, to do something to it."""
    stage = STAGES[(site.number // len(KINDS)) % len(STAGES)]
    site.unmake(stage)
    process = site.start("--workers", "1", *extra)
    wait_for(process, stage, site.out)
    site.said = stage
    return process


def kill_runner(site: Site) -> None:
    stage = (*STAGES, "shard")[(site.number // len(KINDS)) % 6]
    site.unmake(stage)
    process = site.start("--workers", "1")
    wait_for(process, stage, site.out)
    time.sleep(site.rng.uniform(0, 0.1 if stage == "shard" else 2.5))
    site.landed = process.poll() is None
    process.kill()
    process.communicate()
    site.said = stage


def to_worker(site: Site, act: Callable[[int], None], *extra: str) -> None:
    """`act` on the worker of a run; the run itself must go on to its end."""
    process = in_stage(site, *extra)
    end = time.monotonic() + 20
    while process.poll() is None and not site.landed and time.monotonic() < end:
        time.sleep(site.rng.uniform(0, 1.5))
        for worker in workers_of(process.pid)[:1]:
            try:
                act(worker)
                site.landed = True
            except (ProcessLookupError, FileNotFoundError):
                pass
    text, _ = process.communicate(timeout=300)
    # 3: so many items of this small run failed with the worker that the budget is spent
    if process.returncode not in (0, 3):
        site.trouble.append(f"the run ended with {process.returncode}: {text[-2000:]}")


def kill_worker(site: Site) -> None:
    to_worker(site, lambda pid: os.kill(pid, signal.SIGKILL))


def starve_worker(site: Site) -> None:
    def starve(pid: int) -> None:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[0])
        room = pages * resource.getpagesize() + site.rng.randrange(2**22)
        resource.prlimit(pid, resource.RLIMIT_AS, (room, room))

    to_worker(site, starve)


def hang_worker(site: Site) -> None:
    to_worker(site, lambda pid: os.kill(pid, signal.SIGSTOP), "--set", "item_timeout_s=6")


def fill_disk(site: Site) -> None:
    """No file may grow past a limit, which the kernel reports as it does a full disk."""
    stage = (*STAGES, "shard")[(site.number // len(KINDS)) % 6]
    site.unmake(stage)
    process = site.start("--workers", "1", limit=int(10 ** site.rng.uniform(2.3, 3.7)))
    text, _ = process.communicate(timeout=300)
    site.said = stage
    site.landed = process.returncode != 0
    if site.landed and (process.returncode != 2 or "the disk is full" not in text):
        site.trouble.append(f"a full disk gave {process.returncode}: {text[-2000:]}")


def run_twice(site: Site) -> None:
    process = in_stage(site)
    code, text = call("run", *site.command("--workers", "0")[4:])
    site.landed = process.poll() is None or code == 2
    if site.landed and (code != 2 or f"in use by process {process.pid} on" not in text):
        site.trouble.append(f"the second run ended with {code}: {text[-2000:]}")
    text, _ = process.communicate(timeout=300)
    if process.returncode:
        site.trouble.append(f"the first run ended with {process.returncode}: {text[-2000:]}")


def dask(*words: str) -> "subprocess.Popen[bytes]":
    """A scheduler or a worker, quiet, in a process of its own."""
    command = [sys.executable, "-m", f"distributed.cli.dask_{words[0]}", *words[1:]]
    quiet = subprocess.DEVNULL
    return subprocess.Popen([*command, "--no-dashboard"], stdout=quiet, stderr=quiet, cwd=ROOT)


class Cluster:
    """A Dask scheduler at a fixed port and two workers without nannies: who dies stays dead."""

    def __init__(self) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.address = f"tcp://127.0.0.1:{self.port}"
        self.workers: list[subprocess.Popen[bytes]] = []
        self.start()

    def start(self) -> None:
        self.scheduler = dask("scheduler", "--host", "127.0.0.1", "--port", str(self.port))
        self.add_worker()
        self.add_worker()

    def add_worker(self) -> None:
        self.workers.append(dask("worker", self.address, "--nthreads", "1", "--no-nanny"))

    def close(self) -> None:
        for process in (self.scheduler, *self.workers):
            process.kill()
            process.wait()


def on_cluster(site: Site, act: Callable[[Cluster], None]) -> None:
    """`act` on the cluster of a run; the run itself must go on to its end."""
    stage = STAGES[(site.number // len(KINDS)) % len(STAGES)]
    site.unmake(stage)
    cluster = Cluster()
    try:
        process = site.start("--scheduler", cluster.address)
        wait_for(process, stage, site.out)
        time.sleep(site.rng.uniform(0, 2.5))
        site.said, site.landed = stage, process.poll() is None
        act(cluster)
        text, _ = process.communicate(timeout=300)
        if process.returncode:
            site.trouble.append(f"the run ended with {process.returncode}: {text[-2000:]}")
    finally:
        cluster.close()


def lose_dask_worker(site: Site) -> None:
    on_cluster(site, lambda cluster: cluster.workers[0].kill())


def restart_scheduler(site: Site) -> None:
    def restart(cluster: Cluster) -> None:
        cluster.close()
        cluster.start()

    on_cluster(site, restart)


KINDS: dict[str, Callable[[Site], None]] = {
    "runner killed": kill_runner,
    "disk full": fill_disk,
    **{
        f"{kind} {damage}": lambda site, damage=damage, kind=kind: tear(site, damage, kind)
        for damage in DAMAGES
        for kind in TARGETS
    },
    "worker killed": kill_worker,
    "two runs at once": run_twice,
    "worker out of memory": starve_worker,
    "worker hangs": hang_worker,
    "dask worker lost": lose_dask_worker,
    "dask scheduler restarted": restart_scheduler,
}


def prepare(base: Path) -> str:
    """The config, its two boxes and an undisturbed output; the digest of it."""
    import trimesh

    trimesh.creation.box((0.05, 0.05, 0.05)).export(base / "cube.obj")
    trimesh.creation.box((0.03, 0.04, 0.08)).export(base / "bar.obj")
    (base / "two.yaml").write_text(CONFIG)
    whole = base / "whole"
    code, text = call(
        *("run", "all", "--config", base / "two.yaml", "--out", whole, "--workers", 0)
    )
    if code:
        raise SystemExit(f"the undisturbed run failed: {text}")
    return digest_of(whole)


def digest_of(out: Path) -> str:
    code, text = call("verify", out, "--digest")
    return text.strip() if code == 0 else f"none: {text}"


def inject(base: Path, seed: int, number: int, expected: str) -> tuple[str, Site]:
    """Fault `number`: done, healed and checked."""
    kind = list(KINDS)[number % len(KINDS)]
    site = Site(base=base, rng=random.Random(f"{seed}/{number}"), number=number)
    shutil.copytree(base / "whole", site.out)
    KINDS[kind](site)
    for command in ("run", "all"), ("run", "all", "--retry-failed"):
        where = ("--config", base / "two.yaml", "--out", site.out, "--workers", 0)
        code, text = call(*command, *where)
        if code and (code != 3 or "--retry-failed" in command):
            site.trouble.append(f"{' '.join(command)} ended with {code}: {text[-2000:]}")
    code, text = call("verify", site.out)
    if code:
        site.trouble.append(f"verify after it: {text[-2000:]}")
    if (got := digest_of(site.out)) != expected:
        site.trouble.append(f"digest {got}, expected {expected}")
    return kind, site


@click.command()
@click.option("--faults", default=200, show_default=True)
@click.option("--first", default=0, show_default=True, help="Number of the first fault.")
@click.option("--seed", default=0, show_default=True)
def main(faults: int, first: int, seed: int) -> None:
    """Inject FAULTS faults, one after another, and print what became of them."""
    rows: dict[str, Counter[str]] = {kind: Counter() for kind in KINDS}
    bad = 0
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="faults-") as folder:
        expected = prepare(Path(folder))
        for number in range(first, first + faults):
            kind, site = inject(Path(folder), seed, number, expected)
            row = rows[kind]
            row["injected"] += site.landed
            row["too late"] += not site.landed
            row["found"] += bool(site.found)
            row["healed"] += site.landed and not site.trouble
            missed = site.landed and site.found is False
            bad += bool(site.trouble) or missed
            for line in [*site.trouble, *(["verify did not find it"] if missed else [])]:
                click.echo(f"fault {number} ({kind}, {site.said}): {line}", err=True)
            shutil.rmtree(site.out)
    click.echo("| fault | injected | found by verify | healed |\n|---|---|---|---|")
    for kind, row in rows.items():
        found = row["found"] if kind.partition(" ")[0] in TARGETS else "-"
        click.echo(f"| {kind} | {row['injected']} | {found} | {row['healed']} |")
    total = sum((row for row in rows.values()), Counter[str]())
    click.echo(f"| all | {total['injected']} | {total['found']} | {total['healed']} |")
    click.echo(f"{total['too late']} came too late to count; {time.monotonic() - start:.0f} s")
    if bad:
        raise SystemExit(f"{bad} faults were not found or not healed")


if __name__ == "__main__":
    # one thread, as in the workers, before numpy loads: threads may round differently
    from pipeline.cli import one_thread

    one_thread()
    main()
