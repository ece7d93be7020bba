"""Events that are sent to environments by REST."""

import time
from collections.abc import Sequence

from tieline_api import errors
from tieline_api.auth.permissions import permission
from tieline_api.body_limits import BodyKind
from tieline_api.conversion.projects import environment_item, environment_status, served_version
from tieline_api.http.operation import ORGANISATION, Call, Operations, Reply
from tieline_api.http.request_body import member_text
from tieline_api.schemas import events as rest
from tieline_api.use_cases import run_actions
from tieline_api.views.activation_lookup import (
    EnvironmentRef,
    activations_of,
    environment_in_path,
    environment_object_in_path,
)
from tieline_api.views.project_lookup import versions_of
from tieline_core.identity.ids import new_id
from tieline_protocol.event_streams import EventStreams
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
    warnings = _require_deployed(call, environment)
    user = None
    if body.user is not None:
        user, more = _user(call, environment, body.user)
        warnings += more
    streams = EventStreams(call.organisation.id, environment.id)
    now = time.time()
    metadata = EventMetadata(
        run=new_id(),
        kind="event",
        task=body.task,
        queued_at=now,
        user=user,
        key=body.key,
        event_id=body.id,
    )
    stored, _ = await run_actions.publish(
        call.platform,
        streams,
        metadata,
        member_text(call.raw, "payload"),
        at=run_actions.time_of(now + body.delay) if body.delay else None,
    )
    run: str | None = metadata.run
    if stored.duplicate:
        run = await run_actions.first_run(call.platform, streams, metadata, stored)
        warnings.append("An event of this task with the same id is stored already: nothing was added")
    return Reply(
        body=rest.EventAccepted(event_id=body.id or metadata.run, run_id=run), warnings=tuple(warnings)
    )


def _require_deployed(call: Call[object, rest.EventCreate], environment: EnvironmentRef) -> list[str]:
    """ApiError 409 for a draft; a warning where the code does not seem to have the task."""
    project, name = environment.project, environment.name
    item = environment_item(project, name)
    status = environment_status(project, name)
    version = served_version(item, status, versions_of(call.platform.cluster, project))
    if version is None:
        raise errors.conflict(f'Nothing is deployed to the environment "{name}" yet: deploy it first')
    # Only a warning: the analysis of the files does not see all, and another version may run the event.
    interface = (version.get("status") or {}).get("interface") or {}
    task, events = call.body.task, interface.get("events")
    if task in (events or ()):
        return []
    if task in (interface.get("webhooks") or ()):
        return [f'"{task}" is a webhook: the event fails unless the code has an event of this name too']
    if events is None:
        return []
    return [
        f'The code does not seem to have the event "{task}" (it has {_shown(events)}): the event fails unless it does '
        "once a pod runs it"
    ]


def _shown(names: Sequence[str]) -> str:
    """Some of the names, in quotes."""
    shown = ", ".join(f'"{name}"' for name in names[:_MOST_SHOWN]) or "none"
    return f"{shown} and {len(names) - _MOST_SHOWN} more" if len(names) > _MOST_SHOWN else shown


def _user(
    call: Call[object, rest.EventCreate], environment: EnvironmentRef, identifier: str
) -> tuple[str, list[str]]:
    """The user's external id; 422 where there is no such user."""
    found = call.platform.cluster.user(call.namespace, identifier)
    if found is None:
        raise errors.invalid("user", "is no user of this organisation: create the user first")
    external_id: str = found["spec"]["externalId"]
    if activations_of(call, environment, found):
        return external_id, []
    return external_id, ["The user has no activation on the environment: the event fails until there is one"]
