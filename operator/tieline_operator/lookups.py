"""What resolving and linking of credentials ask of the operator's caches."""

from base64 import b64decode
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from tieline_core.ids import ORGANISATION_LABEL, parse_id
from tieline_core.kube import NotFound, Resource
from tieline_core.kube import resources as r
from tieline_core.names import CREDENTIAL_TYPE
from tieline_operator.indexes import BY_ID, joined
from tieline_operator.plans import Object
from tieline_operator.world import View


class Stores(Protocol):
    """The caches by resource."""

    def __getitem__(self, resource: Resource, /) -> View: ...


class Reads(Protocol):
    """Reading one object from the API server."""

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> dict[str, Any]: ...


class CacheDirectory:
    """A ``Directory`` of what the caches hold: no values of Secrets."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores

    def system(self, namespace: str, name: str) -> Object | None:
        return self._stores[r.SYSTEMS].get(namespace, name)

    def connection(self, namespace: str, name: str) -> Object | None:
        by_id = self._stores[r.CONNECTIONS].by_index(BY_ID, joined(namespace, name.upper()))
        oldest = min(by_id, key=lambda obj: str(obj["metadata"]["creationTimestamp"]), default=None)
        return self._stores[r.CONNECTIONS].get(namespace, name) or oldest

    def certificate_holders(self, namespace: str, system: str) -> Sequence[Object]:
        return self._stores[r.CONNECTIONS].by_index("certificate", joined(namespace, system))

    def holders(self, namespace: str, credential_id: str) -> Sequence[Object]:
        return self._stores[r.CONNECTIONS].by_index("credential", joined(namespace, credential_id))

    def grants(self, namespace: str) -> Sequence[Object]:
        return self._stores[r.CREDENTIAL_GRANTS].list(namespace)

    def organisation_of(self, namespace: str) -> str | None:
        found = self._stores[r.NAMESPACES].get("", namespace)
        return parse_id(found["metadata"].get("labels", {}).get(ORGANISATION_LABEL, "")) if found else None

    def namespace_of(self, organisation: str) -> str | None:
        found = self._stores[r.NAMESPACES].by_index("organisation", organisation)
        names = [(obj["metadata"]["creationTimestamp"], obj["metadata"]["name"]) for obj in found]
        return str(min(names)[1]) if names else None


class ClusterLookups(CacheDirectory):
    """The caches, and the API server for the values of Secrets, which no cache here keeps."""

    def __init__(self, stores: Stores, kube: Reads) -> None:
        super().__init__(stores)
        self._kube = kube

    async def secret(self, namespace: str, name: str) -> Mapping[str, bytes] | None:
        """The data of a Secret of the credential type; KubeError where the API server is away."""
        try:
            found = await self._kube.get(r.SECRETS, name, namespace)
        except NotFound:
            return None
        if found.get("type") != CREDENTIAL_TYPE:
            return None
        return {key: b64decode(value) for key, value in (found.get("data") or {}).items()}
