"""``POST /internal/v1/runs``: takes what pods report of direct runs that have ended, as a message of run records.

The pod shows its projected ServiceAccount token. Whose runs they are is what the token says, and inputs are kept where
the project says so.
"""

import asyncio
import time

from aiohttp import web

from tieline_api import errors
from tieline_api.dependencies import Dependencies
from tieline_api.http.request_body import read_body
from tieline_api.pod_api.configuration import keeps_inputs
from tieline_api.pod_api.environment import authenticated_workload, endpoint, workload_environment
from tieline_api.runs.direct import direct_records
from tieline_core.identity.ids import environment_id, object_id
from tieline_protocol.event_streams import EventStreams
from tieline_protocol.run_records import RunRecord

PATH = "/internal/v1/runs"
MAX_BODY = 4 * 1024 * 1024
_SMALL = 64 * 1024


def add_run_reports(app: web.Application, platform: Dependencies) -> None:
    """Adds the endpoint."""
    app.router.add_post(PATH, endpoint("internalRuns", answer, platform))


async def answer(request: web.Request, platform: Dependencies) -> web.Response:
    """204 once the event engine has the records; 400 where there is none that can be kept."""
    namespace, workload = await authenticated_workload(request, platform)
    organisation, project, name = workload_environment(request, platform, namespace, workload)
    streams = EventStreams(organisation.id, environment_id(object_id(project), name))
    async with platform.direct_runs.report(organisation.id):
        body = await read_body(request, limit=MAX_BODY)

        def read() -> tuple[list[RunRecord], int]:
            return direct_records(body, now=time.time(), with_inputs=keeps_inputs(project))

        records, malformed = read() if len(body) <= _SMALL else await asyncio.to_thread(read)
        platform.histories.counts["malformed"] += malformed
        if not records:
            raise errors.malformed("The body has no records of direct runs that have ended")
        await platform.direct_runs.store(streams, records)
    return web.Response(status=204)
