"""The operation that says what uses a connection."""

from tieline_api.auth.permissions import Permission
from tieline_api.handlers.connections import CONNECTION
from tieline_api.http.operation import Call, Operations, Reply
from tieline_api.schemas import connections as rest
from tieline_api.views.connection_uses import uses_of

OPERATIONS = Operations("Connections")


@OPERATIONS.add(
    "GET",
    f"{CONNECTION}/uses",
    id="getConnectionUses",
    summary="Get what uses a connection",
    permissions=(
        Permission("get", "connections"),
        Permission("list", "connectiontemplates"),
        Permission("list", "activations"),
    ),
)
async def get_uses(call: Call[None, None]) -> Reply[rest.ConnectionUses]:
    """Returns the connection templates that are linked to a connection, and the activations that have it."""
    cluster = call.platform.cluster
    return Reply(
        body=uses_of(
            cluster, cluster.require(cluster.connections, call.namespace, call.path["connection_id"])
        )
    )
