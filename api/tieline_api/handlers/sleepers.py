"""Runs that wait, to be replayed against the code of a deploy."""

from tieline_api.auth.permissions import permission
from tieline_api.http.operation import ORGANISATION, Call, Operations, Reply
from tieline_api.schemas import sleepers as rest
from tieline_api.views.activation_lookup import environment_in_path, environment_object_in_path
from tieline_api.views.sleepers import sleepers_to_rest
from tieline_protocol.event_streams import EventStreams

OPERATIONS = Operations("Runs and events")


@OPERATIONS.add(
    "GET",
    f"{ORGANISATION}/environments/{{environment_id}}/sleepers",
    id="listSleepers",
    summary="List runs that wait, with their recorded steps",
    permissions=permission("patch", "projects"),
    by_environment=environment_object_in_path,
)
async def list_sleepers(call: Call[rest.SleepersQuery, None]) -> Reply[rest.SleepingRuns]:
    """Returns runs of an environment that have recorded steps and have not ended, with their inputs and the results of
    their steps: what ``tieline check --sleeping`` replays against the code to be deployed."""
    streams = EventStreams(call.organisation.id, environment_in_path(call).id)
    found = await call.platform.sleepers.read(streams, most=call.query.first)
    return Reply(body=sleepers_to_rest(found))
