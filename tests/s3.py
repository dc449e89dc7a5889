"""A local S3 server in a process of its own (moto), for tests of outputs on object stores."""

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Generator
from contextlib import contextmanager

ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing",
    "AWS_DEFAULT_REGION": "us-east-1",
}


@contextmanager
def server() -> Generator[str]:
    """Address of a running server; its variables are in os.environ meanwhile, for children too."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    before = dict(os.environ)
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
        stdout=quiet,
        stderr=quiet,
    )
    try:
        _wait(url, process)
        os.environ.update(ENVIRONMENT, AWS_ENDPOINT_URL=url)
        forget_connections()
        yield url
    finally:
        os.environ.clear()
        os.environ.update(before)
        process.kill()
        process.wait()


def forget_connections() -> None:
    """fsspec keeps one connection for equal arguments, whatever the environment says since."""
    import s3fs

    s3fs.S3FileSystem.clear_instance_cache()


def _wait(url: str, process: "subprocess.Popen[bytes]") -> None:
    end = time.monotonic() + 120
    while time.monotonic() < end and process.poll() is None:
        try:
            urllib.request.urlopen(f"{url}/moto-api/", timeout=5).close()
            return
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            time.sleep(0.1)
    raise RuntimeError(f"no S3 server at {url}, it ended with {process.poll()}")


def new_place(name: str) -> str:
    """An address in a new bucket."""
    import s3fs

    bucket = f"b{uuid.uuid4().hex[:12]}"
    s3fs.S3FileSystem(skip_instance_cache=True).mkdir(bucket)
    return f"s3://{bucket}/{name}"
