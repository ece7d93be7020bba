"""Quotas of an organisation, and what of them is used."""

from tieline_api.auth.permissions import permission
from tieline_api.http.operation import ORGANISATION, Call, Operations, Reply
from tieline_api.schemas import quotas as rest
from tieline_api.views.quotas import usage

OPERATIONS = Operations("Quotas")


@OPERATIONS.add(
    "GET",
    f"{ORGANISATION}/quotas",
    id="listQuotas",
    summary="List the organisation's quotas and what is used of them",
    permissions=permission("list", "projects"),
)
async def list_quotas(call: Call[None, None]) -> Reply[rest.QuotaList]:
    """Returns each quota with its limit, what is used and what is left. Administrators of the cluster set quotas in an
    annotation of the organisation's Namespace."""
    return Reply(body=await usage(call))
