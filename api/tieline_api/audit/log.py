"""Audit records on their way into the event engine. No write waits for them.

While the engine is away, records wait in memory, up to a bound. What is beyond it is counted and logged.
"""

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress

from nats.js.errors import NotFoundError

from tieline_api.audit.export import AuditExport
from tieline_api.audit.records import AuditRecord
from tieline_api.audit.refusals import RefusalLimiter
from tieline_api.engine.errors import EngineUnavailableError
from tieline_api.engine.requests import EngineRequests
from tieline_api.errors import ApiError
from tieline_common.backoff import exponential, jitter
from tieline_common.cancellation import cancel_and_wait
from tieline_core.engine.audit_streams import audit_stream, audit_subject

logger = logging.getLogger("tieline.audit")

MOST_WAITING = 5_000
"""Records at a replica."""
MOST_WAITING_EACH = 1_000
"""Of one stream."""
MOST_WAITING_BYTES = 16 << 20
MOST_ATTEMPTS = 30
"""How often a record is refused by an engine that is there, such as one that has no stream for it yet."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 10.0
_STOP_SECONDS = 5.0
_MESSAGE_ID = "Nats-Msg-Id"
_EXPECTED_STREAM = "Nats-Expected-Stream"


class _Queue:
    """Records of one stream, in the order of what they are about."""

    def __init__(self) -> None:
        self.records: deque[tuple[AuditRecord, bytes]] = deque()
        self.refused = 0
        """How often the first was refused."""
        self.due = 0.0
        """When the first is tried again, by the clock of the loop."""
        self.failures = 0
        """How often in a row the engine did not answer."""


class AuditLog:
    """Stores records in the background. ``start`` and ``stop`` it."""

    def __init__(
        self,
        engine: EngineRequests,
        *,
        export: AuditExport | None = None,
        pause: Callable[[int], float] | None = None,
    ) -> None:
        """``export`` gets each record too; ``pause`` says how many seconds come after so many failures."""
        self._engine = engine
        self.export = export
        self._pause = pause or _pause
        self.refusals = RefusalLimiter()
        self.counts: Counter[str] = Counter(stored=0, dropped=0, limited=0)
        """Records by what became of them."""
        self._queues: dict[str, _Queue] = {}
        self._waiting = 0
        self._bytes = 0
        self._changed = asyncio.Event()
        self._settled = asyncio.Event()
        """Set while nothing waits but what the engine has refused."""
        self._settled.set()
        self._task: asyncio.Task[None] | None = None

    @property
    def waiting(self) -> int:
        """Records that are not stored yet."""
        return self._waiting

    def add(self, record: AuditRecord) -> None:
        """Stores a record soon, and returns at once."""
        if self.export is not None:
            self.export.add(record)
        content = record.encoded()
        stream = audit_stream(record.organisation, record.part)
        queue = self._queues.get(stream) or _Queue()
        if (
            self._waiting >= MOST_WAITING
            or len(queue.records) >= MOST_WAITING_EACH
            or self._bytes + len(content) > MOST_WAITING_BYTES
        ):
            self._dropped(record, "too many wait for the event engine")
            return
        self._queues[stream] = queue
        queue.records.append((record, content))
        self._waiting += 1
        self._bytes += len(content)
        self._settled.clear()
        self._changed.set()

    async def start(self) -> None:
        """Begins to store records."""
        if self.export is not None:
            self.export.start()
        self._task = asyncio.create_task(self._store_periodically(), name="store audit records")

    async def stop(self) -> None:
        """Stores what waits, for a few seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_STOP_SECONDS):
                await self._settled.wait()
        await cancel_and_wait(self._task)
        for stream in list(self._queues):
            while stream in self._queues:
                self._dropped(self._take(stream), "this replica ends")
        if self.export is not None:
            await self.export.stop()

    async def _store_periodically(self) -> None:
        clock = asyncio.get_running_loop().time
        while True:
            self._changed.clear()
            due = [name for name, queue in self._queues.items() if queue.due <= clock()]
            for stream in due:
                await self._store_first(stream)
            if due:
                continue
            later = min((queue.due for queue in self._queues.values()), default=None)
            with suppress(TimeoutError):
                async with asyncio.timeout(None if later is None else max(0.0, later - clock())):
                    await self._changed.wait()

    async def _store_first(self, stream: str) -> None:
        """Tries to store the oldest record of a stream. Other streams do not wait for one that is not taken."""
        queue = self._queues[stream]
        record, content = queue.records[0]
        try:
            await self._publish(record, content)
        except EngineUnavailableError:
            queue.failures += 1
            queue.due = asyncio.get_running_loop().time() + self._pause(queue.failures)
        except Exception as error:
            if not isinstance(error, ApiError | NotFoundError):
                logger.exception("An audit record cannot be stored")
            queue.refused += 1
            queue.due = asyncio.get_running_loop().time() + self._pause(queue.refused)
            if queue.refused >= MOST_ATTEMPTS:
                self._dropped(self._take(stream), "the event engine refuses it")
            self._settle()
        else:
            self._take(stream)
            self.counts["stored"] += 1

    def _take(self, stream: str) -> AuditRecord:
        queue = self._queues[stream]
        record, content = queue.records.popleft()
        queue.refused, queue.failures, queue.due = 0, 0, 0.0
        self._waiting -= 1
        self._bytes -= len(content)
        if not queue.records:
            del self._queues[stream]
        self._settle()
        return record

    def _settle(self) -> None:
        if all(queue.refused for queue in self._queues.values()):
            self._settled.set()

    async def _publish(self, record: AuditRecord, content: bytes) -> None:
        headers = {
            _MESSAGE_ID: record.id,
            _EXPECTED_STREAM: audit_stream(record.organisation, record.part),
        }
        subject = audit_subject(record.organisation, record.part)
        await self._engine.ask(lambda jetstream: jetstream.publish(subject, content, headers=headers))

    def _dropped(self, record: AuditRecord, reason: str) -> None:
        """The log keeps what the stream does not."""
        self.counts["dropped"] += 1
        logger.error(
            "An audit record is lost: %s",
            reason,
            extra={
                "organisation": record.organisation,
                "user": record.subject,
                "operation": record.operation,
                "outcome": record.outcome,
                "object": record.object,
            },
        )


def _pause(failures: int) -> float:
    return jitter(exponential(failures, first=_FIRST_PAUSE, cap=_LONGEST_PAUSE))
