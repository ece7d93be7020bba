"""Which schedules code has: ``PUT /internal/v1/environment/schedules`` of each pod that starts.

The body is ``{"version": …, "schedules": [{"name": …, "cron": …, "timezone": …, "activations": …}]}``. Each version
has its own list, so that pods of the old and the new version of a rollout do not undo each other's.
"""

from aiohttp import web

from tieline_api import errors
from tieline_api.activator.targets import target_of
from tieline_api.auth.authentication import Caller
from tieline_api.conversion.projects import environment_item, environment_status
from tieline_api.dependencies import Dependencies
from tieline_api.http.request_body import parse_json, read_body
from tieline_api.http.request_keys import USER
from tieline_api.pod_api.environment import (
    ACCOUNT_UID,
    authenticated_workload,
    endpoint,
    workload_environment,
)
from tieline_api.state.schedules import ScheduleStore, parse_schedules
from tieline_core.identity.ids import environment_id, object_id

_BODY_LIMIT = 64 * 1024
_MAX_VERSION = 253


def add_schedules(app: web.Application, platform: Dependencies) -> None:
    """Adds the endpoint."""

    async def put(request: web.Request, _platform: Dependencies) -> web.Response:
        namespace, workload = await authenticated_workload(request, platform)
        platform.rates.hit(Caller(username=request[USER], uid=request[ACCOUNT_UID]))
        organisation, project, environment = workload_environment(request, platform, namespace, workload)
        content = await read_body(request, limit=_BODY_LIMIT)
        body = parse_json(request, content) if content else None
        if not isinstance(body, dict):
            raise errors.invalid("", "must be an object")
        version = body.get("version")
        if not isinstance(version, str) or len(version) > _MAX_VERSION:
            raise errors.invalid("version", "must be the name of a version")
        status = environment_status(project, environment)
        item = environment_item(project, environment)
        kept = {status.get("version"), status.get("desiredVersion"), item.get("version")}
        identifier = environment_id(object_id(project), environment)
        store = ScheduleStore(platform.documents, organisation.id, identifier)
        await store.register(
            version,
            parse_schedules(body.get("schedules")),
            kept={name for name in kept if isinstance(name, str)},
            # An environment sleeps only once it is known which schedules would wake it.
            even_none=target_of(project, environment) is not None,
        )
        return web.Response(status=204)

    app.router.add_put("/internal/v1/environment/schedules", endpoint("internalPutSchedules", put, platform))
