"""The Secrets of tokens, as keeping them reads and writes them: what goes by here is known to the caches."""

from collections.abc import Mapping
from typing import Any

from tieline_api.store import revisions
from tieline_core.identity.names import CREDENTIAL_TYPE
from tieline_core.kubernetes import Informer, Kube
from tieline_core.kubernetes.resources import SECRETS, Resource


class CachingSecretClient:
    """The Kubernetes port, with what it answers put into the cache of Secrets: a GET shows it at once."""

    def __init__(self, kube: Kube, cache: Informer) -> None:
        self._kube = kube
        self._cache = cache

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> dict[str, Any]:
        return self._seen(resource, await self._kube.get(resource, name, namespace))

    async def create(self, resource: Resource, obj: Mapping[str, Any]) -> dict[str, Any]:
        return self._wrote(resource, await self._kube.create(resource, obj))

    async def replace(self, resource: Resource, obj: Mapping[str, Any]) -> dict[str, Any]:
        return self._wrote(resource, await self._kube.replace(resource, obj))

    def _wrote(self, resource: Resource, obj: dict[str, Any]) -> dict[str, Any]:
        if self._seen(resource, obj).get("type") == CREDENTIAL_TYPE:
            revisions.wrote(resource.plural, obj)
        return obj

    def _seen(self, resource: Resource, obj: dict[str, Any]) -> dict[str, Any]:
        if resource is SECRETS and obj.get("type") == CREDENTIAL_TYPE:
            self._cache.observe(obj)
        return obj
