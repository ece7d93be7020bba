"""``python -m bench.tags [--before CHECKOUT]``: what tags cost a direct webhook, by processor time.

Each server is a process that answers a webhook and writes the records of its runs, as a pod does: without tags, with
three of them, and with the code of another checkout (from before there were tags). They are measured in turns, so that
what else the machine does befalls all.
"""

import argparse
import asyncio
import os
import statistics
import sys
from pathlib import Path

import aiohttp
import uvloop
from aiohttp import web

from bench.figures import load, table
from bench.processes import processor_time

_REQUESTS, _IN_FLIGHT, _ROUNDS = 2000, 16, 9
_PACKAGES = ("core", "runtime")
_HERE = Path(__file__).resolve().parents[1]


async def serve(port: int) -> None:
    """A pod's webhooks, whose records go nowhere."""
    from tieline import Context, Integration, Request
    from tieline.configuration.current import Configuration
    from tieline.configuration.snapshot import parse
    from tieline.context import Named, RunMetadata
    from tieline.events.history import HistoryWriter
    from tieline.server.applications import webhook_application
    from tieline.server.webhook_runs import Limits, Runner
    from tieline.telemetry.redaction import Redactor

    integration = Integration()

    @integration.webhook("plain")
    async def plain(ctx: Context, request: Request) -> str:
        await request.json()
        return "taken"

    @integration.webhook("tagged")
    async def tagged(ctx: Context, request: Request) -> str:
        order = await request.json()
        ctx.tag("order", order["reference"])
        ctx.tag("customer", "C-17")
        ctx.tag("lines", 3)
        return "taken"

    async def store(content: bytes) -> None:
        await asyncio.sleep(0)

    configuration = Configuration(redactor=Redactor(), needed=False)
    configuration.publish(parse({}))
    history = HistoryWriter(store, linger=1.0)
    async with aiohttp.ClientSession() as client:
        runner = Runner(
            limits=Limits(max_body=1024 * 1024, max_runs=100, run_timeout=30),
            configuration=configuration,
            client=client,
            run_metadata=RunMetadata(
                organisation_id="01ORGANISATION",
                project=Named(id="01PROJECT", name="bench"),
                environment=Named(id="01ENVIRONMENT", name="bench"),
                version="v1",
                public_url="",
            ),
            history=history,
        )
        application = webhook_application(integration.webhooks, runner, max_body=1024 * 1024)
        server = web.AppRunner(application, access_log=None)
        await server.setup()
        await web.TCPSite(server, "127.0.0.1", port).start()
        await history.run()


async def _started(port: int, checkout: Path | None) -> asyncio.subprocess.Process:
    folders = [str((checkout or _HERE) / name) for name in _PACKAGES]
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "bench.tags", "--serve", str(port),
        cwd=_HERE, env={**os.environ, "PYTHONPATH": os.pathsep.join([*folders, str(_HERE)])},
    )  # fmt: skip


async def _until_up(client: aiohttp.ClientSession, url: str) -> None:
    for _ in range(400):
        try:
            async with client.post(url, json={"reference": "N-1"}) as response:
                if response.status == 200:
                    return
        except aiohttp.ClientError:
            pass
        await asyncio.sleep(0.05)
    raise TimeoutError(f"{url} does not answer")


async def measure(before: Path | None) -> None:
    """Starts the servers, loads them in turns, and prints the medians."""
    here, there = await _started(18490, None), await _started(18491, before) if before else None
    rows: dict[str, tuple[asyncio.subprocess.Process, str]] = {}
    if there is not None:
        rows["before, without tags"] = (there, "http://127.0.0.1:18491/plain")
    rows["without tags"] = (here, "http://127.0.0.1:18490/plain")
    rows["with three tags"] = (here, "http://127.0.0.1:18490/tagged")
    costs: dict[str, list[float]] = {name: [] for name in rows}
    try:
        async with aiohttp.ClientSession() as client:
            for _, url in rows.values():
                await _until_up(client, url)
            for _ in range(_ROUNDS):
                for name, (process, url) in rows.items():
                    costs[name].append(await _cost(client, process.pid, url))
    finally:
        for process in filter(None, (here, there)):
            process.terminate()
            await process.wait()
    cells = [
        [name, f"{statistics.median(each) * 1e6:.1f}", f"{min(each) * 1e6:.1f}"]
        for name, each in costs.items()
    ]
    title = f"A direct webhook with its record (median and least of {_ROUNDS} rounds of {_REQUESTS:,})"
    print(table(title, ["runs", "processor µs a request", "least"], cells))


async def _cost(client: aiohttp.ClientSession, pid: int, url: str) -> float:
    async def call() -> None:
        async with client.post(url, json={"reference": "N-1101", "lines": [1, 2, 3]}) as response:
            assert response.status == 200
            await response.read()

    before = processor_time(pid)
    await load(call, requests=_REQUESTS, in_flight=_IN_FLIGHT)
    return (processor_time(pid) - before) / _REQUESTS


def main() -> None:
    """One of the servers, or the measurement."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--serve", type=int)
    parser.add_argument("--before", type=Path)
    arguments = parser.parse_args()
    uvloop.run(serve(arguments.serve) if arguments.serve else measure(arguments.before))


if __name__ == "__main__":
    main()
