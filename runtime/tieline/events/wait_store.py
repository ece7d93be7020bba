"""The port to stored waits: open waits, events that later waits may match, and outcomes.

A wait and an event find each other whichever comes first. The pod with the wait stores it, and then looks for the
event; the pod with the event stores it, and then looks for waits. One of the two sees the other. The outcome of a wait
is written once: the first one counts, be it an event or the timeout.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tieline_protocol.approvals import KEPT_SECONDS, WAIT_PREFIX, Approval
from tieline_protocol.child_runs import WAIT_PREFIX as CHILD_PREFIX
from tieline_protocol.events import EventMetadata
from tieline_protocol.run_records import WaitsFor
from tieline_protocol.waits import DebounceWait, WaitRule, may_end, publication_order, published_from

LEAST_KEEP_SECONDS = 300.0
"""An event is kept for at least this long: a wait may be about to begin."""
AFTER_WAIT_SECONDS = 86400.0
"""How long a wait is kept after its timeout, unless its run removes it before."""

RECORD_SECONDS = 60 * 86400.0
"""How long rules and outcomes are kept, unless they are written or removed again."""


def approval_seconds(approval: Approval, now: float) -> float:
    """How long an approval is kept from now on."""
    return max(approval.until - now, 0) + KEPT_SECONDS


@dataclass(frozen=True, kw_only=True)
class KeptEvent:
    """An event that may end waits."""

    metadata: EventMetadata
    payload: bytes
    kept_at: float = field(default=0.0, compare=False)
    """When it was first kept, in seconds since 1970; 0 where it is not kept yet."""

    def is_newer_than(self, other: "KeptEvent") -> bool:
        """Whether it was published after another one. Of two at the same time one is newer as well."""
        own, others = self.metadata, other.metadata
        before = publication_order(others.queued_at, others.run)
        return publication_order(own.queued_at, own.run) > before

    @property
    def came_at(self) -> float:
        """When it could first end waits: it may have waited in the queue, for its time or while the environment was
        suspended."""
        return max(self.metadata.queued_at, self.kept_at)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How a wait has ended."""

    event: KeptEvent | None = None
    """None for a timeout."""

    def is_of(self, event: KeptEvent) -> bool:
        """Whether this event ended the wait."""
        return self.event is not None and self.event.metadata.run == event.metadata.run


@dataclass(frozen=True, kw_only=True)
class Wait:
    """A run that waits."""

    index: str
    """See ``tieline_protocol.waits``."""
    run: str
    name: str
    """Which wait of the run it is, as one token of a subject."""
    key_hash: str | None = None
    """Of the run's event, where it has a key."""

    @property
    def approval(self) -> str | None:
        """The id of the approval whose answer ends it; None for a wait for an event."""
        return self.name.removeprefix(WAIT_PREFIX) if self.name.startswith(WAIT_PREFIX) else None

    @property
    def is_matched(self) -> bool:
        """Whether events end it that are found by its index. Who ends a child knows the wait for it."""
        return not self.name.startswith(CHILD_PREFIX)

    @property
    def cancels(self) -> bool:
        """Whether what ends it cancels the run."""
        return published_from(self.name) is not None

    def accepts(self, event: KeptEvent) -> bool:
        """Whether the event came at a time at which it may end the wait."""
        published_at, debounced = event.metadata.queued_at, DebounceWait.parse(self.name)
        if debounced is None:
            return may_end(self.name, published_at)
        return debounced.is_superseded(
            self.run, by=event.metadata.run, published_at=published_at, came_at=event.came_at
        )


@dataclass(frozen=True, kw_only=True)
class OpenWait(Wait):
    """A wait as its own run knows it."""

    until: float
    """Seconds since 1970."""
    since: float
    """When the oldest event came that may end it."""
    taken: frozenset[str] = frozenset()
    """Runs of the events that have ended earlier waits of the run."""

    def ended_by(self, events: Sequence[KeptEvent]) -> KeptEvent | None:
        """The oldest event that may end it."""
        for event in sorted(events, key=lambda one: (one.metadata.queued_at, one.metadata.run)):
            if event.came_at >= self.since and event.metadata.run not in self.taken and self.accepts(event):
                return event
        return None


def suspended_for(waits: Collection[Wait]) -> WaitsFor:
    """What a run waits for whose attempt has ended with these open waits: for the first one, or for a time."""
    for wait in waits:
        if wait.approval is not None:
            return "approval"
        return "event" if wait.is_matched else "child"
    return "sleep"


def pending_wait(metadata: EventMetadata) -> OpenWait | None:
    """The wait of an event that waits for newer ones to supersede it; None for another event."""
    index, _, name = (metadata.debounced or "").partition(" ")
    if not (index.isascii() and index.isalnum()) or DebounceWait.parse(name) is None:
        return None
    return OpenWait(index=index, run=metadata.run, name=name, until=0.0, since=0.0)


@dataclass(frozen=True, kw_only=True)
class KeptLine:
    """What is kept of a line of runs (``tieline.events.throttle``)."""

    content: bytes = b""
    number: int = 0
    """Of the last change; 0 where nothing is kept."""


class WaitStore(Protocol):
    """All of it raises EventsUnavailableError, and QueueFullError where there is no room."""

    async def declare(self, rules: Collection[WaitRule]) -> None:
        """Apply these rules from now on to each event, whichever pod takes it."""

    async def rules(self, name: str) -> Sequence[WaitRule]:
        """The rules of a name, of all versions of the code that declared any in the last weeks."""

    async def may_have_rules(self, name: str) -> bool:
        """Whether there are any, as was known a few seconds ago. Costs little."""

    async def keep(self, index: str, event: KeptEvent, seconds: float, *, at_least: float = 0.0) -> int:
        """Keep an event for a time, unless it is kept already; returns when, as a number among those of waits.

        Where there is little room it is kept for a shorter time, but ``at_least`` so many seconds."""

    async def drop_older(self, index: str, event: KeptEvent) -> None:
        """Remove what is kept at an index of events that were published before one that is kept there."""

    async def line(self, index: str) -> KeptLine:
        """A line of runs, as far as a server knows."""

    async def keep_line(self, index: str, content: bytes, seconds: float, *, expected: int) -> bool:
        """Keep a line for a time; False where another pod has changed it since ``expected``."""

    async def find(self, wait: OpenWait) -> KeptEvent | None:
        """The oldest kept event that may end a wait. A server that is behind may miss one; ``begin`` does not."""

    async def waits(self, index: str, *, before: int) -> Sequence[Wait]:
        """All waits that had begun when an event was kept. Those that begin later find it themselves, unless it has
        ended an earlier wait of their run."""

    async def ask(self, approval: Approval) -> None:
        """Show people what a run asks, unless it is shown already. It is shown until long after its time."""

    async def begin(self, waits: Collection[OpenWait]) -> None:
        """Begin waits of a run whose next attempt is stored for their timeout. One that has ended already wakes the
        run."""

    async def close(self, wait: Wait) -> None:
        """Forget a wait that has ended."""

    async def decide(self, wait: Wait, outcome: Outcome) -> Outcome:
        """Write the outcome of a wait; returns the first one written, which may be another one."""

    async def outcome(self, wait: Wait) -> Outcome | None:
        """The outcome of a wait, as far as a server knows; None where it goes on."""

    async def wake(self, wait: Wait) -> None:
        """Continue the run of a wait now. Does nothing where the run does not wait any more."""

    async def forget(self, run: str, open_waits: Collection[Wait]) -> None:
        """Remove what is left of a run that has ended: its open waits, and an attempt that is still stored for the
        timeout of a wait."""
