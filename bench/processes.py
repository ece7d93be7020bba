"""API and runtime as processes on this machine, and what they take."""

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import aiohttp

from tests.harness.processes import engine_away


def pod_variables(folder: Path, *, api: str, port: int, health: int) -> dict[str, str]:
    """The environment of a project's server that runs the code, and has the token, in a folder."""
    return {
        "TIELINE_CODE_DIR": str(folder),
        "TIELINE_TOKEN_FILE": str(folder / "token"),
        "TIELINE_API_URL": api,
        "TIELINE_ENGINE_URL": engine_away.URL,
        "TIELINE_HOST": "127.0.0.1",
        "TIELINE_PORT": str(port),
        "TIELINE_HEALTH_PORT": str(health),
        "TIELINE_DRAIN_SECONDS": "0",
        "TIELINE_TERMINATION_LOG": os.devnull,
    }


def processor_time(pid: int) -> float:
    """Seconds of processor time that a process has used: what neighbours on the machine do not change."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident(pid: int) -> float:
    """MiB of memory."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    return 0.0


@contextlib.asynccontextmanager
async def running(
    module: str, *, ready: str, env: Mapping[str, str]
) -> AsyncIterator[tuple[asyncio.subprocess.Process, float]]:
    """``python -m module`` and how many seconds it took until ``ready`` (a URL) answered 200."""
    began = time.perf_counter()
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", module, env={**os.environ, **env}, stdout=asyncio.subprocess.DEVNULL
    )
    try:
        async with aiohttp.ClientSession() as client, asyncio.timeout(120):
            while not await _answers(client, ready):
                if process.returncode is not None:
                    raise RuntimeError(f"{module} ended with {process.returncode}")
                await asyncio.sleep(0.01)
        yield process, time.perf_counter() - began
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
            await process.wait()


async def _answers(client: aiohttp.ClientSession, url: str) -> bool:
    try:
        async with client.get(url) as response:
            return response.status == 200
    except aiohttp.ClientError:
        return False
