"""Look-ups over a directory that is known, with the values of Secrets as the API server has them now."""

from collections.abc import Mapping, Sequence

from tieline_core.credentials.linker import Directory
from tieline_core.identity.names import CREDENTIAL_TYPE
from tieline_core.kubernetes.reading import Reader, find, secret_values
from tieline_core.kubernetes.resources import SECRETS
from tieline_core.objects import ObjectView


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

    def __init__(self, directory: Directory, kube: Reader) -> None:
        super().__init__(directory)
        self._kube = kube

    async def secret(self, namespace: str, name: str) -> Mapping[str, bytes] | None:
        """The data of a Secret of the credential type; KubeError where the API server is away."""
        found = await find(self._kube, SECRETS, name, namespace)
        return secret_values(found) if found and found.get("type") == CREDENTIAL_TYPE else None
