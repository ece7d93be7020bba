"""``tieline run`` serves a folder as a pod would, and takes changes as a deploy would."""

import asyncio
import json
import socket
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from tests.unit.cli.commands import MAIN, Running, project, tieline
from tieline.cli.log_format import readable

CONNECTIONS = """\
variables: {region: "${REGION}"}
users:
  ann: {variables: {region: north}}
"""


async def answer(url: str, path: str = "/where") -> tuple[int, object]:
    timeout = aiohttp.ClientTimeout(total=20)
    async with aiohttp.ClientSession(timeout=timeout) as client, client.get(f"{url}{path}") as response:
        return response.status, json.loads(await response.read())


async def test_it_serves_the_static_activation_and_users_from_the_file(tmp_path: Path) -> None:
    project(tmp_path, {"connections.yaml": CONNECTIONS})
    async with Running(tmp_path, env={"REGION": "south"}) as running:
        url = await running.url()
        assert await answer(url) == (200, {"answer": 1, "region": "south"})
        assert await answer(url, "/where/users/ann") == (200, {"answer": 1, "region": "north"})
        assert (await answer(url, "/where/users/ben"))[0] == 404
        (tmp_path / "connections.yaml").write_text("variables: {region: west}\n")
        await running.said("Read the changed connections file")
        assert await answer(url) == (200, {"answer": 1, "region": "west"})
    assert running.code == 0


async def test_connections_that_come_later_are_seen(tmp_path: Path) -> None:
    async with Running(project(tmp_path / "integration")) as running:
        url = await running.url()
        assert await answer(url) == (200, {"answer": 1, "region": None})
        (tmp_path / "connections.json").write_text('{"variables": {"region": "east"}}')
        await running.said("(version 2)")
        assert await answer(url) == (200, {"answer": 1, "region": "east"})


async def test_changed_code_is_deployed_without_losing_a_request_and_broken_code_is_not(
    tmp_path: Path,
) -> None:
    project(tmp_path)
    async with Running(tmp_path) as running:
        url = await running.url()
        seen: list[object] = []
        stop = asyncio.Event()

        async def load() -> None:
            while not stop.is_set():
                seen.append(await answer(url))
                await asyncio.sleep(0.005)

        loading = asyncio.create_task(load())
        (tmp_path / "main.py").write_text(MAIN.replace('"answer": 1', '"answer": 2 +'))
        await running.said("main.py:8: error: Python cannot read this")
        await running.said("goes on serving")
        (tmp_path / "main.py").write_text(MAIN.replace('"answer": 1', '"answer": 2'))
        await running.said("(version 2)")
        assert await answer(url) == (200, {"answer": 2, "region": None})
        stop.set()
        await loading
        assert {json.dumps(item) for item in seen} <= {
            json.dumps((200, {"answer": n, "region": None})) for n in (1, 2)
        }


@pytest.mark.parametrize(
    ("files", "told"),
    [
        ({"main.py": "import nothing_here\n"}, 'main.py:1: error: there is no module "nothing_here"'),
        (
            {"connections.yaml": "variables:\n  a: ${NOT_SET_ANYWHERE}\n"},
            "connections.yaml:2: the environment variable NOT_SET_ANYWHERE is not set",
        ),
    ],
)
async def test_what_cannot_be_served_ends_the_command(
    tmp_path: Path, files: dict[str, str], told: str
) -> None:
    async with Running(project(tmp_path, files)) as running:
        await running.said(told)
        await running.said("The project cannot be served")
        await asyncio.wait_for(running._process.wait(), 10)
    assert running.code == 1


def test_a_port_that_is_taken_is_reported(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = tieline("run", str(project(tmp_path)), "--port", str(port))
    assert (ended.returncode, f"Port {port} cannot be listened on" in ended.stderr) == (1, True)


async def test_a_server_that_crashes_is_started_again(tmp_path: Path) -> None:
    crash = "    import os; os.path.exists('crash') and (os.remove('crash'), os._exit(3))\n    return {"
    project(tmp_path, {"main.py": MAIN.replace("    return {", crash), "../crash": ""})
    async with Running(tmp_path, cwd=tmp_path.parent) as running:
        url = await running.url()
        assert (await answer(url))[0] == 200
        assert "The server ended with 3; starting it again" in running.lines


QUEUED = """\
import json, os
from pathlib import Path
from tieline import Context, Integration, Request, Retry

integration = Integration()
VERSION = 1


@integration.webhook("orders", delivery="queued", retry=Retry(first=1))
async def orders(ctx: Context, request: Request) -> None:
    if Path(__file__).with_name("crash").exists():
        Path(__file__).with_name("crash").unlink()
        os._exit(3)
    if VERSION == 1:
        raise RuntimeError("the first version cannot")
    ctx.log.info("Booked", order=await request.json())


@integration.event("order.booked", key="customer")
async def booked(ctx: Context) -> None: ...
"""


async def send(url: str, order: int) -> None:
    async with aiohttp.ClientSession() as client, client.post(f"{url}/orders", json=order) as response:
        assert response.status == 202


async def test_a_queued_request_outlives_a_crash_and_a_reload(tmp_path: Path) -> None:
    project(tmp_path, {"main.py": QUEUED, "crash": ""})
    async with Running(tmp_path) as running:
        url = await running.url()
        assert "  (queued, 15 attempts)" in await running.said("/orders")
        await running.said("event    order.booked, in order by customer, 15 attempts")
        await send(url, 7)
        await running.said("The server ended with 3")
        await running.said("the first version cannot")
        (tmp_path / "main.py").write_text(QUEUED.replace("VERSION = 1", "VERSION = 2"))
        await running.said("(version 2)")
        assert json.loads(await running.said('"Booked"'))["fields"] == {"order": 7}
        await send(url, 8)
        assert json.loads(await running.said('"Booked"', times=2))["fields"] == {"order": 8}


async def test_a_queued_request_outlives_the_command(tmp_path: Path) -> None:
    project(tmp_path, {"main.py": QUEUED})
    async with Running(tmp_path) as running:
        await send(await running.url(), 7)
        await running.said("the first version cannot")
    (tmp_path / "main.py").write_text(QUEUED.replace("VERSION = 1", "VERSION = 2"))
    async with Running(tmp_path) as running:
        await running.said("Events that are left from before, and are run now or at their time: 1")
        assert json.loads(await running.said('"Booked"'))["fields"] == {"order": 7}


def test_lines_are_readable_on_a_terminal() -> None:
    line = {
        "timestamp": "2026-01-01T10:00:00.123Z",
        "severity": "ERROR",
        "message": "Webhook orders failed",
        "executionId": "01ABCDEFXYZ",
        "error": "Traceback …\nValueError: no",
    }
    shown = readable(json.dumps(line), colour=False)
    assert shown == "10:00:00.123 ERROR   Webhook orders failed  [DEFXYZ]\n  Traceback …\n  ValueError: no"
    assert "\033[31m" in readable(json.dumps(line), colour=True)
    run = {
        "severity": "INFO",
        "message": "Ran webhook orders",
        "httpRequest": {"requestMethod": "POST", "requestUrl": "/orders", "status": 201, "latency": "0.012s"},
    }
    assert readable(json.dumps(run), colour=False).endswith("Ran webhook orders  POST /orders 201 in 12 ms")
    assert readable("no JSON", colour=True) == "no JSON"


async def test_limits_in_the_connections_file_hold_across_reloads_of_the_file(tmp_path: Path) -> None:
    arrived: list[str] = []

    async def order(request: web.Request) -> web.Response:
        arrived.append(request.path)
        return web.Response()

    shop = web.Application()
    shop.router.add_get("/orders", order)
    asks = 'return {"answer": (await ctx.fetch("shop", "/orders")).status, '
    async with TestServer(shop) as server:
        place = str(server.make_url("")).rstrip("/")
        limited = "connections:\n  shop: {baseUrl: %s, limits: {requests: %d, per: 24h}}\n"
        project(
            tmp_path,
            {
                "main.py": MAIN.replace('return {"answer": 1, ', asks),
                "connections.yaml": limited % (place, 2),
            },
        )
        async with Running(tmp_path, env={"TIELINE_RUN_TIMEOUT_SECONDS": "4"}) as running:
            url = await running.url()
            answers = [await answer(url) for _ in range(3)]
            assert [status for status, _ in answers] == [200, 200, 503]
            assert "connection template 'shop' (2 requests in 24h)" in str(answers[-1][1])
            assert len(arrived) == 2
            (tmp_path / "connections.yaml").write_text(limited % (place, 3))
            await running.said("Read the changed connections file")
            assert [(await answer(url))[0] for _ in range(2)] == [200, 503]
            assert len(arrived) == 3


async def test_limits_that_mean_nothing_are_told_with_their_place(tmp_path: Path) -> None:
    wrong = "connections:\n  shop: {baseUrl: https://shop.example, limits: {requests: 5}}\n"
    async with Running(project(tmp_path, {"connections.yaml": wrong})) as running:
        await running.said("requests and per need each other")
        await asyncio.wait_for(running._process.wait(), 10)
    assert running.code == 1
