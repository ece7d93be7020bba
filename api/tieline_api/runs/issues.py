"""Issues: failed runs grouped by what failed, and decisions about them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self

import orjson

from tieline_api.schemas.issues import MAX_ASSIGNEE, MAX_REASON, IssueState
from tieline_protocol.events import RunKind

StoredState = Literal["open", "resolved", "muted"]
MAX_COUNTED = 1000
"""Users and keys of an issue are counted so far."""
_MAX_NAME = 256
_NANOSECONDS = 1e9

IssuePosition = tuple[int, str]
"""Where an issue stands in a list: when it was last seen, and its id."""
VersionAge = Callable[[str], int | None]
"""When a version was created (nanoseconds), by the name of its object; None for one that is gone."""


@dataclass(frozen=True, kw_only=True)
class Decision:
    """A decision about an issue. Times are nanoseconds since 1970."""

    state: StoredState = "open"
    at: int = 0
    """When it was decided."""
    by: str = ""
    """Who decided it."""
    next_version: bool = False
    """Whether any version after ``version`` resolves it."""
    version: str = ""
    """The newest version when it was resolved: the name of its object."""
    version_at: int = 0
    """When that one was created."""
    until: int | None = None
    """When a muted issue opens again; None for never."""
    reason: str = ""
    assignee: str = ""

    def to_json(self) -> dict[str, Any]:
        """As the engine keeps it."""
        return {name: value for name, value in vars(self).items() if value is not None and value != ""}

    @classmethod
    def parse(cls, content: bytes | str) -> Self:
        """What ``to_json`` made. Raises ValueError."""
        found = orjson.loads(content)
        if not isinstance(found, dict):
            raise ValueError("no decision")
        state = found.get("state", "open")
        if state not in ("open", "resolved", "muted"):
            raise ValueError("no state")
        until = found.get("until")
        return cls(
            state=state,
            at=_time(found.get("at", 0)),
            by=_text(found.get("by", ""), _MAX_NAME),
            next_version=found.get("next_version") is True,
            version=_text(found.get("version", ""), _MAX_NAME),
            version_at=_time(found.get("version_at", 0)),
            until=None if until is None else _time(until),
            reason=_text(found.get("reason", ""), MAX_REASON),
            assignee=_text(found.get("assignee", ""), MAX_ASSIGNEE),
        )

    def assigned(self, assignee: str) -> "Decision":
        """The same decision with another assignee."""
        return replace(self, assignee=assignee)


def _time(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**63:
        raise ValueError("no time")
    return value


def _text(value: object, longest: int) -> str:
    if not isinstance(value, str):
        raise ValueError("no text")
    return value[:longest]


def state_of(
    decision: Decision | None, *, last: int, versions: Sequence[str], age: VersionAge, now: int
) -> IssueState:
    """The state of an issue that last failed at ``last``, in these versions.

    One that was resolved has regressed when it was seen after that; one that the next version resolves, when a version
    failed so that is newer than the newest of that time.
    """
    if decision is None or decision.state == "open":
        return "open"
    if decision.state == "muted":
        return "muted" if decision.until is None or now < decision.until else "open"
    if decision.next_version:
        return "regressed" if newer_version(decision, versions, age) else "resolved"
    return "regressed" if last > decision.at else "resolved"


def newer_version(decision: Decision, versions: Sequence[str], age: VersionAge) -> str | None:
    """The oldest of these versions that is newer than the newest one when the issue was resolved."""
    found = [(created, one) for one in versions if (created := age(one)) and created > decision.version_at]
    return min(found)[1] if found else None


@dataclass(frozen=True, kw_only=True)
class Issue:
    """Failed runs of one environment that failed the same way. Times are nanoseconds since 1970."""

    id: str
    environment: str
    kind: RunKind
    task: str
    type: str
    """Of the error."""
    system: str
    """The system that answered with an error; empty where none did."""
    status: int | None
    """What it answered."""
    message: str
    """Of the latest run, its beginning."""
    runs: int
    first: int
    last: int
    first_version: str
    last_version: str
    users: int
    """Counted up to MAX_COUNTED."""
    keys: int
    """The same."""
    versions: tuple[str, ...]
    hours: Mapping[int, int] = field(default_factory=dict)
    """How many runs failed in the hours of the last day: by the hour since 1970."""
    decision: Decision | None = None
    decided: int = 0
    """The number of the message with the decision; 0 for none."""
    state: IssueState = "open"


@dataclass(frozen=True, kw_only=True)
class IssueFilter:
    """Which issues."""

    organisation: str
    environments: tuple[str, ...] | None = None
    """None for all of the organisation."""
    id: str | None = None
    states: tuple[IssueState, ...] | None = None
    kind: RunKind | None = None
    task: str | None = None
    system: str | None = None
    assignee: str | None = None
    since: int | None = None
    """Only those that failed at or after this time."""
    until: int | None = None
    """Only those that failed first before this time."""


@dataclass(frozen=True, kw_only=True)
class IssuePageRequest:
    """Which part of a list, most recently seen first: what comes after a position, or before it."""

    first: int
    after: IssuePosition | None = None
    before: IssuePosition | None = None
    now: int
    age: VersionAge

    @property
    def backwards(self) -> bool:
        """Whether the page ends at a position, rather than begins there."""
        return self.before is not None and self.after is None


@dataclass(frozen=True)
class StoredDecision:
    """A message about an issue, by its number in the stream."""

    sequence: int
    issue: str
    decision: Decision
