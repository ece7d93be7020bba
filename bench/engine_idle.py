"""``python -m bench.engine_idle``: what environments in which nothing happens cost the event engine.

A server with the settings of the deployment and the account of each environment, which is all that code without events
needs; an organisation for ten of them, with its run history, and then its state and records of schedules; then the
streams and consumers of each environment, and for each a pod's connection with its requests for events, made by the
runtime's own classes. With ``--values`` it ends with the state of organisations: so many values of 1 KiB for each.
"""

import argparse
import asyncio
import json
import logging
import os
import sys
import tempfile
import time
import urllib.request
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import uvloop

from bench.figures import load_average, table
from bench.processes import processor_time, resident
from tests.harness.processes.nats_server import NatsServer, running_nats_server
from tieline.events.engine.connection import EngineConnection
from tieline.events.engine.queue import EngineQueue
from tieline.events.queue import Delivery
from tieline_core.engine.state_streams import StatePlace, ensure_state
from tieline_core.engine.streams import StreamLimits, ensure_history
from tieline_core.identity.ids import new_id
from tieline_protocol.event_streams import EventStreams

# Bounds reserve room on the volume; little is stored here.
_LIMITS = StreamLimits(queue_bytes=1 << 20, runs_bytes=1 << 20, history_bytes=1 << 20, state_bytes=64 << 20)
_IN_AN_ORGANISATION = 10
_AT_ONCE = 16
_CAPACITY = 100
_DEPLOYED = {"GOMEMLIMIT": "870MiB", "GOGC": "50"}
"""Variables of the server as deployed. The first rows have none of them, unless the caller sets some."""
_RESTART_SECONDS = 300.0
_HEADINGS = ("", "memory MiB", "processor", "messages received a second", "sent a second", "open files")


@dataclass
class _Sample:
    at: float
    processor: float
    received: int
    sent: int

    @classmethod
    def of(cls, server: NatsServer) -> "_Sample":
        state = _monitored(server, "varz")
        return cls(time.monotonic(), processor_time(server.pid), state["in_msgs"], state["out_msgs"])


def _monitored(server: NatsServer, what: str) -> dict[str, Any]:
    with urllib.request.urlopen(f"http://127.0.0.1:{server.monitoring_port}/{what}", timeout=30) as answer:
        found: dict[str, Any] = json.load(answer)
        return found


async def _row(server: NatsServer, what: str, seconds: float) -> list[str]:
    before = _Sample.of(server)
    await asyncio.sleep(seconds)
    after = _Sample.of(server)
    elapsed = after.at - before.at
    print(f"{what}: {resident(server.pid):.0f} MiB", file=sys.stderr)
    descriptors = len(os.listdir(f"/proc/{server.pid}/fd"))
    return [
        what,
        f"{resident(server.pid):.0f}",
        f"{(after.processor - before.processor) / elapsed * 100:.1f} %",
        f"{(after.received - before.received) / elapsed:.1f}",
        f"{(after.sent - before.sent) / elapsed:.1f}",
        f"{descriptors:,}",
    ]


async def _nothing(_delivery: Delivery) -> None:
    raise AssertionError("There are no events")


def _pod(server: NatsServer, streams: EventStreams, folder: Path) -> list[asyncio.Task[None]]:
    now = datetime.now(UTC)
    file = folder / f"{streams.environment}.creds"
    file.write_text(server.trust.pod_credentials(streams, at=now, expires=now + timedelta(hours=9)))
    connection = EngineConnection(urls=[server.url], credentials_file=file, streams=streams)
    queue = EngineQueue(connection)
    return [
        asyncio.ensure_future(connection.run()),
        asyncio.ensure_future(queue.run(_nothing, capacity=_CAPACITY, cancel=lambda _run: None)),
    ]


def _environments(number: int) -> list[EventStreams]:
    organisations = [new_id() for _ in range(-(-number // _IN_AN_ORGANISATION))]
    return [EventStreams(organisations[one // _IN_AN_ORGANISATION], new_id()) for one in range(number)]


async def _with_accounts(server: NatsServer, found: list[EventStreams]) -> None:
    for streams in found:
        await server.make_account(streams, _LIMITS)
    admin = await server.admin()
    for organisation in sorted({streams.organisation for streams in found}):
        await ensure_history(admin.jetstream(timeout=30), organisation, _LIMITS)
    await admin.close()


async def _with_state(server: NatsServer, found: list[EventStreams]) -> None:
    admin = await server.admin()
    for organisation in sorted({streams.organisation for streams in found}):
        await ensure_state(admin.jetstream(timeout=30), organisation, _LIMITS)
    await admin.close()


async def _with_values(server: NatsServer, found: list[EventStreams], values: int) -> None:
    """So many values of 1 KiB for each organisation, of activations with a hundred each."""
    admin = await server.admin()
    turns = asyncio.Semaphore(256)
    jetstream = admin.jetstream(timeout=60)

    async def store(organisation: str, number: int) -> None:
        place = StatePlace.of_activation(
            organisation, f"environment{number // 100}", f"activation{number // 100}"
        )
        async with turns:
            await jetstream.publish(place.subject(f"orders/{number}"), os.urandom(512).hex().encode())

    for organisation in sorted({streams.organisation for streams in found}):
        await asyncio.gather(*(store(organisation, number) for number in range(values)))
    await admin.close()


async def _measure_values(environments: int, values: int, seconds: float) -> str:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name, running_nats_server(Path(name)) as server:
        rows = [await _row(server, "empty", 5)]
        found = _environments(environments)
        await _with_accounts(server, found)
        rows.append(await _row(server, "accounts, and the run histories", seconds))
        await _with_state(server, found)
        rows.append(await _row(server, "and state and records of schedules, empty", seconds))
        await _with_values(server, found, values)
        rows.append(await _row(server, f"and {values:,} values for each organisation", seconds))
        server.stop(within=_RESTART_SECONDS)
        os.environ.update(_DEPLOYED)
        server.start(within=_RESTART_SECONDS)
        rows.append(await _row(server, "after a restart, with the deployment's variables", seconds))
    organisations = len({streams.organisation for streams in found})
    return table(
        f"Event engine, {environments:,} environments of {organisations:,} organisations (load {load_average()})",
        _HEADINGS, rows,
    )  # fmt: skip


async def _with_streams(server: NatsServer, found: list[EventStreams]) -> None:
    turns = asyncio.Semaphore(_AT_ONCE)

    async def ensure(streams: EventStreams) -> None:
        async with turns:
            await server.make_environment(streams, _LIMITS)

    await asyncio.gather(*(ensure(streams) for streams in found))


async def _connected(server: NatsServer, pods: int) -> None:
    while True:
        if _monitored(server, "varz")["connections"] >= pods:
            return
        await asyncio.sleep(0.5)


async def _measure(environments: int, seconds: float) -> str:
    logging.getLogger("tieline.events").setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        folder = Path(name)
        with running_nats_server(folder, ping_interval="10s") as server:
            rows = [await _row(server, "empty", 5)]
            found = _environments(environments)
            await _with_accounts(server, found)
            rows.append(await _row(server, "accounts, and the run histories", seconds / 4))
            await _with_state(server, found)
            rows.append(await _row(server, "and state and records of schedules", seconds / 4))
            began = time.monotonic()
            await _with_streams(server, found)
            made = time.monotonic() - began
            rows.append(await _row(server, "and streams and consumers", seconds / 4))
            tasks = [task for streams in found for task in _pod(server, streams, folder)]
            await _connected(server, environments)
            await asyncio.sleep(30)
            rows.append(await _row(server, "and pods that wait for events", seconds))
            began = time.monotonic()
            server.stop(within=_RESTART_SECONDS)
            stopped = time.monotonic() - began
            began = time.monotonic()
            os.environ.update(_DEPLOYED)
            server.start(within=_RESTART_SECONDS)
            ready = time.monotonic() - began
            await _connected(server, environments)
            back = time.monotonic() - began
            await asyncio.sleep(30)
            rows.append(await _row(server, "after a restart, with the deployment's variables", seconds))
            for task in tasks:
                task.cancel()
            # Its end takes long, and nothing is kept.
            server.kill()
    title = f"Event engine, {environments:,} idle environments (load {load_average()})"
    return table(title, _HEADINGS, rows) + (
        f"\nThe streams were made in {made:.0f} s. The server stops in {stopped:.1f} s, is ready again "
        f"{ready:.1f} s after its start, and has all pods after {back:.1f} s."
    )


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--environments", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=120, help="for which it is watched")
    parser.add_argument(
        "--values", type=int, help="of state, for each organisation; then no streams of environments"
    )
    chosen = parser.parse_args()
    if chosen.values is not None:
        print(uvloop.run(_measure_values(chosen.environments, chosen.values, chosen.seconds)))
        return
    print(uvloop.run(_measure(chosen.environments, chosen.seconds)))


if __name__ == "__main__":
    main()
