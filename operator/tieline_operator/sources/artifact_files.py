"""A project's current files where they come from a source of Flux.

What was read from an artifact is in the Project's status: after a restart nothing is downloaded again.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from cachetools import LRUCache

from tieline_common.backoff import exponential, jitter
from tieline_common.single_flight import SingleFlight
from tieline_core.project_files.config_maps import FilesMissing, files_digest
from tieline_core.resources import Project
from tieline_core.resources.projects import SourceReference, SourceStatus
from tieline_operator.sources.artifacts import Downloader, UnreadableArtifactError
from tieline_operator.sources.flux_sources import Artifact, FluxSources, Pending
from tieline_protocol.files import check_sizes
from tieline_protocol.findings import first

_KEPT_BYTES = 32 * 1024 * 1024
_REMEMBERED = 4096
# Most downloads in a cluster take less. A slower one does not block the queue.
_WAIT_SECONDS = 0.5
_FIRST_PAUSE, _LONGEST_PAUSE = 2.0, 300.0
_PENDING_SECONDS = 5.0

_Key = tuple[str, str]
"""An artifact's digest, and the folder in it."""


@dataclass(frozen=True)
class _Failure:
    count: int
    error: Exception
    until: float
    """When it is tried again, by the loop's clock."""


class ArtifactFiles:
    """Reads and remembers the files of artifacts."""

    def __init__(self, sources: FluxSources, downloader: Downloader) -> None:
        self._sources = sources
        self._downloader = downloader
        self._downloads: SingleFlight[_Key, dict[str, bytes]] = SingleFlight()
        self._files: LRUCache[_Key, dict[str, bytes]] = LRUCache(_KEPT_BYTES, getsizeof=_size)
        self._digests: LRUCache[_Key, str] = LRUCache(_REMEMBERED)
        self._failures: LRUCache[_Key, _Failure] = LRUCache(_REMEMBERED)
        self._timers: set[str] = set()

    async def current(
        self, project: Project, reference: SourceReference, then: Callable[[], None]
    ) -> SourceStatus:
        """What the source has, with the digest of the project's files.

        Raises FilesMissing, and Pending while that is being found out: ``then`` is called once it is worth asking
        again.
        """
        try:
            artifact = await self._sources.artifact(project.namespace, reference)
        except Pending:
            self._later(project, _PENDING_SECONDS, then)
            raise
        digest = await self._digest(project, artifact, reference.path, then)
        return SourceStatus(
            revision=artifact.revision,
            artifact=artifact.digest,
            path=reference.path,
            digest=digest,
            repository=artifact.repository,
        )

    async def files(self, project: Project, reference: SourceReference) -> dict[str, bytes]:
        """The project's current files. Raises FilesMissing and Pending."""
        artifact = await self._sources.artifact(project.namespace, reference)
        key = (artifact.digest, reference.path)
        known = self._files.get(key)
        if known is not None:
            return known
        try:
            return await self._downloads.run(key, lambda: self._download(artifact, reference.path))
        except UnreadableArtifactError as error:
            raise FilesMissing(str(error)) from error

    async def close(self) -> None:
        """Ends downloads."""
        await self._downloads.close()
        await self._downloader.close()
        await self._sources.close()

    async def _digest(self, project: Project, artifact: Artifact, path: str, then: Callable[[], None]) -> str:
        key = (artifact.digest, path)
        known = self._digests.get(key)
        if known is not None:
            return known
        before = project.status.source
        if before is not None and (before.artifact, before.path) == key:
            return before.digest
        failure, loop = self._failures.get(key), asyncio.get_running_loop()
        if failure is not None and loop.time() < failure.until:
            self._later(project, failure.until - loop.time(), then)
            raise FilesMissing(str(failure.error))
        task = self._downloads.start(key, lambda: self._download(artifact, path))
        done, _ = await asyncio.wait([task], timeout=_WAIT_SECONDS)
        if not done:
            task.add_done_callback(lambda _: then())
            raise Pending(f"revision {artifact.revision} is being downloaded")
        try:
            task.result()
        except UnreadableArtifactError as error:
            self._later(project, self._failures[key].until - loop.time(), then)
            raise FilesMissing(str(error)) from error
        return self._digests[key]

    def _later(self, project: Project, seconds: float, then: Callable[[], None]) -> None:
        """Calls ``then`` after a while. A project has one timer, however often it is reconciled meanwhile."""
        uid = project.metadata.uid
        if uid in self._timers:
            return

        def fire() -> None:
            self._timers.discard(uid)
            then()

        self._timers.add(uid)
        asyncio.get_running_loop().call_later(seconds, fire)

    async def _download(self, artifact: Artifact, path: str) -> dict[str, bytes]:
        key = (artifact.digest, path)
        try:
            files = await self._downloader.files(artifact, path)
            problems = [str(item) for item in check_sizes(list(files.items()))]
            if problems:
                raise FilesMissing(f"The files cannot be kept: {first(problems, most=3)}")
        except (UnreadableArtifactError, FilesMissing) as error:
            self._remember(key, error)
            raise
        self._failures.pop(key, None)
        self._digests[key] = files_digest(files)
        self._files[key] = files
        return files

    def _remember(self, key: _Key, error: Exception) -> None:
        known = self._failures.get(key)
        count = known.count + 1 if known else 1
        pause = jitter(exponential(count, first=_FIRST_PAUSE, cap=_LONGEST_PAUSE))
        self._failures[key] = _Failure(count, error, asyncio.get_running_loop().time() + pause)


def _size(files: dict[str, bytes]) -> int:
    return sum(len(path) + len(content) for path, content in files.items())
