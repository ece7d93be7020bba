"""Notification: which events of an environment are sent to which channel."""

from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import Field, StringConstraints

from tieline_core.resources.fields import (
    DisplayName,
    EnvironmentName,
    Reference,
    Shape,
    Status,
    Text,
    Timestamp,
    immutable,
    list_map,
    list_set,
)
from tieline_core.resources.kinds import READY_COLUMNS, Column, CustomResource, Kind

MAX_INCIDENTS = 64


class NotificationEvent(StrEnum):
    """Events to notify about: incidents, which begin and end, issues, approvals, and changes of connections and
    activations."""

    RUN_DEAD = "run_dead"
    FAILURE_RATE = "failure_rate"
    AUTHORISATION_NEEDED = "authorisation_needed"
    DEPLOY_FAILED = "deploy_failed"
    ENVIRONMENT_ERROR = "environment_error"
    SCHEDULE_MISSED = "schedule_missed"
    ISSUE_OPENED = "issue_opened"
    ISSUE_REGRESSED = "issue_regressed"
    APPROVAL_REQUESTED = "approval_requested"
    CONNECTION_CREATED = "connection.created"
    CONNECTION_FAILED = "connection.failed"
    CONNECTION_NEEDS_AUTHORISATION = "connection.needs_authorisation"
    CONNECTION_DELETED = "connection.deleted"
    ACTIVATION_CREATED = "activation.created"
    ACTIVATION_DELETED = "activation.deleted"


LIFECYCLE_EVENTS = frozenset(
    {
        NotificationEvent.CONNECTION_CREATED,
        NotificationEvent.CONNECTION_FAILED,
        NotificationEvent.CONNECTION_NEEDS_AUTHORISATION,
        NotificationEvent.CONNECTION_DELETED,
        NotificationEvent.ACTIVATION_CREATED,
        NotificationEvent.ACTIVATION_DELETED,
    }
)
"""Changes. Each is sent once, and only to notifications that name it."""
ISSUE_EVENTS = frozenset({NotificationEvent.ISSUE_OPENED, NotificationEvent.ISSUE_REGRESSED})
"""Groups of failed runs. Each is sent once; several are sent as one message."""
APPROVAL_EVENTS = frozenset({NotificationEvent.APPROVAL_REQUESTED})
"""What runs ask people. Each is sent once, and only to notifications that name it; several are sent as one message."""
INCIDENT_EVENTS = frozenset(NotificationEvent) - LIFECYCLE_EVENTS - ISSUE_EVENTS - APPROVAL_EVENTS
"""Incidents. Each is sent when it begins and when it ends."""
FAILURE_EVENTS = INCIDENT_EVENTS | ISSUE_EVENTS
"""What is sent unless a notification names its events."""


class FailureRate(Shape):
    """The failure percentage that triggers a notification."""

    percent: Annotated[int, Field(ge=1, le=100)] = 20
    """Failure percentage that triggers a notification. Default: 20."""
    minimum_runs: Annotated[int, Field(ge=1, le=100000)] = 10
    """Runs that must have ended in the window before the percentage counts. Default: 10."""


class NotificationSpec(Shape):
    """The desired state of the notification."""

    name: DisplayName
    """The notification's name, for people."""
    project_ref: Annotated[Reference, Field(json_schema_extra=immutable("projectRef"))]
    """The Project."""
    environment: Annotated[EnvironmentName, Field(json_schema_extra=immutable("environment"))]
    """The name of the environment."""
    channel_ref: Reference
    """The NotificationChannel."""
    events: Annotated[list[NotificationEvent], Field(max_length=15, json_schema_extra=list_set())] = []
    """Events to notify about. Default: all incidents and issues."""
    failure_rate: FailureRate = FailureRate()
    """Threshold of the event failure_rate, over the last 15 minutes."""

    @property
    def effective_events(self) -> frozenset[NotificationEvent]:
        """The events to notify about."""
        return frozenset(self.events or FAILURE_EVENTS)


class Incident(Shape):
    """An incident, from its detection until the delivery of its end."""

    key: Annotated[str, StringConstraints(min_length=1, max_length=320)]
    """The event, with its subject where an environment can have several."""
    event: NotificationEvent
    """What happened."""
    subject: Annotated[str, StringConstraints(max_length=253)] = ""
    """The affected object, such as a Connection's name. Empty for the environment itself."""
    message: Text
    """What was found, and what to do."""
    since: Timestamp
    """When it was detected."""
    notified_at: Timestamp | None = None
    """When the channel accepted the message about it."""
    ended_at: Timestamp | None = None
    """When its end was detected."""


class NotificationStatus(Status):
    """The observed state, and what was sent."""

    incidents: Annotated[
        list[Incident], Field(max_length=MAX_INCIDENTS, json_schema_extra=list_map("key"))
    ] = []
    """Open incidents, and ended ones whose end is not delivered yet."""
    lifecycle_since: Timestamp | None = None
    """When reports of changes began. Connections and activations that are older are not reported."""
    issues_until: Timestamp | None = None
    """Reports about issues until then were sent, or do not concern the notification."""
    approvals_until: Timestamp | None = None
    """Reports about approvals until then were sent, or do not concern the notification."""


class Notification(CustomResource):
    """Sends a message to a channel when an incident begins in an environment, and when it ends."""

    kind_info: ClassVar = Kind(
        name="Notification",
        plural="notifications",
        short_names=("tlnotif",),
        columns=(
            Column(name="Project", path=".spec.projectRef.name", description="The project"),
            Column(name="Environment", path=".spec.environment", description="The environment"),
            Column(name="Channel", path=".spec.channelRef.name", description="The channel"),
            *READY_COLUMNS,
        ),
        selectable=(".spec.projectRef.name", ".spec.channelRef.name"),
    )

    spec: NotificationSpec
    """The desired state of the notification."""
    status: NotificationStatus
    """The observed state, and what was sent."""
