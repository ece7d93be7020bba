"""The systems that `bench.events` compares: how each is started, published to, and asked what is left."""

import asyncio
import json
import os
import sys
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
from nats.aio.client import Client

from bench.event_peers.publishing import NOTE_BYTES, Sent, noted
from tests.harness.processes.event_pods import EventEnvironment, event_environment
from tests.harness.processes.nats_server import NatsServer
from tieline_core.engine.streams import StreamLimits
from tieline_core.identity.ids import new_id
from tieline_protocol.event_streams import LEASE_SECONDS, EventStreams

_ROOT = Path(__file__).resolve().parents[2]
_LIMITS = StreamLimits()
_DONE_SECONDS = 300.0

CODE = """
from bench.event_peers.publishing import Notes, payload, publish
from tieline import Context, Event, Integration, Request, Retry

integration = Integration()
notes = Notes()


@integration.webhook("publish")
async def publish_all(ctx: Context, request: Request) -> dict:
    content = await request.json()
    task, keys = content.pop("task"), content.pop("keys")

    async def call(number: int) -> None:
        await ctx.publish(task, payload(number), key=f"{number % keys}" if keys else None)

    return {"sent": await publish(call, **content)}


@integration.event("order")
async def order(ctx: Context, event: Event) -> None:
    notes.add(event.payload["number"])


@integration.event("failing", retry=Retry(first=3600))
async def failing(ctx: Context, event: Event) -> None:
    raise RuntimeError("the other system is away")


@integration.webhook("orders", delivery="queued")
async def orders(ctx: Context, request: Request) -> None:
    notes.add((await request.json())["number"])
"""


@dataclass
class System(ABC):
    """One of those that are compared."""

    name: str
    settings: str
    folder: Path
    first: int = 0
    """The number of the next event."""
    turns: int = 0

    @property
    def notes(self) -> Path:
        """Where the consumer of this turn notes what it began with."""
        return self.folder / f"notes-{self.turns}"

    @abstractmethod
    async def begin(self) -> None:
        """Start the consumer."""

    @abstractmethod
    async def publish(self, *, first: int, events: int, in_flight: int, rate: float) -> list[Sent]:
        """Publish, and return once all is accepted."""

    @abstractmethod
    async def left(self) -> int:
        """Events that are not done."""

    @abstractmethod
    async def end(self) -> None:
        """Stop the consumer."""

    async def all_done(self, events: int) -> None:
        """Return once the consumer began with so many in this turn, and none is left."""
        async with asyncio.timeout(_DONE_SECONDS):
            while True:
                if _size(self.notes) >= events * NOTE_BYTES and not await self.left():
                    return
                await asyncio.sleep(0.005)

    def began(self) -> list[tuple[int, float]]:
        """What the consumer noted in this turn."""
        return noted(self.notes)


def _size(file: Path) -> int:
    return file.stat().st_size if file.exists() else 0


async def _finished(process: asyncio.subprocess.Process) -> None:
    if await process.wait() != 0:
        raise RuntimeError("The publisher failed; it says why above")


@dataclass
class Processes(System):
    """A consumer, and a publisher for each load, as processes."""

    module: str = ""
    python: Path = Path(sys.executable)
    variables: Mapping[str, str] = field(default_factory=dict)
    worker: Sequence[str] = ()
    """The consumer's command; otherwise the module's own."""
    count_left: Callable[[], Awaitable[int]] | None = None
    together: bool = False
    """Whether the publisher consumes too."""
    _consumer: asyncio.subprocess.Process | None = None

    async def prepare(self) -> None:
        """Have the peer make its tables."""
        await _finished(await self._started((f"{self.python}", "-m", self.module, "prepare")))

    async def begin(self) -> None:
        self.turns += 1
        if not self.together:
            command = self.worker or (f"{self.python}", "-m", self.module, "work")
            self._consumer = await self._started(command, BENCH_NOTES=f"{self.notes}")

    async def publish(self, *, first: int, events: int, in_flight: int, rate: float) -> list[Sent]:
        with tempfile.NamedTemporaryFile(dir=self.folder) as sent:
            load = {"first": first, "events": events, "in-flight": in_flight, "rate": rate}
            options = [text for name, value in load.items() for text in (f"--{name}", f"{value}")]
            command = (f"{self.python}", "-m", self.module, "publish", "--sent", sent.name, *options)
            if self.together:
                publisher = self._consumer = await self._started(
                    command, BENCH_NOTES=f"{self.notes}", BENCH_CONSUME="1"
                )
                while True:
                    if _size(Path(sent.name)) or publisher.returncode is not None:
                        break
                    await asyncio.sleep(0.01)
            else:
                await _finished(await self._started(command))
            return [tuple(one) for one in json.load(sent)]

    async def left(self) -> int:
        assert self.count_left is not None
        return await self.count_left()

    async def all_done(self, events: int) -> None:
        await super().all_done(events)
        if self.together:
            await self.end()

    async def end(self) -> None:
        if self._consumer is not None and self._consumer.returncode is None:
            self._consumer.terminate()
            try:
                await asyncio.wait_for(self._consumer.wait(), 5)
            except TimeoutError:
                self._consumer.kill()
                await self._consumer.wait()

    async def _started(self, command: Sequence[str], **variables: str) -> asyncio.subprocess.Process:
        with (self.folder / "log").open("ab") as log:
            return await asyncio.create_subprocess_exec(
                "setpriv", "--pdeathsig", "KILL", *command,
                env={**os.environ, **self.variables, **variables}, cwd=_ROOT, stdout=log, stderr=log,
            )  # fmt: skip


async def floor(server: NatsServer, folder: Path, *, together: bool) -> Processes:
    """A bare loop with nats-py, with an environment's streams and the rights of its pods."""
    streams = EventStreams(new_id(), new_id())
    await server.make_environment(streams, _LIMITS)
    own = await server.environment(streams)
    now = datetime.now(UTC)
    credentials = server.trust.pod_credentials(streams, at=now, expires=now + timedelta(hours=9))
    (folder / "engine.creds").write_text(credentials)

    async def left() -> int:
        return (await own.jetstream().stream_info(streams.queue)).state.messages

    return Processes(
        f"bare nats-py, {'one process' if together else 'two processes'}",
        "fetch 100, run, acknowledge without waiting; nothing else",
        folder,
        module="bench.event_peers.nats_loop",
        variables={
            "BENCH_URL": server.url,
            "BENCH_CREDENTIALS": f"{folder / 'engine.creds'}",
            "BENCH_ORGANISATION": streams.organisation,
            "BENCH_ENVIRONMENT": streams.environment,
        },
        count_left=left,
        together=together,
    )


@dataclass
class Tieline(System):
    """A pod as a process, with history, traces and logs as deployed."""

    server: NatsServer = None  # type: ignore[assignment]
    admin: Client = None  # type: ignore[assignment]
    """In the platform's account."""
    traces: str = ""
    """Takes the pod's traces."""
    http: bool = False
    """Whether events come as queued webhooks instead of by ctx.publish."""
    keys: int = 0
    task: str = "order"
    environment: EventEnvironment | None = None

    async def begin(self) -> None:
        self.turns += 1
        if self.environment is None:
            self.environment = await event_environment(self.server, self.admin, self.folder, CODE, _LIMITS)
        await asyncio.to_thread(
            self.environment.pod,
            TIELINE_EVENT_LEASE_SECONDS=f"{LEASE_SECONDS}",
            TIELINE_RUN_TIMEOUT_SECONDS="600",
            OTEL_EXPORTER_OTLP_ENDPOINT=self.traces,
            BENCH_NOTES=f"{self.notes}",
        )

    @property
    def pid(self) -> int:
        """Of the pod."""
        assert self.environment is not None
        return self.environment.pods[-1].pid or 0

    async def publish(self, *, first: int, events: int, in_flight: int, rate: float) -> list[Sent]:
        assert self.environment is not None
        url = self.environment.pods[-1].url
        if self.http:
            client = Processes(
                "", "", self.folder,
                module="bench.event_peers.http_client", variables={"BENCH_URL": f"{url}/orders"},
            )  # fmt: skip
            return await client.publish(first=first, events=events, in_flight=in_flight, rate=rate)
        load: dict[str, Any] = {"first": first, "events": events, "in_flight": in_flight, "rate": rate}
        timeout = aiohttp.ClientTimeout(total=600)
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.post(f"{url}/publish", json={"task": self.task, "keys": self.keys, **load}) as response,
        ):
            assert response.status == 200, await response.text()
            return [tuple(one) for one in (await response.json())["sent"]]

    async def left(self) -> int:
        assert self.environment is not None
        name = self.environment.streams.queue
        return (await self.environment.admin.jetstream().stream_info(name)).state.messages

    async def end(self) -> None:
        assert self.environment is not None
        await asyncio.to_thread(self.environment.pods[-1].stop)
