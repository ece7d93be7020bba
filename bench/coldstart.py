"""``python -m bench.coldstart``: from the start of a pod's process to its first answer, and what it takes idle.

The configuration comes from an API that is played here and answers at once, as in a pod; the code makes a
request through a connection, so that all of what that needs is loaded too. Processor time is what a start costs
whatever else the machine does.
"""

import asyncio
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web

from bench.figures import table
from bench.processes import pod_variables, processor_time, resident, running
from tests.harness.processes.ports import free_port

_ROUNDS = 9
_KEY = "bench-key"

CODE = """
from tests.harness.processes.ports import free_port
from tieline import Context, Integration, Request

integration = Integration()

@integration.webhook("hello", methods=["GET"])
async def hello(ctx: Context) -> str:
    return "hello"

@integration.webhook("orders", methods=["GET"])
async def orders(ctx: Context) -> str:
    return await (await ctx.fetch("shop", "/orders")).text()
"""


def _configuration(shop: str) -> dict[str, Any]:
    scheme = {"id": "k", "type": "api-key", "apiKey": {"name": "X-API-Key", "in": "header"}}
    credential = {"id": "k", "type": "string", "authScheme": scheme, "data": {"value": _KEY}}
    return {
        "connections": {"shop": {"id": "1", "name": "Shop", "baseUrl": shop, "credentials": [credential]}},
        "templates": {"shop": {"id": "1", "dynamic": False, "linked": True}},
        "variables": {},
    }


async def _played() -> tuple[web.AppRunner, str]:
    """The API, the receiver of traces and the external system."""
    app = web.Application()
    port = free_port()
    url = f"http://127.0.0.1:{port}"

    async def environment(request: web.Request) -> web.Response:
        if "If-None-Match" in request.headers:
            await asyncio.sleep(float(request.query.get("wait", "0")))
            return web.Response(status=304)
        return web.json_response(_configuration(url), headers={"ETag": '"1"'})

    async def anything(request: web.Request) -> web.Response:
        await request.read()
        return web.json_response({})

    app.router.add_get("/internal/v1/environment", environment)
    app.router.add_route("*", "/{path:.*}", anything)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    return runner, url


async def _once(folder: Path, api: str) -> dict[str, float]:
    port, health = free_port(), free_port()
    env = pod_variables(folder, api=api, port=port, health=health)
    ready_url = f"http://127.0.0.1:{health}/readyz"
    async with (
        running("tieline.server", ready=ready_url, env=env) as (pod, ready),
        aiohttp.ClientSession() as client,
    ):
        spent = processor_time(pod.pid)

        async def timed(name: str) -> float:
            began = time.perf_counter()
            async with client.get(f"http://127.0.0.1:{port}/{name}") as response:
                assert response.status == 200, await response.text()
            return time.perf_counter() - began

        answer = await timed("hello")
        await asyncio.sleep(0.2)
        idle = resident(pod.pid)
        outbound = await timed("orders")
        return {
            "answer": ready + answer,
            "ready": ready,
            "spent": spent,
            "outbound": outbound,
            "idle": idle,
            "after": resident(pod.pid),
        }


async def main() -> None:
    """Start, ask, stop; again and again."""
    api, url = await _played()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "main.py").write_text(CODE)
        (folder / "token").write_text("token")
        rounds = [await _once(folder, url) for _ in range(_ROUNDS)]
    await api.cleanup()
    rows = []
    for title, key, unit in (
        ("ready", "ready", "s"),
        ("first answer", "answer", "s"),
        ("processor time until ready", "spent", "s"),
        ("first run with a request through a connection", "outbound", "s"),
        ("memory, idle", "idle", "MiB"),
        ("memory after that run", "after", "MiB"),
    ):
        values = [one[key] for one in rounds]
        digits = 2 if unit == "s" else 0
        rows.append([title, *(f"{pick(values):.{digits}f} {unit}" for pick in (min, statistics.median, max))])
    print(table(f"Start of a pod's process ({_ROUNDS} times)", ["what", "least", "median", "most"], rows))


if __name__ == "__main__":
    asyncio.run(main())
