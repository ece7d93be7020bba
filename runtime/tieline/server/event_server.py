"""What runs events in a process: the queue, the run history, and the runs, started and stopped together."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from tieline.configuration.pod_api import PodApi
from tieline.errors import ConfigurationError, reason
from tieline.events.deferred import DeferredQueue
from tieline.events.history import HistoryWriter
from tieline.events.local_answers import take_answers
from tieline.events.memory import MemoryQueue
from tieline.events.publisher import Publisher
from tieline.events.queue import EventQueue, EventsUnavailableError
from tieline.events.run_reports import LINGER, RunReports
from tieline.server.code_loader import Tasks
from tieline.server.event_runs import EventRuns
from tieline.server.settings import Settings
from tieline_common.backoff import exponential, jitter
from tieline_common.cancellation import cancel_and_wait
from tieline_protocol.event_streams import EventStreams

if TYPE_CHECKING:
    from tieline.events.engine.new_streams import NewStreams
    from tieline.events.engine.queue import EngineQueue

logger = logging.getLogger("tieline.events")

_FLUSH_SECONDS = 3.0
_DECLARE_SECONDS = 24 * 3600.0
_FIRST_DECLARE_RETRY, _LONGEST_DECLARE_RETRY = 2.0, 60.0
_FIRST_SETTINGS_SECONDS, _SETTINGS_SECONDS = 0.1, 2.0


@dataclass
class EventServer:
    """Begin with ``start`` once runs would have connections; end with ``stop``, then ``drain``, then ``close``."""

    tasks: Tasks
    queue: EventQueue
    version: str = ""
    load_engine: "Callable[[], tuple[EngineQueue, NewStreams]] | None" = None
    """Loads the client of the event engine, into a DeferredQueue; None on one's own machine."""
    reports: RunReports | None = None
    """Takes records of direct runs; None where they go to the history of the queue."""

    def __post_init__(self) -> None:
        self.history = HistoryWriter(self.queue.add_history)
        self.direct_history = self.history
        if self.reports is not None:
            self.direct_history = HistoryWriter(self.reports.write, linger=LINGER)
        self.publisher = Publisher(
            self.queue,
            self.tasks.events,
            history=self.history,
            version=self.version,
            waits=self.tasks.waits,
        )
        self.runs: EventRuns | None = None
        self._engine: EngineQueue | None = None
        self._streams: NewStreams | None = None
        self._loaded = asyncio.Event()
        self._declared = asyncio.Event()
        self._connecting: asyncio.Task[None] | None = None
        self._awaiting: asyncio.Task[None] | None = None
        self._delivering: asyncio.Task[None] | None = None
        self._declaring: asyncio.Task[None] | None = None
        self._answering: asyncio.Task[None] | None = None
        self._writing: list[asyncio.Task[None]] = []

    @property
    def _histories(self) -> list[HistoryWriter]:
        return [self.history] if self.reports is None else [self.history, self.direct_history]

    @property
    def waits_for_streams(self) -> bool:
        """Whether the pod's code has events, and the engine is about to have the streams for them."""
        return self._streams is not None and self.tasks.has_events and not self._streams.over.is_set()

    def connect(self, *, keeps_inputs: Callable[[], bool] = lambda: False) -> None:
        """Begin to connect, and to write the run history.

        A pod connects only where its code has events, or once inputs are kept: they may be run again. A connection
        takes some 10 MiB, and the engine's client 3 MiB.
        """
        if self.load_engine is not None:
            if self.tasks.has_events:
                self._load(self.load_engine)
            self._connecting = asyncio.create_task(self._connect(self.load_engine, keeps_inputs))
        self._writing = [asyncio.create_task(one.run()) for one in self._histories]

    async def _connect(
        self,
        load: "Callable[[], tuple[EngineQueue, NewStreams]]",
        keeps_inputs: Callable[[], bool],
    ) -> None:
        pause = _FIRST_SETTINGS_SECONDS
        while not (self._engine or keeps_inputs()):  # the configuration tells nobody
            await asyncio.sleep(pause)
            pause = min(2 * pause, _SETTINGS_SECONDS)
        await (self._engine or self._load(load)).connection.run()

    def _load(self, load: "Callable[[], tuple[EngineQueue, NewStreams]]") -> "EngineQueue":
        self._engine, self._streams = load()
        cast("DeferredQueue", self.queue).open(self._engine)
        self._awaiting = asyncio.create_task(self._streams.wait())
        self._loaded.set()
        return self._engine

    def start(self, runs: EventRuns, *, capacity: int) -> None:
        """Begin to run events, ``capacity`` at once. Of every code there may be runs that are to be run again."""
        self.runs = runs
        if self.tasks.waits:
            self._declaring = asyncio.create_task(self._declare())
        if self.load_engine is not None:
            self._delivering = asyncio.create_task(self._deliver(runs, capacity))
        elif isinstance(self.queue, MemoryQueue):
            self._delivering = asyncio.create_task(self.queue.run(runs.run, capacity=capacity))
            if self.queue.file is not None:
                self._answering = asyncio.create_task(take_answers(self.queue, self.queue.file))

    async def _declare(self) -> None:
        """Declare the waits of this version to all pods, once a day: declarations expire."""
        if self.load_engine is not None:
            await self._loaded.wait()
            await cast("NewStreams", self._streams).over.wait()
        rules = [rule for one in self.tasks.waits.values() for rule in one]
        failures = 0
        while True:
            try:
                await self.queue.waits.declare(rules)
            except EventsUnavailableError as error:
                logger.warning("Cannot declare the waits of this version, trying again: %s", reason(error))
                failures += 1
                pause = exponential(failures, first=_FIRST_DECLARE_RETRY, cap=_LONGEST_DECLARE_RETRY)
            else:
                failures, pause = 0, _DECLARE_SECONDS
            finally:
                # Events run even if it fails.
                self._declared.set()
            await asyncio.sleep(jitter(pause))

    async def _deliver(self, runs: EventRuns, capacity: int) -> None:
        await self._loaded.wait()
        engine, streams = cast("EngineQueue", self._engine), cast("NewStreams", self._streams)
        await streams.over.wait()
        if self._declaring is not None:
            # If it fails, only pods of this version know its waits until it succeeds.
            await self._declared.wait()
        engine.keys.wanted = self.tasks.has_events
        await engine.run(runs.run, capacity=capacity, cancel=runs.cancel)

    async def stop(self) -> None:
        """Begin with no more events."""
        await cancel_and_wait(self._delivering, self._declaring, self._answering)

    async def drain(self, seconds: float) -> None:
        """Wait for those under way, for ``seconds`` at most; what is not done then comes again."""
        if self._engine is not None:
            await self._engine.drain(seconds)
        elif isinstance(self.queue, MemoryQueue):
            await self.queue.drain(seconds)

    async def close(self) -> None:
        """Write the rest of the run history, and disconnect."""
        if self._writing:
            await asyncio.gather(*(one.flush(_FLUSH_SECONDS) for one in self._histories))
        await cancel_and_wait(*self._writing, self._connecting, self._awaiting)
        if self._engine is not None:
            await self._engine.connection.close()
        if isinstance(self.queue, MemoryQueue):
            self.queue.close()

    def gauges(self) -> dict[str, tuple[str, Callable[[], float]]]:
        """What ``/metrics`` tells of events."""
        if self.load_engine is None and self.reports is None:
            return {}
        runs = self.runs
        dropped = {
            "tieline_run_records_dropped_total": (
                "Records of the run history that were refused, or could not be written for long.",
                lambda: float(sum(one.dropped for one in self._histories)),
            )
        }
        if runs is None or not self.tasks.has_events:
            return dropped
        return {
            **dropped,
            "tieline_events_active": (
                "Events that this pod holds.",
                lambda: self._engine.in_flight if self._engine else 0,
            ),
            "tieline_events_redelivered_total": (
                "Events that came again since a pod did not end them.",
                lambda: self._engine.leases.redelivered if self._engine else 0,
            ),
            "tieline_events_retried_total": ("Failed attempts that are tried again.", lambda: runs.retries),
            "tieline_events_dead_total": ("Events that became dead letters.", lambda: runs.dead),
            "tieline_engine_connected": (
                "Whether the pod is connected to the event engine.",
                lambda: float(self._engine is not None and self._engine.connection.connected.is_set()),
            ),
        }


def event_server(
    settings: Settings, tasks: Tasks, reports: RunReports | None = None, api: PodApi | None = None
) -> EventServer:
    """With the engine in a pod, and with memory on one's own machine. Raises ConfigurationError."""
    if settings.engine_urls:
        return EventServer(
            tasks, DeferredQueue(), settings.version, lambda: _loaded_engine(settings, api), reports
        )
    if settings.connections_file is not None or settings.api_url is None:
        return EventServer(tasks, _local_queue(settings, tasks), settings.version)
    raise ConfigurationError(
        "TIELINE_ENGINE_URL is not set: a pod needs the event engine. The operator sets it; on your own machine, use "
        "`tieline run`"
    )


def _loaded_engine(settings: Settings, api: PodApi | None) -> "tuple[EngineQueue, NewStreams]":
    # NATS' client takes a tenth of a start, and 3 MiB: pods that do not use the event engine do without it.
    from tieline.events.engine.connection import EngineConnection  # noqa: PLC0415
    from tieline.events.engine.new_streams import NewStreams  # noqa: PLC0415
    from tieline.events.engine.queue import EngineQueue  # noqa: PLC0415

    streams = EventStreams(settings.organisation_id, settings.environment_id)
    connection = EngineConnection(
        urls=settings.engine_urls,
        credentials_file=settings.engine_credentials_file,
        streams=streams,
        trust=settings.engine_trust,
    )
    return EngineQueue(connection, lease=settings.event_lease, api=api), NewStreams(connection)


def _local_queue(settings: Settings, tasks: Tasks) -> MemoryQueue:
    """In a file beside that of the state. Raises ConfigurationError for a file that cannot be used."""
    if settings.state_file is None or not tasks.has_events:
        return MemoryQueue(keeps_history=False)
    # Pods load no more than they need.
    from tieline.events.event_file import EventFile  # noqa: PLC0415

    file = EventFile(settings.state_file.with_name("events.db"))
    try:
        file.steps()
    except EventsUnavailableError as error:
        raise ConfigurationError(str(error)) from error
    return MemoryQueue(file=file)
