"""Pods and an engine that are killed, paused and cut off by a seed, and clients that publish meanwhile."""

from __future__ import annotations

import asyncio
import json
import random
import signal
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import aiohttp
import nats.errors
import nats.js.errors
from nats.aio.client import Client

from tests.faults.events.code import CODE
from tests.faults.events.verdict import Publication, Seen
from tests.harness.processes.event_pods import EventEnvironment, event_environment
from tests.harness.processes.nats_server import NatsServer
from tests.harness.processes.running_runtime import RunningRuntime
from tests.harness.processes.tcp_relay import Relay
from tieline_core.engine.streams import StreamLimits
from tieline_protocol.event_streams import subject_parts
from tieline_protocol.run_records import ENDED

LEASE = timedelta(seconds=3)
LIMITS = StreamLimits(queue_bytes=1 << 28, runs_bytes=1 << 28, history_bytes=1 << 29, lease=LEASE)
_ASK_SECONDS = 20.0
_CHAINS = 24
_PEACE_SECONDS = 300.0
_WAITS = (
    {"delay": 0, "timeout": 200, "patient": True},
    {"delay": 1, "timeout": 200, "patient": True},
    {"delay": 1, "timeout": 1.2, "patient": False},
)
"""What events wait for: longer than any trouble lasts, or about as long as it takes until the answer comes."""
_STILL_SECONDS = 60.0


@dataclass
class Pod:
    """A pod with a relay of its own to the engine."""

    runtime: RunningRuntime
    relay: Relay
    busy: bool = False
    """Whether something is being done to it."""


@dataclass
class EventStage:
    """What runs, and what happened to it."""

    engine: NatsServer
    admin: Client
    environment: EventEnvironment
    rng: random.Random
    note: Callable[[str], None]
    pods: list[Pod] = field(default_factory=list)
    publications: list[Publication] = field(default_factory=list)
    faults: Counter[str] = field(default_factory=Counter)
    _published: int = 0
    _engine_busy: bool = False
    _began: float = field(default_factory=time.monotonic)

    @classmethod
    async def make(
        cls, engine: NatsServer, folder: Path, seed: int, note: Callable[[str], None], *, pods: int = 3
    ) -> EventStage:
        """With pods that are ready."""
        admin = await engine.admin(error_cb=_quiet)
        environment = await event_environment(engine, admin, folder, CODE, limits=LIMITS)
        stage = cls(engine, environment.admin, environment, random.Random(seed), note)
        for _ in range(pods):
            stage.pods.append(stage._pod())
        return stage

    async def run(self, events: int, *, publishers: int = 6, pause: float = 1.0, rate: float = 15.0) -> None:
        """``events`` are published, with a fault every ``pause`` seconds meanwhile."""
        over = asyncio.Event()
        numbers = iter(range(events))
        seeds = [self.rng.random() for _ in range(publishers)]
        injecting = asyncio.create_task(self._inject(over, pause, random.Random(self.rng.random())))
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=_ASK_SECONDS)) as http:
            clients = [
                self._publish(index, publishers, numbers, http, random.Random(seed), publishers / rate)
                for index, seed in enumerate(seeds)
            ]
            await asyncio.gather(*clients)
        over.set()
        await injecting

    async def peace(self) -> Seen:
        """Everything works again; what there is in the end."""
        for pod in self.pods:
            pod.runtime.signal(signal.SIGCONT)
            pod.relay.release()
            pod.relay.mend()
            if pod.runtime.pid is None:
                pod.runtime.spawn()
        self.note("peace")
        began, changed, last = time.monotonic(), time.monotonic(), -1
        while (left := await self._waits()) > 0:
            if left != last:
                last, changed = left, time.monotonic()
            now = time.monotonic()
            if (
                now - began > _PEACE_SECONDS
                or now - changed > _STILL_SECONDS + 3 * LEASE.total_seconds() + 60
            ):
                break
            await asyncio.sleep(0.5)
        self.note(f"queues empty after {time.monotonic() - began:.1f} s of peace, {left} left")
        # The last records of the history are on their way.
        await asyncio.sleep(2)
        return await self._seen()

    async def stop(self) -> None:
        for pod in self.pods:
            pod.runtime.signal(signal.SIGCONT)
            pod.runtime.signal(signal.SIGKILL)
        await self.environment.admin.close()
        await self.environment.platform.close()

    # --- what clients do --------------------------------------------------------------------------------

    async def _publish(
        self,
        index: int,
        of: int,
        numbers: Any,
        http: aiohttp.ClientSession,
        rng: random.Random,
        pause: float,
    ) -> None:
        chains = [f"chain-{one}" for one in range(_CHAINS) if one % of == index]
        for number in numbers:
            await self._one(number, rng.choice(chains), http, rng)
            self._published += 1
            await asyncio.sleep(rng.uniform(0, 2) * pause)

    async def _one(self, number: int, chain: str, http: aiohttp.ClientSession, rng: random.Random) -> None:
        payload: dict[str, Any] = {"number": number}
        if rng.random() < 0.5:
            payload["steps"] = [rng.choice(("fetch", "book", "send")) for _ in range(rng.randint(1, 3))]
        if rng.random() < 0.2:
            payload["failures"] = rng.randint(1, 3)
        if rng.random() < 0.3:
            payload["seconds"] = rng.choice((0.02, 0.1, 0.5))
        if rng.random() < 0.03:
            payload["seconds"] = LEASE.total_seconds() * 1.5
        if rng.random() < 0.05:
            payload["sleep"] = rng.choice((0.2, 2))
        if rng.random() < 0.2:
            payload["wait"] = rng.choice(_WAITS)
        kind = rng.choices(
            ("orders", "free", "keyed", "later", "later with key", "stubborn"), (4, 3, 6, 1, 1, 0.3)
        )[0]
        if kind in ("orders", "free") and rng.random() < 0.5:
            payload |= {"child": True, "childKey": rng.choice((None, "a", "b"))}
        options: dict[str, Any] = {}
        in_chain = kind in ("keyed", "stubborn")
        if kind == "orders":
            await self._order(number, payload, http, rng)
            return
        task = {"later": "free", "later with key": "keyed"}.get(kind, kind)
        if in_chain:
            payload["key"] = chain
            if rng.random() < 0.02:
                payload["reject"] = True
        elif kind == "later with key":
            payload["key"] = f"late-{rng.randint(1, 3)}"
        if kind.startswith("later"):
            options["delay"] = rng.choice((0.3, 1, 5))
        body = {"task": task, "payload": payload, "options": options}
        await self._ask(number, "publish", body, {}, http, rng, chain=chain if in_chain else None)

    async def _order(
        self, number: int, payload: dict[str, Any], http: aiohttp.ClientSession, rng: random.Random
    ) -> None:
        """A shop sends it again until it is accepted."""
        headers = {"Webhook-Id": f"order-{number}"}
        while not await self._ask(number, "orders", payload, headers, http, rng):  # noqa: ASYNC110
            await asyncio.sleep(rng.uniform(0.5, 2))

    async def _ask(
        self,
        number: int,
        path: str,
        body: dict[str, Any],
        headers: dict[str, str],
        http: aiohttp.ClientSession,
        rng: random.Random,
        chain: str | None = None,
    ) -> bool:
        pod = rng.choice(self.pods)
        began = time.monotonic()
        told: dict[str, Any] = {}
        accepted = False
        try:
            async with http.post(f"{pod.runtime.url}/{path}", json=body, headers=headers) as response:
                if response.status in (200, 202):
                    told, accepted = await response.json(), True
        except (aiohttp.ClientError, TimeoutError, OSError):
            pass
        self.publications.append(
            Publication(number, began, time.monotonic(), accepted, told.get("runId"), chain)
        )
        return accepted

    # --- what is done to them ---------------------------------------------------------------------------

    async def _inject(self, over: asyncio.Event, pause: float, rng: random.Random) -> None:
        def some(least: float, most: float) -> float:
            return rng.uniform(least, most) * LEASE.total_seconds()

        def pod(act: Callable[[Pod], Awaitable[None]]) -> Callable[[], Coroutine[Any, Any, None]]:
            return lambda: self._on_pod(rng, act)

        def engine(act: Callable[[], Awaitable[None]]) -> Callable[[], Coroutine[Any, Any, None]]:
            return lambda: self._on_engine(act)

        faults: list[tuple[float, str, Callable[[], Coroutine[Any, Any, None]]]] = [
            (4, "a pod is killed", pod(self._kill)),
            (3, "a pod is replaced", pod(self._replace)),
            (3, "a pod is paused", pod(lambda one: self._pause(one, some(0.1, 0.6)))),
            (4, "a pod is paused for long", pod(lambda one: self._pause(one, some(1.1, 2.5)))),
            (3, "a pod is cut off", pod(lambda one: self._cut(one, some(0.1, 2.5)))),
            (3, "a pod's network is held up", pod(lambda one: self._hold(one, some(0.3, 2.5)))),
            (2, "the engine is killed", engine(lambda: self._kill_engine(some(0, 1.5)))),
            (2, "the engine is paused", engine(lambda: self._pause_engine(some(0.1, 1.5)))),
        ]
        weights = [weight for weight, _, _ in faults]
        going: set[asyncio.Task[None]] = set()
        while not over.is_set():
            _, what, act = rng.choices(faults, weights)[0]
            self.faults[what] += 1
            self.note(what)
            task = asyncio.create_task(act())
            going.add(task)
            task.add_done_callback(going.discard)
            try:
                async with asyncio.timeout(rng.uniform(0.3, 1.7) * pause):
                    await over.wait()
            except TimeoutError:
                continue
        await asyncio.gather(*going)

    async def _on_pod(self, rng: random.Random, act: Callable[[Pod], Awaitable[None]]) -> None:
        idle = [pod for pod in self.pods if not pod.busy]
        if not idle:
            return
        pod = rng.choice(idle)
        pod.busy = True
        try:
            await act(pod)
        finally:
            pod.busy = False

    async def _on_engine(self, act: Callable[[], Awaitable[None]]) -> None:
        if self._engine_busy:
            return
        self._engine_busy = True
        try:
            await act()
        finally:
            self._engine_busy = False

    async def _kill(self, pod: Pod) -> None:
        pod.runtime.signal(signal.SIGKILL)
        pod.runtime.spawn()
        await asyncio.sleep(1)

    async def _replace(self, pod: Pod) -> None:
        """As a deploy does: a new one starts, and the old one is told to end."""
        new = self._pod()
        new.busy = True
        self.pods.append(new)
        await asyncio.to_thread(_ready, new)
        new.busy = False
        self.pods.remove(pod)
        await asyncio.to_thread(_stopped, pod)

    async def _pause(self, pod: Pod, seconds: float) -> None:
        pod.runtime.signal(signal.SIGSTOP)
        await asyncio.sleep(seconds)
        pod.runtime.signal(signal.SIGCONT)

    async def _cut(self, pod: Pod, seconds: float) -> None:
        pod.relay.cut()
        await asyncio.sleep(seconds)
        pod.relay.mend()

    async def _hold(self, pod: Pod, seconds: float) -> None:
        pod.relay.hold()
        await asyncio.sleep(seconds)
        pod.relay.release()

    async def _kill_engine(self, seconds: float) -> None:
        self.engine.kill()
        await asyncio.sleep(seconds)
        self.engine.start()

    async def _pause_engine(self, seconds: float) -> None:
        self.engine.signal(signal.SIGSTOP)
        await asyncio.sleep(seconds)
        self.engine.signal(signal.SIGCONT)

    def _pod(self) -> Pod:
        relay = Relay(self.engine.port)
        runtime = self.environment.pod(
            ready=False,
            TIELINE_ENGINE_URL=f"nats://127.0.0.1:{relay.port}",
            TIELINE_GRACE_SECONDS="2",
            TIELINE_EVENT_LEASE_SECONDS=f"{LEASE.total_seconds():g}",
            RECORD=str(self.record),
        )
        return Pod(runtime, relay)

    # --- what is there in the end -----------------------------------------------------------------------

    @property
    def record(self) -> Path:
        """What the code of the pods did."""
        return self.environment.folder / "record"

    async def _waits(self) -> int:
        try:
            return await self.environment.waits()
        except (nats.errors.Error, nats.js.errors.Error, OSError):
            return 1

    async def _seen(self) -> Seen:
        # A client that was connected all the time may have given up reading.
        self.environment.platform = await self.engine.admin()
        lines = [json.loads(line) for line in self.record.read_text().splitlines()]
        ends: dict[str, dict[tuple[Any, ...], str]] = {}
        for record in await self.environment.history():
            if record.status in ENDED:
                # One end may be written by the pod that was the first to claim it, and by those that find it.
                ends.setdefault(record.id, {})[record.status, record.attempt, record.at] = record.status
        statuses = {run: list(of_run.values()) for run, of_run in ends.items()}
        jetstream, streams = self.admin.jetstream(), self.environment.streams
        left: dict[str, int] = {}
        for stream in (streams.queue, streams.later):
            info = await jetstream.stream_info(stream, subjects_filter=">")
            for subject in info.state.subjects or {}:
                kind = ".".join((subject.split(".")[0], *(("token",) if "~key" in subject else ())))
                left[kind] = left.get(kind, 0) + 1
        info = await jetstream.stream_info(streams.dead_letters, subjects_filter=streams.dead("*"))
        letters = frozenset(subject_parts(subject)[0] for subject in info.state.subjects or {})
        return Seen(self.publications, lines, statuses, letters, left)


def _ready(pod: Pod) -> None:
    pod.runtime.until_ready()


def _stopped(pod: Pod) -> None:
    pod.runtime.stop()


async def _quiet(_error: Exception) -> None:
    """The engine is away on purpose."""
