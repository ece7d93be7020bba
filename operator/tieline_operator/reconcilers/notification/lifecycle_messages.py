"""What receivers get about changes of connections and activations. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tieline_core.identity.display_names import cleaned, cleaned_lines
from tieline_core.identity.ids import format_time
from tieline_core.resources.notifications import NotificationEvent
from tieline_operator.apply.plan import Key
from tieline_operator.reconcilers.notification.lifecycle import LifecycleChange, Subject, Tracked
from tieline_operator.reconcilers.notification.messages import Message, Phase, Place

_TITLES: Mapping[str, str] = {
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

    tracked: Tracked

    @property
    def title(self) -> str:
        """One line, without line breaks."""
        of_whom = self.tracked.external_id or self.tracked.name or self.tracked.id
        what = f'{_TITLES[self.event]} "{of_whom}": {self.place.project_title} / {self.place.environment}'
        return " ".join(cleaned(what).split())

    @property
    def text(self) -> str:
        """The message for people."""
        tracked = self.tracked
        lines = [
            self.title,
            "",
            *self.place.lines,
            f"{tracked.subject.capitalize()}: {tracked.id}",
        ]
        if tracked.external_id:
            lines.append(f"User: {tracked.external_id}")
        lines.append(f"At: {format_time(self.since)}")
        if self.detail:
            lines += ["", self.detail]
        return "\n".join(cleaned_lines("\n".join(lines)))

    @property
    def path(self) -> str:
        """The path in the REST API that shows more."""
        organisation = f"/api/v2/o/{self.place.organisation_id}"
        if self.tracked.subject is Subject.CONNECTION:
            return f"{organisation}/connections/{self.tracked.id}"
        return f"{organisation}/environments/{self.place.environment_id}/activations/{self.tracked.id}"

    def payload(self) -> dict[str, Any]:
        """The body of a webhook: ``type``, ``timestamp`` and ``data``, as Standard Webhooks recommends."""
        tracked = self.tracked
        data: dict[str, Any] = {
            "event": str(self.event),
            **self.place.to_dict(),
            str(tracked.subject): {"id": tracked.id},
        }
        if tracked.user_id:
            data["user"] = {"id": tracked.user_id, "externalId": tracked.external_id}
        if tracked.subject is Subject.CONNECTION:
            more = {
                "name": tracked.name,
                "systemId": tracked.system_id,
                "connectionTemplateId": tracked.template_id,
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
        subject=change.tracked.id,
        place=place,
        detail=change.message,
        since=change.at,
        tracked=change.tracked,
    )
