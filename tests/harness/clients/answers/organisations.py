"""Types of answers about access, notifications, changes and the store."""

from typing import Annotated, Literal

from pydantic import Field

from tests.harness.clients.answers.base import Json, Strict, Time, Ulid, Underscored


class NotificationChannel(Underscored):
    id: Ulid
    organisation_id: Ulid
    name: str
    type: Literal["email", "webhook", "slack"]
    config: Json
    ready: bool | None = None
    message: str
    last_delivered_at: Time | None = None
    test: Json | None = None
    created_at: Time
    updated_at: Time


class NotificationChannels(Strict):
    total_count: int
    items: list[NotificationChannel]
    next: str | None = None
    prev: str | None = None


class ApiKey(Strict):
    id: Ulid
    user: str
    groups: list[str]
    subject: str
    role: Literal["viewer", "editor", "admin", "custom", "none"]
    secret_name: str
    created_at: Time
    expires_at: Time | None = None
    last_used_at: Time | None = None


class NewApiKey(ApiKey):
    key: str


class ApiKeys(Strict):
    total_count: int
    items: list[ApiKey]
    next: str | None = None
    prev: str | None = None


class RoleSubject(Strict):
    kind: Literal["User", "Group", "ServiceAccount"]
    name: str
    namespace: str | None = None


class RoleBinding(Strict):
    id: Ulid
    name: str
    role_kind: Literal["Role", "ClusterRole"]
    role_name: str
    role: Literal["viewer", "editor", "admin"] | None = None
    subjects: list[RoleSubject]
    by_rest: bool
    created_at: Time


class RoleBindings(Strict):
    total_count: int
    items: list[RoleBinding]
    next: str | None = None
    prev: str | None = None


class Change(Strict):
    type: Literal["change", "event"]
    kind: str
    id: Ulid | None = None
    name: str
    manager: str
    external: bool
    fields: list[str]
    reason: str
    message: str
    warning: bool
    at: Time


class Changes(Strict):
    items: list[Change]


Event = Literal[
    "run_dead",
    "failure_rate",
    "authorisation_needed",
    "deploy_failed",
    "environment_error",
    "schedule_missed",
    "issue_opened",
    "issue_regressed",
    "approval_requested",
    "connection.created",
    "connection.failed",
    "connection.needs_authorisation",
    "connection.deleted",
    "activation.created",
    "activation.deleted",
]


class FailureRate(Underscored):
    percent: int
    minimum_runs: int


class Incident(Underscored):
    event: Event
    subject: str | None = None
    message: str
    since: Time
    notified_at: Time | None = None
    ended_at: Time | None = None


class Notification(Underscored):
    id: Ulid
    name: str
    project_id: Ulid
    channel_id: Ulid | None = None
    channel_name: Annotated[str, Field(alias="channelName")]
    config: Json
    environment_id: Ulid
    events: list[Event]
    failure_rate: FailureRate
    incidents: list[Incident]
    ready: bool | None = None
    message: str
    created_at: Time
    updated_at: Time


class Notifications(Strict):
    total_count: int
    items: list[Notification]
    next: str | None = None
    prev: str | None = None


class ReachedOrganisation(Strict):
    id: Ulid
    name: str
    namespace: str
    role: Literal["viewer", "editor", "admin", "custom"]


class Me(Strict):
    id: str
    name: str
    kind: Literal["user", "serviceAccount", "apiKey"]
    groups: list[str] | None = None
    organisations: list[ReachedOrganisation]


class StoreCommitted(Strict):
    committed: bool
    versionstamp: str | None = None


class StoreValue(Strict):
    value: str
    versionstamp: str
    created_at: Time | None = None
    expires_at: Time | None = None


class StoreKey(Strict):
    key: list[str]


class StorePagination(Strict):
    next_cursor: str | None = None
    prev_cursor: str | None = None


class StorePage(Strict):
    data: list[StoreKey]
    pagination: StorePagination


class StoreCount(Strict):
    count: int


class Quota(Strict):
    name: Literal[
        "environments",
        "replicas",
        "engineStorage",
        "stateStorage",
        "historyStorage",
        "eventsPerSecond",
        "requestsPerSecond",
    ]
    unit: Literal["environments", "pods", "bytes", "events", "requests"]
    limit: int | None = None
    used: int | None = None
    left: int | None = None


class Quotas(Strict):
    items: list[Quota]
    problem: str | None = None


class AuditField(Strict):
    name: str
    before: str | bool | int | None = None
    after: str | bool | int | None = None


class AuditChange(Strict):
    kind: str
    object: str
    action: str
    fields: list[AuditField]


class AuditRequest(Strict):
    method: str
    host: str
    path: str


class AuditRecord(Strict):
    sequence: int
    id: str
    at: str
    subject: str
    caller: str
    via: str
    session: str
    address: str
    user_agent: str
    request: str
    operation: str
    kind: str
    object: str
    outcome: str
    status: int
    code: str
    fields: list[str]
    changes: list[AuditChange]
    sent: list[AuditRequest]
    cut: bool


class AuditRecords(Strict):
    items: list[AuditRecord]
    next: str | None = None
