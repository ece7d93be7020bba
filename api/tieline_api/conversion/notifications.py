"""Notification channels and notifications between custom resource and REST."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Literal

from tieline_api import errors
from tieline_api.conversion.times import created_at, in_utc, updated_at
from tieline_api.schemas import notifications as rest
from tieline_core.identity.ids import environment_id, format_time, object_id
from tieline_core.objects import Object, ObjectView
from tieline_core.resources.notification_channels import (
    PASSWORD,
    SIGNING_SECRET,
    SLACK_URL,
    TEST_LASTS,
    ChannelType,
    EmailChannel,
    requested_test,
)
from tieline_core.resources.notifications import FAILURE_EVENTS, NotificationEvent
from tieline_core.resources.objects import NotificationChannelObject, NotificationObject, ProjectObject

_READY: Mapping[str, bool] = {"True": True, "False": False}


def new_channel(body: rest.NotificationChannelCreate, secret: str) -> tuple[Object, Mapping[str, bytes]]:
    """The spec of a new channel, and the values of the Secret of the name ``secret`` that it refers to."""
    target, values = channel_target(body.type, body.config, secret)
    return {"name": body.name, "type": str(body.type), str(body.type): target}, values


def channel_target(
    type_: ChannelType, config: rest.ChannelConfigIn, secret: str, *, kept: Mapping[str, Any] | None = None
) -> tuple[Object, Mapping[str, bytes]]:
    """Where a channel delivers to, and the values of the Secret of the name ``secret`` that it refers to.

    Without new values the reference ``kept`` stays where the channel needs a secret.
    """
    target: dict[str, Any] = {}
    values: dict[str, bytes] = {}
    match type_:
        case ChannelType.EMAIL:
            target = config.model_dump(
                by_alias=True, exclude_none=True, mode="json", exclude={"password", "secret", "url"}
            )
            target["to"] = list(dict.fromkeys(target["to"]))
            values = {PASSWORD: config.password.encode()} if config.password is not None else {}
        case ChannelType.WEBHOOK:
            target = {"url": config.url}
            values = {SIGNING_SECRET: config.secret.encode()} if config.secret is not None else {}
        case ChannelType.SLACK:
            values = {SLACK_URL: config.url.encode()} if config.url is not None else {}
    if values:
        target["secretRef"] = {"name": secret}
    elif kept and (type_ is not ChannelType.EMAIL or config.username is not None):
        target["secretRef"] = {**kept}
    return target, values


def change_channel(
    live: NotificationChannelObject, mine: Object, body: rest.NotificationChannelUpdate, secret: str
) -> tuple[Mapping[str, bytes], Sequence[str]]:
    """Sets what ``body`` changes of a channel. Returns the values of its new Secret of the name ``secret``, and the
    names of the Secrets that the caller has it use anew.

    Raises ApiError 422 for a config that does not fit, or that would send the stored password to another server.
    """
    spec = mine["spec"]
    if body.name is not None:
        spec["name"] = body.name
    if body.config is None:
        return {}, ()
    type_ = ChannelType(live["spec"]["type"])
    before: ObjectView = live["spec"]
    stored = before.get(type_) or {}
    kept = stored.get("secretRef")
    if problem := rest.problem_of(type_, body.config, has_secret=kept is not None):
        raise errors.invalid("config", problem)
    target, values = channel_target(type_, body.config, secret, kept=kept)
    if type_ is ChannelType.EMAIL and kept and target.get("secretRef") == kept and _has_moved(stored, target):
        raise errors.invalid(
            "config.password",
            "is needed with another host, port or security: the stored one is for this server",
        )
    spec |= {"type": str(type_), str(type_): target}
    return values, [target["secretRef"]["name"]] if target != stored and "secretRef" in target else []


def _has_moved(stored: Mapping[str, Any], target: Mapping[str, Any]) -> bool:
    """Whether mail goes to another server, or with other protection: its administrator can read the password."""
    before, after = EmailChannel.model_validate(stored), EmailChannel.model_validate(target)
    return (before.host, before.effective_port, before.security) != (
        after.host,
        after.effective_port,
        after.security,
    )


def channel_to_rest(obj: NotificationChannelObject, *, organisation: str) -> rest.NotificationChannel:
    """The REST form of a NotificationChannel, without its secret."""
    spec = obj["spec"]
    ready, message = _condition(obj)
    return rest.NotificationChannel(
        id=object_id(obj),
        organisation_id=organisation,
        name=spec["name"],
        type=spec["type"],
        config=_config(obj),
        ready=ready,
        message="" if ready else message,
        last_delivered_at=(obj.get("status") or {}).get("lastDeliveredAt"),
        test=_test(obj),
        created_at=created_at(obj),
        updated_at=updated_at(obj),
    )


def _test(obj: NotificationChannelObject) -> rest.ChannelTest | None:
    """The last requested test message. The channel's status has its delivery."""
    requested = requested_test(obj["metadata"].get("annotations"))
    if requested is None:
        return None
    _, at = requested
    status = obj.get("status") or {}
    delivered = in_utc(status.get("lastDeliveredAt"))
    ready, _ = _condition(obj)
    state: Literal["sending", "delivered", "failed"] = "sending"
    if delivered is not None and delivered >= at:
        state = "delivered"
    elif ready is False or datetime.now(UTC) - at > TEST_LASTS:
        state = "failed"
    return rest.ChannelTest(state=state, requested_at=format_time(at))


def _config(channel: NotificationChannelObject) -> rest.ChannelConfig:
    """Where a channel delivers to, without its secret."""
    spec = channel["spec"]
    target = {key: value for key, value in spec[spec["type"]].items() if key != "secretRef"}
    return rest.ChannelConfig.model_validate(target)


def new_notification(
    body: rest.NotificationCreate,
    *,
    project: ProjectObject,
    environment: str,
    channel: NotificationChannelObject,
) -> Object:
    """The spec of a new notification."""
    spec: Object = {
        "name": body.name,
        "projectRef": {"name": project["metadata"]["name"]},
        "environment": environment,
        "channelRef": {"name": channel["metadata"]["name"]},
    }
    if body.events:
        spec["events"] = [str(event) for event in body.events]
    if body.failure_rate is not None:
        rate = body.failure_rate
        spec["failureRate"] = {"percent": rate.percent, "minimumRuns": rate.minimum_runs}
    return spec


def change_notification(
    mine: Object, body: rest.NotificationUpdate, channel: NotificationChannelObject | None
) -> None:
    """Sets what ``body`` changes of a notification; ``channel`` is the new one, if there is one."""
    spec = mine["spec"]
    if body.name is not None:
        spec["name"] = body.name
    if channel is not None:
        spec["channelRef"] = {"name": channel["metadata"]["name"]}
    if body.events is not None:
        spec.pop("events", None)
        if body.events:
            spec["events"] = [str(event) for event in body.events]
    if body.failure_rate is not None:
        rate = body.failure_rate
        spec["failureRate"] = {"percent": rate.percent, "minimumRuns": rate.minimum_runs}


def notification_to_rest(
    obj: NotificationObject, *, project: ProjectObject, channel: NotificationChannelObject | None
) -> rest.Notification:
    """The REST form of a Notification."""
    spec, identifier = obj["spec"], object_id(project)
    ready, message = _condition(obj)
    rate = spec.get("failureRate") or {}
    return rest.Notification(
        id=object_id(obj),
        name=spec["name"],
        project_id=identifier,
        channel_id=object_id(channel) if channel else None,
        channel_name=channel["spec"]["name"] if channel else "",
        type=channel["spec"]["type"] if channel else None,
        config=_config(channel) if channel else rest.ChannelConfig(),
        environment_id=environment_id(identifier, spec["environment"]),
        events=spec.get("events") or [event for event in NotificationEvent if event in FAILURE_EVENTS],
        failure_rate=rest.FailureRate(
            percent=rate.get("percent", 20), minimum_runs=rate.get("minimumRuns", 10)
        ),
        incidents=[
            rest.Incident(
                event=one["event"],
                subject=one.get("subject") or None,
                message=one["message"],
                since=one["since"],
                notified_at=one.get("notifiedAt"),
                ended_at=one.get("endedAt"),
            )
            for one in (obj.get("status") or {}).get("incidents") or ()
        ],
        ready=ready,
        message="" if ready else message,
        created_at=created_at(obj),
        updated_at=updated_at(obj),
    )


def _condition(obj: NotificationObject | NotificationChannelObject) -> tuple[bool | None, str]:
    """What the Ready condition says of the current spec."""
    conditions = (obj.get("status") or {}).get("conditions") or ()
    found = next((one for one in conditions if one["type"] == "Ready"), None)
    if found is None or found.get("observedGeneration") != obj["metadata"].get("generation"):
        return None, ""
    return _READY.get(found["status"]), found["message"]
