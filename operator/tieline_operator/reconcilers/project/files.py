"""Reads files from ConfigMaps, and caches what was found in them.

The caches hold ConfigMaps without their contents (they would be most of the operator's memory). Contents
are read when they are needed: to digest new files, to make a version, and to check one.
"""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from cachetools import LRUCache

from tieline_common.single_flight import SingleFlight
from tieline_core.connectors.webhooks import Interface
from tieline_core.evaluation.pool import EvaluationBusy
from tieline_core.kubernetes.resources import CONFIG_MAPS
from tieline_core.project_files.checker import Analysis, FilesChecker
from tieline_core.project_files.config_maps import FilesMissing, files_digest, source_files, unpack
from tieline_core.resources import Project, ProjectVersion
from tieline_core.resources.projects import SourceStatus
from tieline_operator.apply.plan import Object
from tieline_operator.cache.cluster_cache import ClusterCache
from tieline_operator.sources.artifact_files import ArtifactFiles
from tieline_protocol.files import check_sizes, check_twice
from tieline_protocol.findings import first

_REMEMBERED = 4096
# Most files are checked in less. A slower check does not block the queue: the object is reconciled when it is done.
_WAIT_SECONDS = 0.25
_BUSY_SECONDS = 5.0


@dataclass(frozen=True, kw_only=True)
class CurrentFiles:
    """What a project's current files are."""

    digest: str | None
    """Over names and contents; None when there are no files."""
    origin: SourceStatus | None = None
    """The artifact of Flux that they are from."""


class ProjectFiles:
    """Reads projects' current files and versions' files."""

    def __init__(
        self, cache: ClusterCache, checker: FilesChecker | None = None, artifacts: ArtifactFiles | None = None
    ) -> None:
        self._cache = cache
        self._artifacts = artifacts
        self._checker = checker or FilesChecker()
        self._checks: SingleFlight[str, Analysis] = SingleFlight()
        self._digests: LRUCache[str, tuple[tuple[object, ...], str]] = LRUCache(_REMEMBERED)
        self._analyses: LRUCache[str, Analysis] = LRUCache(_REMEMBERED)

    def forget(self, uid: str) -> None:
        """Drops what was found in a project or a version that was deleted."""
        self._digests.pop(uid, None)
        self._analyses.pop(uid, None)

    async def current(self, project: Project, then: Callable[[], None]) -> CurrentFiles:
        """The digest of a project's current files.

        Raises FilesMissing when they cannot be read or could never be kept, and Pending while they are being fetched:
        ``then`` is called once it is worth asking again.
        """
        reference = project.spec.source.source_ref
        if reference is None:
            return CurrentFiles(digest=await self._digest(project))
        found = await self._of_flux.current(project, reference, then)
        return CurrentFiles(digest=found.digest, origin=found)

    @property
    def _of_flux(self) -> ArtifactFiles:
        if self._artifacts is None:
            raise FilesMissing(
                "Sources of Flux are not followed here; give the files by spec.source.configMaps"
            )
        return self._artifacts

    async def _digest(self, project: Project) -> str | None:
        if not project.spec.source.files and not project.spec.source.config_maps:
            return None
        uid, stamp = project.metadata.uid, (project.metadata.generation, *self._stamps(project))
        known = self._digests.get(uid)
        if known is None or known[0] != stamp:
            known = stamp, files_digest(await self.files(project))
            self._digests[uid] = known
        return known[1]

    async def files(self, project: Project) -> dict[str, bytes]:
        """A project's current files. Raises FilesMissing and Pending as ``current`` does."""
        source = project.spec.source
        if source.source_ref is not None:
            return await self._of_flux.files(project, source.source_ref)
        bodies = await self._bodies(project.namespace, (item.name for item in source.config_maps))
        return _keepable(source_files(source, bodies))

    async def close(self) -> None:
        """Cancels the checks and downloads that are running."""
        await self._checks.close()
        if self._artifacts is not None:
            await self._artifacts.close()
        await self._checker.close()

    async def analyse(self, version: ProjectVersion, then: Callable[[], None]) -> Analysis | None:
        """What is in a version's files, which never change. Raises FilesMissing.

        None while they are being checked: ``then`` is called once that is done, or to be retried.
        """
        uid = version.metadata.uid
        known = self._analyses.get(uid)
        if known is not None:
            return known
        task = self._checks.start(uid, lambda: self._analysed(version))
        done, _ = await asyncio.wait([task], timeout=_WAIT_SECONDS)
        if not done:
            task.add_done_callback(lambda _: then())
            return None
        try:
            return task.result()
        except EvaluationBusy:
            asyncio.get_running_loop().call_later(_BUSY_SECONDS, then)
            return None

    async def interface(self, version: ProjectVersion) -> Interface:
        """What a version's files offer to others, with its description's text.

        Raises FilesMissing and EvaluationBusy.
        """
        files = await self._version_files(version)
        return (await self._checker.check(version.namespace, files, version.spec.labels)).interface

    async def _analysed(self, version: ProjectVersion) -> Analysis:
        files = await self._version_files(version)
        found = await self._checker.check(version.namespace, files, version.spec.labels)
        # The description may have megabytes: ``interface`` reads it again.
        known = replace(found, interface=replace(found.interface, description=b""))
        self._analyses[version.metadata.uid] = known
        return known

    async def _version_files(self, version: ProjectVersion) -> list[tuple[str, bytes]]:
        references = version.spec.config_maps
        return unpack(references, await self._bodies(version.namespace, (item.name for item in references)))

    def _stamps(self, project: Project) -> Iterable[str]:
        """The state of each source ConfigMap: a changed one has another resourceVersion."""
        for item in project.spec.source.config_maps:
            found = self._cache[CONFIG_MAPS].get(project.namespace, item.name)
            if found is None:
                raise FilesMissing(
                    f'ConfigMap "{item.name}" does not exist in namespace {project.namespace}; '
                    "create it, or remove it from spec.source.configMaps"
                )
            yield f"{found['metadata']['uid']}/{found['metadata']['resourceVersion']}"

    async def _bodies(self, namespace: str, names: Iterable[str]) -> dict[str, Object]:
        bodies: dict[str, Object] = {}
        for name in dict.fromkeys(names):
            body = await self._cache.config_map(namespace, name)
            if body is not None:
                bodies[name] = body
        return bodies


def _keepable(files: list[tuple[str, bytes]]) -> dict[str, bytes]:
    """The files as a mapping; raises FilesMissing for what no ConfigMap could keep."""
    problems = [*check_twice([path for path, _ in files]), *check_sizes(files)]
    if problems:
        raise FilesMissing(f"The files cannot be kept: {first([str(item) for item in problems], most=3)}")
    return dict(files)
