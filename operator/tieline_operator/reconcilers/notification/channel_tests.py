"""Test messages of notification channels. Pure."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tieline_core.identity.display_names import cleaned
from tieline_core.identity.ids import format_time
from tieline_core.resources import NotificationChannel
from tieline_core.resources.notification_channels import TEST_LASTS, requested_test
from tieline_operator.apply.plan import Key
from tieline_operator.reconcilers.notification.messages import Message, Phase, Place

TEST = "test"
_SENTENCE = "This is a test message. Notifications of this channel arrive in the same way."


@dataclass(frozen=True, kw_only=True)
class ChannelTestMessage(Message):
    """A message that a user requested to test a channel."""

    @property
    def title(self) -> str:
        """One line, without line breaks."""
        return " ".join(cleaned(f'Test of the channel "{self.subject}"').split())

    @property
    def text(self) -> str:
        """The message for people."""
        return f"{self.title}\n\nNamespace: {self.place.namespace}\n\n{self.detail}"

    def payload(self) -> dict[str, Any]:
        """The body of a webhook: ``type``, ``timestamp`` and ``data``, as Standard Webhooks recommends."""
        data = {
            "event": TEST,
            "title": self.title,
            "message": self.detail,
            "organisationId": self.place.organisation_id,
        }
        return {"type": TEST, "timestamp": format_time(self.since), "data": data}


def due_test(
    channel: NotificationChannel, key: Key, *, organisation_id: str, now: datetime
) -> ChannelTestMessage | None:
    """The test message to deliver: one that was requested a moment ago, with no delivery since."""
    requested = requested_test(channel.metadata.annotations)
    if requested is None:
        return None
    identifier, at = requested
    delivered = channel.status.last_delivered_at
    if abs(now - at) >= TEST_LASTS or (delivered is not None and delivered >= at):
        return None
    return ChannelTestMessage(
        id=f"msg_{identifier.lower()}",
        thread=f"msg_{identifier.lower()}",
        channel=key,
        uid=channel.metadata.uid,
        phase=Phase.HAPPENED,
        event=TEST,
        subject=channel.spec.name,
        place=Place(
            namespace=channel.namespace,
            organisation_id=organisation_id,
            project="",
            project_id="",
            project_title="",
            environment="",
            environment_id="",
        ),
        detail=_SENTENCE,
        since=at,
    )
