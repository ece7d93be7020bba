"""The operation that says what uses a connection."""

from tieline_api.auth.permissions import Permission
from tieline_api.handlers.connections import CONNECTION
from tieline_api.http.operation import Call, Operation, Reply
from tieline_api.schemas import connections as rest
from tieline_api.use_cases.connection_uses import uses_of


async def get_uses(call: Call[None, None]) -> Reply:
    """Returns the connection templates that are linked to a connection, and the activations that have it."""
    world = call.platform.world
    return Reply(
        body=uses_of(world, world.need(world.connections, call.namespace, call.path["connection_id"]))
    )


OPERATIONS = (
    Operation(
        id="getConnectionUses",
        path=f"{CONNECTION}/uses",
        summary="Get what uses a connection",
        handler=get_uses,
        permissions=(
            Permission("get", "connections"),
            Permission("list", "connectiontemplates"),
            Permission("list", "activations"),
        ),
        response=rest.ConnectionUses,
    ),
)
