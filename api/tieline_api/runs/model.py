"""Runs as the index has them. Times are nanoseconds since 1970, as those of spans."""

from collections.abc import Sequence
from dataclasses import dataclass

from tieline_protocol.events import RunKind
from tieline_protocol.run_records import RunError, RunFacts, RunStatus, StepRecord

Position = tuple[int, str, str]
"""Where a run stands in a list: when it was queued, its id, its environment."""
DIRECT_KINDS: frozenset[RunKind] = frozenset(("webhook", "schedule", "background"))
"""Kinds of runs that pods do at once, and report to the API."""
KINDS: frozenset[RunKind] = DIRECT_KINDS | {"event"}
"""Kinds of runs that pods report."""
CALLS: frozenset[RunKind] = frozenset(("call",))
"""Kinds of runs that the API reports itself."""


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
    """Sequence number, in the stream of the run's records, of the message with the input."""
    direct: bool = False
    """Whether it was done at once, in one attempt: its one record is in the stream of direct runs."""
    issue: str | None = None
    """The id of the issue of a failed run."""

    @property
    def may_wait_behind(self) -> bool:
        """Whether it may wait behind another run with its key."""
        return self.status == "queued" and self.key is not None

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
    ids: tuple[str, ...] | None = None
    """Ids of runs, in upper case."""
    statuses: tuple[RunStatus, ...] | None = None
    kind: RunKind | None = None
    task: str | None = None
    user: str | None = None
    versions: tuple[str, ...] | None = None
    """Names of ProjectVersions."""
    discarded: bool | None = None
    """Whether the dead letter was discarded."""
    replayed: bool | None = None
    """Whether it was run again."""
    failed: bool | None = None
    """Whether it has failed, or is a dead letter."""
    start: int | None = None
    end: int | None = None
    search: str | None = None
    """In errors, in upper or lower case."""
    find: str | None = None
    """The run's id, its event's id, its key, its user or the value of one of its tags."""
    tags: tuple[tuple[str, str], ...] = ()
    """Names and values, all of which the run has."""
    key: str | None = None
    issue: str | None = None
    event_id: str | None = None
    trace_id: str | None = None
    """Of any attempt: 32 hexadecimal digits, in lower case."""
    actionable: bool = False
    """Leaves out direct runs whose input is not kept: they have ended, and cannot be run again."""


BEFORE_ALL: Position = (-1, "", "")
"""No run stands there or before it."""


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
