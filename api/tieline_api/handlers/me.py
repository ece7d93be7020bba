"""The operation on the caller itself."""

from tieline_api.auth.authentication import Caller
from tieline_api.auth.memberships import MOST_ORGANISATIONS
from tieline_api.cache.cluster_cache import ClusterCache
from tieline_api.cache.organisations import Organisation
from tieline_api.http.operation import Call, Operation, Reply
from tieline_api.schemas import me as rest

ME = "/api/v2/me"


async def get_me(call: Call[None, None]) -> Reply:
    """Returns who the caller is, and the organisations it reaches with its role in each. Of a platform with more
    than 1,000 organisations, a caller whose token names none is told of those among the first 1,000."""
    caller = call.caller
    candidates = _candidates(caller, call.platform.world)
    asked = candidates[:MOST_ORGANISATIONS]
    roles = await call.platform.memberships.of(caller, asked)
    organisations = [
        rest.ReachedOrganisation(
            id=one.id, name=one.namespace, namespace=one.namespace, role=roles[one.namespace]
        )
        for one in asked
        if one.namespace in roles
    ]
    body = rest.Me(
        id=caller.username,
        name=caller.display_name or caller.username,
        kind=caller.kind,
        groups=list(caller.groups),
        organisations=organisations,
        more=True if len(candidates) > len(asked) else None,
    )
    return Reply(body=body)


def _candidates(caller: Caller, world: ClusterCache) -> list[Organisation]:
    """The organisations that the caller may be a member of, by name."""
    if caller.organisations is None:
        return world.organisations()
    found = [world.organisation(identifier) for identifier in caller.organisations]
    return sorted((one for one in found if one is not None), key=lambda one: one.namespace)


OPERATIONS = (
    Operation(
        id="getMe",
        path=ME,
        summary="Get the caller and its organisations",
        handler=get_me,
        permissions=(),
        response=rest.Me,
    ),
)
