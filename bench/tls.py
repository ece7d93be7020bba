"""``python -m bench.tls``: what TLS costs pods: requests to the API's listener, and events into the engine.

Plain text and TLS take turns against the same processes. Server and client share the machine.
"""

import argparse
import asyncio
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import aiohttp
import uvloop
from aiohttp import web

from bench.figures import Load, load, load_average, table
from tests.harness.identity.served_certificates import CertificateFolder
from tests.harness.processes.nats_server import NatsServer, running_nats_server
from tieline.configuration.pod_api import PodApi
from tieline_api.server.http_server import Runner
from tieline_api.server.tls import ServedCertificate
from tieline_common.authorities import AuthoritiesFile, Trust
from tieline_core.engine.streams import StreamLimits
from tieline_core.identity.ids import new_id
from tieline_core.tls import TlsMode
from tieline_protocol.event_streams import EventStreams

_REQUESTS, _CONNECTIONS, _EVENTS, _IN_FLIGHT, _ROUNDS = 4000, 400, 4000, 16, 3
_LIMITS = aiohttp.ClientTimeout(total=30)
_BODY = b"x" * 2048


async def serve(folder: Path) -> None:
    """Serves what a configuration takes, in plain text and by TLS; prints both ports, and ends with its input."""

    async def answer(_request: web.Request) -> web.Response:
        return web.Response(body=_BODY)

    app = web.Application()
    app.router.add_get("/", answer)
    runner = Runner(app, shutdown_timeout=1.0)
    await runner.setup()
    for context in (None, ServedCertificate(folder).context):
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    print(*(address[1] for address in runner.addresses), flush=True)
    await asyncio.to_thread(sys.stdin.read)
    await runner.cleanup()


@contextmanager
def _served(folder: Path) -> Iterator[dict[str, tuple[str, Trust | None]]]:
    """The URLs of a server in another process, and how it is verified, in plain text and by TLS."""
    command = (sys.executable, "-m", "bench.tls", "--serve", str(folder))
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        plain, tls = process.stdout.readline().split()
        trust = AuthoritiesFile(folder / "ca.crt").context
        yield {
            "plain": (f"http://localhost:{plain}", None),
            "TLS": (f"https://localhost:{tls}", trust),
        }
        process.communicate()


async def _requests(url: str, trust: Trust | None, token: Path, *, keep_alive: bool) -> Load:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=not keep_alive)) as client:
        pod = PodApi(client, url, token, trust)
        count = _REQUESTS if keep_alive else _CONNECTIONS
        return await load(
            lambda: pod.request("GET", "/", limits=_LIMITS), requests=count, in_flight=_IN_FLIGHT
        )


async def _events(server: NatsServer, streams: EventStreams) -> Load:
    client = await server.pod(streams)
    jetstream = client.jetstream()
    try:
        return await load(
            lambda: jetstream.publish(streams.event("orders", new_id()), _BODY),
            requests=_EVENTS,
            in_flight=_IN_FLIGHT,
        )
    finally:
        await client.close()


async def _alternately(ways: dict[str, Callable[[], Awaitable[Load]]]) -> dict[str, Load]:
    """The best of some rounds of each way."""
    found: dict[str, Load] = {}
    for _ in range(_ROUNDS):
        for name, measure in ways.items():
            one = await measure()
            found[name] = max(found.get(name, one), one, key=lambda load: load.per_second)
    return found


async def measure(folder: Path) -> str:
    """The table."""
    certificates = CertificateFolder(folder)
    certificates.trust()
    certificates.issue()
    rows: list[list[str]] = []

    def add(what: str, found: dict[str, Load]) -> None:
        rows.extend([what, name, *one.cells()] for name, one in found.items())

    (token := folder / "token").write_text("x" * 1000)
    with _served(folder) as apis:
        for what, keep_alive in (
            ("requests, kept connections", True),
            ("requests, each on a new one", False),
        ):
            ways = {
                name: partial(_requests, *api, token, keep_alive=keep_alive) for name, api in apis.items()
            }
            add(what, await _alternately(ways))
    limits = StreamLimits(queue_bytes=1 << 28, runs_bytes=1 << 24)
    servers: dict[str, NatsServer] = {}
    (plain := folder / "plain").mkdir()
    with (
        running_nats_server(plain) as servers["plain"],
        running_nats_server(folder, tls=TlsMode.REQUIRED) as servers["TLS"],
    ):
        streams = EventStreams(new_id(), new_id())
        for server in servers.values():
            await server.make_environment(streams, limits)
        add(
            "events, stored",
            await _alternately({name: partial(_events, server, streams) for name, server in servers.items()}),
        )
    return table(
        f"TLS inside, 2 KiB each, {_IN_FLIGHT} at once, best of {_ROUNDS} (load {load_average()})",
        ["what", "by", "a second", "p50 ms", "p99 ms"],
        rows,
    )


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(prog="bench.tls")
    parser.add_argument("--serve", type=Path)
    if (folder := parser.parse_args().serve) is not None:
        uvloop.run(serve(folder))
        return
    with tempfile.TemporaryDirectory() as name:
        print(uvloop.run(measure(Path(name))))


if __name__ == "__main__":
    main()
