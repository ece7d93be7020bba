"""What resolving and linking of credentials ask of the API's caches."""

from collections.abc import Mapping, Sequence

from tieline_api.cluster import indexes
from tieline_api.cluster.cluster_cache import ClusterCache
from tieline_api.credentials.secret_reader import SecretReader
from tieline_core.kubernetes import Informer, Stored
from tieline_core.kubernetes.reading import secret_values
from tieline_core.resources.objects import ConnectionObject, CredentialGrantObject, SystemObject


class CredentialDirectory:
    """``linker.Directory`` of the caches."""

    def __init__(self, cluster: ClusterCache) -> None:
        self._cluster = cluster

    def system(self, namespace: str, name: str) -> SystemObject | None:
        return self._cluster.systems.get(namespace, name)

    def connection(self, namespace: str, name: str) -> ConnectionObject | None:
        found = self._cluster.connections.get(namespace, name)
        return found or self._cluster.find(self._cluster.connections, namespace, name)

    def certificate_holders(self, namespace: str, system: str) -> Sequence[ConnectionObject]:
        return self._by(self._cluster.connections, "certificate", namespace, system)

    def holders(self, namespace: str, credential_id: str) -> Sequence[ConnectionObject]:
        return self._by(self._cluster.connections, "credential", namespace, credential_id)

    def grants(self, namespace: str) -> Sequence[CredentialGrantObject]:
        return self._cluster.grants.list(namespace)

    def organisation_of(self, namespace: str) -> str | None:
        found = self._cluster.organisation_of(namespace)
        return found.id if found else None

    def namespace_of(self, organisation: str) -> str | None:
        return self._cluster.namespace_of(organisation)

    def _by(self, cache: Informer[Stored], index: str, namespace: str, key: str) -> Sequence[Stored]:
        return cache.by_index(index, indexes.key(namespace, key))


class CredentialLookups(CredentialDirectory):
    """``linker.Lookups`` of the caches; Secrets are those of the credential type only."""

    def __init__(self, cluster: ClusterCache, secrets: SecretReader) -> None:
        super().__init__(cluster)
        self._secrets = secrets

    async def secret(self, namespace: str, name: str) -> Mapping[str, bytes] | None:
        """The data of a Secret of the credential type."""
        found = await self._secrets.get(namespace, name)
        return secret_values(found) if found is not None else None
