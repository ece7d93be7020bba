"""Types of answers about runs, issues, releases and metrics."""

from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from tests.harness.clients.answers.base import Json, Page, Strict, Time, Ulid
from tests.harness.clients.answers.projects import VersionDiff

RunStatus = Literal["queued", "running", "waiting", "succeeded", "failed", "dead", "cancelled"]


RunKind = Literal["webhook", "event", "schedule", "background", "call"]


class RunUser(Strict):
    external_id: str
    id: Ulid | None = None


class RunVersion(Strict):
    name: str
    id: Ulid | None = None


class RunUpstream(Strict):
    status: int
    body: str


class RunError(Strict):
    type: str
    message: str
    upstream: RunUpstream | None = None


class RunProgress(Strict):
    text: str
    fraction: float | None = None
    attempt: int
    at: Time


class Run(Strict):
    id: Ulid
    kind: RunKind
    task: str
    status: RunStatus
    environment_id: Ulid
    queued_at: Time
    attempt: int
    activation_id: Ulid | None = None
    user: RunUser | None = None
    version: RunVersion | None = None
    attempts: int | None = None
    started_at: Time | None = None
    ended_at: Time | None = None
    next_attempt_at: Time | None = None
    discarded_at: Time | None = None
    error: RunError | None = None
    trace_id: str | None = None
    replay_of: Ulid | None = None
    parent: Ulid | None = None
    progress: RunProgress | None = None


class RunAttempt(Strict):
    attempt: int
    status: RunStatus
    steps: list[Json]
    started_at: Time | None = None
    ended_at: Time | None = None


class RunDetail(Run):
    attempt_history: list[RunAttempt]
    steps: list[Json]


class RunRecording(Strict):
    format: Literal[1]
    id: Ulid
    kind: str
    task: str
    status: RunStatus
    attempt: int
    queued_at: Time
    steps: list[Json]
    answers: list[Json]
    notes: list[str]
    user: str | None = None
    key: str | None = None
    event_id: str | None = None
    replay_of: Ulid | None = None
    version: Json | None = None
    payload: str | None = None


class Runs(Page):
    items: list[Run]


class RunsAffected(Strict):
    count: int
    skipped: int
    more: bool


class ReleasedVersion(Strict):
    name: str
    id: Ulid | None = None
    created_by: str | None = None


class ReleaseFailure(Strict):
    reason: str
    message: str


class Release(Strict):
    number: Annotated[int, Field(ge=1)]
    version: ReleasedVersion
    deployed_at: Time
    outcome: Literal[
        "progressing", "serving", "healthy", "failed", "crashed", "suspended", "replaced", "rolled_back"
    ]
    was_healthy: bool
    by: str | None = None
    via: str | None = None
    message: str | None = None
    revision: str | None = None
    failure: ReleaseFailure | None = None
    served_from: Time | None = None
    served_until: Time | None = None
    served_seconds: int | None = None
    runs: int | None = None
    failed_runs: int | None = None


class Releases(Page):
    items: list[Release]


class ReleaseDetail(Release):
    previous: int | None = None
    changes: VersionDiff | None = None
    rollback_version: ReleasedVersion | None = None


class Issue(Strict):
    id: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{20}$")]
    environment_id: Ulid
    kind: RunKind
    task: str
    type: str
    message: str
    state: Literal["open", "regressed", "resolved", "muted"]
    count: int
    first_seen: Time
    last_seen: Time
    users: int
    keys: int
    hours: Annotated[list[int], Field(min_length=24, max_length=24)]
    project_id: Ulid | None = None
    system: str | None = None
    upstream_status: int | None = None
    first_version: RunVersion | None = None
    last_version: RunVersion | None = None
    changed_at: Time | None = None
    changed_by: str | None = None
    next_version: bool | None = None
    resolved_after: RunVersion | None = None
    regressed_in: RunVersion | None = None
    muted_until: Time | None = None
    reason: str | None = None
    assignee: str | None = None


class AffectedUser(Strict):
    user: RunUser
    count: int


class IssueDetail(Issue):
    most_affected_users: list[AffectedUser]
    latest_runs: list[Run]


class Issues(Strict):
    total_count: int
    items: list[Issue]
    next: str | None = None
    prev: str | None = None


ApprovalState = Literal["open", "approved", "rejected", "timed_out", "withdrawn"]


class ApprovalAnswer(Strict):
    approved: bool
    by: str
    at: Time
    name: str | None = None
    comment: str | None = None
    values: dict[str, Any] | None = None


class Approval(Strict):
    id: Ulid
    project_id: Ulid
    environment_id: Ulid
    run_id: Ulid
    task: str
    title: str
    by: list[str]
    asked_at: Time
    until: Time
    state: ApprovalState
    may_answer: bool
    user: str | None = None
    details: Any = None
    other_than: str | None = None
    form: dict[str, Any] | None = None
    answer: ApprovalAnswer | None = None


class Approvals(Strict):
    total_count: int
    items: list[Approval]
    next: str | None = None
    prev: str | None = None


class EventAccepted(Strict):
    event_id: str
    run_id: Ulid | None = None


class SignalAccepted(Strict):
    status: Literal["stored", "duplicate"]


class EventResult(Strict):
    status: Literal["stored", "duplicate", "refused"]
    event_id: str
    run_id: Ulid | None = None
    error: str | None = None


class EventBatchAccepted(Strict):
    stored: int
    duplicates: int
    refused: int
    results: list[EventResult]


class BacklogItem(Strict):
    environment_id: Ulid
    task: str
    key: str | None = None
    status: Literal["queued", "running", "waiting", "dead"]
    count: int
    oldest: Time


class Backlog(Strict):
    items: list[BacklogItem]
    more: bool | None = None


class EnvironmentWork(Strict):
    waiting: int
    running: int
    total: int


class SleepingStep(Strict):
    name: str
    occurrence: int
    place: int
    work: str
    version: str
    result: str


class SleepingOutcome(Strict):
    wait: str
    metadata: dict[str, Any] | None = None
    payload: str


class SleepingRun(Strict):
    metadata: dict[str, Any]
    payload: str
    steps: list[SleepingStep]
    outcomes: list[SleepingOutcome]


class SleepingRuns(Strict):
    total_count: int
    items: list[SleepingRun]


class Comparison(Strict):
    current: int
    past: int


class MetricsBucket(Strict):
    start: Time
    executions: int
    errors: int


class MetricsSummary(Strict):
    deployed_projects: Comparison
    total_executions: Comparison
    total_errors: Comparison
    series: list[MetricsBucket] | None = None


class Average(Strict):
    current: float
    past: float


class ProjectMetrics(Strict):
    total_executions: Comparison
    total_errors: Comparison
    average_latency: Average


class ProjectsMetricsSummary(MetricsSummary):
    items: dict[Ulid, ProjectMetrics]
