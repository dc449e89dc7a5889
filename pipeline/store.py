"""Where blocks live: OUT/blocks/<stage>/<name>.npz and, written last, its marker <name>.json.

A block without its marker does not exist. The marker holds the sha256 of the npz and one row per
item: id, key, outcome code, message and the index of its record. Failures live in markers alone.
A marker also holds the sha256 of its own other bytes. Layout 1 had markers without it; they read.
"""

import hashlib
import io
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pipeline.errors import CorruptBlockError, StorageError, VersionError
from pipeline.files import storage_error
from stages.shard.layout import SEAL, seal
from stages.storage import (
    TEMPORARY,
    file_sha256,
    file_size,
    is_remote,
    make_folder,
    reaching,
    read_bytes,
    write_bytes,
)

LAYOUT_VERSION = 2
READABLE = (1, 2)
MARKER_LIMIT = 2**28  # bytes; a block of a million rows has a smaller marker
MESSAGE_LIMIT = 4000  # characters kept of one item's message


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """What a marker says of one item. `index` is its place in the npz, None for a failure."""

    id: str
    key: str
    own: str
    code: str
    message: str = ""
    index: int | None = None
    attempt: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Marker:
    """A committed block. `sha256` and `size` (bytes) are of its npz, "" and 0 without one."""

    stage: str
    block: str
    sha256: str
    size: int
    seconds: float  # wall time of the block's stage call
    rows: tuple[Row, ...]


class Store:
    """Blocks of one output folder."""

    def __init__(self, out: Path) -> None:
        self.out = out

    def open(self) -> None:
        """Create or check the output folder; refuses what another version or program wrote."""
        try:
            make_folder(self.out)
            self.check_version()
            if self._version() != VERSION_TEXT:
                write_bytes(self.out / "version", VERSION_TEXT)
        except OSError as error:
            if isinstance(error, StorageError):
                raise
            raise storage_error(self.out, error) or error from error

    def check_version(self) -> None:
        """Raise unless the folder is absent, empty, or of a layout version that reads.

        A torn version file beside sound markers of a known layout is no reason to raise.
        """
        found = self._version()
        if found is None:
            alien = self.out.is_dir() and any(p.name != ".lock" for p in self.out.iterdir())
            if alien and not self.version_is_torn():
                raise StorageError(
                    f"output {self.out}: the folder has files but no version file, so it is not "
                    "an output of this program. Nothing was touched; choose another --out"
                )
        elif found.strip() not in _READABLE_TEXT and not self.version_is_torn():
            text = found[:20].decode(errors="replace").strip()
            newer = _newer(found)
            fix = "install the release that wrote it, or " if newer else ""
            raise VersionError(
                f"output {self.out}: written with layout version {newer or text or '(none)'}, "
                f"this program reads {' and '.join(map(str, READABLE))}. Nothing was touched; "
                f"{fix}choose another --out"
            )

    def version_is_torn(self) -> bool:
        """Whether the version file is missing or unknown while sound markers tell the layout."""
        found = self._version()
        if found is not None and (found.strip() in _READABLE_TEXT or _newer(found)):
            return False
        for path in sorted(self.out.glob("blocks/*/*.json")):
            try:
                self.read_marker(path)
            except CorruptBlockError:
                continue
            return True
        return False

    def _version(self) -> bytes | None:
        try:
            with reaching(self.out), (self.out / "version").open("rb") as file:
                return file.read(100)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def folder(self, stage: str) -> Path:
        return self.out / "blocks" / stage

    def npz_path(self, stage: str, block: str) -> Path:
        return self.folder(stage) / f"{block}.npz"

    def marker_path(self, stage: str, block: str) -> Path:
        return self.folder(stage) / f"{block}.json"

    def block_name(self, keys: Iterable[str], attempt: int) -> str:
        """Named by the keys it holds, so a repeated commit meets only its own file."""
        name = hashlib.sha256("\n".join(keys).encode()).hexdigest()[:24]
        return f"{name}-{attempt}" if attempt else name

    def commit(
        self, *, stage: str, rows: Sequence[Row], records: Sequence[Any], seconds: float
    ) -> Marker:
        """Publish a block: the records of the rows with an index, in order, then the marker."""
        import numpy as np

        from schemas.records import encode

        attempt = max(row.attempt for row in rows)
        block = self.block_name([row.key for row in rows], attempt)
        make_folder(self.folder(stage))
        sha256, size = "", 0
        if records:
            arrays = {
                f"{i}/{name}": array
                for i, record in enumerate(records)
                for name, array in encode(record).items()
            }
            buffer = io.BytesIO()
            np.savez(buffer, **arrays)  # type: ignore[arg-type]
            data = buffer.getbuffer()
            sha256, size = hashlib.sha256(data).hexdigest(), data.nbytes
            write_bytes(self.npz_path(stage, block), data)
        marker = Marker(
            stage=stage, block=block, sha256=sha256, size=size, seconds=seconds, rows=tuple(rows)
        )
        write_bytes(
            self.marker_path(stage, block), seal(asdict(marker) | {"layout": LAYOUT_VERSION})
        )
        return marker

    def read_marker(self, path: Path) -> Marker:
        """Parse a marker, or raise CorruptBlockError."""
        try:
            if (size := file_size(path)) > MARKER_LIMIT:
                raise CorruptBlockError(path, f"a marker of {size} bytes, over {MARKER_LIMIT}")
            text = read_bytes(path)
            data: dict[str, Any] = json.loads(text)
            layout = data["layout"]
            if layout not in READABLE:
                raise CorruptBlockError(path, f"marker of layout version {layout}")
            if layout > 1:
                data.pop(SEAL)
                if seal(data) != text:
                    raise CorruptBlockError(path, "torn marker (its own checksum differs)")
            del data["layout"]
            rows = tuple(Row(**row) for row in data.pop("rows"))
            marker = Marker(rows=rows, **data)
        except FileNotFoundError as error:
            raise CorruptBlockError(path, "the marker is gone") from error
        except CorruptBlockError:
            raise
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise CorruptBlockError(path, f"torn marker ({error})") from error
        if (marker.stage, marker.block) != (path.parent.name, path.stem):
            raise CorruptBlockError(path, f"marker of {marker.stage}/{marker.block}")
        return marker

    def check(self, marker: Marker, *, deep: bool = True) -> None:
        """Raise CorruptBlockError unless the npz has the promised size and (deep) checksum."""
        if not marker.sha256:
            return
        path = self.npz_path(marker.stage, marker.block)
        try:
            size = file_size(path)
        except FileNotFoundError:
            raise CorruptBlockError(path, "the block of a marker is missing") from None
        if size != marker.size:
            raise CorruptBlockError(path, f"expected {marker.size} bytes, got {size}")
        if deep and (found := file_sha256(path)) != marker.sha256:
            raise CorruptBlockError(path, f"expected sha256 {marker.sha256[:12]}, got {found[:12]}")

    def read(self, stage: str, block: str, record: type) -> dict[int, Any]:
        """All records of a block by index, after its checksum."""
        marker = self.read_marker(self.marker_path(stage, block))
        self.check(marker)
        indices = [row.index for row in marker.rows if row.index is not None]
        return dict(self._decode(marker, record, indices))

    def read_arrays(self, marker: Marker) -> dict[int, dict[str, Any]]:
        """Arrays by record index and field name, unchecked against any record class."""
        from pipeline.npz import read_npz

        if not marker.sha256:
            return {}
        out: dict[int, dict[str, Any]] = {}
        arrays = read_npz(read_bytes(self.npz_path(marker.stage, marker.block)))
        for name, array in arrays.items():
            index, _, field = name.partition("/")
            out.setdefault(int(index), {})[field] = array
        return out

    def _decode(
        self, marker: Marker, record: type, indices: Sequence[int]
    ) -> Iterable[tuple[int, Any]]:
        from schemas.records import decode

        arrays: Mapping[int, dict[str, Any]] = self.read_arrays(marker)
        return [(i, decode(record, arrays[i])) for i in indices]

    def markers(self, stage: str) -> list[Path]:
        """Paths of all markers of a stage, sorted."""
        folder = self.folder(stage)
        with reaching(folder):
            return sorted(folder.glob("*.json")) if folder.is_dir() else []

    def remove(self, stage: str, block: str) -> None:
        """Unpublish a block: the marker first, so a cut leaves an orphan, never a promise."""
        self.marker_path(stage, block).unlink(missing_ok=True)
        self.npz_path(stage, block).unlink(missing_ok=True)

    def clean(self) -> None:
        """Remove what a killed run left: temporary files and blocks that got no marker."""
        for path in [*self.temporaries(), *self.orphans()]:
            path.unlink(missing_ok=True)

    def temporaries(self) -> list[Path]:
        """Half-written files of killed writers, sorted."""
        if is_remote(self.out):
            return []  # what is put there is whole
        found = [*self.out.glob(f"*{TEMPORARY}*"), *self.out.glob(f"blocks/*/*{TEMPORARY}*")]
        return sorted(path for path in found if path.is_file())

    def orphans(self) -> list[Path]:
        """Blocks without a marker, which nobody reads, sorted."""
        with reaching(self.out):
            found = list(self.out.glob("blocks/*/*"))
        markers = {path.with_suffix("") for path in found if path.suffix == ".json"}
        blocks = sorted(path for path in found if path.suffix == ".npz")
        return [path for path in blocks if path.with_suffix("") not in markers]


def _newer(text: bytes) -> str:
    """The number of a later layout that a version file tells, "" for any other text."""
    found = re.fullmatch(rb"(\d{1,9})(?: layout-(\d{1,9}))?\s*", text)
    if found is None or found[2] not in (None, found[1]) or int(found[1]) <= LAYOUT_VERSION:
        return ""
    return found[1].decode()


# Said twice, so that no torn or flipped byte makes another version of it.
VERSION_TEXT = f"{LAYOUT_VERSION} layout-{LAYOUT_VERSION}\n".encode()
_READABLE_TEXT = {b"1", VERSION_TEXT.strip()}
