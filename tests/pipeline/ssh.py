"""An SSH server of this machine for one user with a key: real sessions that run real commands."""

import asyncio
import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from subprocess import PIPE
from typing import Any

import asyncssh

USER = "worker"


@contextmanager
def ssh_server() -> Iterator[dict[str, Any]]:
    """Serve on a free port of 127.0.0.1; what `asyncssh.connect` needs to get in."""
    key, host_key = (asyncssh.generate_private_key("ssh-ed25519") for _ in range(2))
    ready, ended, loops = threading.Event(), asyncio.Event(), []
    port: list[int] = []

    async def session(process: asyncssh.SSHServerProcess[bytes]) -> None:
        """Run the command in a shell; it ends with the session."""
        command = ["sh", "-c", process.command or "true"]
        with subprocess.Popen(
            command, stdin=PIPE, stdout=PIPE, stderr=PIPE, bufsize=0, start_new_session=True
        ) as shell:
            await process.redirect(stdin=shell.stdin, stdout=shell.stdout, stderr=shell.stderr)
            while shell.poll() is None and not process.is_closing():
                await asyncio.sleep(0.02)
            with suppress(ProcessLookupError):
                os.killpg(shell.pid, signal.SIGTERM)  # the shell and all that it started
            process.exit(shell.wait())
            await process.wait_closed()

    async def serve() -> None:
        server = await asyncssh.listen(
            "127.0.0.1", 0, server_host_keys=[host_key], process_factory=session, encoding=None,
            authorized_client_keys=asyncssh.import_authorized_keys(
                key.export_public_key().decode()
            ),
        )  # fmt: skip
        port.append(server.get_port())
        loops.append(asyncio.get_running_loop())
        ready.set()
        await ended.wait()
        server.close()
        await server.wait_closed()
        while others := asyncio.all_tasks() - {asyncio.current_task()}:
            await asyncio.wait(others)

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    try:
        if not ready.wait(20):
            raise TimeoutError("the SSH server did not start")
        yield {"port": port[0], "username": USER, "client_keys": [key], "known_hosts": None}
    finally:
        loops[0].call_soon_threadsafe(ended.set)
        thread.join(20)
