"""Events that cancel a run: looked for before each attempt and each new step, and while the run waits."""

from tieline.events.event import parsed_payload
from tieline.events.retry import Reject
from tieline.events.wait_store import KeptEvent, OpenWait, WaitStore
from tieline_protocol.events import EventMetadata
from tieline_protocol.waits import WaitRule, cancellation_name


class CancelledByEvent(BaseException):
    """Stops an attempt that an event cancels. Not an Exception, so that code which catches those does not go on."""


class RunCancellation:
    """What cancels one run, for one attempt."""

    def __init__(
        self, store: WaitStore, index: str, metadata: EventMetadata, *, key_hash: str | None, began_wait: bool
    ) -> None:
        """``began_wait``: whether an earlier attempt may have begun to wait."""
        self._store = store
        self._wait = OpenWait(
            index=index,
            run=metadata.run,
            name=cancellation_name(metadata.queued_at),
            key_hash=key_hash,
            until=0.0,
            since=0.0,
        )
        self._began_wait = began_wait
        self.event: EventMetadata | None = None
        """The event that cancels the run, once it was found."""

    async def look(self) -> bool:
        """Whether an event cancels the run. Raises EventsUnavailableError."""
        if self.event is None and (found := await self._found()) is not None:
            self.event = found.metadata
        return self.event is not None

    async def check(self) -> None:
        """Raises CancelledByEvent, or EventsUnavailableError."""
        if await self.look():
            raise CancelledByEvent

    def wait(self, until: float) -> OpenWait:
        """The wait for the event while the run waits until a time."""
        wait = self._wait
        return OpenWait(
            index=wait.index, run=wait.run, name=wait.name, key_hash=wait.key_hash, until=until, since=0.0
        )

    async def _found(self) -> KeptEvent | None:
        if self._began_wait and (outcome := await self._store.outcome(self._wait)) is not None:
            return outcome.event
        return await self._store.find(self._wait)


def run_cancellation(
    store: WaitStore,
    rule: WaitRule | None,
    metadata: EventMetadata,
    payload: bytes,
    *,
    key_hash: str | None,
    began_wait: bool,
) -> RunCancellation | None:
    """What cancels a run; None where nothing does: its task has no such rule, or its payload lacks a field of it."""
    if rule is None:
        return None
    try:
        index = rule.index_of(parsed_payload(payload), metadata.user)
    except Reject:
        return None
    if index is None:
        return None
    return RunCancellation(store, index, metadata, key_hash=key_hash, began_wait=began_wait)
