"""``/internal/v1/environment``: what a pod receives about its environment (a long poll) and its users.

The pod shows its projected ServiceAccount token (audience ``tieline``). The account's name is the
workload's, so the token itself says which environment it is, and there is nothing to ask for another one.
"""

import hashlib
import re
import time
from collections.abc import Awaitable, Callable

import orjson
from aiohttp import web
from aiohttp.typedefs import Handler

from tieline_api import errors
from tieline_api.auth.authentication import bearer_token
from tieline_api.cluster.etags import unchanged
from tieline_api.cluster.organisations import Organisation
from tieline_api.dependencies import Dependencies
from tieline_api.http.request_keys import OPERATION, ORGANISATION, USER
from tieline_api.pod_api.configuration import configuration, environment_of_workload, user_activation
from tieline_api.pod_api.configuration_sources import secrets_of_environment, secrets_of_user
from tieline_core.resources.objects import ActivationObject, ProjectObject

LONGEST_WAIT = 30.0
_CHECK_SECONDS = 2.0
ACCOUNT_UID = web.RequestKey("account_uid", str)
"""The uid of the ServiceAccount whose token came: what is made for the environment may go with it."""
_ACCOUNT = re.compile(r"system:serviceaccount:(?P<namespace>[^:]+):(?P<name>[^:]+)")


Respond = Callable[[web.Request, Dependencies], Awaitable[web.StreamResponse]]


def add_internal(app: web.Application, platform: Dependencies) -> None:
    """Adds the endpoint."""
    users = "/internal/v1/environment/users/{external_id}"
    app.router.add_get("/internal/v1/environment", endpoint("internalEnvironment", answer, platform))
    app.router.add_get(users, endpoint("internalUser", answer_user, platform))


def endpoint(operation: str, respond: Respond, platform: Dependencies) -> Handler:
    """What serves an endpoint; log lines and metrics know it as ``operation``."""

    async def handle(request: web.Request) -> web.StreamResponse:
        request[OPERATION] = operation
        return await respond(request, platform)

    return handle


async def answer(request: web.Request, platform: Dependencies) -> web.Response:
    """200 with the configuration, or 304 when it stayed the same for as long as the pod wants to wait."""
    namespace, workload = await authenticated_workload(request, platform)
    until = time.monotonic() + _wait(request)
    condition = request.headers.get("If-None-Match")
    while True:
        body = await _current(request, platform, namespace, workload)
        etag = _etag(body)
        headers = {"ETag": etag, "Cache-Control": "no-store"}
        if condition is None or not unchanged(condition, etag):
            return web.Response(body=body, content_type="application/json", headers=headers)
        left = until - time.monotonic()
        if left <= 0 or platform.stopping.is_set():
            return web.Response(status=304, headers=headers)
        await platform.cluster.changes.wait(namespace, left)


async def answer_user(request: web.Request, platform: Dependencies) -> web.Response:
    """200 with a user's activation in the pod's environment, 304 when it is as the pod has it, or 404.

    Asked for one user at a time, so that an environment of many costs its pods no more than those that
    they run for.
    """
    namespace, workload = await authenticated_workload(request, platform)
    organisation, project, name = workload_environment(request, platform, namespace, workload)
    external_id = request.match_info["external_id"]
    await platform.secret_reads.fetch(namespace, secrets_of_user(platform.cluster, namespace, external_id))
    project_name = project["metadata"]["name"]
    activation = platform.cluster.user_activation(namespace, project_name, name, external_id)
    await _check_variables(platform, project, activation)
    found = user_activation(
        platform.cluster, organisation, project, name, external_id, fits=platform.checker.fits
    )
    if found is None:
        raise errors.not_found("activation of the user", external_id)
    body = orjson.dumps(found, option=orjson.OPT_SORT_KEYS)
    headers = {"ETag": _etag(body), "Cache-Control": "no-store"}
    if unchanged(request.headers.get("If-None-Match", ""), headers["ETag"]):
        return web.Response(status=304, headers=headers)
    return web.Response(body=body, content_type="application/json", headers=headers)


def _etag(body: bytes) -> str:
    return f'"{hashlib.sha256(body).hexdigest()[:32]}"'


async def _current(request: web.Request, platform: Dependencies, namespace: str, workload: str) -> bytes:
    organisation, project, name = workload_environment(request, platform, namespace, workload)
    needed = secrets_of_environment(platform.cluster, namespace, project, name)
    await platform.secret_reads.fetch(namespace, needed)
    version = request.query.get("version", "")
    activation = platform.cluster.static_activation(namespace, project["metadata"]["name"], name)
    await _check_variables(platform, project, activation)
    content = configuration(
        platform.cluster, organisation, project, name, fits=platform.checker.fits, version=version
    )
    return orjson.dumps(content, option=orjson.OPT_SORT_KEYS)


async def _check_variables(
    platform: Dependencies, project: ProjectObject, activation: ActivationObject | None
) -> None:
    """Has the verdict about an activation's variables known, if it can be had soon."""
    if activation is not None:
        await platform.checker.check_soon(
            project["metadata"]["namespace"],
            project["spec"].get("dynamicVariablesSchema"),
            activation["spec"].get("variables") or {},
            seconds=_CHECK_SECONDS,
        )


def workload_environment(
    request: web.Request, platform: Dependencies, namespace: str, workload: str
) -> tuple[Organisation, ProjectObject, str]:
    """Organisation, project and environment of the workload; ApiError 403 when it has none."""
    organisation = platform.cluster.organisation_of(namespace)
    found = environment_of_workload(platform.cluster, namespace, workload) if organisation else None
    if organisation is None or found is None:
        raise errors.forbidden(
            "This ServiceAccount belongs to no environment of a project in an organisation: the namespace needs the "
            "label tieline.dev/organisation, with an id that no older namespace has"
        )
    request[ORGANISATION] = organisation.id
    return organisation, *found


async def authenticated_workload(request: web.Request, platform: Dependencies) -> tuple[str, str]:
    """Namespace and workload of the pod whose token came; ApiError 401 and 403 for any other."""
    caller = await platform.runtimes.authenticate(bearer_token(request.headers))
    if caller is None:
        raise errors.unauthenticated(
            "The token is not valid for this endpoint: send the pod's projected token"
        )
    request[USER] = caller.username
    account = _ACCOUNT.fullmatch(caller.username)
    if account is None:
        raise errors.forbidden("Only pods of environments may use this endpoint")
    platform.cluster.require_sync()
    if platform.cluster.organisation_of(account["namespace"]):
        await platform.cluster.await_secrets(account["namespace"])
    request[ACCOUNT_UID] = caller.uid
    return account["namespace"], account["name"]


def _wait(request: web.Request) -> float:
    text = request.query.get("wait", "0")
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= LONGEST_WAIT:
        raise errors.invalid("wait", f"must be a number of seconds from 0 to {LONGEST_WAIT:g}")
    return seconds
