"""What receivers are told of changes of connections and activations. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tieline_core.identity.display_names import cleaned, cleaned_lines
from tieline_core.identity.ids import format_time
from tieline_core.resources.notifications import NotificationEvent
from tieline_operator.apply.plan import Key
from tieline_operator.reconcilers.notification.lifecycle import Followee, LifecycleChange, Subject
from tieline_operator.reconcilers.notification.messages import Message, Phase, Place

_TITLES: Mapping[NotificationEvent, str] = {
    NotificationEvent.CONNECTION_CREATED: "Connection created",
    NotificationEvent.CONNECTION_FAILED: "Connection failed",
    NotificationEvent.CONNECTION_NEEDS_AUTHORISATION: "Connection needs authorisation",
    NotificationEvent.CONNECTION_DELETED: "Connection deleted",
    NotificationEvent.ACTIVATION_CREATED: "User activated",
    NotificationEvent.ACTIVATION_DELETED: "Activation deleted",
}


@dataclass(frozen=True, kw_only=True)
class LifecycleMessage(Message):
    """A message about a change."""

    followee: Followee

    @property
    def title(self) -> str:
        """One line, without line breaks."""
        of_whom = self.followee.external_id or self.followee.name or self.followee.id
        what = f'{_TITLES[self.event]} "{of_whom}": {self.place.project_title} / {self.place.environment}'
        return " ".join(cleaned(what).split())

    @property
    def text(self) -> str:
        """The message for people."""
        place, followee = self.place, self.followee
        lines = [
            self.title,
            "",
            f"Project: {place.project_title} ({place.namespace}/{place.project})",
            f"Environment: {place.environment}",
            f"{followee.subject.capitalize()}: {followee.id}",
        ]
        if followee.external_id:
            lines.append(f"User: {followee.external_id}")
        lines.append(f"At: {format_time(self.since)}")
        if self.detail:
            lines += ["", self.detail]
        return "\n".join(cleaned_lines("\n".join(lines)))

    @property
    def path(self) -> str:
        """The path in the REST API that shows more."""
        organisation = f"/api/v2/o/{self.place.organisation_id}"
        if self.followee.subject is Subject.CONNECTION:
            return f"{organisation}/connections/{self.followee.id}"
        return f"{organisation}/environments/{self.place.environment_id}/activations/{self.followee.id}"

    def payload(self) -> dict[str, Any]:
        """The body of a webhook: ``type``, ``timestamp`` and ``data``, as Standard Webhooks recommends."""
        place, followee = self.place, self.followee
        data: dict[str, Any] = {
            "event": str(self.event),
            "organisationId": place.organisation_id,
            "project": {"id": place.project_id, "name": place.project_title},
            "environment": {"id": place.environment_id, "name": place.environment},
            str(followee.subject): {"id": followee.id},
        }
        if followee.user_id:
            data["user"] = {"id": followee.user_id, "externalId": followee.external_id}
        if followee.subject is Subject.CONNECTION:
            more = {
                "name": followee.name,
                "systemId": followee.system_id,
                "connectionTemplateId": followee.template_id,
            }
            data["connection"] |= {name: value for name, value in more.items() if value}
        if self.detail:
            data["message"] = self.detail
        return {"type": str(self.event), "timestamp": format_time(self.since), "data": data}


def lifecycle_message(*, channel: Key, uid: str, change: LifecycleChange, place: Place) -> LifecycleMessage:
    """The message about a change."""
    return LifecycleMessage(
        id=change.id,
        thread=change.id,
        channel=channel,
        uid=uid,
        phase=Phase.HAPPENED,
        event=change.event,
        subject=change.followee.id,
        place=place,
        detail=change.message,
        since=change.at,
        followee=change.followee,
    )
