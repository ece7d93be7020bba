"""``python -m bench.events``: events through Tieline and through peers, in turns, on this machine.

Each system has every event on disk before it is accepted, and one process that runs a task which only notes the time.
A turn starts that process, warms it up, publishes events of 1 KiB with 64 calls in flight, and waits until all are
done. Then it publishes 50 a second and measures the time to the task, from the call that publishes and from its
answer. The ratio to the floor is that of the same round. Tieline traces, logs, and writes the run history as it does
when deployed; nothing is sampled. The peers trace nothing.

Needs the packages redis-server and postgresql; the servers run in a temporary folder.
"""

import argparse
import asyncio
import contextlib
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import uvloop
from aiohttp import web

from bench.event_peers.servers import peers_python, redis, running_postgres, running_redis, sql
from bench.event_peers.systems import Processes, System, Tieline, floor
from bench.figures import load_average, percentile, table
from tests.harness.processes.nats_server import NatsServer, running_nats_server

_IN_FLIGHT = 64
_RATE = 50.0
_WARM_UP = 200
_RETRIES = 10_000
_KEYS = 100


@dataclass
class _Turn:
    """What one turn measured."""

    per_second: float
    from_accepted: list[float]
    from_call: list[float]
    duplicates: int
    load: str = field(default_factory=load_average)

    def cells(self) -> list[str]:
        shares = [(times, share) for times in (self.from_accepted, self.from_call) for share in (0.5, 0.99)]
        return [f"{self.per_second:,.0f}", *(_ms(percentile(times, share)) for times, share in shares)]


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.1f}"


async def _turn(system: System, *, events: int, paced: int) -> _Turn:
    await system.begin()
    try:
        first = system.first
        await system.publish(first=first, events=_WARM_UP, in_flight=_IN_FLIGHT, rate=0)
        await system.all_done(_WARM_UP)
        sent = await system.publish(first=first + _WARM_UP, events=events, in_flight=_IN_FLIGHT, rate=0)
        await system.all_done(_WARM_UP + events)
        elapsed = time.monotonic() - min(called for _, called, _ in sent)
        sent = await system.publish(
            first=first + _WARM_UP + events, events=paced, in_flight=_IN_FLIGHT, rate=_RATE
        )
        await system.all_done(_WARM_UP + events + paced)
    finally:
        await system.end()
    every = _WARM_UP + events + paced
    system.first += every
    began: dict[int, float] = {}
    for number, at in system.began():
        began.setdefault(number, at)
    missing = set(range(first, first + every)) - began.keys()
    assert not missing, f"{system.name} lost {len(missing)} events"
    return _Turn(
        per_second=events / elapsed,
        # The task may begin before the publisher hears that its event is accepted.
        from_accepted=[max(began[number] - accepted, 0) for number, _, accepted in sent],
        from_call=[began[number] - called for number, called, _ in sent],
        duplicates=len(system.began()) - every,
    )


def _celery(python: Path, url: str, folder: Path, *pool: str) -> Processes:
    async def left() -> int:
        waiting = [await asyncio.to_thread(redis, url, "LLEN", "celery")]
        waiting.append(await asyncio.to_thread(redis, url, "HLEN", "unacked"))
        return sum(int(one or 0) for one in waiting)

    worker = (
        f"{python}", "-m", "celery", "-A", "bench.event_peers.celery_peer", "worker",
        "--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel", "WARNING", *pool,
    )  # fmt: skip
    return Processes(
        f"Celery, Redis ({' '.join(pool)})",
        "appendfsync always, acks_late, no results",
        folder,
        module="bench.event_peers.celery_peer",
        python=python,
        variables={"BENCH_URL": url},
        worker=worker,
        count_left=left,
    )


async def _on_postgres(
    name: str, settings: str, module: str, python: Path, url: str, folder: Path, query: str, **variables: str
) -> Processes:
    async def left() -> int:
        return int(await asyncio.to_thread(sql, url, query))

    found = Processes(
        name,
        settings,
        folder,
        module=f"bench.event_peers.{module}",
        python=python,
        variables={"BENCH_URL": url, **variables},
        count_left=left,
    )
    await found.prepare()
    return found


class _Traces:
    """Takes the traces of pods."""

    def __init__(self) -> None:
        self.spans = 0

    async def take(self, request: web.Request) -> web.Response:
        self.spans += (await request.read()).count(b'"spanId"')
        return web.json_response({})

    async def serve(self) -> str:
        application = web.Application(client_max_size=64 * 1024 * 1024)
        application.router.add_post("/v1/traces", self.take)
        runner = web.AppRunner(application, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        return f"http://127.0.0.1:{runner.addresses[0][1]}"


class _Bench:
    def __init__(self, folder: Path, chosen: argparse.Namespace) -> None:
        self._folder = folder
        self._chosen = chosen
        self._made = 0

    def folder(self) -> Path:
        """One of its own for each system."""
        self._made += 1
        found = self._folder / f"{self._made}"
        found.mkdir()
        return found

    async def run(self, server: NatsServer, redis_url: str, postgres_url: str) -> None:
        admin, traces = await server.admin(), await _Traces().serve()

        def tieline(name: str, settings: str, **options: object) -> Tieline:
            return Tieline(
                name, settings, self.folder(), server=server, admin=admin, traces=traces, **options
            )  # type: ignore[arg-type]

        systems: list[System] = [
            await floor(server, self.folder(), together=True),
            await floor(server, self.folder(), together=False),
            tieline("Tieline, ctx.publish", "one process publishes and runs; history, traces, logs"),
            tieline("Tieline, queued webhooks", "HTTP; history, traces, logs", http=True),
        ]
        if not self._chosen.own:
            systems += await self._peers(redis_url, postgres_url)
        await self._compare(systems)
        await self._alone(tieline("as above", ""), tieline(f"{_KEYS} keys, in order", "", keys=_KEYS))
        await admin.close()

    async def _peers(self, redis_url: str, postgres_url: str) -> list[System]:
        python = await asyncio.to_thread(peers_python)
        pools = self._chosen.celery or [_FASTEST_POOL]
        celery = [_celery(python, redis_url, self.folder(), *pool.split()) for pool in pools]
        procrastinate = await _on_postgres(
            "procrastinate, Postgres",
            f"synchronous_commit on, concurrency {self._chosen.concurrency}, pool of 32",
            "procrastinate_peer", python, f"{postgres_url}/procrastinate", self.folder(),
            "SELECT count(*) FROM procrastinate_jobs WHERE status IN ('todo', 'doing')",
            BENCH_CONCURRENCY=f"{self._chosen.concurrency}",
        )  # fmt: skip
        dbos = await _on_postgres(
            "DBOS, Postgres",
            f"synchronous_commit on, polls every {self._chosen.polling * 1000:g} ms instead of 1 s",
            "dbos_peer", python, f"{postgres_url}/dbos", self.folder(),
            "SELECT count(*) FROM dbos.workflow_status WHERE status <> 'SUCCESS'",
            BENCH_POLLING=f"{self._chosen.polling}",
        )  # fmt: skip
        return [*celery, procrastinate, dbos]

    async def _compare(self, systems: Sequence[System]) -> None:
        turns: dict[str, list[_Turn]] = {system.name: [] for system in systems}
        for round_ in range(self._chosen.rounds):
            for system in systems:
                turn = await _turn(system, events=self._chosen.events, paced=self._chosen.paced)
                turns[system.name].append(turn)
                print(f"{round_ + 1} {system.name}: {turn.cells()}, load {turn.load}", file=sys.stderr)
        of_floor = turns[systems[0].name]
        rows = []
        for system in systems:
            found = turns[system.name]
            ratio = statistics.median(
                one.per_second / floor_.per_second for one, floor_ in zip(found, of_floor, strict=True)
            )
            rows.append(
                [
                    system.name,
                    f"{statistics.median(one.per_second for one in found):,.0f}",
                    f"{ratio:.2f}",
                    *_medians(found),
                    f"{sum(one.duplicates for one in found)}",
                    system.settings,
                ]
            )
        loads = sorted(float(turn.load) for found in turns.values() for turn in found)
        title = (
            f"Events of 1 KiB, {self._chosen.events:,} with {_IN_FLIGHT} in flight, then {self._chosen.paced} at "
            f"{_RATE:g} a second (median of {self._chosen.rounds}, load {loads[0]:.1f} to {loads[-1]:.1f})"
        )
        headings = (
            "", "a second", "of the floor", "accepted to begun: p50 ms", "p99 ms", "call to begun: p50 ms", "p99 ms",
            "run twice", "settings",
        )  # fmt: skip
        print(table(title, headings, rows), flush=True)

    async def _alone(self, plain: Tieline, keyed: Tieline) -> None:
        """What waits or is ordered, beside the same without."""
        waiting = await self._with_waiting(plain)
        systems = {plain.name: plain, f"while {_RETRIES:,} retries wait": waiting, keyed.name: keyed}
        turns: dict[str, list[_Turn]] = {name: [] for name in systems}
        for _ in range(self._chosen.rounds):
            for name, system in systems.items():
                turn = await _turn(system, events=self._chosen.events, paced=self._chosen.paced)
                turns[name].append(turn)
                if system.keys:
                    _assert_ordered(system)
        rows = [
            [
                name,
                f"{statistics.median(one.per_second for one in found):,.0f}",
                *_medians(found),
                f"{sum(one.duplicates for one in found)}",
            ]
            for name, found in turns.items()
        ]
        title = f"Tieline, ctx.publish, alone (median of {self._chosen.rounds}, load {load_average()})"
        headings = (
            "", "a second", "accepted to begun: p50 ms", "p99 ms", "call to begun: p50 ms", "p99 ms", "run twice",
        )  # fmt: skip
        print(table(title, headings, rows), flush=True)

    async def _with_waiting(self, like: Tieline) -> Tieline:
        """A system of which many events have failed, and wait for an hour."""
        found = Tieline(
            "with waiting", "", self.folder(), server=like.server, admin=like.admin, traces=like.traces
        )
        await found.begin()
        assert found.environment is not None
        found.task = "failing"
        await found.publish(first=0, events=_RETRIES, in_flight=_IN_FLIGHT, rate=0)
        began = time.monotonic()
        while True:
            if not await found.left():
                break
            await asyncio.sleep(0.1)
        later = await found.environment.admin.jetstream().stream_info(found.environment.streams.later)
        assert later.state.messages == _RETRIES, later.state
        print(f"{_RETRIES:,} retries wait, {time.monotonic() - began:.0f} s later", file=sys.stderr)
        found.task = "order"
        await found.end()
        return found


def _medians(turns: Sequence[_Turn]) -> list[str]:
    """Of p50 and p99, from accepted and from the call."""
    return [
        _ms(statistics.median(percentile(times(turn), share) for turn in turns))
        for times in (lambda turn: turn.from_accepted, lambda turn: turn.from_call)
        for share in (0.5, 0.99)
    ]


def _assert_ordered(system: Tieline) -> None:
    last: dict[int, int] = {}
    for number, _ in system.began():
        key = number % system.keys
        assert last.get(key, -1) < number, f"{number} of key {key} ran after {last[key]}"
        last[key] = number


_FASTEST_POOL = "-P threads -c 100"


async def _measure(chosen: argparse.Namespace) -> None:
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(dir="/var/tmp"))
        # Postgres does not run as root.
        os.chmod(folder, 0o755)
        bench = _Bench(Path(folder), chosen)
        server = stack.enter_context(running_nats_server(bench.folder()))
        redis_url = postgres_url = ""
        if not chosen.own:
            redis_url = stack.enter_context(running_redis(bench.folder()))
            postgres_url = stack.enter_context(running_postgres(bench.folder()))
        await bench.run(server, redis_url, postgres_url)


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=3000)
    parser.add_argument("--paced", type=int, default=500, help="events at the low rate")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--own", action="store_true", help="without the peers")
    parser.add_argument("--celery", action="append", help="the options of a pool, to compare several")
    parser.add_argument("--concurrency", type=int, default=30, help="of procrastinate's worker")
    parser.add_argument("--polling", type=float, default=0.01, help="of DBOS' queue, in seconds")
    uvloop.run(_measure(parser.parse_args()))


if __name__ == "__main__":
    main()
