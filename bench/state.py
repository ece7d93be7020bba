"""``python -m bench.state``: what reading and writing ``ctx.state`` costs the API.

The store is in the event engine, one encrypted server with the settings of the deployment. The floor is nats-py's
key-value bucket on the same server. The store is asked as the API's handlers ask it, without HTTP.
"""

import argparse
import statistics
import sys
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import uvloop
from nats.js.api import KeyValueConfig
from nats.js.kv import KeyValue

from bench.figures import Load, load, load_average, table
from tests.harness.processes.nats_server import NatsServer, running_nats_server
from tests.harness.session.waiting import eventually_async
from tieline_api.engine.connection import Engine
from tieline_api.state.documents import Documents
from tieline_api.state.state_scopes import state_scope
from tieline_core.engine.state_streams import ensure_state
from tieline_core.engine.streams import StreamLimits
from tieline_core.identity.ids import new_id

_ACTIVATIONS = 16
_IN_FLIGHT = (1, 16)
_LIMITS = StreamLimits()
_ORGANISATION = new_id()

Call = Callable[[], Awaitable[object]]


@dataclass(frozen=True)
class System:
    """Something that keeps values."""

    name: str
    write: Callable[[int, str], Awaitable[object]]
    """Writes a value of the activation with this number."""
    read: Callable[[int], Awaitable[object]]


def _documents(name: str, documents: Documents) -> System:
    environment = new_id()
    scopes = [state_scope(_ORGANISATION, environment, new_id()) for _ in range(_ACTIVATIONS)]

    async def write(number: int, value: str) -> object:
        return await documents.put(scopes[number].document("cursor"), value, anyway=True, expected=None)

    async def read(number: int) -> object:
        return await documents.get(scopes[number].document("cursor"))

    return System(name, write, read)


def _bucket(bucket: KeyValue) -> System:
    async def write(number: int, value: str) -> object:
        return await bucket.put(f"activation-{number}", value.encode())

    async def read(number: int) -> object:
        return await bucket.get(f"activation-{number}")

    return System("bare nats-py", write, read)


async def _measure(system: System, size: int, requests: int, in_flight: int) -> tuple[Load, Load]:
    """Of writes and of reads, in turns over the activations."""
    value, turn = "x" * size, iter(range(10**9))
    for number in range(_ACTIVATIONS):
        await system.write(number, value)
    wrote = await load(
        lambda: system.write(next(turn) % _ACTIVATIONS, value), requests=requests, in_flight=in_flight
    )
    red = await load(lambda: system.read(next(turn) % _ACTIVATIONS), requests=requests, in_flight=in_flight)
    return wrote, red


async def _rows(systems: Sequence[System], arguments: argparse.Namespace) -> list[list[str]]:
    found: dict[tuple[str, str, int], list[Load]] = {}
    for number in range(arguments.rounds):
        for in_flight in _IN_FLIGHT:
            for system in systems:
                wrote, red = await _measure(system, arguments.bytes, arguments.requests, in_flight)
                found.setdefault(("write", system.name, in_flight), []).append(wrote)
                found.setdefault(("read", system.name, in_flight), []).append(red)
        print(f"round {number + 1}: load {load_average()}", file=sys.stderr)
    return [
        [
            what,
            name,
            str(in_flight),
            f"{statistics.median(one.per_second for one in loads):,.0f}",
            f"{min(one.per_second for one in loads):,.0f} to {max(one.per_second for one in loads):,.0f}",
            f"{statistics.median(one.p50 for one in loads) * 1000:.1f}",
            f"{statistics.median(one.p99 for one in loads) * 1000:.1f}",
        ]
        for (what, name, in_flight), loads in sorted(found.items(), reverse=True)
    ]


async def _connected(server: NatsServer) -> Engine:
    admin = await server.admin()
    await ensure_state(admin.jetstream(), _ORGANISATION, _LIMITS)
    await admin.close()
    engine = Engine((server.url,), server.credentials_file())
    await engine.start()
    await eventually_async("the engine", lambda: _is_connected(engine))
    return engine


async def _is_connected(engine: Engine) -> bool:
    return engine.connected


async def main(arguments: argparse.Namespace) -> None:
    """Measures all systems in turns, and prints a table."""
    with tempfile.TemporaryDirectory() as folder, running_nats_server(Path(folder)) as server:
        engine = await _connected(server)
        admin = await server.admin()
        try:
            bucket = await admin.jetstream().create_key_value(KeyValueConfig(bucket="floor", history=1))
            systems = [
                _documents("event engine", Documents(engine)),
                _bucket(bucket),
            ]
            rows = await _rows(systems, arguments)
        finally:
            await admin.close()
            await engine.stop()
    headings = ["", "", "in flight", "a second", "in the rounds", "p50 ms", "p99 ms"]
    print(table(f"State: values of {arguments.bytes:,} bytes", headings, rows))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.state", description=__doc__)
    parser.add_argument("--requests", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--bytes", type=int, default=1024)
    return parser.parse_args()


if __name__ == "__main__":
    uvloop.run(main(_arguments()))
