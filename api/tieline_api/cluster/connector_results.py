"""Results of imports: a ConnectorVersion with its ConfigMaps, written once and read in pieces."""

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any, cast

from cachetools import LRUCache

from tieline_api import errors
from tieline_api.cluster import revisions
from tieline_api.cluster.field_managers import MANAGER
from tieline_core.connectors import storage
from tieline_core.connectors.packing import Map, head_of, lines_of, runs, runs_between
from tieline_core.identity.ids import object_name
from tieline_core.kubernetes import AlreadyExists, Informer, Kube, KubeError
from tieline_core.kubernetes.reading import find
from tieline_core.kubernetes.resources import CONFIG_MAPS, CONNECTOR_VERSIONS, CONNECTORS
from tieline_core.objects import Object
from tieline_core.resources.objects import ConnectorObject, ConnectorVersionObject

_KEPT_BYTES = 32 * 1024 * 1024
_AT_ONCE = 4


class ConnectorResults:
    """Writes and reads results. ConfigMaps never change: those read last are kept, up to a limit."""

    def __init__(self, kube: Kube, cache: Informer[ConnectorVersionObject]) -> None:
        self._kube = kube
        self._cache = cache
        self._kept: LRUCache[tuple[str, str], Map] = LRUCache(_KEPT_BYTES, getsizeof=_size)
        self._gate = asyncio.Semaphore(_AT_ONCE)

    async def store(
        self,
        connector: ConnectorObject,
        maps: Sequence[Map],
        *,
        name: str,
        siblings: Sequence[ConnectorVersionObject],
    ) -> ConnectorVersionObject:
        """A new version of ``connector``, newer than its ``siblings``; 409 when there is one of this name.

        Creating the version takes its name, whoever else imports at the same moment. When its ConfigMaps
        cannot be written it is taken back.
        """
        # Megabytes are hashed and encoded: others must not wait for that.
        digest = head_of(maps[0])["digest"]
        manifest = await asyncio.to_thread(
            storage.version_manifest, connector, name=name, digest=digest, maps=maps, siblings=siblings
        )
        try:
            version: Any = await self._kube.create(CONNECTOR_VERSIONS, manifest, field_manager=MANAGER)
        except AlreadyExists:
            raise version_exists(name) from None
        try:
            async with asyncio.TaskGroup() as group:
                for config_map, content in zip(version["spec"]["configMaps"], maps, strict=True):
                    group.create_task(self._write(version, config_map, content))
        except BaseExceptionGroup as failed:
            metadata = version["metadata"]
            with suppress(KubeError):
                await self._kube.delete(
                    CONNECTOR_VERSIONS, metadata["name"], metadata["namespace"], uid=metadata["uid"]
                )
            raise failed.exceptions[0] from None
        self._cache.observe(version)
        revisions.wrote(CONNECTOR_VERSIONS.plural, version)
        return cast("ConnectorVersionObject", version)

    async def connector(self, namespace: str, identifier: str) -> ConnectorObject | None:
        """The connector that REST made with this id, also when the cache does not know it yet."""
        found = await find(self._kube, CONNECTORS, object_name(identifier), namespace)
        return cast("ConnectorObject | None", found)

    async def head(self, version: ConnectorVersionObject) -> dict[str, Any]:
        """A version's summary, with the index of its lists."""
        return head_of((await self._maps(version, [0]))[0])

    async def lines(
        self, version: ConnectorVersionObject, head: Object, name: str, start: int, end: int
    ) -> list[bytes]:
        """The items of a list from ``start`` to before ``end``, each as JSON."""
        wanted, before = runs_between(runs(head, name), start, end)
        maps = await self._maps(version, {number for run in wanted for number in run.maps})
        found = await asyncio.to_thread(lambda: [line for run in wanted for line in lines_of(run, maps)])
        return found[start - before : end - before]

    async def _maps(self, version: ConnectorVersionObject, numbers: Iterable[int]) -> dict[int, Map]:
        wanted = sorted(numbers)
        namespace, names = version["metadata"]["namespace"], version["spec"]["configMaps"]
        found = await asyncio.gather(*(self._map(namespace, names[number]) for number in wanted))
        return dict(zip(wanted, found, strict=True))

    async def _map(self, namespace: str, name: str) -> Map:
        kept = self._kept.get((namespace, name))
        if kept is not None:
            return kept
        async with self._gate:
            obj = await find(self._kube, CONFIG_MAPS, name, namespace)
        if obj is None:
            raise errors.conflict(
                f'The ConfigMap "{name}" with a part of the result is not there: import the description '
                "again under another version name"
            )
        return self._keep(namespace, obj)

    async def _write(self, version: ConnectorVersionObject, name: str, content: Map) -> None:
        async with self._gate:
            manifest = await asyncio.to_thread(storage.config_map, version, name, content)
            with suppress(AlreadyExists):
                await self._kube.create(CONFIG_MAPS, manifest, field_manager=MANAGER, metadata_only=True)

    def _keep(self, namespace: str, obj: Object) -> Map:
        content = storage.content_of(obj)
        with suppress(ValueError):  # larger than the cache
            self._kept[namespace, obj["metadata"]["name"]] = content
        return content


def _size(content: Map) -> int:
    return sum(map(len, content.values()))


def version_exists(name: str) -> errors.ApiError:
    """409: a version of this name was imported before."""
    return errors.conflict(
        f'The connector has a version "{name}" already: versions never change, choose another name',
        version=name,
    )
