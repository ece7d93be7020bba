"""Runs in REST."""

import re
from typing import Annotated, Any, Literal, get_args

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    StrictBool,
    StringConstraints,
    WithJsonSchema,
)

from tieline_api.schemas.base import PageQuery, Query, Rest, TimeOut, UlidIn, UlidOut
from tieline_api.schemas.project_logs import TimeIn
from tieline_core.documented_model import DocumentedModel
from tieline_protocol import run_records
from tieline_protocol.approvals import ApprovalState
from tieline_protocol.events import RunKind
from tieline_protocol.run_records import RunStatus
from tieline_protocol.run_tags import MAX_TAGS, MAX_VALUE, NAME_PATTERN, parse_tag

WaitsFor = Literal["slot", "key", run_records.WaitsFor]
_TRACE_ID = re.compile("[0-9a-fA-F]{32}")
_Name = Annotated[str, StringConstraints(max_length=128)]
_ExternalId = Annotated[str, StringConstraints(max_length=256)]
_Key = Annotated[str, StringConstraints(max_length=512)]
_Search = Annotated[str, StringConstraints(max_length=200)]
_Find = Annotated[str, StringConstraints(max_length=512)]
_IssueId = Annotated[str, StringConstraints(pattern="^[0-9a-f]{20}$")]
_EnvironmentName = Annotated[str, StringConstraints(max_length=64)]


def _trace_id(text: str) -> str:
    if not _TRACE_ID.fullmatch(text):
        raise ValueError("must be the id of a trace: 32 hexadecimal digits")
    return text.lower()


_TraceId = Annotated[
    str, AfterValidator(_trace_id), WithJsonSchema({"type": "string", "pattern": f"^{_TRACE_ID.pattern}$"})
]


def _tag(text: str) -> str:
    if parse_tag(text) is None:
        raise ValueError("must be a tag's name and its value, such as order:N-1101")
    return text


_Tag = Annotated[
    str,
    AfterValidator(_tag),
    WithJsonSchema({"type": "string", "pattern": f"^{NAME_PATTERN}:", "maxLength": 41 + MAX_VALUE}),
]
_Tags = Annotated[list[_Tag] | None, Field(min_length=1, max_length=MAX_TAGS)]
MAX_CHOSEN = 100
"""Runs that one request may name."""
_Ids = Annotated[list[UlidIn] | None, Field(min_length=1, max_length=MAX_CHOSEN)]
_MAX_STATUSES = len(get_args(RunStatus))
_Statuses = Annotated[list[RunStatus] | None, Field(min_length=1, max_length=_MAX_STATUSES)]


class _Filters(DocumentedModel):
    """What runs are chosen by, in queries and bodies."""

    project_env: Annotated[_EnvironmentName | None, Field(alias="project_env")] = None
    """Only runs in the environment with this name."""
    status: _Statuses = None
    """Only runs with one of these statuses."""
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
    tag: _Tags = None
    """Only runs with this tag: its name, a colon and its value; several times for runs with all of these tags."""
    find: _Find | None = None
    """Only runs whose id, event's id, key, user or value of a tag is exactly this."""
    search: _Search | None = None
    """Text to look for in errors, in upper or lower case."""
    discarded: bool | None = None
    """Only runs whose dead letter was discarded, or, with ``false``, only others."""
    replayed: bool | None = None
    """Only runs that were run again, or, with ``false``, only others."""
    failed: bool | None = None
    """Only runs that have failed, dead letters included, or, with ``false``, only others."""
    issue: _IssueId | None = None
    """Only failed runs of the issue with this id."""


class RunsQuery(_Filters, PageQuery):
    """Which runs."""

    project_env: _EnvironmentName | None = None
    """Only runs in environments with this name."""
    status: _Statuses = None
    """Only runs that are queued, running or waiting, or that have ended as succeeded, failed, dead or cancelled;
    several times for runs with one of several statuses."""
    version: _Name | None = None
    """Only runs of this version, by its id or its name."""


class RunQuery(Query):
    """Which run, where two environments have one with this id."""

    project_env: _EnvironmentName | None = None
    """Only a run in the environment with this name."""


class SelectionQuery(_Filters, Query):
    """Which runs to act on; the fields of the body mean the same."""

    ids: _Ids = None
    """Only the runs with these ids; several times for one of several, at most 100."""
    dryRun: bool | None = None  # noqa: N815  (as the contract names it)
    """Only count the runs."""


def _listed(value: object) -> object:
    return [value] if isinstance(value, str) else value


class SelectionBody(_Filters, Rest):
    """Which runs to act on, by the names of the list's parameters. At least one of them is needed."""

    ids: _Ids = None
    """Only the runs with these ids, at most 100."""
    status: Annotated[_Statuses, BeforeValidator(_listed)] = None
    """Only runs with one of these statuses; a single one may be sent as a text."""
    discarded: StrictBool | None = None
    """Only runs whose dead letter was discarded, or, with ``false``, only others."""
    replayed: StrictBool | None = None
    """Only runs that were run again, or, with ``false``, only others."""
    failed: StrictBool | None = None
    """Only runs that have failed, dead letters included, or, with ``false``, only others."""
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
    system: str | None = None
    """The name of the system; of the connection template where no system is known."""


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


class RunTag(Rest):
    """A business id that the code has given a run."""

    name: str
    """Its name."""
    value: str
    """Its value, with secrets masked."""


class RunProgress(Rest):
    """How far a run is, as its code says."""

    text: str
    """For people, with secrets masked: at most 200 characters."""
    fraction: float | None = None
    """From 0 to 1."""
    attempt: int
    """The attempt that said so."""
    at: TimeOut
    """When."""


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
    """The version whose code ran last; absent before the first attempt, and for calls of agents."""
    key: str | None = None
    """The key of its event: runs of a task and a user with the same one go one at a time."""
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
    parent: UlidOut | None = None
    """The run that started it and waits for it."""
    issue_id: str | None = None
    """The issue of a run that is failed or dead."""
    tags: list[RunTag]
    """Business ids that its code has set, by name: of all attempts, the latest value of each name."""
    progress: RunProgress | None = None
    """What its code last said of how far it is, in whichever attempt."""
    waits_for: WaitsFor | None = None
    """What a run that is ``queued`` or ``waiting`` waits for. ``slot``: until a pod has room for it. ``key``: the runs
    with its key that go first. ``delay``, ``sleep``: its time. ``retry``: its next attempt. ``debounce``: the end of
    its burst. ``throttle``: its turn. ``batch``: the run of its batch. ``event``, ``approval``: one, or its time-out.
    ``child``: the run that it started."""
    waits_behind: UlidOut | None = None
    """The run with the same key that goes first, while this one is queued behind it."""


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


class StepApproval(Rest):
    """What came of an approval that a step asked for, when its attempt ended."""

    id: str
    """The approval's id."""
    state: ApprovalState
    """``open``, ``approved``, ``rejected`` or ``timed_out``."""
    answered_by: str | None = None
    """Who answered."""
    answered_at: TimeOut | None = None
    """When they answered."""
    comment: str | None = None
    """Why, with secrets masked."""


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
    approval: StepApproval | None = None
    """The approval that it asked for."""
    child: UlidOut | None = None
    """The run that it started and waited for."""


class RunAttempt(Rest):
    """One attempt of a run."""

    attempt: int
    """Its number, from 1."""
    status: RunStatus
    """``running``; ``waiting`` while the run is suspended; or the attempt's result. An attempt that failed is
    ``failed`` even if the run is retried."""
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
    can_replay: bool
    """Whether it can be run again: it has ended, and its input is kept, or another one can be sent for its event."""


class RunStepName(Rest):
    """A step of a run's last attempt."""

    name: Annotated[str, StringConstraints(min_length=1, max_length=256)]
    """Its name."""
    occurrence: Annotated[int, Field(ge=1, le=1_000_000)] = 1
    """Which of the steps with this name."""


class ReplayBody(Rest):
    """How to run a run again."""

    payload: Any = None
    """The input in place of the old one, as JSON."""
    from_step: RunStepName | None = None
    """Begins at this step: the new run gets the recorded results of the steps before it. Not together with
    ``payload``."""


class SignalCreate(Rest):
    """A signal to a run."""

    payload: Any = None
    """What the code gets: any JSON, at most 16 KiB."""
    id: Annotated[str, StringConstraints(min_length=1, max_length=256)] | None = None
    """What the sender knows the signal by. Signals of a run and a name with the same id within two minutes count
    once."""


class SignalAccepted(Rest):
    """A signal that is stored."""

    status: Literal["stored", "duplicate"]
    """``stored``: the run gets it once its code waits for it. ``duplicate``: one with its id is stored already."""


class RecordedOutcome(Rest):
    """How a wait has ended."""

    wait: str
    """The wait's name."""
    event: str | None = None
    """What the platform knows of the event that ended it, as JSON; absent after a timeout."""
    payload: str = ""
    """The event's payload, as JSON."""


class RecordedStep(Rest):
    """A step of a run with its result."""

    name: str
    """Its name."""
    name_hash: str
    """The hash of the name that idempotency keys have."""
    occurrence: int
    """Which of the steps with this name."""
    place: int
    """Its place in the run's sequence; 0 for none."""
    work: str
    """A hash of the function and its arguments."""
    version: str
    """The name of the version's object whose code did it."""
    run: str
    """The run that its idempotency key names."""
    idempotency_key: str
    """What other systems got with its requests."""
    result: str
    """The result as JSON, with secrets masked; empty where it is not kept."""
    missing: Literal["masked", "large"] | None = None
    """``masked``: the result has a secret in it. ``large``: it was not kept."""
    outcome: RecordedOutcome | None = None
    """How its wait has ended."""


class RecordedAnswer(Rest):
    """What another system answered, as far as the trace has it."""

    method: str
    """The request's method."""
    url: str
    """The request's URL, without what the query says."""
    status: int
    """The answer's status."""
    body: str | None = None
    """The masked beginning of the body, where it was kept."""


class RunRecording(Rest):
    """A run that has ended, for ``tieline run --replay``."""

    format: Literal[1]
    """The format of the file."""
    id: UlidOut
    """The run."""
    kind: RunKind
    """What started it."""
    task: str
    """Its task."""
    status: RunStatus
    """How it ended."""
    attempt: int
    """The number of the last attempt."""
    queued_at: TimeOut
    """When it was accepted."""
    user: str | None = None
    """Whom it is for, by the id in your application."""
    key: str | None = None
    """The key of its event."""
    event_id: str | None = None
    """The id that its event was sent with."""
    replay_of: UlidOut | None = None
    """The run that it runs again."""
    version: VersionOfRun | None = None
    """The version whose code ran last."""
    payload: str | None = None
    """The input as text, with secrets masked, where it is kept and is text."""
    steps: list[RecordedStep]
    """The steps of the last attempt that are done, in the order in which they ended."""
    answers: list[RecordedAnswer]
    """Answers of other systems in the last attempt, in their order."""
    notes: list[str]
    """What is masked or missing."""


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


STATUSES: tuple[str, ...] = get_args(RunStatus)
