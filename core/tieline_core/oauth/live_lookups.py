"""Look-ups that do not trust a cache where it matters."""

from base64 import b64decode
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from tieline_core.kube.errors import NotFound
from tieline_core.kube.resources import SECRETS, Resource
from tieline_core.names import CREDENTIAL_TYPE
from tieline_core.oauth.linking import Object
from tieline_core.oauth.resolving import Lookups


class Reads(Protocol):
    """Reading one object from the API server."""

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> dict[str, Any]: ...


class LiveLookups:
    """``resolving.Lookups`` like ``inner``, with the values of Secrets as the API server has them now."""

    def __init__(self, inner: Lookups, kube: Reads) -> None:
        self._kube = kube
        self._inner = inner

    async def secret(self, namespace: str, name: str) -> Mapping[str, bytes] | None:
        try:
            found = await self._kube.get(SECRETS, name, namespace)
        except NotFound:
            return None
        if found.get("type") != CREDENTIAL_TYPE:
            return None
        return {key: b64decode(value) for key, value in (found.get("data") or {}).items()}

    def system(self, namespace: str, name: str) -> Object | None:
        return self._inner.system(namespace, name)

    def connection(self, namespace: str, name: str) -> Object | None:
        return self._inner.connection(namespace, name)

    def certificate_holders(self, namespace: str, system: str) -> Sequence[Object]:
        return self._inner.certificate_holders(namespace, system)

    def holders(self, namespace: str, credential_id: str) -> Sequence[Object]:
        return self._inner.holders(namespace, credential_id)

    def grants(self, namespace: str) -> Sequence[Object]:
        return self._inner.grants(namespace)

    def organisation_of(self, namespace: str) -> str | None:
        return self._inner.organisation_of(namespace)

    def namespace_of(self, organisation: str) -> str | None:
        return self._inner.namespace_of(organisation)
