"""Files that are whole or absent, in a folder or on an object store (`s3://bucket/path`).

An address with a scheme becomes a path of universal-pathlib, which has the methods of pathlib.Path
and stands for one wherever an output is meant; fsspec does the reading and writing. Endpoint and
credentials come from the environment, as the store's own tools read them (AWS_ENDPOINT_URL, ...).
"""

import contextlib
import errno
import hashlib
import os
import re
import shutil
import threading
from collections.abc import Callable, Generator
from pathlib import Path
from typing import IO, Any, cast

TEMPORARY = ".tmp-"
CONNECTIONS = 8  # to an object store, at once
SCHEME = re.compile(r"([a-z][a-z0-9]+):/+")
UNREACHABLE = errno.EREMOTEIO


def output_path(text: str | Path) -> Path:
    """The folder or the place on an object store that `text` names.

    Raises ImportError with what to install, ValueError for an unknown scheme or a bare bucket.
    """
    if is_remote(text):
        return cast(Path, text)
    found = SCHEME.match(str(text))
    if found is None:
        return Path(text)
    scheme, rest = found[1], str(text)[found.end() :].rstrip("/")
    if scheme in ("file", "local"):
        raise ValueError(f"output {text}: a folder of this machine is given without a scheme")
    try:
        from upath import UPath

        # A listing that is kept would hide what other processes commit.
        place = UPath(f"{scheme}://{rest}", use_listings_cache=False)
        _ = place.fs
    except ImportError as error:
        raise ImportError(
            f"output {text}: needs {error.name or error}; install the extra `cloud` of this package"
        ) from error
    except (ValueError, TypeError) as error:
        raise ValueError(f"output {text}: {error}; expected e.g. s3://bucket/folder") from error
    if "/" not in rest:
        raise ValueError(f"output {text}: expected a folder in the bucket, {scheme}://{rest}/NAME")
    return cast(Path, place)


def is_remote(path: object) -> bool:
    """Whether a path is one of an object store."""
    return not isinstance(path, str | Path)


def afresh(path: Path) -> Path:
    """The same place with no open connection: what a forked process must use."""
    return output_path(str(path)) if is_remote(path) else path


def of_the_network(error: BaseException) -> bool:
    """Whether an error says that an object store cannot be reached or refuses us."""
    if isinstance(error, OSError):
        return error.errno == UNREACHABLE
    return type(error).__module__.partition(".")[0] in ("botocore", "aiobotocore", "aiohttp")


@contextlib.contextmanager
def reaching(path: Path) -> Generator[None]:
    """What the network does becomes an OSError with errno UNREACHABLE."""
    try:
        yield
    except OSError:
        raise
    except Exception as error:
        if not is_remote(path):
            raise
        message = f"the object store cannot be reached ({type(error).__name__}: {error})"
        raise OSError(UNREACHABLE, message, str(path)) from error


def read_bytes(path: Path) -> bytes:
    with reaching(path):
        return path.read_bytes()


def file_size(path: Path) -> int:
    """Bytes; FileNotFoundError without the file."""
    with reaching(path):
        return path.stat().st_size


def file_sha256(path: Path) -> str:
    with reaching(path), path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]


def list_files(folder: Path) -> dict[str, int]:
    """Relative path -> bytes of every file under a folder, sorted; one listing of a store."""
    if is_remote(folder):
        place = cast(Any, folder)
        with reaching(folder):
            found = place.fs.find(place.path, detail=True)
        start = len(place.path.rstrip("/")) + 1
        return {name[start:]: int(about["size"]) for name, about in sorted(found.items())}
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.stat().st_size for path in files}


def make_folder(path: Path) -> None:
    """A folder and those above it; an object store has none to make."""
    if not is_remote(path):
        path.mkdir(parents=True, exist_ok=True)


def write_bytes(path: Path, data: bytes | memoryview, temporary: Path | None = None) -> None:
    """`write_atomic` of bytes at hand; on an object store one PUT, which is whole or absent."""
    if is_remote(path):
        with reaching(path):
            path.write_bytes(bytes(data))
        return

    def put(file: IO[bytes]) -> None:
        file.write(data)

    write_atomic(path, put, temporary)


def write_atomic(
    path: Path, write: Callable[[IO[bytes]], None], temporary: Path | None = None
) -> None:
    """Write a file so that any reader, at any moment, sees the old bytes or all the new ones."""
    own = f"{TEMPORARY}{os.getpid()}-{threading.get_ident()}"
    temporary = temporary or path.with_name(path.name + own)
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with open(temporary, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        sync(path.parent)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def sync(path: Path) -> None:
    """Flush a file, or the names in a folder, to the disk: only then a rename lasts."""
    if is_remote(path):
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_tree(path: Path) -> None:
    """A folder with all that is in it, or a file; nothing when it is not there."""
    if is_remote(path):
        with reaching(path), contextlib.suppress(FileNotFoundError):
            cast(Any, path).fs.rm(cast(Any, path).path, recursive=True)
    elif path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def cache_folder() -> Path:
    """Where this machine keeps what is costly to make or to fetch again: GRASP_CLOUDS_CACHE, else
    ~/.cache/grasp-clouds."""
    given = os.environ.get("GRASP_CLOUDS_CACHE")
    return Path(given) if given else Path.home() / ".cache" / "grasp-clouds"
