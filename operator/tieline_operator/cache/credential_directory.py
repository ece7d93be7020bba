"""The operator's caches as the directory that resolving and linking of credentials need."""

from collections.abc import Sequence

from tieline_core.identity.claims import id_claim
from tieline_core.kubernetes import resources as r
from tieline_operator.apply.plan import Object
from tieline_operator.cache.cluster_cache import Listers
from tieline_operator.cache.indexers import BY_ID, joined
from tieline_operator.cache.organisations import holder_of, organisation_of


class CacheDirectory:
    """A ``Directory`` over the caches, without values of Secrets."""

    def __init__(self, listers: Listers) -> None:
        self._listers = listers

    def system(self, namespace: str, name: str) -> Object | None:
        return self._listers[r.SYSTEMS].get(namespace, name)

    def connection(self, namespace: str, name: str) -> Object | None:
        by_id = self._listers[r.CONNECTIONS].by_index(BY_ID, joined(namespace, name.upper()))
        return self._listers[r.CONNECTIONS].get(namespace, name) or min(by_id, key=id_claim, default=None)

    def certificate_holders(self, namespace: str, system: str) -> Sequence[Object]:
        return self._listers[r.CONNECTIONS].by_index("certificate", joined(namespace, system))

    def holders(self, namespace: str, credential_id: str) -> Sequence[Object]:
        return self._listers[r.CONNECTIONS].by_index("credential", joined(namespace, credential_id))

    def grants(self, namespace: str) -> Sequence[Object]:
        return self._listers[r.CREDENTIAL_GRANTS].list(namespace)

    def organisation_of(self, namespace: str) -> str | None:
        return organisation_of(self._listers, namespace)

    def namespace_of(self, organisation: str) -> str | None:
        return holder_of(self._listers, organisation)
