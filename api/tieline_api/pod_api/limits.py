"""``POST /internal/v1/connections/…/limits``: when pods may send requests through a connection with limits.

The body is a SlotQuestion of tieline_protocol, the answer a SlotAnswer. What the limits are the resources say, and not
the pod.
"""

import time
from dataclasses import replace

from aiohttp import web

from tieline_api import errors
from tieline_api.dependencies import Dependencies
from tieline_api.http.request_body import parse_json, read_body
from tieline_api.pod_api.configuration import connection_in_use
from tieline_api.pod_api.environment import authenticated_workload, endpoint, workload_environment
from tieline_core.identity.ids import object_id
from tieline_core.resources.limits import limits_in_effect
from tieline_core.resources.objects import ConnectionObject
from tieline_protocol.request_limits import RequestLimits, SlotAnswer, SlotQuestion

PATH = "/internal/v1/connections/{connection_id}/limits"
_MAX_BODY = 64 * 1024


def add_internal_limits(app: web.Application, platform: Dependencies) -> None:
    """Adds the endpoint."""
    app.router.add_post(PATH, endpoint("internalLimits", answer, platform))


async def answer(request: web.Request, platform: Dependencies) -> web.Response:
    """200 with what was decided.

    ApiError 404 for what is none of the environment's connections, 422 for a question of another shape, 503 while the
    event engine cannot be asked.
    """
    namespace, workload = await authenticated_workload(request, platform)
    organisation, project, name = workload_environment(request, platform, namespace, workload)
    wanted = request.match_info["connection_id"]
    connection = connection_in_use(platform.cluster, organisation, project, name, wanted)
    if connection is None:
        raise errors.not_found("connection of this environment", wanted)
    question = await _question(request)
    limits = _limits(platform, connection)
    if limits is None:
        found = _unlimited(question)
    else:
        # Pods of another environment may have the same name, or claim to.
        question = replace(question, pod=f"{workload}/{question.pod}")
        found = await platform.limits.ask(organisation.id, object_id(connection), limits, question)
    return web.json_response(found.to_json(), headers={"Cache-Control": "no-store"})


async def _question(request: web.Request) -> SlotQuestion:
    try:
        return SlotQuestion.from_json(parse_json(request, await read_body(request, limit=_MAX_BODY)))
    except ValueError as error:
        raise errors.invalid("", str(error)) from None


def _limits(platform: Dependencies, connection: ConnectionObject) -> RequestLimits | None:
    system = platform.cluster.referred(platform.cluster.systems, connection, "systemRef")
    found = limits_in_effect(connection["spec"], system["spec"] if system else {})
    if not found:
        return None
    try:
        return RequestLimits.parse(found)
    except ValueError:
        # The API server has checked it against the schema; an earlier one may have let through something else.
        return None


def _unlimited(question: SlotQuestion) -> SlotAnswer:
    """For a pod that has not heard yet that there are no limits any more."""
    now = time.monotonic()
    return SlotAnswer(
        clock="unlimited",
        now=now,
        time=now,
        slots=((now, question.slots),) if question.slots else (),
        permits=question.in_use + question.waiting,
    )
