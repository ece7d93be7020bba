"""Imports the descriptions that Connectors refer to, in the background, and caches the results."""

import asyncio
import hashlib
import os
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

from cachetools import LRUCache

from tieline_core.connectors.descriptions.findings import UnreadableDescription
from tieline_core.connectors.import_process import Importer, ImportQueueFull
from tieline_core.connectors.packing import Map, head_of
from tieline_core.connectors.storage import content_of
from tieline_core.kubernetes.resources import CONFIG_MAPS
from tieline_core.project_files.config_maps import FilesMissing, contents
from tieline_core.resources import Connector
from tieline_core.resources.connectors import ConnectorDescription
from tieline_operator.apply.plan import Object
from tieline_operator.cache.cluster_cache import ClusterCache

_REMEMBERED = 1024
_WAITING = 4
_MAX_BYTES = 64 * 1024 * 1024
_SMALL = 1024 * 1024


@dataclass(frozen=True)
class ImportRefusal:
    """Why a description was not imported."""

    message: str
    again: bool = False
    """Whether to retry it later."""


class DescriptionImports:
    """Reads descriptions from ConfigMaps, and imports each version of them once."""

    def __init__(
        self, importer: Importer | None = None, *, ended: Callable[[str], None] = lambda _outcome: None
    ) -> None:
        """``ended`` is called with the outcome of each import: imported, refused or busy."""
        self._importer = importer or Importer(waiting=1024, waiting_of_one=256)
        self._ended = ended
        self._running: dict[str, asyncio.Task[list[Map] | ImportRefusal]] = {}
        self._refused: LRUCache[str, ImportRefusal] = LRUCache(_REMEMBERED)
        self._digests: LRUCache[tuple[str, ...], str] = LRUCache(_REMEMBERED)
        self._heads: LRUCache[str, dict[str, Any]] = LRUCache(_REMEMBERED)
        self._held: Counter[str] = Counter()
        """Bytes of the descriptions that wait or run, by owner."""

    async def digest(
        self, cache: ClusterCache, connector: Connector, description: ConnectorDescription
    ) -> str:
        """SHA-256 of the description as it is now. Raises FilesMissing."""
        stamp = tuple(_stamps(cache, connector, description))
        if stamp not in self._digests:
            data = await self.read(cache, connector, description)
            self._digests[stamp] = hashlib.sha256(data).hexdigest()
        return self._digests[stamp]

    async def result(
        self,
        digest: str,
        read: Callable[[], Awaitable[bytes]],
        *,
        owner: str,
        format: str = "openapi",
    ) -> list[Map] | ImportRefusal | None:
        """The result of importing what has this digest; None while it is being imported.

        ``owner`` is the namespace that it is for: namespaces take turns. ``read`` gives the description, and may
        raise FilesMissing.
        """
        key = _key(digest, format)
        if key in self._refused:
            return self._refused[key]
        task = self._running.get(key)
        if task is None:
            self._drop_unclaimed()
            data = await read()
            if not self._has_room(owner, len(data)):
                return ImportRefusal(
                    "Other descriptions are being imported: this one waits for them", again=True
                )
            file = os.fdopen(os.memfd_create("description"), "w+b")
            file.write(data)
            file.flush()
            self._held[owner] += len(data)
            run = self._run(file, owner=owner, size=len(data), format=format)
            self._running[key] = asyncio.create_task(run, name=f"import {digest[:12]}")
            return None
        if not task.done():
            return None
        found = task.result()
        if isinstance(found, ImportRefusal):
            del self._running[key]
            if not found.again:
                self._refused[key] = found
        return found

    def forget(self, digest: str, format: str = "openapi") -> None:
        """Drops a result that was stored."""
        key = _key(digest, format)
        task = self._running.get(key)
        if task is not None and task.done():
            del self._running[key]

    async def head(self, cache: ClusterCache, version: Object) -> dict[str, Any] | None:
        """A version's summary; None while its first ConfigMap is not there."""
        uid = version["metadata"]["uid"]
        if uid not in self._heads:
            names: Sequence[str] = version["spec"]["configMaps"]
            found = await cache.config_map(version["metadata"]["namespace"], names[0]) if names else None
            if found is None:
                return None
            self._heads[uid] = head_of(content_of(found))
        return self._heads[uid]

    def _drop_unclaimed(self) -> None:
        """Drops results that were never stored (their Connector was deleted meanwhile)."""
        done = [digest for digest, task in self._running.items() if task.done()]
        for digest in done[:-_WAITING]:
            del self._running[digest]

    def _has_room(self, owner: str, size: int) -> bool:
        """Whether a description may wait in memory: those of one namespace leave room for others."""
        own, all_of_them = self._held[owner], self._held.total()
        if not own and size <= _SMALL:
            return True
        return own + size <= _MAX_BYTES and all_of_them + size <= 2 * _MAX_BYTES

    async def _run(
        self,
        file: BinaryIO,
        *,
        owner: str,
        size: int,
        format: str,
    ) -> list[Map] | ImportRefusal:
        try:
            with file:
                maps = await self._importer.run(file, owner=owner, format=format)
        except ImportQueueFull as busy:
            self._ended("busy")
            return ImportRefusal(str(busy), again=True)
        except UnreadableDescription as refused:
            self._ended("refused")
            return ImportRefusal(str(refused))
        finally:
            self._held[owner] -= size
            self._held += Counter()  # drops those that hold nothing
        self._ended("imported")
        return maps

    async def read(
        self, cache: ClusterCache, connector: Connector, description: ConnectorDescription
    ) -> bytes:
        """The description that a Connector refers to, joined. Raises FilesMissing."""
        data = bytearray()
        bodies: dict[str, dict[str, bytes]] = {}
        for part in description.config_maps:
            if part.name not in bodies:
                found = await cache.config_map(connector.namespace, part.name)
                bodies[part.name] = contents(found) if found is not None else {}
            if part.key not in bodies[part.name]:
                raise FilesMissing(
                    f'ConfigMap "{part.name}" has no key "{part.key}"; add it, or correct '
                    "spec.description.configMaps"
                )
            data += bodies[part.name][part.key]
            if len(data) > _MAX_BYTES:
                raise FilesMissing("The description has more than 64 MiB; split it")
        return bytes(data)


def _key(digest: str, format: str) -> str:
    """The same bytes in another format have another result."""
    return f"{format} {digest}"


def _stamps(cache: ClusterCache, connector: Connector, description: ConnectorDescription) -> list[str]:
    """The state of each ConfigMap: a changed one has another resourceVersion."""
    stamps = []
    for part in description.config_maps:
        found = cache[CONFIG_MAPS].get(connector.namespace, part.name)
        if found is None:
            raise FilesMissing(
                f'ConfigMap "{part.name}" does not exist in namespace {connector.namespace}; create it, '
                "or remove it from spec.description.configMaps"
            )
        stamps.append(f"{found['metadata']['uid']}/{found['metadata']['resourceVersion']}/{part.key}")
    return stamps
