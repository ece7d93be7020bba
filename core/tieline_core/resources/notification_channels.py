"""NotificationChannel: where notifications go. Passwords, signing secrets and Slack's URL live in Secrets."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import ConfigDict, Field, StringConstraints

from tieline_core.identity.ids import parse_id, time_of
from tieline_core.resources.fields import (
    DisplayName,
    Reference,
    Shape,
    Status,
    Text,
    Timestamp,
    Url,
    list_set,
    rules,
)
from tieline_core.resources.kinds import READY_COLUMNS, Column, CustomResource, Kind, display_name

PASSWORD, SIGNING_SECRET, SLACK_URL = "password", "secret", "url"
TEST_ANNOTATION = "tieline.dev/test-message"
"""The id of the requested test message: a ULID with the time of the request."""
TEST_LASTS = timedelta(minutes=5)
"""How long the delivery of a test message is retried."""


def requested_test(annotations: Mapping[str, str] | None) -> tuple[str, datetime] | None:
    """The id of the test message that was requested for a channel, and the time of the request."""
    identifier = parse_id((annotations or {}).get(TEST_ANNOTATION, ""))
    try:
        return (identifier, time_of(identifier)) if identifier else None
    except (OverflowError, ValueError):
        return None


class ChannelType(StrEnum):
    """How notifications are delivered."""

    EMAIL = "email"
    WEBHOOK = "webhook"
    SLACK = "slack"


class SmtpSecurity(StrEnum):
    """How the connection to the SMTP server is encrypted."""

    STARTTLS = "starttls"
    TLS = "tls"
    NONE = "none"


HOST_PATTERN = r"^[A-Za-z0-9_]([-A-Za-z0-9_.]*[A-Za-z0-9_])?$"
# What RFC 5321 has before the @ without quotes, and without the ? of encoded words (RFC 2047): nothing that ends a
# header, hides, or turns the direction of text.
EMAIL_PATTERN = r"^[A-Za-z0-9.!#$%&'*+/=^_`{|}~-]{1,64}@[A-Za-z0-9]([-.A-Za-z0-9]*[A-Za-z0-9])?$"

HostName = Annotated[str, StringConstraints(min_length=1, max_length=253, pattern=HOST_PATTERN)]
EmailAddress = Annotated[str, StringConstraints(min_length=3, max_length=254, pattern=EMAIL_PATTERN)]


class EmailChannel(Shape):
    """Delivery by SMTP."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                "has(self.username) == has(self.secretRef)",
                "username and secretRef belong together: the Secret holds the user's password",
            ),
            (
                "!has(self.username) || !has(self.security) || self.security != 'none'",
                "a password is only sent over an encrypted connection: set security to starttls or tls",
            ),
        )
    )

    host: HostName
    """The SMTP server."""
    port: Annotated[int, Field(ge=1, le=65535)] | None = None
    """The server's port: 587 by default, 465 with security tls, 25 with security none."""
    security: SmtpSecurity = SmtpSecurity.STARTTLS
    """starttls (the default), tls from the first byte on, or none."""
    from_: Annotated[EmailAddress, Field(alias="from")]
    """The sender's address."""
    to: Annotated[list[EmailAddress], Field(min_length=1, max_length=20, json_schema_extra=list_set())]
    """The recipients' addresses."""
    username: Annotated[str, StringConstraints(min_length=1, max_length=256)] | None = None
    """User name for SMTP authentication. Default: no authentication."""
    secret_ref: Reference | None = None
    """A Secret of type tieline.dev/credential with the key password."""

    @property
    def effective_port(self) -> int:
        """The port, or the usual one for this security."""
        return (
            self.port
            or {SmtpSecurity.STARTTLS: 587, SmtpSecurity.TLS: 465, SmtpSecurity.NONE: 25}[self.security]
        )


class WebhookChannel(Shape):
    """Delivery by POST, signed by the Standard Webhooks specification."""

    url: Url
    """Where notifications are posted to."""
    secret_ref: Reference
    """A Secret of type tieline.dev/credential with the key secret: the signing secret (whsec_ and base64)."""


class SlackChannel(Shape):
    """Delivery by an incoming webhook of Slack."""

    secret_ref: Reference
    """A Secret of type tieline.dev/credential with the key url: the incoming webhook's URL."""


class NotificationChannelSpec(Shape):
    """The desired state of the channel."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            ("has(self.email) == (self.type == 'email')", "email is needed for type email, and for no other"),
            (
                "has(self.webhook) == (self.type == 'webhook')",
                "webhook is needed for type webhook, and for no other",
            ),
            ("has(self.slack) == (self.type == 'slack')", "slack is needed for type slack, and for no other"),
        )
    )

    name: DisplayName
    """The channel's name, for people."""
    type: ChannelType
    """email, webhook or slack; the field of that name says where to."""
    email: EmailChannel | None = None
    """The SMTP server and the recipients."""
    webhook: WebhookChannel | None = None
    """The receiver of webhooks."""
    slack: SlackChannel | None = None
    """The incoming webhook of Slack."""

    @property
    def secret_key(self) -> tuple[str, str] | None:
        """The name of the Secret that the channel needs, and the key in it; None where it needs none."""
        if self.email is not None:
            return (self.email.secret_ref.name, PASSWORD) if self.email.secret_ref else None
        if self.webhook is not None:
            return self.webhook.secret_ref.name, SIGNING_SECRET
        return (self.slack.secret_ref.name, SLACK_URL) if self.slack is not None else None


class DeliveryFailure(Shape):
    """Why the last delivery failed."""

    reason: Annotated[str, StringConstraints(max_length=64)]
    """One CamelCase word."""
    message: Text
    """What happened, and what to do."""
    since: Timestamp
    """When a delivery first failed."""


class NotificationChannelStatus(Status):
    """The observed state of the channel."""

    last_delivered_at: Timestamp | None = None
    """When a notification was last delivered."""
    delivery_failure: DeliveryFailure | None = None
    """Why deliveries fail; absent while they succeed."""


class NotificationChannel(CustomResource):
    """Where notifications about environments go: e-mail, a signed webhook, or Slack."""

    kind_info: ClassVar = Kind(
        name="NotificationChannel",
        plural="notificationchannels",
        short_names=("tlnchannel",),
        columns=(
            Column(name="Type", path=".spec.type", description="email, webhook or slack"),
            *READY_COLUMNS,
            display_name(".spec.name", "The channel's name"),
        ),
    )

    spec: NotificationChannelSpec
    """The desired state of the channel."""
    status: NotificationChannelStatus
    """The observed state of the channel."""
