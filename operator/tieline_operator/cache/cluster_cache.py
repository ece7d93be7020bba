"""The operator's cache of the cluster: an informer a resource, with the indexes that references need."""

import asyncio
import itertools
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from tieline_common.backoff import exponential, jitter
from tieline_core.identity.names import (
    API_KEY_TYPE,
    CONNECT_SESSION_TYPE,
    CREDENTIAL_TYPE,
    ENGINE_CREDENTIALS_TYPE,
    ENVIRONMENT_ID_LABEL,
    OAUTH_STATE_TYPE,
)
from tieline_core.kubernetes import (
    Change,
    Forbidden,
    Informer,
    Kube,
    KubeError,
    NotFound,
    Resource,
    SecretCache,
    SecretInformers,
    SecretKind,
)
from tieline_core.kubernetes import resources as r
from tieline_core.kubernetes.informer import strip_managed_fields
from tieline_operator.apply.plan import Object
from tieline_operator.cache.indexers import CHILD_RESOURCES, INDEXERS, PRIMARY_RESOURCES
from tieline_operator.cache.transforms import transform_of
from tieline_operator.workload.activators import MANAGED_BY, MANAGED_BY_LABEL, SERVICE_NAME_LABEL
from tieline_operator.workload.pods import keep_last_terminations

logger = logging.getLogger(__name__)

_SYNC_TIMEOUT = 10.0
_MOST_NAMED = 5
_FIRST_BACKOFF, _LONGEST_BACKOFF = 1.0, 15.0


class Lister(Protocol):
    """Reads cached objects of one resource."""

    def get(self, namespace: str | None, name: str) -> Object | None:
        """The object, or None."""

    def list(self, namespace: str | None = None) -> Sequence[Object]:
        """All objects, of a namespace or of all that are watched."""

    def by_index(self, index: str, key: str) -> Sequence[Object]:
        """The objects with a key in an index."""


class Listers(Protocol):
    """Listers by resource."""

    def __getitem__(self, resource: Resource, /) -> Lister: ...


class MultiNamespaceInformer:
    """One resource in all watched namespaces: an informer for the cluster, or one a namespace."""

    def __init__(self, informers: Mapping[str | None, Informer]) -> None:
        self._informers = informers

    @property
    def informers(self) -> Sequence[Informer]:
        return list(self._informers.values())

    @property
    def watched_namespaces(self) -> Sequence[str | None]:
        """The namespaces that are watched; None is the cluster."""
        return list(self._informers)

    def get(self, namespace: str | None, name: str) -> Object | None:
        informer = self._of(namespace)
        return informer.get(namespace or "", name) if informer else None

    def list(self, namespace: str | None = None) -> Sequence[Object]:
        if namespace is not None:
            informer = self._of(namespace)
            return informer.list(namespace) if informer else []
        return [obj for informer in self._informers.values() for obj in informer.list()]

    def by_index(self, index: str, key: str) -> Sequence[Object]:
        return [obj for informer in self._informers.values() for obj in informer.by_index(index, key)]

    def subscribe(self, callback: Callable[[Change], None]) -> None:
        for informer in self._informers.values():
            informer.subscribe(callback)

    def observe(self, obj: Mapping[str, Any]) -> None:
        """Stores what was just written, before the watch delivers it."""
        informer = self._of(obj["metadata"].get("namespace"))
        if informer:
            informer.observe(dict(obj))

    async def reached(self, namespace: str | None, resource_version: str, wait: float) -> bool:
        """Waits until the cache has seen a resourceVersion, at most ``wait`` seconds; False where it has not."""
        informer = self._of(namespace)
        return informer is None or await informer.reached(resource_version, wait)

    def age(self) -> float:
        """Seconds since the last event of the watch that is silent for longest."""
        return max((informer.age for informer in self._informers.values()), default=0.0)

    def unwatch(self) -> None:
        """Watches nothing, and stays empty. Call it before the start."""
        self._informers = {}

    def _of(self, namespace: str | None) -> Informer | None:
        return self._informers.get(None) or self._informers.get(namespace)


class CachedSecrets(MultiNamespaceInformer):
    """The Secrets of one type, in the namespaces that ``SecretInformers`` follows."""

    def __init__(self, informers: SecretInformers, type_: str) -> None:
        super().__init__({})
        self._all = informers
        self._cache: SecretCache = informers.of_type(type_)

    def get(self, namespace: str | None, name: str) -> Object | None:
        return self._cache.get(namespace, name)

    def list(self, namespace: str | None = None) -> Sequence[Object]:
        return self._cache.list(namespace)

    def by_index(self, index: str, key: str) -> Sequence[Object]:
        return self._cache.by_index(index, key)

    def subscribe(self, callback: Callable[[Change], None]) -> None:
        self._cache.subscribe(callback)

    def observe(self, obj: Mapping[str, Any]) -> None:
        self._cache.observe(dict(obj))

    def age(self) -> float:
        return self._all.age


class ClusterCache:
    """All informers, and the few reads that no cache can answer."""

    def __init__(
        self,
        kube: Kube,
        by_resource: Mapping[Resource, MultiNamespaceInformer],
        secrets: SecretInformers | None = None,
    ) -> None:
        self._kube = kube
        self._secrets = secrets or SecretInformers(kube, ())
        self._by_resource = {
            **by_resource,
            **{resource: CachedSecrets(self._secrets, kind.type) for resource, kind in _SECRET_KINDS.items()},
        }

    @classmethod
    def build(cls, kube: Kube, namespaces: Sequence[str], home: str) -> "ClusterCache":
        """Informers for the whole cluster, or for ``namespaces`` only. ``home`` is the release's own namespace.

        Secrets are read in ``namespaces``; where there are none, in those that ``secrets`` follows.
        """
        by_resource = {
            resource: _multi_namespace_informer(kube, resource, namespaces) for resource in WATCHED_RESOURCES
        }
        by_resource[r.NAMESPACES] = MultiNamespaceInformer(
            {None: Informer(kube, r.NAMESPACES, metadata_only=True, indexes=dict(INDEXERS[r.NAMESPACES]))}
        )
        records = Informer(
            kube,
            r.ORGANISATION_RECORDS,
            namespace=home,
            field_selector=f"metadata.name={r.ORGANISATION_RECORDS.object_name}",
            transform=strip_managed_fields,
        )
        by_resource[r.ORGANISATION_RECORDS] = MultiNamespaceInformer({None: records})
        by_resource[r.API_ENDPOINTS] = MultiNamespaceInformer(
            {
                None: Informer(
                    kube,
                    r.API_ENDPOINTS,
                    namespace=home,
                    label_selector=f"{SERVICE_NAME_LABEL}={r.API_ENDPOINTS.service}",
                )
            }
        )
        rights = _multi_namespace_informer(kube, r.SECRET_RIGHTS, namespaces)
        by_resource[r.SECRET_RIGHTS] = rights
        secrets = SecretInformers(kube, _SECRET_KINDS.values(), without=_UNREAD_TYPES)
        secrets.follow(namespaces)
        return cls(kube, by_resource, secrets)

    def __getitem__(self, resource: Resource) -> MultiNamespaceInformer:
        return self._by_resource[resource]

    def items(self) -> Iterable[tuple[Resource, MultiNamespaceInformer]]:
        """All informers by resource."""
        return self._by_resource.items()

    async def skip_unserved(self, resource: Resource) -> None:
        """Leaves out a resource that the API server does not serve, or forbids: it holds no children then.

        Retries while the API server cannot answer: a resource that is left out stays so until the next start.
        """
        for attempt in itertools.count(1):
            try:
                for namespace in self._by_resource[resource].watched_namespaces:
                    await self._kube.list(resource, namespace, label_selector=ENVIRONMENT_ID_LABEL)
            except (NotFound, Forbidden) as error:
                logger.info("Not watching %s: %s", resource.plural, error.reason)
                self._by_resource[resource].unwatch()
            except KubeError as error:
                logger.warning("Cannot list %s yet: %s", resource.plural, error)
                await asyncio.sleep(jitter(exponential(attempt, first=_FIRST_BACKOFF, cap=_LONGEST_BACKOFF)))
                continue
            return

    async def gives_rights(self) -> bool:
        """Whether this account gives the rights to Secrets. Where it may not, Roles of its own give them.

        Then the RoleBindings are not watched. Retries while the API server cannot answer.
        """
        for attempt in itertools.count(1):
            try:
                for namespace in self._by_resource[r.SECRET_RIGHTS].watched_namespaces:
                    await self._kube.list(r.SECRET_RIGHTS, namespace, field_selector=_RIGHTS)
            except Forbidden:
                logger.info("The rights to Secrets come from a Role")
                self._by_resource[r.SECRET_RIGHTS].unwatch()
                return False
            except KubeError as error:
                logger.warning("Cannot list the rights to Secrets yet: %s", error)
                await asyncio.sleep(jitter(exponential(attempt, first=_FIRST_BACKOFF, cap=_LONGEST_BACKOFF)))
                continue
            break
        return True

    async def start(self) -> None:
        """Starts all watches."""
        await asyncio.gather(*(informer.start() for informer in self._informers))
        self._secrets.start()

    @property
    def secrets(self) -> SecretInformers:
        """The watches of Secrets."""
        return self._secrets

    def knows_secrets(self, namespace: str) -> bool:
        """Whether the Secrets of a namespace have been read."""
        return self._secrets.knows(namespace)

    async def synced(self) -> None:
        """Waits until every informer has synced, and logs those that take long."""
        waits = [asyncio.ensure_future(informer.synced()) for informer in self._informers]
        waits.append(asyncio.ensure_future(self._secrets.settle()))
        while (await asyncio.wait(waits, timeout=_SYNC_TIMEOUT))[1]:
            late = {informer.resource.plural for informer in self._informers if not informer.is_synced}
            late.update(f"secrets in {namespace}" for namespace in self._secrets.unread[:_MOST_NAMED])
            logger.warning("Still waiting for the first list of %s", ", ".join(sorted(late)))

    def dead(self, max_age: float) -> list[str]:
        """The resources whose watch has ended, or had no event for ``max_age`` seconds."""
        dead = {c.resource.plural for c in self._informers if not c.healthy(max_age=max_age)}
        if not self._secrets.healthy(max_age=max_age):
            dead.add(r.SECRETS.plural)
        return sorted(dead)

    def observe(self, resource: Resource, obj: Mapping[str, Any]) -> None:
        """Stores what was just written, before the watch delivers it."""
        if resource in self._by_resource:
            self._by_resource[resource].observe(obj)

    async def stop(self) -> None:
        """Stops all watches."""
        await asyncio.gather(self._secrets.stop(), *(informer.stop() for informer in self._informers))

    @property
    def _informers(self) -> list[Informer]:
        return [informer for each in self._by_resource.values() for informer in each.informers]

    async def config_map(self, namespace: str, name: str) -> Object | None:
        """A ConfigMap with its contents, which the cache leaves out."""
        return await self._live(r.CONFIG_MAPS, namespace, name)

    async def live_connection(self, namespace: str, name: str) -> Object | None:
        """A Connection, read from the API server: the cache may be behind."""
        return await self._live(r.CONNECTIONS, namespace, name)

    async def _live(self, resource: Resource, namespace: str, name: str) -> Object | None:
        try:
            return await self._kube.get(resource, name, namespace)
        except NotFound:
            return None

    async def fetch_uncached_secret(self, namespace: str, name: str) -> bool:
        """Whether there is a Secret of the credential type that the cache lacks; adds it to the cache.

        An object and the Secret that it refers to arrive by different watches, in either order. In a namespace that is
        no organisation nobody asks.
        """
        if not self._secrets.follows(namespace):
            return False
        found = await self._kube.list(
            r.SECRETS, namespace, field_selector=f"metadata.name={name},type={CREDENTIAL_TYPE}"
        )
        for secret in found:
            self.observe(r.SECRETS, secret)
        return bool(found)

    async def has_secret_of_other_type(self, namespace: str, name: str) -> bool:
        """Whether there is a Secret of this name that is *not* of the credential type."""
        if not self._secrets.follows(namespace):
            return False
        found = await self._kube.list(
            r.SECRETS, namespace, field_selector=f"metadata.name={name},type!={CREDENTIAL_TYPE}"
        )
        return bool(found)


_SECRET_KINDS = {
    resource: SecretKind(type_, transform=transform_of(resource), indexes=INDEXERS.get(resource, {}))
    for resource, type_ in (
        (r.SECRETS, CREDENTIAL_TYPE),
        (r.ENGINE_SECRETS, ENGINE_CREDENTIALS_TYPE),
    )
}
_UNREAD_TYPES = (API_KEY_TYPE, CONNECT_SESSION_TYPE, OAUTH_STATE_TYPE)

WATCHED_RESOURCES = tuple(
    resource
    for resource in (*PRIMARY_RESOURCES, *CHILD_RESOURCES, r.JOBS, r.PODS, r.CONFIG_MAPS)
    if resource not in _SECRET_KINDS
)
"""Each has a watch in each watched namespace, or one in the cluster. Secrets have one in each organisation."""
_LABELLED = frozenset((*CHILD_RESOURCES, r.JOBS, r.PODS))


_RIGHTS = f"metadata.name={r.SECRET_RIGHTS.object_name}"


def _label_selector(resource: Resource) -> str | None:
    if resource == r.ENDPOINT_SLICES:
        # Those of Kubernetes itself have the labels of their Services, too.
        return f"{MANAGED_BY_LABEL}={MANAGED_BY}"
    return ENVIRONMENT_ID_LABEL if resource in _LABELLED else None


def _multi_namespace_informer(
    kube: Kube, resource: Resource, namespaces: Sequence[str]
) -> MultiNamespaceInformer:
    watched_namespaces: Sequence[str | None] = namespaces or [None]
    return MultiNamespaceInformer(
        {namespace: _informer(kube, resource, namespace) for namespace in watched_namespaces}
    )


def _informer(kube: Kube, resource: Resource, namespace: str | None) -> Informer:
    return Informer(
        kube,
        resource,
        namespace=namespace,
        label_selector=_label_selector(resource),
        field_selector=_RIGHTS if resource == r.SECRET_RIGHTS else None,
        metadata_only=resource == r.CONFIG_MAPS,
        transform=transform_of(resource),
        indexes=dict(INDEXERS.get(resource, {})),
        merge=keep_last_terminations if resource == r.PODS else None,
    )
