"""``PUT /internal/v1/environment/activity``: a pod of an environment that may sleep reports whether it works.

The body is ``{"working": true}``. The operator stops no pod that works, and none that does not report.
"""

from aiohttp import web

from tieline_api import errors
from tieline_api.activator.targets import target_of
from tieline_api.dependencies import Dependencies
from tieline_api.http.request_body import parse_json, read_body
from tieline_api.pod_api.environment import authenticated_workload, endpoint, workload_environment
from tieline_core.kubernetes import KubeError

_BODY_LIMIT = 1024


def add_activity(app: web.Application, platform: Dependencies) -> None:
    """Adds the endpoint."""

    async def put(request: web.Request, _platform: Dependencies) -> web.Response:
        namespace, workload = await authenticated_workload(request, platform)
        _, project, environment = workload_environment(request, platform, namespace, workload)
        content = await read_body(request, limit=_BODY_LIMIT)
        body = parse_json(request, content) if content else None
        if not isinstance(body, dict) or not isinstance(body.get("working"), bool):
            raise errors.invalid("working", "must be true or false")
        if target := target_of(project, environment):
            try:
                await platform.wakes.report(target, works=body["working"])
            except KubeError:
                raise errors.unavailable("Kubernetes cannot be reached: report it again") from None
        return web.Response(status=204)

    app.router.add_put("/internal/v1/environment/activity", endpoint("internalPutActivity", put, platform))
