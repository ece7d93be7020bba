"""The operation on the caller itself."""

from collections.abc import Mapping

from tieline_api.auth.authentication import Caller
from tieline_api.auth.memberships import MOST_ORGANISATIONS
from tieline_api.cluster.cluster_cache import ClusterCache
from tieline_api.cluster.organisations import Organisation
from tieline_api.http.operation import Call, Operations, Reply
from tieline_api.schemas import me as rest
from tieline_api.use_cases import end_user_checks

ME = "/api/v2/me"

OPERATIONS = Operations("Callers")


@OPERATIONS.add(
    "GET",
    ME,
    id="getMe",
    summary="Get the caller and its organisations",
    permissions=(),
    end_user=end_user_checks.itself,
)
async def get_me(call: Call[None, None]) -> Reply[rest.Me]:
    """Returns who the caller is, and the organisations it reaches with its role in each. Of a platform with more
    than 1,000 organisations, a caller whose token names none gets a list of those among the first 1,000."""
    caller = call.caller
    candidates = _candidates(caller, call.platform.cluster)
    asked = candidates[:MOST_ORGANISATIONS]
    roles = await _roles(call, asked)
    organisations = [
        rest.ReachedOrganisation(
            id=one.id,
            # End users learn ids alone.
            name=one.id if caller.end_user else one.namespace,
            namespace="" if caller.end_user else one.namespace,
            role=roles[one.namespace],
        )
        for one in asked
        if one.namespace in roles
    ]
    body = rest.Me(
        id=caller.username,
        name=caller.display_name or (caller.end_user.external_id if caller.end_user else caller.username),
        kind=caller.kind,
        groups=list(caller.groups),
        organisations=organisations,
        more=True if len(candidates) > len(asked) else None,
        external_id=caller.end_user.external_id if caller.end_user else None,
    )
    return Reply(body=body)


async def _roles(call: Call[None, None], asked: list[Organisation]) -> Mapping[str, rest.Role]:
    """The caller's role in each organisation that it reaches, by namespace."""
    if call.caller.end_user is not None:
        return {one.namespace: "endUser" for one in asked}
    found = await call.platform.memberships.of(call.caller, asked)
    return dict(found)


def _candidates(caller: Caller, cluster: ClusterCache) -> list[Organisation]:
    """The organisations that the caller may be a member of, by name."""
    if caller.organisations is None:
        return cluster.organisations()
    found = [cluster.organisation(identifier) for identifier in caller.organisations]
    return sorted((one for one in found if one is not None), key=lambda one: one.namespace)
