"""Where the API answers for environments without pods."""

from collections.abc import Iterable, Sequence

from tieline_operator.apply.plan import Object

SERVICE_NAME_LABEL = "kubernetes.io/service-name"
"""On an EndpointSlice: the Service that it is of."""
MANAGED_BY_LABEL = "endpointslice.kubernetes.io/managed-by"
MANAGED_BY = "tieline-operator"
"""Keeps Kubernetes' own controller from touching an EndpointSlice."""
MAX_ADDRESSES = 100


def ready_addresses(slices: Iterable[Object]) -> Sequence[str]:
    """The addresses of a Service's ready pods, of one family, in order."""
    found = {
        (one.get("addressType"), address)
        for one in slices
        for endpoint in one.get("endpoints") or ()
        if (endpoint.get("conditions") or {}).get("ready")
        for address in endpoint.get("addresses") or ()
    }
    families = sorted({family for family, _ in found if family in ("IPv4", "IPv6")})
    return (
        sorted(address for family, address in found if family == families[0])[:MAX_ADDRESSES]
        if families
        else ()
    )
