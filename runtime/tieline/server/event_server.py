"""What runs events in a process: the queue, the run history, and the runs, started and stopped together."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from tieline.errors import ConfigurationError
from tieline.events.history import HistoryWriter
from tieline.events.memory import MemoryQueue
from tieline.events.publisher import Publisher
from tieline.events.queue import EventQueue, EventsUnavailableError, NoEvents
from tieline.server.code_loader import Tasks
from tieline.server.event_runs import EventRuns
from tieline.server.settings import Settings
from tieline_common.cancellation import cancel_and_wait
from tieline_protocol.event_streams import EventStreams

if TYPE_CHECKING:
    from tieline.events.engine.connection import EngineConnection
    from tieline.events.engine.queue import EngineQueue

_FLUSH_SECONDS = 3.0
_SETTINGS_SECONDS = 2.0


@dataclass
class EventServer:
    """Begin with ``start`` once runs would have connections; end with ``stop``, then ``drain``, then ``close``."""

    tasks: Tasks
    queue: EventQueue
    version: str = ""
    connection: "EngineConnection | None" = None

    def __post_init__(self) -> None:
        self.history = HistoryWriter(self.queue.add_history)
        self.publisher = Publisher(self.queue, self.tasks.events, history=self.history, version=self.version)
        self.runs: EventRuns | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._delivering: asyncio.Task[None] | None = None
        self._writing: asyncio.Task[None] | None = None

    @property
    def _engine_queue(self) -> "EngineQueue | None":
        """The queue where it is that of the engine: then there is a connection."""
        return cast("EngineQueue", self.queue) if self.connection is not None else None

    def connect(self, *, keeps_inputs: Callable[[], bool] = lambda: False) -> None:
        """Begin to connect, and to write the run history.

        A pod connects only where its code has events, or once inputs are kept: they may be run again. A connection
        takes some 10 MiB.
        """
        if self.connection is not None:
            self._connecting = asyncio.create_task(self._connect(self.connection, keeps_inputs))
        self._writing = asyncio.create_task(self.history.run())

    async def _connect(self, connection: "EngineConnection", keeps_inputs: Callable[[], bool]) -> None:
        while not (self.tasks.has_events or keeps_inputs()):  # noqa: ASYNC110  (the configuration tells nobody)
            await asyncio.sleep(_SETTINGS_SECONDS)
        await connection.run()

    def start(self, runs: EventRuns, *, capacity: int) -> None:
        """Begin to run events, ``capacity`` at once. Of every code there may be runs that are to be run again."""
        self.runs = runs
        if (engine := self._engine_queue) is not None:
            engine.keys.wanted = self.tasks.has_events
            delivering = engine.run(runs.run, capacity=capacity, cancel=runs.cancel)
        elif isinstance(self.queue, MemoryQueue):
            delivering = self.queue.run(runs.run, capacity=capacity)
        else:
            return
        self._delivering = asyncio.create_task(delivering)

    async def stop(self) -> None:
        """Begin with no more events."""
        await cancel_and_wait(self._delivering)

    async def drain(self, seconds: float) -> None:
        """Wait for those under way, for ``seconds`` at most; what is not done then comes again."""
        if (queue := self._engine_queue) is not None:
            await queue.drain(seconds)
        elif isinstance(self.queue, MemoryQueue):
            await self.queue.drain(seconds)

    async def close(self) -> None:
        """Write the rest of the run history, and disconnect."""
        if self._writing is not None:
            await self.history.flush(_FLUSH_SECONDS)
        await cancel_and_wait(self._writing)
        await cancel_and_wait(self._connecting)
        if self.connection is not None:
            await self.connection.close()
        if isinstance(self.queue, MemoryQueue):
            self.queue.close()

    def gauges(self) -> dict[str, tuple[str, Callable[[], float]]]:
        """What ``/metrics`` tells of events."""
        queue, runs = self._engine_queue, self.runs
        if queue is None:
            return {}
        dropped = {
            "tieline_run_records_dropped_total": (
                "Records of the run history that were not written, since the event engine was away for long.",
                lambda: float(self.history.dropped),
            )
        }
        if runs is None or not self.tasks.has_events:
            return dropped
        return {
            **dropped,
            "tieline_events_active": ("Events that this pod holds.", lambda: queue.in_flight),
            "tieline_events_redelivered_total": (
                "Events that came again since a pod did not end them.",
                lambda: queue.leases.redelivered,
            ),
            "tieline_events_retried_total": ("Failed attempts that are tried again.", lambda: runs.retries),
            "tieline_events_dead_total": ("Events that became dead letters.", lambda: runs.dead),
            "tieline_engine_connected": (
                "Whether the pod is connected to the event engine.",
                lambda: float(queue.connection.connected.is_set()),
            ),
        }


def event_server(settings: Settings, tasks: Tasks) -> EventServer:
    """With the engine in a pod that has one, and with memory on one's own desk."""
    if settings.engine_urls:
        # NATS' client takes a tenth of a start: pods without an event engine do without it.
        from tieline.events.engine.connection import EngineConnection  # noqa: PLC0415
        from tieline.events.engine.queue import EngineQueue  # noqa: PLC0415

        streams = EventStreams(settings.organisation_id, settings.environment_id)
        connection = EngineConnection(
            urls=settings.engine_urls, credentials_file=settings.engine_credentials_file, streams=streams
        )
        return EventServer(
            tasks, EngineQueue(connection, lease=settings.event_lease), settings.version, connection
        )
    if settings.connections_file is not None or settings.api_url is None:
        return EventServer(tasks, _desk_queue(settings, tasks), settings.version)
    return EventServer(tasks, NoEvents(), settings.version)


def _desk_queue(settings: Settings, tasks: Tasks) -> MemoryQueue:
    """In a file beside that of the state. Raises ConfigurationError for a file that cannot be used."""
    if settings.state_file is None or not tasks.has_events:
        return MemoryQueue()
    # Pods load no more than they need.
    from tieline.events.event_file import EventFile  # noqa: PLC0415

    file = EventFile(settings.state_file.with_name("events.db"))
    try:
        file.steps()
    except EventsUnavailableError as error:
        raise ConfigurationError(str(error)) from error
    return MemoryQueue(file=file)
