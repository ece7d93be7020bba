"""Events that are sent to environments by REST."""

import asyncio
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from tieline_api import errors
from tieline_api.auth.permissions import permission
from tieline_api.body_limits import BodyKind
from tieline_api.conversion.projects import environment_item, environment_status, served_version
from tieline_api.http.operation import ORGANISATION, Call, Operations, Reply
from tieline_api.http.request_body import element_texts, member_text
from tieline_api.schemas import events as rest
from tieline_api.use_cases import event_batches, run_actions
from tieline_api.use_cases.event_batches import BatchEvent
from tieline_api.views.activation_lookup import (
    EnvironmentRef,
    activations_of,
    environment_in_path,
    environment_object_in_path,
)
from tieline_api.views.project_lookup import versions_of
from tieline_core.identity.ids import new_id
from tieline_protocol.event_streams import MAX_EVENT_BYTES, EventStreams
from tieline_protocol.events import EventMetadata

_MOST_SHOWN = 20

OPERATIONS = Operations("Runs and events")


@OPERATIONS.add(
    "POST",
    f"{ORGANISATION}/environments/{{environment_id}}/events",
    id="publishEvent",
    summary="Send an event to an environment",
    tag="Runs and events",
    permissions=permission("patch", "projects"),
    by_environment=environment_object_in_path,
    size=BodyKind.EVENT,
    keeps_body=True,
    success=202,
)
async def publish_event(call: Call[None, rest.EventCreate]) -> Reply[rest.EventAccepted]:
    """Stores an event for an environment, which runs it at least once. An environment that is suspended runs it when
    it is deployed again. The answer is 503 when the event engine is full or away: then nothing was stored."""
    environment, body = environment_in_path(call), call.body
    warnings = _task_warnings(_deployed_interface(call, environment), [body.task])
    user, more = _user(call, environment, body.user, "user")
    warnings += more
    streams = EventStreams(call.organisation.id, environment.id)
    payload = await asyncio.to_thread(member_text, call.raw, "payload")
    event = _event(body, user, payload, time.time())
    stored, _ = await run_actions.publish(call.platform, streams, event.metadata, event.payload, at=event.at)
    run: str | None = event.metadata.run
    if stored.duplicate:
        run = await run_actions.first_run(call.platform, streams, event.metadata, stored)
        warnings.append("An event of this task with the same id is stored already: nothing was added")
    return Reply(
        body=rest.EventAccepted(event_id=body.id or event.metadata.run, run_id=run), warnings=tuple(warnings)
    )


@OPERATIONS.add(
    "POST",
    f"{ORGANISATION}/environments/{{environment_id}}/events/batch",
    id="publishEvents",
    summary="Send events to an environment",
    tag="Runs and events",
    permissions=permission("patch", "projects"),
    by_environment=environment_object_in_path,
    size=BodyKind.EVENT,
    keeps_body=True,
    success=202,
)
async def publish_events(call: Call[None, rest.EventBatch]) -> Reply[rest.EventBatchAccepted]:
    """Stores up to 1,000 events, those of a key in their order, and says for each what became of it. If one is invalid,
    none is stored. If none can be stored, because the event engine is full or away, the answer is 503."""
    environment, given = environment_in_path(call), call.body.events
    warnings = _task_warnings(
        _deployed_interface(call, environment), dict.fromkeys(one.task for one in given)
    )
    users: dict[str | None, str | None] = {}
    for number, one in enumerate(given):
        if one.user not in users:
            users[one.user], more = _user(call, environment, one.user, f"events[{number}].user")
            warnings += more
    payloads = await asyncio.to_thread(_payloads, call.raw)
    for number, payload in enumerate(payloads):
        if len(payload) > MAX_EVENT_BYTES:
            raise errors.too_large(f"The payload of events[{number}]", limit=MAX_EVENT_BYTES)
    now = time.time()
    events = [
        _event(one, users[one.user], payload, now) for one, payload in zip(given, payloads, strict=True)
    ]
    streams = EventStreams(call.organisation.id, environment.id)
    stored = await event_batches.publish_all(call.platform, streams, events)
    results = [_result(one, event, found) for one, event, found in zip(given, events, stored, strict=True)]
    counts = Counter(one.status for one in results)
    body = rest.EventBatchAccepted(
        stored=counts["stored"],
        duplicates=counts["duplicate"],
        refused=counts["refused"],
        results=results,
    )
    return Reply(body=body, warnings=tuple(dict.fromkeys(warnings)))


def _payloads(body: bytes) -> list[bytes]:
    return [member_text(one, "payload") for one in element_texts(member_text(body, "events"))]


def _event(body: rest.EventCreate, user: str | None, payload: bytes, now: float) -> BatchEvent:
    metadata = EventMetadata(
        run=new_id(),
        kind="event",
        task=body.task,
        queued_at=now,
        user=user,
        key=body.key,
        event_id=body.id,
    )
    at = run_actions.time_of(now + body.delay) if body.delay else None
    return BatchEvent(metadata=metadata, payload=payload, at=at)


def _result(body: rest.EventCreate, event: BatchEvent, stored: event_batches.Stored) -> rest.EventResult:
    identifier = body.id or event.metadata.run
    if stored.error is not None:
        return rest.EventResult(status="refused", event_id=identifier, error=stored.error.message)
    status: Literal["stored", "duplicate"] = "duplicate" if stored.duplicate else "stored"
    return rest.EventResult(status=status, event_id=identifier, run_id=stored.run)


def _deployed_interface(call: Call[Any, Any], environment: EnvironmentRef) -> Mapping[str, Any]:
    """What the served version declares. ApiError 409 for a draft."""
    project, name = environment.project, environment.name
    item = environment_item(project, name)
    status = environment_status(project, name)
    version = served_version(item, status, versions_of(call.platform.cluster, project))
    if version is None:
        raise errors.conflict(f'Nothing is deployed to the environment "{name}" yet: deploy it first')
    return (version.get("status") or {}).get("interface") or {}


def _task_warnings(interface: Mapping[str, Any], tasks: Iterable[str]) -> list[str]:
    """A warning for each task that the code does not seem to have.

    Only a warning: the analysis of the files does not see all, and another version may run the event.
    """
    events, webhooks = interface.get("events"), interface.get("webhooks") or ()
    warnings: list[str] = []
    for task in tasks:
        if task in (events or ()):
            continue
        if task in webhooks:
            warnings.append(
                f'"{task}" is a webhook: the event fails unless the code has an event of this name too'
            )
        elif events is not None:
            warnings.append(
                f'The code does not seem to have the event "{task}" (it has {_shown(events)}): the event fails unless '
                "it does once a pod runs it"
            )
    return warnings


def _shown(names: Sequence[str]) -> str:
    """Some of the names, in quotes."""
    shown = ", ".join(f'"{name}"' for name in names[:_MOST_SHOWN]) or "none"
    return f"{shown} and {len(names) - _MOST_SHOWN} more" if len(names) > _MOST_SHOWN else shown


def _user(
    call: Call[Any, Any], environment: EnvironmentRef, identifier: str | None, field: str
) -> tuple[str | None, list[str]]:
    """The user's external id, with warnings; 422 where there is no such user."""
    if identifier is None:
        return None, []
    found = call.platform.cluster.user(call.namespace, identifier)
    if found is None:
        raise errors.invalid(field, "is no user of this organisation: create the user first")
    external_id: str = found["spec"]["externalId"]
    if activations_of(call, environment, found):
        return external_id, []
    return external_id, ["The user has no activation on the environment: the event fails until there is one"]
