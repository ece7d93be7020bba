"""Issues in REST."""

from typing import Annotated, Literal

from pydantic import Field, StrictBool, StringConstraints

from tieline_api.schemas.base import PageQuery, Rest, TimeOut, UlidOut
from tieline_api.schemas.project_logs import TimeIn
from tieline_api.schemas.runs import Run, UserOfRun, VersionOfRun
from tieline_protocol.events import RunKind

IssueState = Literal["open", "regressed", "resolved", "muted"]
LATEST_RUNS = 10
MOST_USERS = 20
MAX_REASON = 500
MAX_ASSIGNEE = 256
_Name = Annotated[str, StringConstraints(max_length=128)]
_System = Annotated[str, StringConstraints(max_length=256)]
_Assignee = Annotated[str, StringConstraints(max_length=MAX_ASSIGNEE, strip_whitespace=True)]
_Reason = Annotated[str, StringConstraints(max_length=MAX_REASON, strip_whitespace=True)]
_EnvironmentName = Annotated[str, StringConstraints(max_length=64)]
_States = Annotated[list[IssueState] | None, Field(min_length=1, max_length=4)]


class IssuesQuery(PageQuery):
    """Which issues."""

    project_env: _EnvironmentName | None = None
    """Only issues in environments with this name."""
    state: _States = None
    """Only issues that are open, regressed, resolved or muted; several times for issues in one of several states."""
    kind: RunKind | None = None
    """Only issues of runs of this kind."""
    task: _Name | None = None
    """Only issues of this webhook, event or schedule."""
    system: _System | None = None
    """Only issues of this system, by its name."""
    assignee: _Assignee | None = None
    """Only issues of this person."""
    since: TimeIn | None = None
    """Only issues that failed at or after this time."""
    until: TimeIn | None = None
    """Only issues that failed first before this time. With ``since``: those that were there in between."""


class Issue(Rest):
    """Failed runs of one environment that failed the same way."""

    id: str
    """The id: the same for all runs that fail this way, in all versions."""
    project_id: UlidOut | None = None
    """The project; absent if its environment was deleted."""
    environment_id: UlidOut
    """The environment."""
    kind: RunKind
    """The kind of its runs."""
    task: str
    """The name of the webhook, event, schedule or background task."""
    type: str
    """The exception's type; empty where none was reported."""
    message: str
    """The beginning of the latest run's error message, with secrets masked."""
    system: str | None = None
    """The system that answered with an error; absent if none did."""
    upstream_status: int | None = None
    """The HTTP status of its answer."""
    state: IssueState
    """``open``, ``muted``, ``resolved``, or ``regressed``: it was resolved and failed again."""
    count: int
    """How many of the runs in the history failed this way."""
    first_seen: TimeOut
    """When the first of them failed."""
    last_seen: TimeOut
    """When the last of them failed."""
    first_version: VersionOfRun | None = None
    """The oldest version that failed this way."""
    last_version: VersionOfRun | None = None
    """The newest version that failed this way."""
    users: int
    """How many users it affects, counted up to 1,000."""
    keys: int
    """How many keys of events it affects, counted up to 1,000."""
    hours: list[int]
    """How many runs failed in each of the last 24 hours, oldest first. The last item is the current hour."""
    changed_at: TimeOut | None = None
    """When the state was last set."""
    changed_by: str | None = None
    """Who set it."""
    next_version: bool | None = None
    """True if versions after ``resolvedAfter`` are to resolve it."""
    resolved_after: VersionOfRun | None = None
    """The newest version at the time when it was resolved in the next version."""
    regressed_in: VersionOfRun | None = None
    """The first version after ``resolvedAfter`` that failed this way."""
    muted_until: TimeOut | None = None
    """When a muted issue opens again; absent if it stays muted."""
    reason: str | None = None
    """Why it is muted."""
    assignee: str | None = None
    """Who is responsible for it."""


class IssuePage(Rest):
    """A part of a list of issues, most recently seen first."""

    total_count: int
    """How many there are, counted up to 10,000."""
    items: list[Issue]
    """The issues, most recently seen first."""
    next: str | None = None
    """Pass it as ``after`` for the following issues, with the same other parameters; absent at the end."""
    prev: str | None = None
    """Pass it as ``before`` for the preceding issues; absent at the beginning."""


class AffectedUser(Rest):
    """A user for whom runs failed."""

    user: UserOfRun
    """The user."""
    count: int
    """How many runs failed for the user."""


class IssueDetail(Issue):
    """An issue with the users that it affects most and its latest runs."""

    most_affected_users: list[AffectedUser]
    """The users with the most failed runs, at most 20."""
    latest_runs: list[Run]
    """The newest of its runs."""


class IssueUpdate(Rest):
    """What to change of an issue. What is absent stays."""

    state: Literal["open", "resolved", "muted"] | None = None
    """``resolved``: it regresses when a run fails this way again. ``muted``: it stays muted whatever fails. ``open``:
    reopens it."""
    next_version: StrictBool | None = None
    """With ``resolved``: failures of the present versions do not count; it regresses when a newer version fails."""
    muted_until: TimeIn | None = None
    """With ``muted``: when it opens again. Default: it stays muted."""
    reason: _Reason | None = None
    """Why it is muted. Required with ``muted``."""
    assignee: _Assignee | None = None
    """Who is responsible for it: a name, or any text. An empty text removes the assignee."""


class IssueReplay(Rest):
    """How to run the runs of an issue again."""

    start: TimeIn | None = None
    """Only runs that were queued from this time on."""
    dry_run: StrictBool | None = None
    """Only count the runs."""
