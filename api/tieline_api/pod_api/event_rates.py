"""``POST /internal/v1/environment/event-rate``: how many events a pod may publish in this second.

The pod asks where its organisation has a quota of events, and counts down what it gets.
"""

from aiohttp import web

from tieline_api.dependencies import Dependencies
from tieline_api.pod_api.environment import authenticated_workload, endpoint, workload_environment
from tieline_protocol.event_rates import PATH, RateLease

_UNLIMITED = RateLease(10_000, 10.0)
"""For a pod that has not heard yet that there is no quota any more."""


def add_event_rates(app: web.Application, platform: Dependencies) -> None:
    """Adds the endpoint."""
    app.router.add_post(PATH, endpoint("internalEventRate", answer, platform))


async def answer(request: web.Request, platform: Dependencies) -> web.Response:
    """200 with what the pod may publish; none where the quota of this second is used."""
    namespace, workload = await authenticated_workload(request, platform)
    organisation, _, _ = workload_environment(request, platform, namespace, workload)
    quota = platform.cluster.quotas(namespace, platform.settings.quotas).quotas.events_per_second
    lease = _UNLIMITED if quota is None else await platform.event_quotas.lease(organisation.id, quota)
    return web.json_response(lease.to_json(), headers={"Cache-Control": "no-store"})
