"""The server of one version of the code, in a process of its own: the very server that runs in pods."""

import asyncio
import contextlib
import os
import signal
import socket
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import aiohttp

_START_TIMEOUT = 30.0
_POLL_SECONDS = 0.05
_GRACE = 10.0
# Longest line that is read from a worker: what it prints is cut at 64 KiB, and JSON may escape all of it.
_LINE_LIMIT = 1024 * 1024

SAFE_PATH = {"PYTHONSAFEPATH": "1"}
"""Keeps Python from finding modules in the current folder, which is not deployed."""

Show = Callable[[str], None]


class ServerProcess:
    """Runs the server of pods (``python -m tieline.cli.dev_server``) on sockets that outlive it."""

    def __init__(self, *, code: Path, listener: socket.socket, env: Mapping[str, str], show: Show) -> None:
        self._health = socket.create_server(("127.0.0.1", 0))
        self._listener = listener
        self._env = {
            **env,
            "TIELINE_CODE_DIR": str(code.resolve()),
            "TIELINE_LISTEN_FD": str(listener.fileno()),
            "TIELINE_HEALTH_LISTEN_FD": str(self._health.fileno()),
            "TIELINE_DRAIN_SECONDS": "0",
            "TIELINE_GRACE_SECONDS": str(_GRACE - 2),
            # Nothing but pods has this file.
            "TIELINE_TERMINATION_LOG": os.devnull,
            # Nothing restarts it, and somebody may be debugging.
            "TIELINE_BLOCKED_ACTION": "warn",
            "PYTHONDONTWRITEBYTECODE": "1",
            **SAFE_PATH,
        }
        self._show = show
        self._process: asyncio.subprocess.Process | None = None
        self._reading: asyncio.Task[None] | None = None

    async def start(self) -> bool:
        """Start it; True once it is ready, False when it ended, or is not ready in time (its log says why)."""
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "tieline.cli.dev_server",
            env=self._env,
            pass_fds=(self._listener.fileno(), self._health.fileno()),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            limit=_LINE_LIMIT,
            # Ctrl-C is for the command, which tells its worker.
            start_new_session=True,
        )
        self._reading = asyncio.create_task(self._read(self._process))
        port = self._health.getsockname()[1]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_START_TIMEOUT), aiohttp.ClientSession() as client:
                while self._process.returncode is None:
                    if await _ready(client, port):
                        return True
                    await asyncio.sleep(_POLL_SECONDS)
        await self.stop()
        return False

    @property
    def exit_code(self) -> int | None:
        """How it ended; None while it runs."""
        return self._process.returncode if self._process else None

    async def stop(self) -> None:
        """Tell it to finish its runs and end; after ten seconds it is ended."""
        process = self._process
        if process is not None and process.returncode is None:
            process.send_signal(signal.SIGTERM)
            try:
                await asyncio.wait_for(process.wait(), _GRACE)
            except TimeoutError:
                process.kill()
                await process.wait()
        if self._reading is not None:
            await self._reading
        self._health.close()

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        stream = process.stdout
        while stream is not None:
            try:
                line = await stream.readline()
            except ValueError:
                continue  # longer than the limit; asyncio has dropped it
            if not line:
                return
            self._show(line.decode(errors="replace").rstrip("\n"))


async def _ready(client: aiohttp.ClientSession, port: int) -> bool:
    try:
        async with client.get(
            f"http://127.0.0.1:{port}/readyz", timeout=aiohttp.ClientTimeout(total=1)
        ) as response:
            return response.status == 200
    except (aiohttp.ClientError, TimeoutError):
        return False
