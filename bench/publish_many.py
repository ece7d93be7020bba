"""``python -m bench.publish_many``: many events in one call, beside single publishes in a loop.

The runtime's own classes publish events of 1 KiB to an engine on this machine, which syncs each to the disk before it
answers, and write the run history. The ways take turns.
"""

import argparse
import asyncio
import random
import tempfile
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median

import uvloop

from bench.figures import load_average, table
from tests.harness.processes.nats_server import NatsServer, running_nats_server
from tieline.events.engine.connection import EngineConnection
from tieline.events.engine.queue import EngineQueue
from tieline.events.event import EventTask
from tieline.events.history import HistoryWriter
from tieline.events.publish_many import NewEvent
from tieline.events.publisher import Publisher
from tieline.events.run_events import RunEvents
from tieline_core.engine.streams import StreamLimits, ensure_history
from tieline_core.identity.ids import new_id
from tieline_protocol.event_streams import EventStreams

_PAYLOAD = {"padding": "x" * 1000}
_TASK = EventTask(name="orders", handler=print, is_async=False, arguments=0)


def _ways(events: RunEvents, many: int) -> dict[str, Callable[[], Awaitable[object]]]:
    async def single() -> None:
        for _ in range(many):
            await events.publish("orders", _PAYLOAD, key=None, id=None, delay=None, at=None, user=None)

    def all_of(key: Callable[[int], str | None]) -> list[NewEvent]:
        return [NewEvent("orders", _PAYLOAD, key=key(number)) for number in range(many)]

    return {
        "`ctx.publish` in a loop": single,
        "`ctx.publish_many`": lambda: events.publish_many(all_of(lambda _: None)),
        "`ctx.publish_many`, a key for every 10 events": lambda: events.publish_many(
            all_of(lambda number: str(number // 10))
        ),
        "`ctx.publish_many`, one key": lambda: events.publish_many(all_of(lambda _: "one")),
    }


async def _measure(chosen: argparse.Namespace, server: NatsServer, folder: Path) -> str:
    streams = EventStreams(new_id(), new_id())
    limits = StreamLimits(queue_bytes=1 << 30)
    await server.make_environment(streams, limits)
    platform = await server.admin()
    await ensure_history(platform.jetstream(), streams.organisation, limits)
    now = datetime.now(UTC)
    credentials = folder / "pod.creds"
    credentials.write_text(server.trust.pod_credentials(streams, at=now, expires=now + timedelta(hours=1)))
    connection = EngineConnection(urls=[server.url], credentials_file=credentials, streams=streams)
    connecting = asyncio.create_task(connection.run())
    await connection.connected.wait()
    queue = EngineQueue(connection)
    history = HistoryWriter(queue.add_history)
    writing = asyncio.create_task(history.run())
    publisher = Publisher(queue, {"orders": _TASK}, history=history)
    seconds: dict[str, list[float]] = {}
    processor: dict[str, list[float]] = {}
    for _ in range(chosen.rounds):
        ways = list(_ways(RunEvents(publisher, run=new_id(), user=None), chosen.events).items())
        random.shuffle(ways)
        for name, way in ways:
            began, worked = time.perf_counter(), time.process_time()
            await way()
            seconds.setdefault(name, []).append(time.perf_counter() - began)
            processor.setdefault(name, []).append(time.process_time() - worked)
    await history.flush(10)
    for task in (writing, connecting):
        task.cancel()
    await platform.close()
    rows = [
        [
            name,
            f"{chosen.events / median(found):,.0f}",
            f"{chosen.events / min(found):,.0f}",
            f"{median(processor[name]) / chosen.events * 1e6:,.0f}",
        ]
        for name, found in sorted(seconds.items())
    ]
    title = f"{chosen.events:,} events, median of {chosen.rounds} rounds (load {load_average()})"
    return table(title, ("", "events a second", "in the best round", "processor of the pod: µs each"), rows)


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=40)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=Path.home()) as name:
        folder = Path(name)
        (folder / "engine").mkdir()
        with running_nats_server(folder / "engine", sync_interval="always") as server:
            print(uvloop.run(_measure(chosen, server, folder)))


if __name__ == "__main__":
    main()
