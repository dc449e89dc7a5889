"""Shuffled reading of fixed-size clouds: this project's loader beside other libraries'.

    python -m benchmarks.bench_loader [--clouds 8192] [--workers 0,1,2] [--rounds 3] [--to FOLDER]

The same clouds (2048 points float32, segment ids uint16) are written once in every format and read
in batches of 64 as torch tensors, points (64, 2048, 3) float32 and segment (64, 2048) int64, in an
order that each library shuffles its own way. Every measurement is a process of its own: one epoch
cold (its files dropped from the page cache), then warm epochs with the workers kept. Libraries
that are not installed are left out, and said to be. `page cache` copies the same bytes from the
page cache into memory and makes no batches: the most that any reader could give.
"""

import importlib.util
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import click
import h5py
import numpy as np
import torch
import zarr
from torch.utils.data import DataLoader, Dataset

from benchmarks.loader_clouds import POINTS, clouds_of, write_ours

BATCH = 64
WARM_EPOCHS = 3
EPOCH_LIMIT_S = 5.0
"""A slower epoch is stopped, and its rate is that of what came."""
LIBRARIES = {"webdataset": "webdataset", "litdata": "litdata", "mosaic": "streaming"}
Arrays = Iterator[tuple[np.ndarray, np.ndarray]]


def _samples(count: int) -> Arrays:
    for points, segment in clouds_of(count):
        yield from zip(points, segment, strict=True)


def _write_webdataset(folder: Path, count: int) -> None:
    import webdataset

    with webdataset.ShardWriter(f"{folder}/%05d.tar", maxcount=1024, verbose=0) as sink:
        for i, (points, segment) in enumerate(_samples(count)):
            sink.write(
                {"__key__": f"{i:08d}", "points": points.tobytes(), "segment": segment.tobytes()}
            )


def _write_litdata(folder: Path, count: int) -> None:
    from litdata.streaming.writer import BinaryWriter

    writer = BinaryWriter(str(folder), chunk_bytes="32MB")
    for i, (points, segment) in enumerate(_samples(count)):
        writer.add_item(i, {"points": points, "segment": segment})
    writer.done()
    writer.merge()


def _write_mosaic(folder: Path, count: int) -> None:
    from streaming import MDSWriter

    columns = {"points": f"ndarray:float32:{POINTS},3", "segment": f"ndarray:uint16:{POINTS}"}
    with MDSWriter(out=str(folder), columns=columns, size_limit="32mb") as writer:
        for points, segment in _samples(count):
            writer.write({"points": points, "segment": segment})


def _write_hdf5(folder: Path, count: int) -> None:
    with h5py.File(folder / "clouds.h5", "w") as file:
        file.create_dataset("points", (count, POINTS, 3), "f4")
        file.create_dataset("segment", (count, POINTS), "u2")
        for i, (points, segment) in enumerate(_samples(count)):
            file["points"][i], file["segment"][i] = points, segment


def _write_zarr(folder: Path, count: int) -> None:
    group = zarr.open_group(folder / "clouds.zarr", mode="w")
    for name, tail, dtype in (("points", (POINTS, 3), "f4"), ("segment", (POINTS,), "u2")):
        group.create_array(
            name, shape=(count, *tail), shards=(min(1024, count), *tail), chunks=(1, *tail),
            dtype=dtype, compressors=None,
        )  # fmt: skip
    done = 0
    batches = list(clouds_of(count))
    for start in range(0, len(batches), 16):
        part = batches[start : start + 16]
        for name, column in zip(("points", "segment"), zip(*part, strict=True), strict=True):
            joined = np.concatenate(column)
            group[name][done : done + len(joined)] = joined
        done += len(joined)


class _Rows(Dataset[Any]):
    """Clouds of an HDF5 file or a Zarr group, opened in the worker."""

    def __init__(self, path: Path) -> None:
        self.path, self._open = path, None

    def __len__(self) -> int:
        return json.loads((self.path.parent / "count.json").read_text())

    def __getitem__(self, i: int) -> tuple[np.ndarray, np.ndarray]:
        if self._open is None:
            hdf5 = self.path.suffix == ".h5"
            self._open = h5py.File(self.path) if hdf5 else zarr.open_group(self.path, mode="r")
            self._arrays = self._open["points"], self._open["segment"]
        return self._arrays[0][i], self._arrays[1][i]


def _tensors(pairs: Iterable[tuple[Any, Any]]) -> tuple[torch.Tensor, torch.Tensor]:
    points, segment = zip(*pairs, strict=True)
    return (torch.from_numpy(np.stack(points)),
            torch.from_numpy(np.stack(segment).astype(np.int64)))  # fmt: skip


def _named(items: list[dict[str, Any]]) -> tuple[torch.Tensor, torch.Tensor]:
    return _tensors((np.asarray(x["points"]), np.asarray(x["segment"])) for x in items)


def _raw(item: tuple[bytes, bytes]) -> tuple[np.ndarray, np.ndarray]:
    return np.frombuffer(item[0], "f4").reshape(POINTS, 3), np.frombuffer(item[1], "u2")


def _read_rows(folder: Path, workers: int) -> Iterable[Any]:
    [path] = [p for p in folder.iterdir() if p.suffix in (".h5", ".zarr")]
    return DataLoader(_Rows(path), BATCH, shuffle=True, collate_fn=_tensors, num_workers=workers,
                      persistent_workers=workers > 0)  # fmt: skip


def _read_webdataset(folder: Path, workers: int) -> Iterable[Any]:
    import webdataset

    urls = sorted(map(str, folder.glob("*.tar")))
    data = webdataset.WebDataset(urls, shardshuffle=len(urls), empty_check=False).shuffle(512)
    data = data.to_tuple("points", "segment").map(_raw).batched(BATCH, collation_fn=_tensors)
    return DataLoader(data, None, num_workers=workers, persistent_workers=workers > 0)


def _read_litdata(folder: Path, workers: int) -> Iterable[Any]:
    from litdata import StreamingDataLoader, StreamingDataset

    data = StreamingDataset(str(folder), shuffle=True)
    return StreamingDataLoader(data, batch_size=BATCH, num_workers=workers, collate_fn=_named,
                               persistent_workers=workers > 0)  # fmt: skip


def _read_mosaic(folder: Path, workers: int) -> Iterable[Any]:
    from streaming import StreamingDataset

    data = StreamingDataset(local=str(folder), shuffle=True, batch_size=BATCH)
    return DataLoader(data, BATCH, num_workers=workers, collate_fn=_named,
                      persistent_workers=workers > 0)  # fmt: skip


def _read_ours(folder: Path, workers: int) -> Iterable[Any]:
    from stages.shard.read import PointCloudDataset, PointCloudLoader

    return PointCloudLoader(PointCloudDataset(folder, points=POINTS), BATCH, num_workers=workers,
                            persistent_workers=workers > 0)  # fmt: skip


def _read_page_cache(folder: Path, workers: int) -> Iterable[Any]:
    files = sorted(p for name in ("points", "segment") for p in folder.rglob(f"{name}/c/**/*"))
    return _Copy([p for p in files if p.is_file()])


class _Copy:
    """Batches' worth of bytes, each into memory of its own, as a batch needs."""

    def __init__(self, files: list[Path]) -> None:
        self.files = files

    def __iter__(self) -> Iterator[int]:
        for path in self.files:
            with open(path, "rb", buffering=0) as file:
                while done := file.readinto(np.empty(BATCH * POINTS * 14, np.uint8)):
                    yield done


FORMATS: dict[str, tuple[Callable[[Path, int], None], Callable[[Path, int], Iterable[Any]]]] = {
    "page cache": (lambda f, n: None, _read_page_cache),
    "ours, none": (lambda f, n: write_ours(f, n, "none"), _read_ours),
    "ours, blosc": (lambda f, n: write_ours(f, n, "blosc"), _read_ours),
    "ours, zstd": (lambda f, n: write_ours(f, n, "zstd"), _read_ours),
    "webdataset": (_write_webdataset, _read_webdataset),
    "litdata": (_write_litdata, _read_litdata),
    "mosaic": (_write_mosaic, _read_mosaic),
    "hdf5": (_write_hdf5, _read_rows),
    "zarr-python": (_write_zarr, _read_rows),
}


def _size(folder: Path) -> int:
    return sum(p.stat().st_size for p in folder.rglob("*") if p.is_file())


def _drop(folder: Path) -> None:
    for path in folder.rglob("*"):
        if path.is_file():
            fd = os.open(path, os.O_RDONLY)
            os.fsync(fd)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(fd)


def _core_s() -> float:
    used = [resource.getrusage(w) for w in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used)


def measure(name: str, folder: Path, workers: int, count: int) -> dict[str, float]:
    """Rates of one format, in this process: cold, then the median of the warm epochs."""
    loader = FORMATS[name][1](folder, workers)
    _drop(folder)
    before, rates, clouds = _core_s(), [], 0.0
    for _ in range(1 + WARM_EPOCHS):
        start, came = time.perf_counter(), 0.0
        for batch in loader:
            came += batch / (POINTS * 14) if isinstance(batch, int) else len(_points_of(batch))
            if time.perf_counter() - start > EPOCH_LIMIT_S:
                break
        else:
            if abs(came - count) > count * 0.02:
                raise SystemExit(f"{name}, {workers} workers: {came} clouds of {count}")
        rates.append(came / (time.perf_counter() - start))
        clouds += came
    del loader  # ends the workers, whose time then counts
    rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    rss += workers * resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    return {
        "cold_clouds_per_s": rates[0],
        "warm_clouds_per_s": statistics.median(rates[1:]),
        "core_us_per_cloud": (_core_s() - before) / clouds * 1e6,
        "peak_rss_mb": rss / 1024,
    }


def _points_of(batch: Any) -> torch.Tensor:
    points, segment = (
        (batch["points"], batch["segment"]) if isinstance(batch, dict) else tuple(batch)
    )
    assert points.shape[1:] == (POINTS, 3)
    assert (points.dtype, segment.dtype) == (torch.float32, torch.int64)
    return points


@click.command()
@click.option("--clouds", default=8192, show_default=True)
@click.option("--workers", default="0,1,2", show_default=True)
@click.option("--rounds", default=3, show_default=True, help="Processes per row; medians count.")
@click.option("--formats", default=",".join(FORMATS).replace(", ", "+"), help="Only these.")
@click.option("--to", type=click.Path(path_type=Path), help="Keep the files here.")
@click.option("--one", hidden=True)
def main(clouds: int, workers: str, rounds: int, formats: str, to: Path | None, one: str) -> None:
    """Print one row per format and number of workers, the formats in turn in every round."""
    if one:
        name, count = one.rsplit(":", 1)
        assert to is not None
        if count == "write":
            FORMATS[name][0](to, clouds)
        else:
            click.echo(json.dumps(measure(name, to, int(count), clouds)))
        return
    names = [name.replace("+", ", ") for name in formats.split(",")]
    for name, module in LIBRARIES.items():
        if name in names and importlib.util.find_spec(module) is None:
            click.echo(f"left out: {name}, {module} is not installed")
            names.remove(name)
    root = to or Path(tempfile.mkdtemp(prefix="bench-loader-"))
    folders = {name: root / name.replace(", ", "-").replace(" ", "-") for name in names}
    folders["page cache"] = root / "ours-none"
    try:
        for name in [n for n in names if n != "page cache"]:
            _write(name, folders[name], clouds)
        rows: dict[tuple[str, int], list[dict[str, float]]] = {}
        for _ in range(rounds):
            for count in map(int, workers.split(",")):
                for name in names:
                    if name == "page cache" and count:
                        continue
                    rows.setdefault((name, count), []).append(
                        _in_a_process(name, folders[name], count, clouds)
                    )
        _print(rows, folders, clouds)
    finally:
        if to is None:
            shutil.rmtree(root)


def _write(name: str, folder: Path, clouds: int) -> None:
    if (folder / "count.json").is_file():
        return
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    start = time.perf_counter()
    _in_a_process(name, folder, "write", clouds)
    (folder / "count.json").write_text(str(clouds))
    click.echo(f"wrote {name}: {_size(folder) / 1e6:.0f} MB in {time.perf_counter() - start:.1f} s")


def _in_a_process(name: str, folder: Path, what: int | str, clouds: int) -> dict[str, float]:
    """`measure` with so many workers, or "write": a child starts with its parent's peak memory."""
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.bench_loader", "--one",
               f"{name}:{what}", "--to", str(folder), "--clouds", str(clouds)]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{name}, {what}: {done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1]) if done.stdout else {}


def _print(
    rows: dict[tuple[str, int], list[dict[str, float]]], folders: dict[str, Path], clouds: int
) -> None:
    click.echo(f"\n{clouds} clouds of {POINTS} points, batches of {BATCH}; clouds per second")
    click.echo("| reader | workers | warm | cold | core us a cloud | peak MB | MB on disk |")
    click.echo("|---|---|---|---|---|---|---|")
    for (name, workers), runs in rows.items():
        mid = {key: statistics.median(run[key] for run in runs) for key in runs[0]}
        click.echo(
            f"| {name} | {workers} | {mid['warm_clouds_per_s']:,.0f} | "
            f"{mid['cold_clouds_per_s']:,.0f} | {mid['core_us_per_cloud']:.1f} | "
            f"{mid['peak_rss_mb']:.0f} | {_size(folders[name]) / 1e6:.0f} |"
        )


if __name__ == "__main__":
    main()
