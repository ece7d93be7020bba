"""Look-ups over a directory that is known, with the values of Secrets as the API server has them now."""

from base64 import b64decode
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from tieline_core.credentials.linker import Directory
from tieline_core.identity.names import CREDENTIAL_TYPE
from tieline_core.kubernetes.errors import NotFound
from tieline_core.kubernetes.resources import SECRETS, Resource
from tieline_core.objects import ObjectView


class Reads(Protocol):
    """Reading one object from the API server."""

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> dict[str, Any]: ...


class DelegatingDirectory:
    """A ``Directory`` that answers like another one, for look-ups that know more than that."""

    def __init__(self, directory: Directory) -> None:
        self._directory = directory

    def system(self, namespace: str, name: str) -> ObjectView | None:
        return self._directory.system(namespace, name)

    def connection(self, namespace: str, name: str) -> ObjectView | None:
        return self._directory.connection(namespace, name)

    def certificate_holders(self, namespace: str, system: str) -> Sequence[ObjectView]:
        return self._directory.certificate_holders(namespace, system)

    def holders(self, namespace: str, credential_id: str) -> Sequence[ObjectView]:
        return self._directory.holders(namespace, credential_id)

    def grants(self, namespace: str) -> Sequence[ObjectView]:
        return self._directory.grants(namespace)

    def organisation_of(self, namespace: str) -> str | None:
        return self._directory.organisation_of(namespace)

    def namespace_of(self, organisation: str) -> str | None:
        return self._directory.namespace_of(organisation)


class LiveCredentialLookups(DelegatingDirectory):
    """``linking.Lookups`` that trust no cache for values, and need none that keeps them."""

    def __init__(self, directory: Directory, kube: Reads) -> None:
        super().__init__(directory)
        self._kube = kube

    async def secret(self, namespace: str, name: str) -> Mapping[str, bytes] | None:
        """The data of a Secret of the credential type; KubeError where the API server is away."""
        try:
            found = await self._kube.get(SECRETS, name, namespace)
        except NotFound:
            return None
        if found.get("type") != CREDENTIAL_TYPE:
            return None
        return {key: b64decode(value) for key, value in (found.get("data") or {}).items()}
