"""``python -m bench.runtime``: webhook in, outbound call, answer; beside the same work in bare aiohttp.

One process on one core serves, another one is the external system, the receiver of traces, and the caller.
The floor and the runtime are measured in turns, so that what else the machine does befalls both. The runtime
makes a trace of each run and exports it, and logs a line; the floor does neither. The spans that arrive are counted:
those that were dropped would have cost nothing.
"""

import argparse
import asyncio
import json
import os
import statistics
import sys
import tempfile
from pathlib import Path

import aiohttp
import uvloop
from aiohttp import web

from bench.figures import Load, load, table
from bench.processes import processor_time, resident

_REQUESTS, _IN_FLIGHT, _ROUNDS = 3000, 32, 5
_KEY = "bench-key"

CODE = """
from tieline import Context, Integration, Request

integration = Integration()

@integration.webhook("orders")
async def orders(ctx: Context, request: Request) -> dict:
    order = await request.json()
    response = await ctx.fetch("shop", "/orders", method="POST", json=order)
    return {"created": (await response.json())["id"]}
"""


async def floor(port: int, shop: str) -> None:
    """What a person would write with aiohttp alone."""
    client = aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar())

    async def orders(request: web.Request) -> web.Response:
        order = await request.json()
        async with client.post(f"{shop}/orders", json=order, headers={"X-API-Key": _KEY}) as response:
            return web.json_response({"created": (await response.json())["id"]})

    application = web.Application()
    application.router.add_post("/orders", orders)
    await _serve(application, port)
    await asyncio.Event().wait()


async def _serve(application: web.Application, port: int) -> int:
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", port)
    await site.start()
    assert site._server is not None
    return int(site._server.sockets[0].getsockname()[1])  # type: ignore[attr-defined]


async def _shop(request: web.Request) -> web.Response:
    assert request.headers["X-API-Key"] == _KEY
    await request.read()
    return web.json_response({"id": "1"})


def _configuration(shop: str) -> dict[str, object]:
    scheme = {"id": "k", "type": "api-key", "apiKey": {"name": "X-API-Key", "in": "header"}}
    credential = {"id": "k", "type": "string", "authScheme": scheme, "data": {"value": _KEY}}
    return {
        "connections": {"shop": {"id": "1", "name": "Shop", "baseUrl": shop, "credentials": [credential]}},
        "templates": {"shop": {"id": "1", "dynamic": False, "linked": True}},
    }


class _Receiver:
    """Takes traces, and counts their spans."""

    def __init__(self) -> None:
        self.spans = 0

    async def take(self, request: web.Request) -> web.Response:
        self.spans += (await request.read()).count(b'"spanId"')
        return web.json_response({})

    async def all(self, expected: int) -> str:
        """Wait for those that are under way, and tell how many arrived."""
        for _ in range(100):
            if self.spans >= expected:
                break
            await asyncio.sleep(0.05)
        return f"{self.spans:,} of {expected:,} spans arrived"


async def _measured(client: aiohttp.ClientSession, url: str) -> Load:
    async def call() -> None:
        async with client.post(url, json={"reference": "A-1", "lines": [{"sku": "x", "n": 2}]}) as response:
            assert response.status == 200, await response.text()
            await response.read()

    return await load(call, requests=_REQUESTS, in_flight=_IN_FLIGHT)


async def _runs(client: aiohttp.ClientSession, metrics: str) -> int:
    """How many runs the runtime says that it has ended."""
    async with client.get(metrics) as response:
        lines = (await response.text()).splitlines()
    return sum(int(line.rpartition(" ")[2]) for line in lines if line.startswith("tieline_runs_total{"))


async def _until_up(client: aiohttp.ClientSession, url: str) -> None:
    for _ in range(200):
        try:
            async with client.get(url):
                return
        except aiohttp.ClientError:
            await asyncio.sleep(0.05)
    raise TimeoutError(f"{url} does not answer")


async def measure() -> None:
    """Start both servers, load them in turns, print the medians."""
    application = web.Application(client_max_size=16 * 1024 * 1024)
    application.router.add_post("/orders", _shop)
    receiver = _Receiver()
    application.router.add_post("/v1/traces", receiver.take)
    shop = f"http://127.0.0.1:{await _serve(application, 0)}"
    with tempfile.TemporaryDirectory() as folder:
        code = Path(folder)
        (code / "main.py").write_text(CODE)
        (code / "connections.json").write_text(json.dumps(_configuration(shop)))
        environment = {
            **os.environ,
            "TIELINE_CODE_DIR": folder,
            "TIELINE_CONNECTIONS_FILE": str(code / "connections.json"),
            "TIELINE_HOST": "127.0.0.1",
            "TIELINE_PORT": "18480",
            "TIELINE_HEALTH_PORT": "18481",
            "TIELINE_DRAIN_SECONDS": "0",
            "TIELINE_TERMINATION_LOG": str(code / "termination"),
            "OTEL_EXPORTER_OTLP_ENDPOINT": shop,
        }
        bare = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "bench.runtime", "--floor", "18482", "--shop", shop
        )
        runtime = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tieline.server", env=environment, stdout=asyncio.subprocess.DEVNULL
        )
        try:
            async with aiohttp.ClientSession() as client:
                urls = {
                    "bare aiohttp": "http://127.0.0.1:18482/orders",
                    "runtime": "http://127.0.0.1:18480/orders",
                }
                pids = {"bare aiohttp": bare.pid, "runtime": runtime.pid}
                costs: dict[str, list[float]] = {name: [] for name in urls}
                for url in urls.values():
                    await _until_up(client, url)
                idle = resident(runtime.pid)
                results: dict[str, list[Load]] = {name: [] for name in urls}
                for _ in range(_ROUNDS):
                    for name, url in urls.items():
                        before = processor_time(pids[name])
                        results[name].append(await _measured(client, url))
                        costs[name].append((processor_time(pids[name]) - before) / _REQUESTS)
                # A run has two: its own, and its request's.
                arrived = await receiver.all(2 * await _runs(client, "http://127.0.0.1:18481/metrics"))
        finally:
            for process in (bare, runtime):
                process.terminate()
                await process.wait()
    medians = {
        name: sorted(loads, key=lambda one: one.per_second)[_ROUNDS // 2] for name, loads in results.items()
    }
    cost = {name: statistics.median(each) for name, each in costs.items()}
    rows = [[name, *one.cells(), f"{cost[name] * 1e6:.0f}"] for name, one in medians.items()]
    title = f"Webhook in, outbound call, answer ({_IN_FLIGHT} in flight, median of {_ROUNDS})"
    print(table(title, ["what", "a second", "p50 ms", "p99 ms", "processor µs a request"], rows))
    share = cost["bare aiohttp"] / cost["runtime"]
    print(
        f"By processor time the runtime does {share:.0%} of bare aiohttp; {arrived}; idle it takes {idle:.0f} MiB."
    )


def main() -> None:
    """The floor's server, or the measurement."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--floor", type=int)
    parser.add_argument("--shop", default="")
    arguments = parser.parse_args()
    uvloop.run(floor(arguments.floor, arguments.shop) if arguments.floor else measure())


if __name__ == "__main__":
    main()
