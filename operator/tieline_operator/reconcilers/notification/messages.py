"""What notifications say: what happened, where, since when, and what to do next. Pure."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from tieline_core.identity.display_names import cleaned, cleaned_lines
from tieline_core.identity.ids import format_time
from tieline_core.resources.notifications import Incident, NotificationEvent
from tieline_operator.apply.plan import Key

_ID_DIGITS = 32


class Phase(StrEnum):
    """Which of an incident's two messages it is."""

    STARTED = "started"
    RESOLVED = "resolved"
    HAPPENED = "happened"
    """The one message about a change."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where an incident is."""

    namespace: str
    organisation_id: str
    project: str
    """The Project's name."""
    project_id: str
    project_title: str
    """The project's name for people."""
    environment: str
    environment_id: str

    @property
    def lines(self) -> list[str]:
        """The project and the environment, for people."""
        return [
            f"Project: {self.project_title} ({self.namespace}/{self.project})",
            f"Environment: {self.environment}",
        ]

    def to_dict(self) -> dict[str, Any]:
        """The same for programs."""
        return {
            "organisationId": self.organisation_id,
            "project": {"id": self.project_id, "name": self.project_title},
            "environment": {"id": self.environment_id, "name": self.environment},
        }


@dataclass(frozen=True, kw_only=True)
class Message:
    """A message to a channel."""

    id: str
    """The same for each attempt, also by another leader: receivers recognise what they have already."""
    thread: str
    """The id of the incident's first message."""
    channel: Key
    uid: str
    """Of the object that the message is sent for: it is dropped with it."""
    phase: Phase
    event: str
    """A NotificationEvent, or ``test``."""
    subject: str
    place: Place
    detail: str
    since: datetime
    ended_at: datetime | None = None

    @property
    def title(self) -> str:
        """One line, without line breaks."""
        subject = f' "{self.subject}"' if self.subject else ""
        what = f"{TITLES[self.event]}{subject}: {self.place.project_title} / {self.place.environment}"
        line = f"Resolved: {what}" if self.phase is Phase.RESOLVED else what
        return " ".join(cleaned(line).split())

    @property
    def sentence(self) -> str:
        """What happened."""
        return f"It is over. It was: {self.detail}" if self.phase is Phase.RESOLVED else self.detail

    @property
    def text(self) -> str:
        """The message for people."""
        lines = [
            self.title,
            "",
            *self.place.lines,
            f"Since: {format_time(self.since)}",
        ]
        if self.ended_at:
            lines.append(f"Until: {format_time(self.ended_at)}")
        lines += ["", self.sentence]
        if self.phase is Phase.STARTED:
            lines += ["", f"Next: {self.next_step}", f"  {self.command}"]
        return "\n".join(cleaned_lines("\n".join(lines)))

    @property
    def next_step(self) -> str:
        """What to do."""
        return _NEXT_STEPS[self.event]

    @property
    def command(self) -> str:
        """A command that shows more."""
        place = self.place
        match self.event:
            case NotificationEvent.AUTHORISATION_NEEDED:
                return f"kubectl -n {place.namespace} describe connection.tieline.dev {self.subject}"
            case (
                NotificationEvent.RUN_DEAD
                | NotificationEvent.FAILURE_RATE
                | NotificationEvent.SCHEDULE_MISSED
            ):
                return f"GET {self.path}"
        return f"kubectl -n {place.namespace} describe project.tieline.dev {place.project}"

    @property
    def path(self) -> str:
        """The path in the REST API that shows more."""
        place = self.place
        project = f"/api/v2/o/{place.organisation_id}/projects/{place.project_id}"
        match self.event:
            case NotificationEvent.RUN_DEAD:
                left = "status=dead&discarded=false&replayed=false"
                return f"{project}/runs?{left}&project_env={place.environment}"
            # Failed runs are "failed" or, of events, "dead"; a list has one status.
            case NotificationEvent.FAILURE_RATE | NotificationEvent.SCHEDULE_MISSED:
                return f"{project}/runs?project_env={place.environment}"
            case NotificationEvent.AUTHORISATION_NEEDED:
                return f"{project}/connections"
        return project

    def payload(self) -> dict[str, Any]:
        """The body of a webhook: ``type``, ``timestamp`` and ``data``, as Standard Webhooks recommends."""
        moment = self.ended_at if self.phase is Phase.RESOLVED and self.ended_at else self.since
        data: dict[str, Any] = {
            "event": str(self.event),
            "status": str(self.phase),
            "title": self.title,
            "message": self.sentence,
            "since": format_time(self.since),
            **self.place.to_dict(),
            "nextStep": self.next_step,
            "command": self.command,
            "path": self.path,
        }
        if self.subject:
            data["subject"] = self.subject
        if self.ended_at:
            data["until"] = format_time(self.ended_at)
        return {"type": f"{self.event}.{self.phase}", "timestamp": format_time(moment), "data": data}


def message_id(uid: str, incident: Incident, phase: Phase) -> str:
    """The id of an incident's message: it follows from what the status holds."""
    text = f"{uid}\n{incident.key}\n{format_time(incident.since)}\n{phase}"
    return f"msg_{hashlib.sha256(text.encode()).hexdigest()[:_ID_DIGITS]}"


def message_of(*, channel: Key, uid: str, incident: Incident, phase: Phase, place: Place) -> Message:
    """The message that is due for an incident."""
    return Message(
        id=message_id(uid, incident, phase),
        thread=message_id(uid, incident, Phase.STARTED),
        channel=channel,
        uid=uid,
        phase=phase,
        event=incident.event,
        subject=incident.subject,
        place=place,
        detail=incident.message,
        since=incident.since,
        ended_at=incident.ended_at if phase is Phase.RESOLVED else None,
    )


TITLES: Mapping[str, str] = {
    NotificationEvent.RUN_DEAD: "Events were given up",
    NotificationEvent.FAILURE_RATE: "Runs fail too often",
    NotificationEvent.AUTHORISATION_NEEDED: "Connection needs authorisation",
    NotificationEvent.DEPLOY_FAILED: "Deploy failed",
    NotificationEvent.ENVIRONMENT_ERROR: "Environment in error",
    NotificationEvent.SCHEDULE_MISSED: "Schedule missed",
}
_NEXT_STEPS: Mapping[str, str] = {
    NotificationEvent.RUN_DEAD: "Look at the dead runs, correct the cause, and replay or discard them.",
    NotificationEvent.FAILURE_RATE: "Look at the errors of the failed runs, and at what was deployed last.",
    NotificationEvent.AUTHORISATION_NEEDED: "Authorise the connection again, or replace its credential.",
    NotificationEvent.DEPLOY_FAILED: "Correct what the message names, and deploy again.",
    NotificationEvent.ENVIRONMENT_ERROR: "Look at the reason and the log, and deploy a version that works.",
    NotificationEvent.SCHEDULE_MISSED: "Check that the environment runs, and that earlier runs end in time.",
}
REASONS: Mapping[NotificationEvent, str] = {
    event: "".join(word.capitalize() for word in event.split("_")) for event in NotificationEvent
}
"""The reasons of Kubernetes Events."""
