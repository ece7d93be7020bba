"""Notification: which events of an environment are told to which channel."""

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
    """What can be told: states that begin and end, and changes of connections and activations."""

    RUN_DEAD = "run_dead"
    FAILURE_RATE = "failure_rate"
    AUTHORISATION_NEEDED = "authorisation_needed"
    DEPLOY_FAILED = "deploy_failed"
    ENVIRONMENT_ERROR = "environment_error"
    SCHEDULE_MISSED = "schedule_missed"
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
"""Changes, which are told once each, and to those alone who name them."""
INCIDENT_EVENTS = frozenset(NotificationEvent) - LIFECYCLE_EVENTS
"""States, which are told when they begin and when they end."""


class FailureRate(Shape):
    """When runs fail too often."""

    percent: Annotated[int, Field(ge=1, le=100)] = 20
    """The share of ended runs that failed, above which it is told. 20 by default."""
    minimum_runs: Annotated[int, Field(ge=1, le=100000)] = 10
    """Fewer ended runs in the window say nothing. 10 by default."""


class NotificationSpec(Shape):
    """The notification as its users describe it."""

    name: DisplayName
    """The notification's name, for people."""
    project_ref: Annotated[Reference, Field(json_schema_extra=immutable("projectRef"))]
    """The Project."""
    environment: Annotated[EnvironmentName, Field(json_schema_extra=immutable("environment"))]
    """The name of the environment."""
    channel_ref: Reference
    """The NotificationChannel."""
    events: Annotated[list[NotificationEvent], Field(max_length=12, json_schema_extra=list_set())] = []
    """What is told; everything that is wrong when empty."""
    failure_rate: FailureRate = FailureRate()
    """When the event failure_rate begins: within 15 minutes."""

    @property
    def effective_events(self) -> frozenset[NotificationEvent]:
        """What is told."""
        return frozenset(self.events or INCIDENT_EVENTS)


class Incident(Shape):
    """Something that is told: from when it was found until its end is delivered."""

    key: Annotated[str, StringConstraints(min_length=1, max_length=320)]
    """The event, and what it is about where an environment may have several."""
    event: NotificationEvent
    """What happened."""
    subject: Annotated[str, StringConstraints(max_length=253)] = ""
    """What it is about, such as a Connection's name; empty for the environment itself."""
    message: Text
    """What was found, and what to do."""
    since: Timestamp
    """When it was found."""
    notified_at: Timestamp | None = None
    """When the channel accepted the message about it."""
    ended_at: Timestamp | None = None
    """When it was found to be over."""


class NotificationStatus(Status):
    """What the operator saw, and what was told."""

    incidents: Annotated[
        list[Incident], Field(max_length=MAX_INCIDENTS, json_schema_extra=list_map("key"))
    ] = []
    """What goes on, and what is over and not delivered yet."""
    lifecycle_since: Timestamp | None = None
    """Since when changes of connections and activations are told; what was there before is not."""


class Notification(CustomResource):
    """Tells a channel when something is wrong in an environment, once, and once when it is over."""

    kind_info: ClassVar = Kind(
        name="Notification",
        plural="notifications",
        short_names=("notif",),
        columns=(
            Column(name="Project", path=".spec.projectRef.name", description="The project"),
            Column(name="Environment", path=".spec.environment", description="The environment"),
            Column(name="Channel", path=".spec.channelRef.name", description="Where it is told"),
            *READY_COLUMNS,
        ),
        selectable=(".spec.projectRef.name", ".spec.channelRef.name"),
    )

    spec: NotificationSpec
    """The notification, as its users describe it."""
    status: NotificationStatus
    """What the operator saw, and what was told."""
