"""Runs and events in REST."""

import re
from typing import Annotated, Any, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StrictBool,
    StringConstraints,
    WithJsonSchema,
)

from tieline_api.schemas.base import PageQuery, Query, Rest, TimeOut, UlidOut
from tieline_api.schemas.project_logs import TimeIn
from tieline_core.engine.publisher import TASK_PATTERN, is_task
from tieline_protocol.events import RunKind
from tieline_protocol.run_records import RunStatus

MAX_DELAY_DAYS = 366
_TRACE_ID = re.compile("[0-9a-fA-F]{32}")
_MAX_DELAY = MAX_DELAY_DAYS * 86400
_Name = Annotated[str, StringConstraints(max_length=128)]
_ExternalId = Annotated[str, StringConstraints(max_length=256)]
_Key = Annotated[str, StringConstraints(max_length=512)]
_Search = Annotated[str, StringConstraints(max_length=200)]
_EnvironmentName = Annotated[str, StringConstraints(max_length=64)]


def _trace_id(text: str) -> str:
    if not _TRACE_ID.fullmatch(text):
        raise ValueError("must be the id of a trace: 32 hexadecimal digits")
    return text.lower()


_TraceId = Annotated[
    str, AfterValidator(_trace_id), WithJsonSchema({"type": "string", "pattern": f"^{_TRACE_ID.pattern}$"})
]


class _Filters(BaseModel):
    """What runs are chosen by, in queries and bodies."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    project_env: Annotated[_EnvironmentName | None, Field(alias="project_env")] = None
    """Only runs in the environment with this name."""
    status: RunStatus | None = None
    """Only runs with this status."""
    kind: RunKind | None = None
    """Only runs of this kind."""
    task: _Name | None = None
    """Only runs of this webhook, event or schedule."""
    user: _ExternalId | None = None
    """Only runs for this user, by the user's id in the customer's own application."""
    version: _Name | None = None
    """Only runs of this version, by its id or its name."""
    start: TimeIn | None = None
    """Only runs that were queued from this time on."""
    end: TimeIn | None = None
    """Only runs that were queued before this time."""
    key: _Key | None = None
    """Only runs of events with this key."""
    event_id: Annotated[_ExternalId | None, Field(alias="event_id")] = None
    """Only runs of events that were sent with this id."""
    trace_id: Annotated[_TraceId | None, Field(alias="trace_id")] = None
    """Only runs with this trace, of any of their attempts: 32 hexadecimal digits."""
    search: _Search | None = None
    """Text to look for in errors, in upper or lower case."""
    discarded: bool | None = None
    """Only runs whose dead letter was discarded, or, with ``false``, only others."""
    replayed: bool | None = None
    """Only runs that were run again, or, with ``false``, only others."""


class RunsQuery(_Filters, PageQuery):
    """Which runs."""

    project_env: _EnvironmentName | None = None
    """Only runs in environments with this name."""
    status: RunStatus | None = None
    """Only runs that are queued, running or waiting, or that have ended as succeeded, failed, dead or cancelled."""
    version: _Name | None = None
    """Only runs of this version, by its id or its name. Not all runs tell theirs."""


class RunQuery(Query):
    """Which run, where two environments have one with this id."""

    project_env: _EnvironmentName | None = None
    """Only a run in the environment with this name."""


class SelectionQuery(_Filters, Query):
    """Which runs to act on; the fields of the body mean the same."""

    dryRun: bool | None = None  # noqa: N815  (as the contract names it)
    """Only count the runs."""


class SelectionBody(_Filters, Rest):
    """Which runs to act on, by the names of the list's parameters. At least one of them is needed."""

    discarded: StrictBool | None = None
    """Only runs whose dead letter was discarded, or, with ``false``, only others."""
    replayed: StrictBool | None = None
    """Only runs that were run again, or, with ``false``, only others."""
    dry_run: StrictBool | None = None
    """Only count the runs."""


class BacklogQuery(Query):
    """How much of the backlog."""

    first: Annotated[int, Field(ge=1, le=500)] = 200
    """How many groups, 1 to 500."""


class BacklogItem(Rest):
    """Runs of one task and key that wait."""

    environment_id: UlidOut
    """The environment."""
    task: str
    """The task."""
    key: str | None = None
    """The key whose events run one after the other; absent for events without one."""
    status: RunStatus
    """queued, running, waiting or dead."""
    count: int
    """How many."""
    oldest: TimeOut
    """When the first of them was queued."""


class Backlog(Rest):
    """What waits."""

    items: list[BacklogItem]
    """Groups of runs, the one with the oldest run first."""
    more: bool | None = None
    """True where there are more groups; absent otherwise."""


class UpstreamResponse(Rest):
    """What an external system answered."""

    status: int
    """The HTTP status."""
    body: str
    """The beginning of the body, with secrets masked."""


class RunFailure(Rest):
    """Why an attempt failed, with secrets masked."""

    type: str
    """The exception's type."""
    message: str
    """What went wrong."""
    upstream: UpstreamResponse | None = None
    """What the external system answered, where one did."""


class UserOfRun(Rest):
    """The user that a run is for."""

    id: UlidOut | None = None
    """The user's id; absent when there is no such user any more."""
    external_id: str
    """The user's id in the customer's own application."""


class VersionOfRun(Rest):
    """The version whose code ran last."""

    id: UlidOut | None = None
    """Its id; absent when it is not kept any more."""
    name: str
    """Its name."""


class Run(Rest):
    """One execution of a webhook, event, schedule or background task, with all its attempts."""

    id: UlidOut
    """The id, as in logs and traces."""
    kind: RunKind
    """What it is a run of."""
    task: str
    """The name of the webhook, event, schedule or background task."""
    status: RunStatus
    """``queued``, ``running`` or ``waiting`` for its next attempt; or ended: ``succeeded``, ``failed``, ``dead`` (all
    attempts failed) or ``cancelled``."""
    environment_id: UlidOut
    """The environment."""
    activation_id: UlidOut | None = None
    """The activation that it ran for."""
    user: UserOfRun | None = None
    """Whom it is for; absent for runs of the static activation."""
    version: VersionOfRun | None = None
    """The version whose code ran last; absent before the first attempt, for background work, and for direct webhooks
    and schedules whose inputs are not kept."""
    key: str | None = None
    """The key of its event: runs with the same one go one at a time."""
    event_id: str | None = None
    """The id that its event was sent with."""
    attempt: int
    """The number of the attempt that is under way or was the last; 0 before the first."""
    attempts: int | None = None
    """How many attempts there are at most."""
    queued_at: TimeOut
    """When it was accepted."""
    started_at: TimeOut | None = None
    """When its last attempt began."""
    ended_at: TimeOut | None = None
    """When its last attempt ended."""
    next_attempt_at: TimeOut | None = None
    """When it goes on."""
    discarded_at: TimeOut | None = None
    """When its dead letter was discarded."""
    error: RunFailure | None = None
    """Why its last attempt failed."""
    trace_id: str | None = None
    """The trace of its last attempt: 32 hexadecimal digits."""
    replay_of: UlidOut | None = None
    """The run that it runs again."""
    replayed_by: UlidOut | None = None
    """The newest run that runs it again."""


class RunPage(Rest):
    """A part of a list of runs, newest first."""

    total_count: int
    """How many there are, counted up to 10,000."""
    items: list[Run]
    """The runs, newest first."""
    next: str | None = None
    """Pass it as ``after`` for older runs, with the same other parameters; absent at the end."""
    prev: str | None = None
    """Pass it as ``before`` for newer runs; absent at the beginning."""


class RunStep(Rest):
    """A step that a run did."""

    name: str
    """Its name."""
    occurrence: int
    """Which of the steps with this name."""
    started_at: TimeOut
    """When it began."""
    ended_at: TimeOut
    """When it ended."""
    recorded: bool
    """Whether an earlier attempt had done it."""
    error: str | None = None
    """Why it failed."""


class RunAttempt(Rest):
    """One attempt of a run."""

    attempt: int
    """Its number, from 1."""
    status: RunStatus
    """What the run was when the attempt ended: ``waiting`` means that it failed, and is tried again."""
    started_at: TimeOut | None = None
    """When it began."""
    ended_at: TimeOut | None = None
    """When it ended."""
    error: RunFailure | None = None
    """Why it failed."""
    trace_id: str | None = None
    """Its trace."""
    version: VersionOfRun | None = None
    """The version whose code ran."""
    steps: list[RunStep]
    """What it did: the newest steps, where there are many."""
    steps_left_out: int | None = None
    """How many earlier steps are not shown."""


class RunRequest(Rest):
    """The request of a webhook, without its body and without credentials."""

    method: str
    """The method."""
    path: str
    """The path with the query."""
    headers: list[list[str]]
    """Names and values."""


class RunDetail(Run):
    """A run with its attempts and its input."""

    attempt_history: list[RunAttempt]
    """The attempts, oldest first, as far as they are kept: the newest 100."""
    attempts_left_out: int | None = None
    """How many earlier attempts are not shown."""
    steps: list[RunStep]
    """The steps of the last attempt that did some."""
    input: Any = None
    """The input, where it is kept and JSON."""
    input_base64: str | None = None
    """The input, where it is kept and no JSON; of a large one the first MiB."""
    input_content_type: str | None = None
    """What ``inputBase64`` is."""
    input_truncated: bool | None = None
    """True when the input is larger than 1 MiB, so that only its beginning is here."""
    request: RunRequest | None = None
    """The request of a webhook, where it is kept."""


class ReplayBody(Rest):
    """How to run a run again."""

    payload: Any = None
    """The input in place of the old one, as JSON."""


class RunsAffected(Rest):
    """What was done with many runs."""

    count: int
    """How many runs it was done with, or would be with ``dryRun``."""
    skipped: int
    """How many others fit the filters: of those that are to be run again, those that have not ended, that were run
    again already, or whose input is not kept; of those that are to be cancelled, those that have ended; of those that
    are to be discarded, those that are not dead, or were discarded already. Direct webhooks and schedules do not
    count."""
    more: bool
    """Whether there are more runs than the 10,000 that one request looks at: repeat it with ``end``."""


def _task_name(text: str) -> str:
    if not is_task(text):
        raise ValueError(
            "must be the name of an event: letters, digits, '-', '_' and '.', at most 100 and a letter or digit first"
        )
    return text


def _delay(seconds: float) -> float:
    if seconds < 0:
        raise ValueError("must be seconds from now: 0 or more")
    if not seconds <= _MAX_DELAY:
        raise ValueError(f"must be at most a year: {MAX_DELAY_DAYS} days, which are {_MAX_DELAY} seconds")
    return seconds


class EventCreate(Rest):
    """An event for an environment."""

    task: Annotated[
        str, AfterValidator(_task_name), WithJsonSchema({"type": "string", "pattern": f"^{TASK_PATTERN}$"})
    ]
    """The name of the event, as the code declares it."""
    payload: Any
    """What the event says: any JSON, at most 4 MiB."""
    key: Annotated[str, StringConstraints(min_length=1, max_length=512)] | None = None
    """Events with the same key run one at a time, and in order."""
    id: Annotated[str, StringConstraints(min_length=1, max_length=256)] | None = None
    """What the sender knows the event by. Events of a task with the same id within two minutes are stored once."""
    user: Annotated[str, StringConstraints(min_length=1, max_length=256)] | None = None
    """The user that it is for, by id or external id; without one it is for the environment itself."""
    delay: (
        Annotated[
            float,
            Field(strict=True),
            AfterValidator(_delay),
            WithJsonSchema({"type": "number", "minimum": 0, "maximum": _MAX_DELAY}),
        ]
        | None
    ) = None
    """Seconds until it runs, at most 366 days."""


class EventAccepted(Rest):
    """An event that is stored, and will run."""

    event_id: str
    """The id that was given, or else the run's."""
    run_id: UlidOut | None = None
    """The run. For an event that was stored before it is the first one's; absent when that is not known any more."""


STATUSES: tuple[str, ...] = get_args(RunStatus)
