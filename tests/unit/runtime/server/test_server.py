"""The server as the kubelet sees it: a process with ports, signals, an exit code and a last message."""

import asyncio
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from pytest_aiohttp import AiohttpServer

from tests.harness.clients.secret_leaks import leaks
from tests.harness.processes import engine_away
from tests.harness.processes.ports import free_ports
from tests.harness.session.waiting import PATIENCE, eventually_async
from tests.unit.runtime.external_systems import External, api_key, environment
from tieline.configuration.api_source import PATH as CONFIGURATION
from tieline.events.run_reports import PATH as RUNS
from tieline_protocol.exit_codes import BLOCKED
from tieline_protocol.run_records import RunRecord, decode

Files = dict[str, str]

HELLO = """
from tieline import Integration
integration = Integration()
"""


@dataclass
class Pod:
    """A running server process."""

    process: asyncio.subprocess.Process
    port: int
    health_port: int
    termination_log: Path

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def ready(self) -> int | None:
        """Status of /readyz; None when nothing listens."""
        try:
            url = f"http://127.0.0.1:{self.health_port}/readyz"
            async with aiohttp.ClientSession() as client, client.get(url) as response:
                return response.status
        except aiohttp.ClientConnectionError:
            return None

    async def until_ready(self) -> None:
        async with asyncio.timeout(PATIENCE):
            while await self.ready() != 200:
                assert self.process.returncode is None, await self.log()
                await asyncio.sleep(0.02)

    async def log(self) -> list[dict[str, Any]]:
        """All log entries, once the process has ended."""
        async with asyncio.timeout(PATIENCE):
            output, _ = await self.process.communicate()
        # Python itself writes where code blocks.
        return [json.loads(line) for line in output.decode().splitlines() if line.startswith("{")]


Start = Callable[..., Awaitable[Pod]]


@pytest.fixture
async def start(tmp_path: Path) -> AsyncIterator[Start]:
    pods: list[Pod] = []

    async def run(files: Files, **env: str) -> Pod:
        code = tmp_path / "code"
        for name, content in files.items():
            (code / name).parent.mkdir(parents=True, exist_ok=True)
            (code / name).write_text(content)
        code.mkdir(exist_ok=True)
        port, health_port = free_ports(2)
        clean = {name: value for name, value in os.environ.items() if not name.startswith("TIELINE_")}
        settings = {
            "TIELINE_CODE_DIR": str(code),
            "TIELINE_HOST": "127.0.0.1",
            "TIELINE_PORT": str(port),
            "TIELINE_HEALTH_PORT": str(health_port),
            "TIELINE_TERMINATION_LOG": str(tmp_path / "termination-log"),
            "TIELINE_DRAIN_SECONDS": "0.3",
        }
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "tieline.server",
            env=clean | settings | env,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        pods.append(Pod(process, port, health_port, tmp_path / "termination-log"))
        return pods[-1]

    yield run
    for pod in pods:
        if pod.process.returncode is None:
            pod.process.kill()
            await pod.process.wait()


async def test_code_with_its_own_modules_and_a_connections_file_serves(
    start: Start, external: External, tmp_path: Path
) -> None:
    connections = tmp_path / "connections.json"
    connections.write_text(json.dumps(environment(external.url, api_key("header", "key-in-file"))))
    main = HELLO + (
        "from shop.orders import to_order\n"
        "@integration.webhook('orders')\n"
        "async def orders(ctx, request):\n"
        "    ctx.log.info('Sending with key-in-file')\n"
        "    r = await ctx.fetch('shop', '/orders', method='POST', json=to_order(await request.json()))\n"
        "    return await r.json()\n"
    )
    files = {
        "main.py": main,
        "shop/__init__.py": "",
        "shop/orders.py": "def to_order(x):\n    return {'n': x}\n",
    }
    pod = await start(files, TIELINE_CONNECTIONS_FILE=str(connections))
    await pod.until_ready()
    async with aiohttp.ClientSession() as client, client.post(f"{pod.url}/orders", json=7) as response:
        assert await response.json() == {"id": "1"}
    assert external.last.headers["X-API-Key"] == "key-in-file"
    assert external.last.body == b'{"n": 7}'
    pod.process.terminate()
    log = await pod.log()
    assert pod.process.returncode == 0
    assert "Sending with ***" in [entry["message"] for entry in log]
    run = next(entry for entry in log if "httpRequest" in entry)
    assert run["fields"]["webhook"] == "orders"
    assert run["httpRequest"]["status"] == 200


async def test_on_sigterm_the_pod_serves_until_nobody_asks_any_more_and_finishes_what_runs(
    start: Start,
) -> None:
    main = HELLO + (
        "import asyncio\n"
        "@integration.webhook('slow')\n"
        "async def slow():\n    await asyncio.sleep(2.5)\n    return 'finished'\n"
        "@integration.webhook('quick')\n"
        "async def quick():\n    return 'quick'\n"
    )
    pod = await start({"main.py": main}, TIELINE_DRAIN_SECONDS="0.4")
    await pod.until_ready()
    async with aiohttp.ClientSession() as client:

        async def call(name: str) -> tuple[str, str | None]:
            async with client.post(f"{pod.url}/{name}") as response:
                return await response.text(), response.headers.get("Connection")

        slow = asyncio.create_task(call("slow"))
        await asyncio.sleep(0.1)
        pod.process.send_signal(signal.SIGTERM)
        for _ in range(8):
            await asyncio.sleep(0.1)
            assert await call("quick") == ("quick", "close")
            assert (await call("nothing"))[1] == "close"
            # Kubernetes sends requests here while there is no other pod, as long as this one says that it serves.
            assert await pod.ready() == 200

        async def takes_no_more() -> bool:
            return await pod.ready() == 503

        await eventually_async("not ready", takes_no_more)
        with pytest.raises(aiohttp.ClientConnectionError):
            await call("quick")
        assert (await slow)[0] == "finished"
    await pod.log()
    assert pod.process.returncode == 0


async def test_a_pod_that_must_stop_does_so_even_if_requests_keep_coming(start: Start) -> None:
    main = HELLO + "@integration.webhook('quick')\nasync def quick():\n    return 'quick'\n"
    pod = await start({"main.py": main}, TIELINE_DRAIN_LONGEST_SECONDS="1")
    await pod.until_ready()
    pod.process.send_signal(signal.SIGTERM)
    answered = 0
    async with aiohttp.ClientSession() as client, asyncio.timeout(PATIENCE):
        while True:
            try:
                async with client.post(f"{pod.url}/quick") as response:
                    answered += response.status == 200
            except aiohttp.ClientConnectionError:
                break
            await asyncio.sleep(0.05)
    assert answered >= 5
    await pod.log()
    assert pod.process.returncode == 0


async def test_schedules_run_and_on_sigterm_runs_and_background_work_come_to_their_end(start: Start) -> None:
    main = HELLO + (
        "import asyncio\n"
        "@integration.schedule('tick', '* * * * * *')\n"
        "async def tick(ctx, run):\n"
        "    ctx.background(later, ctx)\n"
        "    await asyncio.sleep(0.6)\n"
        "    ctx.log.info('Ticked', due=run.due.isoformat())\n"
        "async def later(ctx):\n"
        "    await asyncio.sleep(1.2)\n"
        "    ctx.log.info('Done later')\n"
    )
    pod = await start({"main.py": main})
    await pod.until_ready()
    url = f"http://127.0.0.1:{pod.health_port}/metrics"
    async with aiohttp.ClientSession() as client:

        async def twice() -> bool:
            async with client.get(url) as response:
                return 'kind="schedule",task="tick",outcome="succeeded"} 2' in await response.text()

        await eventually_async("two runs", twice)
    pod.process.terminate()
    log = await pod.log()
    assert pod.process.returncode == 0
    dues = [entry["fields"]["due"] for entry in log if entry["message"] == "Ticked"]
    assert len(dues) >= 2
    assert len(set(dues)) == len(dues)
    assert len([entry for entry in log if entry["message"] == "Done later"]) == len(dues)
    assert all("executionId" in entry for entry in log if entry["message"] in ("Ticked", "Done later"))
    assert not any("stopped:" in entry["message"] for entry in log)


async def test_a_pod_is_not_ready_before_the_first_configuration(start: Start) -> None:
    engine = {"TIELINE_ENGINE_URL": engine_away.URL}
    pod = await start({"main.py": HELLO}, TIELINE_API_URL="http://127.0.0.1:9", **engine)
    assert await eventually_async("an answer", pod.ready) == 503


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, "no main.py"),
        ({"main.py": "import tieline\n"}, "no Integration"),
        ({"main.py": "x = (\n"}, "main.py:1: SyntaxError"),
        (
            {"main.py": "import nothing_here\n"},
            "main.py:1: ModuleNotFoundError: No module named 'nothing_here'",
        ),
        ({"main.py": "\nraise RuntimeError('boom')\n"}, "main.py:2: RuntimeError: boom"),
        (
            {"main.py": "import shop.orders\n", "shop/__init__.py": "", "shop/orders.py": "1 / 0\n"},
            "shop/orders.py:1: ZeroDivisionError",
        ),
        ({"main.py": "raise SystemExit(0)\n"}, "must not exit"),
        ({"main.py": HELLO, "requirements.txt": "requests\n"}, "tieline lock"),
        (
            {"main.py": HELLO, "requirements.txt": f"requests==2.32.0 --hash=sha256:{'0' * 64}\n"},
            "The packages of requirements.txt are not installed",
        ),
        (
            {
                "main.py": HELLO + "more = Integration()\n"
                "for number in range(26):\n"
                "    for one in (integration, more):\n"
                "        one.schedule(f'{number}-{one is more}', '0 * * * *')(lambda: None)\n"
            },
            "52 schedules",
        ),
    ],
)
async def test_code_that_does_not_load_ends_the_process_with_a_message_that_says_why(
    start: Start, files: Files, expected: str
) -> None:
    pod = await start(files)
    log = await pod.log()
    assert pod.process.returncode == 1
    assert expected in pod.termination_log.read_text()
    assert expected in log[-1]["message"]
    assert log[-1]["severity"] == "CRITICAL"


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("TIELINE_MAX_CONCURRENT_RUNS", "many", "many"),
        ("TIELINE_LOG_LEVEL", "LOUD", "LOUD"),
        ("TIELINE_CONNECTIONS_FILE", "/no", "/no"),
        ("TIELINE_API_URL", "http://127.0.0.1:9", "TIELINE_ENGINE_URL is not set"),
    ],
)
async def test_settings_that_cannot_be_used_end_the_process(
    start: Start, name: str, value: str, expected: str
) -> None:
    pod = await start({"main.py": HELLO}, **{name: value})
    await pod.process.wait()
    assert pod.process.returncode == 1
    assert expected in pod.termination_log.read_text()


SHOWS = """
import base64, json, os, sys
print("printed", os.environ["DB_PASSWORD"], base64.b64encode(os.environ["DB_PASSWORD"].encode()).decode())
print(json.dumps(dict(os.environ)), file=sys.stderr)
print(os.environ["KEY"])
raise RuntimeError("cannot sign in with " + os.environ["DB_PASSWORD"])
"""


async def test_no_line_and_no_last_message_has_a_secret_variable(start: Start) -> None:
    secrets = {
        "DB_PASSWORD": "c0rrect-h0rse/b@ttery",
        "KEY": "-----BEGIN KEY-----\nMIIEvgIBADANBg\n-----END KEY-----",
    }
    pod = await start({"main.py": SHOWS}, TIELINE_SECRET_ENV="DB_PASSWORD,KEY", **secrets)
    log = json.dumps(await pod.log())
    assert pod.process.returncode == 1
    assert "printed ***" in log
    last = pod.termination_log.read_text()
    assert "cannot sign in with ***" in last
    known = {**secrets, "line": "MIIEvgIBADANBg"}
    assert not leaks(known, {"log": log, "last message": last})


BLOCKING = (
    HELLO
    + """
import re, time

def spin():
    while True:
        pass

@integration.webhook("spin")
async def blocked(request):
    spin()

@integration.webhook("nap")
async def nap(request):
    time.sleep(0.5)
    return "awake"

@integration.webhook("match")
async def match(request):
    return str(re.match(r"(a+)+$", "a" * 24 + "b"))
"""
)


async def test_code_that_blocks_the_loop_ends_the_process_with_its_line(
    start: Start, aiohttp_server: AiohttpServer, external: External, tmp_path: Path
) -> None:
    reported: list[RunRecord] = []

    async def configuration(request: web.Request) -> web.Response:
        if "If-None-Match" in request.headers:
            await asyncio.Event().wait()
        return web.json_response(environment(external.url), headers={"ETag": '"1"'})

    async def runs(request: web.Request) -> web.Response:
        reported.extend(decode(await request.read()))
        return web.Response(status=204)

    api = web.Application()
    api.add_routes([web.get(CONFIGURATION, configuration), web.post(RUNS, runs)])
    (tmp_path / "token").write_text("token")
    pod = await start(
        {"main.py": BLOCKING},
        TIELINE_BLOCKED_SECONDS="0.3",
        TIELINE_API_URL=str((await aiohttp_server(api)).make_url("")).rstrip("/"),
        TIELINE_TOKEN_FILE=str(tmp_path / "token"),
        TIELINE_ENGINE_URL=engine_away.URL,
    )
    await pod.until_ready()
    async with aiohttp.ClientSession() as client:
        with pytest.raises(aiohttp.ClientError):
            await client.post(f"{pod.url}/spin")
    log = await pod.log()
    assert pod.process.returncode == BLOCKED
    says = "Webhook spin blocked the event loop for 0.3 seconds at main.py:"
    last = pod.termination_log.read_text()
    assert last.startswith(says)
    assert " in spin, so that nothing else could run" in last
    assert log[-1]["severity"] == "CRITICAL"
    (record,) = reported
    assert (record.kind, record.task, record.status, record.attempt) == ("webhook", "spin", "failed", 1)
    assert record.error
    assert (record.error.type.rpartition(".")[2], record.error.message) == ("BlockedError", last)
    assert record.id == log[-1]["executionId"]


async def test_on_ones_own_machine_blocked_code_is_only_reported(start: Start) -> None:
    pod = await start({"main.py": BLOCKING}, TIELINE_BLOCKED_SECONDS="0.1", TIELINE_BLOCKED_ACTION="warn")
    await pod.until_ready()
    async with aiohttp.ClientSession() as client, client.post(f"{pod.url}/nap") as response:
        assert await response.text() == "awake"
    pod.process.terminate()
    (warning,) = [one for one in await pod.log() if "blocked the event loop" in one["message"]]
    assert (warning["severity"], " in nap, " in warning["message"]) == ("WARNING", True)
    assert pod.process.returncode == 0


async def test_code_that_keeps_the_interpreter_to_itself_leaves_its_line_in_the_log(start: Start) -> None:
    pod = await start({"main.py": BLOCKING}, TIELINE_BLOCKED_SECONDS="0.1")
    await pod.until_ready()
    async with aiohttp.ClientSession() as client:
        with contextlib.suppress(aiohttp.ClientError):
            await client.post(f"{pod.url}/match")
    pod.process.terminate()
    async with asyncio.timeout(PATIENCE):
        output, _ = await pod.process.communicate()
    assert re.search(rb'File ".*main.py", line \d+ in match', output)


def test_a_pod_loads_no_cryptography_before_a_connection_needs_it() -> None:
    late = {"cryptography", "jwt", "oauthlib", "jsonschema_rs"}
    code = f"import sys, tieline.server.__main__; print({late!r} & set(sys.modules))"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert result.stdout.strip() == "set()"
