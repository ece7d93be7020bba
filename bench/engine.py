"""``python -m bench.engine``: the event engine on this machine, beside the floor.

A server of its own, encrypted, one replica. Events of 1 KiB are published by a client with the rights of pods and
awaited: with every event on disk before it is acknowledged (``sync_interval: always``, as deployed), and with the
server's default of two minutes. The floor is appending and syncing 1 KiB to a file in the same folder.
"""

import argparse
import asyncio
import os
import tempfile
import time
from pathlib import Path

import uvloop

from bench.figures import load, load_average, percentile, table
from tests.harness.processes.nats_server import NatsServer, running_nats_server
from tieline_core.engine.streams import StreamLimits
from tieline_core.identity.ids import new_id
from tieline_protocol.event_streams import PODS, EventStreams

_EVENT = os.urandom(1024)
_LIMITS = StreamLimits(queue_bytes=1 << 30)


async def _published(server: NatsServer, *, events: int, in_flight: int) -> list[str]:
    streams = EventStreams(new_id(), new_id())
    await server.make_environment(streams, _LIMITS)
    pod = await server.pod(streams)
    jetstream = pod.jetstream()
    measured = await load(
        lambda: jetstream.publish(streams.event("orders", new_id()), _EVENT),
        requests=events,
        in_flight=in_flight,
    )
    await pod.close()
    return measured.cells()


async def _through(server: NatsServer, *, events: int) -> list[str]:
    """From the call that publishes to the message in a waiting consumer's hands, one at a time, and acknowledged."""
    streams = EventStreams(new_id(), new_id())
    await server.make_environment(streams, _LIMITS)
    pod = await server.pod(streams)
    jetstream = pod.jetstream()
    queue = await jetstream.pull_subscribe_bind(consumer=PODS, stream=streams.queue)
    durations, began_all = [], time.perf_counter()
    for _ in range(events):
        waiting = asyncio.ensure_future(queue.fetch(1, timeout=10))
        await asyncio.sleep(0)
        began = time.perf_counter()
        await jetstream.publish(streams.event("orders", new_id()), _EVENT)
        (message,) = await waiting
        durations.append(time.perf_counter() - began)
        await message.ack_sync()
    each = events / (time.perf_counter() - began_all)
    await pod.close()
    return [f"{each:,.0f}", *(f"{percentile(durations, share) * 1000:.1f}" for share in (0.5, 0.99))]


def _floor(folder: Path, events: int) -> list[str]:
    durations = []
    with (folder / "floor").open("wb") as file:
        for _ in range(events):
            began = time.perf_counter()
            file.write(_EVENT)
            file.flush()
            os.fdatasync(file.fileno())
            durations.append(time.perf_counter() - began)
    return [
        f"{events / sum(durations):,.0f}",
        *(f"{percentile(durations, share) * 1000:.1f}" for share in (0.5, 0.99)),
    ]


async def _measure(events: int) -> str:
    rows = []
    with tempfile.TemporaryDirectory(dir=Path.home()) as name:
        folder = Path(name)
        rows.append(["append and sync to a file: the floor", "1", *_floor(folder, events)])
        for sync in ("always", "2m"):
            (folder / sync).mkdir()
            with running_nats_server(folder / sync, sync_interval=sync) as server:
                for in_flight in (1, 64):
                    cells = await _published(server, events=events, in_flight=in_flight)
                    rows.append([f"publish, sync_interval {sync}", f"{in_flight}", *cells])
                rows.append(
                    [f"publish, fetch and ack, {sync}", "1", *await _through(server, events=events // 4)]
                )
    title = f"Event engine, {events:,} events of 1 KiB (load {load_average()})"
    return table(title, ("", "in flight", "a second", "p50 ms", "p99 ms"), rows)


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=4000)
    print(uvloop.run(_measure(parser.parse_args().events)))


if __name__ == "__main__":
    main()
