"""What pods keep between runs, and for whom their schedules run: ``/internal/v1/environment/…``.

    GET, PUT, DELETE  schedules/{key}                    how far a schedule is
    GET, PUT, DELETE  state/{key}                        the state of the environment's own activation
    GET, PUT, DELETE  users/{externalId}/state/{key}     the state of a user's activation
    GET               state?prefix=…                     the keys of a state, and users/{externalId}/state
    GET               users?after=…&limit=…              the users with an activation, page by page

A PUT has ``{"value": …}`` and, where it is to be a compare-and-swap, the ``version`` that must be there (null:
nothing may be). ``expires`` are the seconds after which the value is deleted. As with all of the internal endpoint, the
pod's token says which environment it is.
"""

import math
import re
from itertools import islice
from typing import Any

import orjson
from aiohttp import web
from aiohttp.typedefs import Handler

from tieline_api import errors
from tieline_api.auth.authentication import Caller
from tieline_api.cluster.indexes import key as index_key
from tieline_api.dependencies import Dependencies
from tieline_api.http.request_body import parse_json, read_body
from tieline_api.http.request_keys import USER
from tieline_api.pod_api.environment import (
    ACCOUNT_UID,
    Respond,
    authenticated_workload,
    endpoint,
    workload_environment,
)
from tieline_api.state.documents import DocumentKey, DocumentScope, check_key
from tieline_api.state.state_scopes import schedules_scope, state_scope
from tieline_core.engine.state_streams import MAX_EXPIRY_SECONDS
from tieline_core.identity.ids import environment_id, format_time, object_id

MOST_USERS = 500
_BODY_LIMIT = 1024 * 1024
_SCHEDULE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
_ENVIRONMENT = "/internal/v1/environment"


def add_documents(app: web.Application, platform: Dependencies) -> None:
    """Adds the endpoints."""
    documents = platform.documents

    async def get(request: web.Request, _platform: Dependencies) -> web.Response:
        found = await documents.get(await _document_key(request, platform))
        if found is None:
            raise errors.ApiError(404, "no_value", f'Nothing is kept under "{request.match_info["key"]}"')
        answer = {"value": orjson.Fragment(found.text), "version": found.version}
        if found.expires_at is not None:
            answer["expiresAt"] = format_time(found.expires_at)
        return _json(answer)

    async def put(request: web.Request, _platform: Dependencies) -> web.Response:
        where = await _document_key(request, platform)
        body = await _body(request)
        if "value" not in body:
            raise errors.invalid("value", "is required")
        version = await documents.put(where, body["value"], expires=_expires(body), **_condition(body))
        return _json({"version": version})

    async def delete(request: web.Request, _platform: Dependencies) -> web.Response:
        where = await _document_key(request, platform)
        await documents.delete(where, **_condition(await _body(request)))
        return web.Response(status=204)

    async def keys(request: web.Request, _platform: Dependencies) -> web.Response:
        found = await documents.keys(await _scope(request, platform))
        prefix = request.query.get("prefix", "")
        return _json({"keys": [key for key in found if key.startswith(prefix)]})

    def served(operation: str, respond: Respond) -> Handler:
        return endpoint(operation, respond, platform)

    for path, name in (
        ("/schedules/{key}", "Schedule"),
        ("/state/{key}", "State"),
        ("/users/{external_id}/state/{key}", "UserState"),
    ):
        app.router.add_get(_ENVIRONMENT + path, served(f"internalGet{name}", get), allow_head=False)
        app.router.add_put(_ENVIRONMENT + path, served(f"internalPut{name}", put))
        app.router.add_delete(_ENVIRONMENT + path, served(f"internalDelete{name}", delete))
    for path, name in (("/state", "StateKeys"), ("/users/{external_id}/state", "UserStateKeys")):
        app.router.add_get(_ENVIRONMENT + path, served(f"internal{name}", keys), allow_head=False)
    app.router.add_get(f"{_ENVIRONMENT}/users", served("internalUsers", _users), allow_head=False)


async def _document_key(request: web.Request, platform: Dependencies) -> DocumentKey:
    """Where the document is: always within the pod's own environment. ApiError 401, 403, 404, 422 or 429."""
    scope, key = await _scope(request, platform), request.match_info["key"]
    if not _is_schedule(request):
        check_key(key)
    elif not _SCHEDULE.fullmatch(key):
        raise errors.invalid(
            "key", "must be 1 to 100 letters, digits, '-', '_' or '.', not starting with a mark"
        )
    return scope.document(key)


async def _scope(request: web.Request, platform: Dependencies) -> DocumentScope:
    namespace, workload = await authenticated_workload(request, platform)
    platform.rates.hit(Caller(username=request[USER], uid=request[ACCOUNT_UID]))
    organisation, project, environment = workload_environment(request, platform, namespace, workload)
    identifier = environment_id(object_id(project), environment)
    if _is_schedule(request):
        return schedules_scope(organisation.id, identifier)
    external_id = request.match_info.get("external_id")
    if external_id is None:
        return state_scope(organisation.id, identifier)
    activation = platform.cluster.user_activation(
        namespace, project["metadata"]["name"], environment, external_id
    )
    if activation is None:
        raise errors.not_found("activation of the user", external_id)
    return state_scope(organisation.id, identifier, object_id(activation))


def _is_schedule(request: web.Request) -> bool:
    return request.path.startswith(f"{_ENVIRONMENT}/schedules/")


async def _body(request: web.Request) -> dict[str, Any]:
    content = await read_body(request, limit=_BODY_LIMIT)
    body = parse_json(request, content) if content else {}
    if not isinstance(body, dict):
        raise errors.invalid("", "must be an object")
    return body


def _condition(body: dict[str, Any]) -> dict[str, Any]:
    version = body.get("version")
    if version is not None and not isinstance(version, str):
        raise errors.invalid("version", "must be a text, or null where nothing may be there")
    return {"anyway": "version" not in body, "expected": version}


def _expires(body: dict[str, Any]) -> int | None:
    """Whole seconds, rounded up: the engine tells no smaller ones."""
    expires = body.get("expires")
    if expires is None:
        return None
    if (
        not isinstance(expires, int | float)
        or isinstance(expires, bool)
        or not 0 < expires <= MAX_EXPIRY_SECONDS
    ):
        raise errors.invalid(
            "expires", f"must be a number of seconds above 0, at most {MAX_EXPIRY_SECONDS:,}"
        )
    return math.ceil(expires)


async def _users(request: web.Request, platform: Dependencies) -> web.Response:
    """External ids in the order of their activations, and where the next page begins."""
    namespace, workload = await authenticated_workload(request, platform)
    _, project, environment = workload_environment(request, platform, namespace, workload)
    limit, after = _limit(request), request.query.get("after", "")
    group = index_key(namespace, project["metadata"]["name"], environment)
    rows = platform.cluster.ordered.activations.rows(group)
    start = 0
    if after:
        moment, _, identifier = after.partition("/")
        start = platform.cluster.ordered.activations.place_after(group, (moment, identifier))
    found = list(islice(rows, start, start + limit))
    names = []
    for row in found:
        user = platform.cluster.referred(platform.cluster.users, row.obj, "endUserRef")
        if user is not None:
            names.append(user["spec"]["externalId"])
    following = "/".join(found[-1].position) if len(rows) > start + limit else None
    return _json({"externalIds": names, "next": following})


def _limit(request: web.Request) -> int:
    text = request.query.get("limit", str(MOST_USERS))
    limit = int(text) if text.isascii() and text.isdigit() and len(text) < 9 else 0
    if not 1 <= limit <= MOST_USERS:
        raise errors.invalid("limit", f"must be a number from 1 to {MOST_USERS}")
    return limit


def _json(body: dict[str, Any]) -> web.Response:
    return web.Response(
        body=orjson.dumps(body), content_type="application/json", headers={"Cache-Control": "no-store"}
    )
