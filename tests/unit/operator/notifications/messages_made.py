"""Messages for the tests of channels."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from tests.unit.operator.objects import NAMESPACE, NOW, ORGANISATION
from tieline_core.resources.notifications import Incident, NotificationEvent
from tieline_operator.apply.plan import Key
from tieline_operator.reconcilers.notification.messages import Message, Phase, Place, message_of

PLACE = Place(
    namespace=NAMESPACE,
    organisation_id=ORGANISATION,
    project="order-sync",
    project_id="01BX5ZZKBKACTAV9WEVGEMMVRZ",
    project_title="Order sync",
    environment="production",
    environment_id="01BX5ZZKBKACTAV9WEVGEMMVS0",
)


def message(
    phase: Phase = Phase.STARTED,
    *,
    event: NotificationEvent = NotificationEvent.DEPLOY_FAILED,
    detail: str = "Version order-sync-2 could not be deployed (VersionRefused).",
    place: Place = PLACE,
    **incident: Any,
) -> Message:
    return message_of(
        channel=Key("NotificationChannel", NAMESPACE, "ops"),
        uid="uid",
        incident=Incident(
            key=str(event),
            event=event,
            message=detail,
            since=NOW,
            ended_at=NOW + timedelta(minutes=5),
            **incident,
        ),
        phase=phase,
        place=place,
    )
