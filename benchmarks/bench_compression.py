"""Size and speed of the compressions that Zarr has, on the clouds of a dataset.

    python -m benchmarks.bench_compression data/out/demo

Chunks as the shard stage cuts them; core time of one thread, the median of five passes.
"""

import statistics
import time
from pathlib import Path
from typing import Any

import click
import numcodecs
import numpy as np
from numcodecs import Blosc, Zstd

from stages.shard.config import ShardConfig
from stages.shard.layout import SHARDS
from stages.shard.open import read_shard

CODECS: dict[str, Any] = {
    "none": None,
    "zstd 1": Zstd(level=1),
    "zstd 3": Zstd(level=3),
    "zstd 9": Zstd(level=9),
    "blosc lz4, bytes shuffled": Blosc("lz4", 5, Blosc.SHUFFLE),
    "blosc lz4, bits shuffled": Blosc("lz4", 5, Blosc.BITSHUFFLE),
    "blosc zstd 3, bytes shuffled": Blosc("zstd", 3, Blosc.SHUFFLE),
    "blosc zstd 5, bits shuffled": Blosc("zstd", 5, Blosc.BITSHUFFLE),
}


@click.command()
@click.argument("out", type=click.Path(path_type=Path, exists=True))
def main(out: Path) -> None:
    """Print one row per array and compression."""
    numcodecs.blosc.use_threads = False
    shards = [read_shard(p) for p in sorted((out / SHARDS).glob("*-[0-9]*.zarr"))]
    click.echo("| array | compression | share of the size | write MB/s | read MB/s |")
    click.echo("|---|---|---|---|---|")
    for name in ("points", "segment"):
        array = np.concatenate([shard.arrays[name] for shard in shards])
        rows = ShardConfig().chunk_points
        chunks = [array[i : i + rows] for i in range(0, len(array), rows)]
        for title, codec in CODECS.items():
            start = time.process_time()
            packed = [codec.encode(c) if codec else c.tobytes() for c in chunks]
            writing = time.process_time() - start
            reading = statistics.median(_unpack(codec, packed, chunks) for _ in range(5))
            size = sum(map(len, packed)) / array.nbytes
            mb = array.nbytes / 1e6
            click.echo(
                f"| {name} | {title} | {size:.3f} | {mb / writing:.0f} | {mb / reading:.0f} |"
            )


def _unpack(codec: Any, packed: list[bytes], chunks: list[np.ndarray]) -> float:
    """Seconds of core time for all chunks."""
    out = np.empty_like(chunks[0])
    start = time.process_time()
    for data, chunk in zip(packed, chunks, strict=True):
        if codec:
            codec.decode(data, out=out[: len(chunk)])
        else:
            out[: len(chunk)] = np.frombuffer(data, chunk.dtype).reshape(chunk.shape)
    return time.process_time() - start


if __name__ == "__main__":
    main()
