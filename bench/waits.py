"""``python -m bench.waits``: runs that wait for events, in one environment on this machine.

A pod runs a task that only records the time (the floor), and one that waits for an event and then records the time.
Events for both are published in turns by one process, and each latency starts at the publishing call. Then many waits
are stored with the runtime's own classes, and the same is measured again. The engine syncs each message to disk while
latencies are measured, and not while the many waits are stored.
"""

import argparse
import asyncio
import contextlib
import json
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import nats.errors
import uvloop

from bench.figures import load_average, percentile, table
from bench.processes import resident
from tests.harness.processes.event_pods import EventEnvironment, event_environment
from tests.harness.processes.nats_server import NatsServer, running_nats_server
from tieline.events.engine.connection import EngineConnection
from tieline.events.engine.storage import EngineStorage
from tieline.events.queue import EventsUnavailableError
from tieline.events.run_store import KeptStep
from tieline.events.wait_store import OpenWait
from tieline_core.engine.publisher import publish_event
from tieline_core.engine.streams import StreamLimits
from tieline_core.identity.ids import new_id
from tieline_protocol.events import EventMetadata
from tieline_protocol.waits import WaitRule

CODE = """
import os, time
from tieline import Context, Event, Integration

integration = Integration()
integration.waits_for("paid", match=["order"])
notes = open(os.environ["DONE"], "a", buffering=1)


@integration.event("floor")
async def floor(ctx: Context, event: Event) -> None:
    notes.write(f"floor {event.payload['order']} {time.monotonic()}\\n")


@integration.event("ordered")
async def ordered(ctx: Context, event: Event) -> None:
    order = event.payload["order"]
    if await ctx.wait_for("paid", match={"order": order}, timeout=86400):
        notes.write(f"woken {order} {time.monotonic()}\\n")
"""
_IN_FLIGHT = 32
_PAUSE = 0.02
_RULE = WaitRule(name="paid", fields=("order",))


class _Bench:
    def __init__(self, environment: EventEnvironment) -> None:
        self._environment = environment
        self._next = 0

    async def _publish(self, task: str, order: int) -> None:
        metadata = EventMetadata(run=new_id(), kind="event", task=task, queued_at=time.time())
        content = json.dumps({"order": f"order-{order}", "note": "x" * 200}).encode()
        jetstream = self._environment.admin.jetstream()
        await publish_event(jetstream, self._environment.streams, metadata, content, seconds=10)

    async def connected(self) -> None:
        while True:
            with contextlib.suppress(nats.errors.Error, OSError):
                await self._publish("floor", -1)
                return
            await asyncio.sleep(0.2)

    async def _waiting(self) -> int:
        info = await self._environment.admin.jetstream().stream_info(self._environment.streams.later)
        return info.state.messages

    def _noted(self) -> dict[tuple[str, str], float]:
        found: dict[tuple[str, str], float] = {}
        for line in self._environment.lines():
            what, order, at = line.split()
            found.setdefault((what, order), float(at))
        return found

    async def latencies(self, runs: int) -> dict[str, list[float]]:
        """Seconds from the call that publishes, of plain events and of events that runs wait for."""
        orders = range(self._next, self._next + runs)
        self._next += runs
        before = await self._waiting()
        for order in orders:
            await self._publish("ordered", order)
        while await self._waiting() < before + runs:  # noqa: ASYNC110  (the engine sends no notification)
            await asyncio.sleep(0.2)
        called: dict[tuple[str, str], float] = {}
        for order in orders:
            for what, task in (("floor", "floor"), ("woken", "paid")):
                called[what, f"order-{order}"] = time.monotonic()
                await self._publish(task, order)
                await asyncio.sleep(_PAUSE)
        while not called.keys() <= (noted := self._noted()).keys():  # noqa: ASYNC110  (the engine sends no notification)
            await asyncio.sleep(0.2)
        return {
            what: [noted[key] - at for key, at in called.items() if key[0] == what]
            for what in ("floor", "woken")
        }

    async def store_waits(self, storage: EngineStorage, waits: int) -> None:
        numbers = iter(range(waits))

        async def worker() -> None:
            for number in numbers:
                while True:
                    # A server that is busy for seconds is asked again, as pods do.
                    with contextlib.suppress(EventsUnavailableError):
                        await self._store_wait(storage, f"stored-{number}")
                        break

        await asyncio.gather(*(worker() for _ in range(_IN_FLIGHT)))

    async def _store_wait(self, storage: EngineStorage, order: str) -> None:
        """What an attempt that waits leaves."""
        run, until = new_id(), time.time() + 86400
        index = _RULE.index({"order": order}, None)
        metadata = EventMetadata(run=run, kind="event", task="ordered", queued_at=time.time(), has_steps=True)
        plan = json.dumps({"index": index, "since": until - 90000, "until": until}).encode()
        claim = await storage.runs.claim_steps(run, any_kept=False)
        step = KeptStep(name="wait: paid", occurrence=1, place=1, work=index, version="v1", result=plan)
        await storage.runs.save_step(run, step, claim=claim)
        content = json.dumps({"order": order, "note": "x" * 200}).encode()
        await storage.store_waiting(metadata, content, until)
        wait = OpenWait(index=index, run=run, name=f"{index}-1", until=until, since=until - 90000)
        await storage.waits.begin([wait])

    async def sizes(self) -> dict[str, int]:
        jetstream, own = self._environment.admin.jetstream(), self._environment.streams
        return {name: (await jetstream.stream_info(name)).state.bytes for name in (own.runs, own.later)}


async def _measure(chosen: argparse.Namespace, server: NatsServer, folder: Path) -> None:
    platform = await server.admin()
    environment = await event_environment(server, platform, folder, CODE, limits=StreamLimits())
    bench = _Bench(environment)
    pod = environment.pod()
    await bench.connected()
    rows = [_row("few runs wait", await bench.latencies(chosen.runs))]
    memory, sizes = resident(server.pid), await bench.sizes()
    pod.stop()
    _restart(server, "2m")
    await bench.connected()
    now = datetime.now(UTC)
    credentials = folder / "bench.creds"
    text = server.trust.pod_credentials(environment.streams, at=now, expires=now + timedelta(hours=6))
    credentials.write_text(text)
    connection = EngineConnection(
        urls=[server.url], credentials_file=credentials, streams=environment.streams
    )
    connecting = asyncio.create_task(connection.run())
    await connection.connected.wait()
    began = time.monotonic()
    await bench.store_waits(EngineStorage(connection), chosen.waits)
    stored = time.monotonic() - began
    after, more = await bench.sizes(), resident(server.pid)
    connecting.cancel()
    began = time.monotonic()
    _restart(server, "always")
    restarted = time.monotonic() - began
    fresh = resident(server.pid)
    environment.pod()
    await bench.connected()
    rows.append(_row(f"{chosen.waits:,} runs wait", await bench.latencies(chosen.runs)))
    title = f"From the call that publishes, {chosen.runs} of each in turns, ms (load {load_average()})"
    headings = ("", "plain event to its task: p50", "p99", "event to the run that waits: p50", "p99")
    print(table(title, headings, rows), flush=True)
    grown = {name: after[name] - sizes[name] for name in sizes}
    cells = [
        f"{grown[environment.streams.runs] / chosen.waits:,.0f}",
        f"{grown[environment.streams.later] / chosen.waits:,.0f}",
        f"{memory:.0f}",
        f"{more:.0f}",
        f"{fresh:.0f}",
        f"{restarted:.1f}",
        f"{chosen.waits / stored:,.0f}",
    ]
    sizes_headings = (
        "bytes a wait in run_", "in later_", "server before, MiB", "with all", "after a restart", "restart, s",
        "stored a second",
    )  # fmt: skip
    print(table(f"{chosen.waits:,} runs that wait, payloads of 0.2 KiB", sizes_headings, [cells]), flush=True)
    environment.stop()


def _restart(server: NatsServer, sync_interval: str) -> None:
    server.stop(120)
    server.sync_interval = sync_interval
    server.start(300)


def _row(name: str, found: dict[str, list[float]]) -> list[str]:
    shares = [(found[what], share) for what in ("floor", "woken") for share in (0.5, 0.99)]
    return [name, *(f"{percentile(times, share) * 1000:.1f}" for times, share in shares)]


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=300, help="runs that wait and are woken, each time")
    parser.add_argument("--waits", type=int, default=100_000)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        engine, pods = Path(folder, "engine"), Path(folder, "pods")
        engine.mkdir()
        pods.mkdir()
        with running_nats_server(engine) as server:
            uvloop.run(_measure(chosen, server, pods))


if __name__ == "__main__":
    main()
