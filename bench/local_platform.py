"""Operator and API as processes of this machine, each for as long as a block lasts."""

import asyncio
import re
import time
from asyncio.subprocess import Process as Subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from bench.platform import writes_in
from bench.processes import processor_time, resident, running
from tests.harness.processes import engine_away
from tests.harness.processes.ports import free_port
from tieline_core.kubernetes.kubeconfig import connection

_SIZE = re.compile(r"^apiserver_storage_size_bytes\{[^}]*\} ([0-9.e+]+)$", re.MULTILINE)


@dataclass(frozen=True)
class Process:
    """A process that serves: where, since how long it was starting, and what it takes."""

    process: Subprocess
    url: str
    started: float
    """Seconds until it was ready."""
    metrics: str = ""

    def processor_time(self) -> float:
        """Seconds of processor time so far."""
        return processor_time(self.process.pid)

    def resident(self) -> float:
        """MiB of memory."""
        return resident(self.process.pid)

    async def page(self) -> str:
        """Its metrics."""
        async with aiohttp.ClientSession() as client, client.get(self.metrics) as response:
            return await response.text()

    async def metric(self, name: str, **labels: str) -> float:
        """The sum of a metric over all series that have these labels."""
        total = 0.0
        for line in (await self.page()).splitlines():
            if line.partition(" ")[0].partition("{")[0] == name and all(
                f'{key}="{value}"' in line for key, value in labels.items()
            ):
                total += float(line.rpartition(" ")[2])
        return total

    async def writes(self) -> int:
        """Writes that the operator has made, without events."""
        return writes_in(await self.page())

    async def quiet(self, seconds: float) -> None:
        """Returns once the operator has looked at nothing for so long."""
        seen, since = -1.0, time.monotonic()
        while time.monotonic() - since < seconds:
            await asyncio.sleep(0.25)
            now = await self.metric("tieline_operator_reconciles_total")
            if now != seen:
                seen, since = now, time.monotonic()


@asynccontextmanager
async def operator(namespace: str, **more: str) -> AsyncIterator[Process]:
    """The operator, for one organisation."""
    health, metrics = free_port(), free_port()
    environment = {
        "TIELINE_NAMESPACES": namespace,
        "TIELINE_LEADER_ELECT": "false",
        "TIELINE_RUNTIME_IMAGE": "runtime",
        "TIELINE_API_URL": "http://api",
        "TIELINE_ENGINE_URL": engine_away.URL,
        "TIELINE_HEALTH_PORT": str(health),
        "TIELINE_METRICS_PORT": str(metrics),
        "TIELINE_LOG_LEVEL": "WARNING",
        **more,
    }
    url = f"http://127.0.0.1:{health}"
    async with running("tieline_operator.main", ready=f"{url}/readyz", env=environment) as (process, started):
        yield Process(process, url, started, f"http://127.0.0.1:{metrics}/metrics")


@asynccontextmanager
async def api(folder: Path, namespace: str) -> AsyncIterator[Process]:
    """The API, for one organisation, with its traces in ``folder``."""
    port, metrics = free_port(), free_port()
    url = f"http://127.0.0.1:{port}"
    environment = {
        "TIELINE_NAMESPACES": namespace,
        "TIELINE_LISTEN_HOST": "127.0.0.1",
        "TIELINE_LISTEN_PORT": str(port),
        "TIELINE_INTERNAL_PORT": str(free_port()),
        "TIELINE_METRICS_PORT": str(metrics),
        "TIELINE_TRACES_FILE": str(folder / "traces.db"),
        **engine_away.VARIABLES,
        "TIELINE_RATE_LIMIT": "0",
        "TIELINE_LOG_LEVEL": "WARNING",
    }
    async with running("tieline_api.main", ready=f"{url}/readyz", env=environment) as (process, started):
        yield Process(process, url, started, f"http://127.0.0.1:{metrics}/metrics")


async def stored_bytes() -> float:
    """Bytes that etcd takes on disk, as the API server knows them."""
    server = await connection()
    headers = {"Authorization": await server.authorization() or ""}
    async with (
        aiohttp.ClientSession() as client,
        client.get(f"{server.url}/metrics", headers=headers, ssl=server.tls) as response,
    ):
        found = _SIZE.search(await response.text())
    return float(found.group(1)) if found else 0.0
