"""What waits: queued events and dead letters, by task and key."""

from tieline_api.auth.permissions import permission
from tieline_api.conversion import runs as convert
from tieline_api.http.operation import ORGANISATION, Call, Operations, Reply
from tieline_api.schemas import runs as rest

OPERATIONS = Operations("Runs and events")


@OPERATIONS.add(
    "GET",
    f"{ORGANISATION}/backlog",
    id="getBacklog",
    summary="Get what waits, by task and key",
    permissions=permission("list", "projects"),
)
async def get_backlog(call: Call[rest.BacklogQuery, None]) -> Reply[rest.Backlog]:
    """Returns how many runs have not ended, and how many dead letters there are, by environment, task, key and status:
    those with the oldest run first. Dead letters that were discarded or run again do not count."""
    found = await call.platform.runs.backlog(call.organisation.id, call.query.first + 1)
    items = [
        rest.BacklogItem(
            environment_id=one.environment,
            task=one.task,
            key=one.key,
            status=one.status,
            count=one.count,
            oldest=convert.time_to_rest(one.oldest),
        )
        for one in found[: call.query.first]
    ]
    body = rest.Backlog(items=items, more=True if len(found) > call.query.first else None)
    return Reply(body=body, warnings=call.platform.runs.warnings(call.organisation.id))
