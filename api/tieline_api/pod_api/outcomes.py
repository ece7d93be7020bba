"""``POST /internal/v1/connections/…/outcome``: how a system answers requests through a connection.

The body is ``{"status": 401, "count": 3, "said": "invalid key", "of": "…"}``: so many requests were answered so, with
the credentials of that fingerprint. Any other status than 401 and 403 says that the credentials are accepted; one below
400, that a request succeeded.
"""

from collections.abc import Mapping
from typing import Any

from aiohttp import web

from tieline_api import errors
from tieline_api.auth.authentication import Caller
from tieline_api.connection_requests.client import redactor_of
from tieline_api.connection_requests.forwarding import shown_text
from tieline_api.credentials.outcome_reports import RequestOutcome, verdict_of
from tieline_api.dependencies import Dependencies
from tieline_api.http.request_body import parse_json, read_body
from tieline_api.http.request_keys import USER
from tieline_api.pod_api.configuration import connection_body, connection_in_use
from tieline_api.pod_api.environment import (
    ACCOUNT_UID,
    authenticated_workload,
    endpoint,
    workload_environment,
)

PATH = "/internal/v1/connections/{connection_id}/outcome"
_MAX_BODY = 8192
_MAX_COUNT = 1_000_000


def add_internal_outcomes(app: web.Application, platform: Dependencies) -> None:
    """Adds the endpoint."""
    app.router.add_post(PATH, endpoint("internalOutcome", answer, platform))


async def answer(request: web.Request, platform: Dependencies) -> web.Response:
    """204; ApiError 404 for what is no connection of the pod's environment."""
    namespace, workload = await authenticated_workload(request, platform)
    platform.rates.hit(Caller(username=request[USER], uid=request[ACCOUNT_UID]))
    organisation, project, name = workload_environment(request, platform, namespace, workload)
    identifier = request.match_info["connection_id"]
    connection = connection_in_use(platform.cluster, organisation, project, name, identifier)
    if connection is None:
        raise errors.not_found("connection of this environment", identifier)
    body = parse_json(request, await read_body(request, limit=_MAX_BODY))
    if not isinstance(body, dict):
        raise errors.invalid("", "must be an object")
    status = _number(body, "status", 100, 599)
    count = _number({"count": 1, **body}, "count", 1, _MAX_COUNT)
    said, of = _text(body, "said"), _text(body, "of")
    if said:  # the pod has masked it; whether it has is not for its code to decide
        said = await shown_text(said.encode(), "", redactor_of(connection_body(platform.cluster, connection)))
    outcome = RequestOutcome(status=status, verdict=verdict_of(status), count=count, said=said, of=of)
    await platform.outcomes.answered(connection, outcome)
    return web.Response(status=204)


def _number(body: Mapping[str, Any], field: str, low: int, high: int) -> int:
    value = body.get(field)
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise errors.invalid(field, f"must be a whole number from {low} to {high}")
    return value


def _text(body: Mapping[str, Any], field: str) -> str:
    value = body.get(field, "")
    if not isinstance(value, str):
        raise errors.invalid(field, "must be a text")
    return value
