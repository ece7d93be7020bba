"""Notification channels and notifications in REST. Notifications have names with underscores, as their requests do."""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, StringConstraints, field_validator, model_validator

from tieline_api.schemas.base import NullableList, Rest, TimeOut, UlidIn, UlidOut
from tieline_api.schemas.names import DisplayName
from tieline_core.resources.fields import Url
from tieline_core.resources.notification_channels import ChannelType, EmailAddress, HostName, SmtpSecurity
from tieline_core.resources.notifications import NotificationEvent

SIGNING_SECRET_PATTERN = r"^whsec_[A-Za-z0-9+/]{32,128}={0,2}$"  # noqa: S105  (a pattern)
_NEEDED = {
    ChannelType.EMAIL: ("host", "from", "to"),
    ChannelType.WEBHOOK: ("url", "secret"),
    ChannelType.SLACK: ("url",),
}
_SECRETS = {ChannelType.EMAIL: "password", ChannelType.WEBHOOK: "secret", ChannelType.SLACK: "url"}
_OPTIONAL = {ChannelType.EMAIL: ("port", "security", "username", "password")}


class ChannelConfig(Rest):
    """Where a channel delivers to: which fields there are depends on its type."""

    host: HostName | None = None
    """email: the SMTP server. Required."""
    port: Annotated[int, Field(ge=1, le=65535)] | None = None
    """email: the server's port; 587 by default, 465 with security tls, 25 with security none."""
    security: SmtpSecurity | None = None
    """email: starttls (the default), tls or none."""
    from_: Annotated[EmailAddress | None, Field(alias="from")] = None
    """email: the sender's address. Required."""
    to: Annotated[list[EmailAddress], Field(min_length=1, max_length=20)] | None = None
    """email: the recipients' addresses. Required."""
    username: Annotated[str, StringConstraints(min_length=1, max_length=256)] | None = None
    """email: the user to sign in as."""
    url: Url | None = None
    """webhook and slack: where it is posted to. Required. Not returned for slack, whose URL is a secret."""


class ChannelConfigIn(ChannelConfig):
    """Where a channel delivers to, with its secret, which is stored in a Kubernetes Secret and never returned."""

    password: (
        Annotated[str, StringConstraints(min_length=1, max_length=1024, pattern=r"^[^\r\n\x00]+$")] | None
    ) = None
    """email: the user's password. Required with username."""
    secret: Annotated[str, StringConstraints(pattern=SIGNING_SECRET_PATTERN)] | None = None
    """webhook: the signing secret of the Standard Webhooks specification: whsec_ and 24 to 64 bytes in base64.
    Required."""


class NotificationChannelCreate(Rest):
    """A new notification channel."""

    name: DisplayName
    """The channel's name, for people."""
    type: ChannelType
    """email, webhook or slack."""
    config: ChannelConfigIn
    """Where it delivers to."""

    @model_validator(mode="after")
    def _config_fits_type(self) -> "NotificationChannelCreate":
        if problem := problem_of(self.type, self.config):
            raise ValueError(problem)
        return self


def problem_of(type_: ChannelType, config: ChannelConfigIn, *, has_secret: bool = False) -> str | None:
    """What is wrong with a config for a channel of this type, which may have its secret already."""
    given = config.model_dump(by_alias=True, exclude_none=True).keys()
    needed, optional = _NEEDED[type_], _OPTIONAL.get(type_, ())
    kept = {_SECRETS[type_]} if has_secret else set()
    missing = [name for name in needed if name not in given and name not in kept]
    if missing:
        return f"config needs {', '.join(missing)} for type {type_}"
    other = sorted(given - {*needed, *optional})
    if other:
        return f"config has {', '.join(other)}, which type {type_} does not use"
    has_password = config.password is not None or (has_secret and config.username is not None)
    if (config.username is not None) != has_password:
        return "config.username and config.password belong together"
    if config.username is not None and config.security is SmtpSecurity.NONE:
        return "config.security must be starttls or tls where there is a password"
    return None


class NotificationChannelUpdate(Rest):
    """What to change of a notification channel. What is absent stays."""

    name: DisplayName | None = None
    """The channel's name, for people."""
    config: ChannelConfigIn | None = None
    """Where it delivers to, as a whole. The secret stays if it is absent: ``password`` with ``username``, ``secret``,
    or the ``url`` of slack. A new ``host``, ``port`` or ``security`` needs the password anew."""


class Underscored(Rest):
    """Names on the wire are as in Python."""

    model_config = ConfigDict(alias_generator=None)


class NotificationChannel(Underscored):
    """A notification channel."""

    id: UlidOut
    """The channel's id."""
    organisation_id: UlidOut
    """The organisation."""
    name: str
    """The channel's name."""
    type: ChannelType
    """email, webhook or slack."""
    config: ChannelConfig
    """Where it delivers to, without its secret."""
    ready: bool | None = None
    """Whether it works: false once a delivery has failed; absent while it is being checked."""
    message: str = ""
    """Why it does not work, and what to do."""
    last_delivered_at: TimeOut | None = None
    """When a notification was last delivered."""
    test: "ChannelTest | None" = None
    """The last test message; absent if none was requested."""
    created_at: TimeOut
    """When it was created."""
    updated_at: TimeOut
    """When it was last changed."""


class ChannelTest(Underscored):
    """A test message and its delivery."""

    state: Literal["sending", "delivered", "failed"]
    """sending, delivered or failed. Delivery is retried for five minutes; the channel's message says why it fails."""
    requested_at: TimeOut
    """When it was requested."""


class NotificationChannelPage(Rest):
    """A part of the list of notification channels."""

    total_count: int
    """How many there are in all."""
    items: list[NotificationChannel]
    """The channels, oldest first."""
    next: str | None = None
    """Pass it as ``after`` for the next page; absent on the last."""
    prev: str | None = None
    """Pass it as ``before`` for the page before; absent on the first."""


class FailureRate(Underscored):
    """When runs fail too often, within 15 minutes."""

    percent: Annotated[int, Field(ge=1, le=100)] = 20
    """The percentage of ended runs that failed above which it notifies."""
    minimum_runs: Annotated[int, Field(ge=1, le=100000)] = 10
    """Fewer ended runs say nothing."""


class NotificationCreate(Underscored):
    """A new notification: a channel is notified of an environment's events."""

    name: DisplayName
    """The notification's name, for people."""
    channel_id: UlidIn
    """The notification channel."""
    environment_id: UlidIn
    """An environment of the project."""
    events: Annotated[list[NotificationEvent], Field(max_length=15, default_factory=list), NullableList]
    """Events to notify about. Default: all failures."""
    failure_rate: FailureRate | None = None
    """When the event failure_rate begins."""

    @field_validator("events")
    @classmethod
    def _each_once(cls, events: list[NotificationEvent]) -> list[NotificationEvent]:
        return list(dict.fromkeys(events))


class NotificationUpdate(Underscored):
    """What to change of a notification. What is absent stays. Its environment cannot be changed."""

    name: DisplayName | None = None
    """The notification's name, for people."""
    channel_id: UlidIn | None = None
    """The notification channel."""
    events: Annotated[list[NotificationEvent], Field(max_length=15)] | None = None
    """Events to notify about. An empty list means all failures."""
    failure_rate: FailureRate | None = None
    """When the event failure_rate begins."""

    @field_validator("events")
    @classmethod
    def _each_once(cls, events: list[NotificationEvent] | None) -> list[NotificationEvent] | None:
        return None if events is None else list(dict.fromkeys(events))


class Incident(Underscored):
    """Something that is wrong in the environment."""

    event: NotificationEvent
    """What happened."""
    subject: str | None = None
    """What it is about, such as a connection's name in Kubernetes; absent for the environment itself."""
    message: str
    """What was found."""
    since: TimeOut
    """When it was found."""
    notified_at: TimeOut | None = None
    """When the channel accepted the message about it."""
    ended_at: TimeOut | None = None
    """When it was found to be over; the channel is notified half a minute later."""


class Notification(Underscored):
    """A notification: a channel is notified of an environment's events."""

    id: UlidOut
    """The notification's id."""
    name: str
    """The notification's name."""
    project_id: UlidOut
    """The project."""
    channel_id: UlidOut | None = None
    """The notification channel; absent where it does not exist any more."""
    channel_name: Annotated[str, Field(alias="channelName")]
    """The channel's name; empty where it does not exist any more."""
    type: ChannelType | None = None
    """The channel's type."""
    config: ChannelConfig
    """Where the channel delivers to, without its secret."""
    environment_id: UlidOut
    """The environment."""
    events: list[NotificationEvent]
    """The events to notify about."""
    failure_rate: FailureRate
    """When the event failure_rate begins."""
    incidents: list[Incident]
    """What is wrong now, and what is over and not reported yet."""
    ready: bool | None = None
    """Whether it can notify; absent while it is being checked."""
    message: str = ""
    """Why it cannot notify, and what to do."""
    created_at: TimeOut
    """When it was created."""
    updated_at: TimeOut
    """When it was last changed."""


class NotificationPage(Underscored):
    """A part of the list of a project's notifications."""

    total_count: Annotated[int, Field(alias="totalCount")]
    """How many there are in all."""
    items: list[Notification]
    """The notifications, oldest first."""
    next: str | None = None
    """Pass it as ``after`` for the next page; absent on the last."""
    prev: str | None = None
    """Pass it as ``before`` for the page before; absent on the first."""
