"""Files of projects and versions, in the ConfigMaps where they are kept."""

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, cast

from cachetools import LRUCache

from tieline_api import errors
from tieline_api.cluster.field_managers import MANAGER
from tieline_core.identity.names import PROJECT_LABEL
from tieline_core.kubernetes import Kube
from tieline_core.kubernetes.reading import find
from tieline_core.kubernetes.resources import CONFIG_MAPS, PROJECT_VERSIONS
from tieline_core.objects import ObjectView
from tieline_core.project_files import config_maps as core
from tieline_core.project_files.differences import FileDiff, compare
from tieline_core.resources.objects import ProjectObject, ProjectVersionObject
from tieline_core.resources.projects import FilesConfigMap, ProjectSource

Pairs = list[tuple[str, bytes]]

_KEPT_BYTES = 32 * 1024 * 1024
_ATONCE = 8
# How long a comparison of versions waits for those before it; each takes about two seconds at most.
_WAIT_SECONDS = 30.0
_RETRY_SECONDS = 5.0


class ProjectFiles:
    """Reads and writes files. ConfigMaps that can never change are kept in memory, up to a limit."""

    def __init__(self, kube: Kube) -> None:
        self._kube = kube
        self._comparing = asyncio.Semaphore(1)
        self._kept: LRUCache[tuple[str, str], ObjectView] = LRUCache(_KEPT_BYTES, getsizeof=_size)

    async def current(self, project: ProjectObject) -> Pairs:
        """A project's current files; ApiError 409 when a ConfigMap that it names is not there."""
        source = ProjectSource.model_validate(project["spec"].get("source") or {})
        if source.source_ref is not None:
            return await self._latest(project)
        maps = await self._read(project["metadata"]["namespace"], source.config_maps)
        return _unpacked(lambda: core.source_files(source, maps))

    async def _latest(self, project: ProjectObject) -> Pairs:
        """The files that the operator read last from a source of Flux."""
        name = (project.get("status") or {}).get("latestVersion")
        version = (
            await find(self._kube, PROJECT_VERSIONS, name, project["metadata"]["namespace"]) if name else None
        )
        return await self.of_version(cast("ProjectVersionObject", version)) if version is not None else []

    async def of_version(self, version: ProjectVersionObject) -> Pairs:
        """A version's files."""
        references = [FilesConfigMap.model_validate(item) for item in version["spec"]["configMaps"]]
        maps = await self._read(version["metadata"]["namespace"], references)
        return _unpacked(lambda: core.unpack(references, maps))

    async def differences(
        self, before: ProjectVersionObject | None, after: ProjectVersionObject
    ) -> list[FileDiff]:
        """The files that differ between two versions; without the first one, all are added.

        One comparison at a time, because it takes processor time. ApiError 429 where many wait.
        """
        try:
            async with asyncio.timeout(_WAIT_SECONDS):
                await self._comparing.acquire()
        except TimeoutError:
            raise errors.too_many_requests(
                "Too many versions are being compared: try again in a moment", retry_after=_RETRY_SECONDS
            ) from None
        try:
            old = dict(await self.of_version(before)) if before is not None else {}
            return await asyncio.to_thread(compare, old, dict(await self.of_version(after)))
        finally:
            self._comparing.release()

    async def store(self, project: ProjectObject, files: core.Files) -> list[dict[str, Any]]:
        """Writes files into content-addressed ConfigMaps of the project; returns how to refer to them."""
        for pack in core.pack(project["metadata"]["name"], files):
            manifest = core.config_map(pack, project)
            applied = await self._kube.apply(CONFIG_MAPS, manifest, field_manager=MANAGER)
            self._keep(applied.object)
        return self.references(project, files)

    @staticmethod
    def references(project: ProjectObject, files: core.Files) -> list[dict[str, Any]]:
        """How to refer to files once they are stored: the names of their ConfigMaps follow from the contents."""
        return [pack.reference().to_dict() for pack in core.pack(project["metadata"]["name"], files)]

    async def _read(self, namespace: str, references: Iterable[FilesConfigMap]) -> dict[str, ObjectView]:
        names = sorted({reference.name for reference in references})
        gate = asyncio.Semaphore(_ATONCE)

        async def one(name: str) -> ObjectView | None:
            kept = self._kept.get((namespace, name))
            if kept is not None:
                return kept
            async with gate:
                found = await find(self._kube, CONFIG_MAPS, name, namespace)
            if found is not None:
                self._keep(found)
            return found

        found = await asyncio.gather(*(one(name) for name in names))
        return {name: obj for name, obj in zip(names, found, strict=True) if obj is not None}

    def _keep(self, obj: ObjectView) -> None:
        """Immutable ConfigMaps of ours are named after their content: their name says all."""
        metadata = obj["metadata"]
        if not obj.get("immutable") or PROJECT_LABEL not in (metadata.get("labels") or {}):
            return
        with suppress(ValueError):  # larger than the cache
            self._kept[metadata["namespace"], metadata["name"]] = obj


def _size(config_map: ObjectView) -> int:
    return sum(
        len(value) for part in ("data", "binaryData") for value in (config_map.get(part) or {}).values()
    )


def _unpacked(read: Any) -> Pairs:
    try:
        pairs: Pairs = read()
    except core.FilesMissing as error:
        raise errors.conflict(str(error)) from error
    return pairs
