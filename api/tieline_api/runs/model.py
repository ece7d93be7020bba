"""Runs as the index has them. Times are nanoseconds since 1970, as those of spans."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from tieline_protocol.events import RunKind
from tieline_protocol.run_records import RunError, RunFacts, RunStatus, StepRecord

Position = tuple[int, str, str]
"""Where a run stands in a list: when it was queued, its id, its environment."""
KINDS: tuple[RunKind, ...] = ("webhook", "event", "schedule", "background")


@dataclass(frozen=True, kw_only=True)
class Run(RunFacts):
    """A run as it was last heard of."""

    environment: str
    queued_at: int
    started_at: int | None = None
    ended_at: int | None = None
    next_attempt_at: int | None = None
    discarded_at: int | None = None
    """When the dead letter of a dead run was discarded."""
    replayed_by: str | None = None
    """The newest run that runs it again."""
    input_at: int | None = None
    """Sequence number, in the history's stream, of the message with the input."""
    source: Literal["history", "span"] = "history"

    @property
    def position(self) -> Position:
        """Where it stands in lists."""
        return (self.queued_at, self.id, self.environment)


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """One attempt of a run."""

    number: int
    status: RunStatus
    started_at: int | None = None
    ended_at: int | None = None
    error: RunError | None = None
    trace_id: str = ""
    version: str = ""
    steps: Sequence[StepRecord] = ()
    steps_left_out: int = 0
    """How many earlier steps it had beside these."""


@dataclass(frozen=True)
class AttemptPage:
    """The newest attempts of a run, oldest first, and how many earlier ones there are beside them."""

    attempts: list[Attempt]
    left_out: int = 0


@dataclass(frozen=True, kw_only=True)
class RunFilter:
    """Which runs. ``start`` is in, ``end`` is not."""

    organisation: str
    environments: tuple[str, ...] | None = None
    """None for all of the organisation."""
    status: RunStatus | None = None
    kind: RunKind | None = None
    task: str | None = None
    user: str | None = None
    versions: tuple[str, ...] | None = None
    """Names of ProjectVersions."""
    discarded: bool | None = None
    """Whether the dead letter was discarded."""
    replayed: bool | None = None
    """Whether it was run again."""
    start: int | None = None
    end: int | None = None
    search: str | None = None
    """In errors, in upper or lower case."""
    key: str | None = None
    event_id: str | None = None
    trace_id: str | None = None
    """Of any attempt: 32 hexadecimal digits, in lower case."""


@dataclass(frozen=True, kw_only=True)
class PageRequest:
    """Which part of a list, newest first: what is older than ``after``, or what is newer than ``before``."""

    first: int
    after: Position | None = None
    before: Position | None = None

    @property
    def backwards(self) -> bool:
        """Whether the page ends at a position, rather than begins there."""
        return self.before is not None and self.after is None
