"""A project's files of Flux: when they are fetched, what is waited for, and what is tried again."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tieline_core.project_files.config_maps import FilesMissing, files_digest
from tieline_core.resources import Project
from tieline_core.resources.projects import SourceKind, SourceReference, SourceStatus
from tieline_operator.sources import artifact_files
from tieline_operator.sources.artifact_files import ArtifactFiles
from tieline_operator.sources.artifacts import UnreadableArtifactError
from tieline_operator.sources.flux_sources import Artifact, FluxSources, Pending
from tieline_protocol.files import MAX_TOTAL_BYTES

pytestmark = pytest.mark.fast

REFERENCE = SourceReference(kind=SourceKind.GIT_REPOSITORY, name="shop", path="orders")
FILES = {"main.py": b"x = 1"}


class Sources:
    """Serves one artifact, or what is raised instead."""

    def __init__(self) -> None:
        self.artifact_now: Artifact | Exception = Artifact(
            "http://source", "sha256:1", "main@sha1:1", "https://git.example/shop"
        )

    async def artifact(self, _namespace: str, _reference: SourceReference) -> Artifact:
        if isinstance(self.artifact_now, Exception):
            raise self.artifact_now
        return self.artifact_now

    async def close(self) -> None: ...


class Downloader:
    """Answers with files or an error, once it may."""

    def __init__(self) -> None:
        self.answer: dict[str, bytes] | Exception = FILES
        self.may = asyncio.Event()
        self.may.set()
        self.downloads: list[tuple[str, str]] = []

    async def files(self, artifact: Artifact, path: str) -> dict[str, bytes]:
        self.downloads.append((artifact.digest, path))
        await self.may.wait()
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    async def close(self) -> None: ...


class Case:
    def __init__(self) -> None:
        self.sources, self.downloader = Sources(), Downloader()
        self.again = asyncio.Event()
        self.new()

    def new(self) -> None:
        """An operator that has just started."""
        self.files = ArtifactFiles(cast(FluxSources, self.sources), self.downloader)

    async def current(self, status: SourceStatus | None = None) -> SourceStatus:
        project: Any = SimpleNamespace(
            namespace="acme", metadata=SimpleNamespace(uid="u"), status=SimpleNamespace(source=status)
        )
        return await self.files.current(cast(Project, project), REFERENCE, self.again.set)

    async def contents(self) -> dict[str, bytes]:
        project: Any = SimpleNamespace(namespace="acme")
        return await self.files.files(cast(Project, project), REFERENCE)


@pytest.fixture
async def case() -> Case:
    return Case()


async def test_an_artifact_is_downloaded_once_and_after_a_restart_not_again(case: Case) -> None:
    found = await case.current()
    expected = SourceStatus(
        revision="main@sha1:1",
        artifact="sha256:1",
        path="orders",
        digest=files_digest(FILES),
        repository="https://git.example/shop",
    )
    assert found == await case.current() == expected
    assert await case.contents() == FILES
    assert case.downloader.downloads == [("sha256:1", "orders")]
    case.new()
    assert await case.current(found) == found
    assert case.downloader.downloads == [("sha256:1", "orders")]
    # Another revision is another artifact.
    case.sources.artifact_now = Artifact("http://source", "sha256:2", "main@sha1:2")
    assert (await case.current(found)).revision == "main@sha1:2"
    assert case.downloader.downloads[1:] == [("sha256:2", "orders")]


async def test_a_slow_download_is_waited_for_beside_the_queue(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(artifact_files, "_WAIT_SECONDS", 0.01)
    case.downloader.may.clear()
    with pytest.raises(Pending, match="main@sha1:1 is being downloaded"):
        await case.current()
    with pytest.raises(Pending):
        await case.current()
    assert not case.again.is_set()
    case.downloader.may.set()
    async with asyncio.timeout(5):
        await case.again.wait()
    assert (await case.current()).digest == files_digest(FILES)
    assert len(case.downloader.downloads) == 1


@pytest.mark.parametrize(
    "error", [UnreadableArtifactError("answers 404"), FilesMissing("There is no main.py")]
)
async def test_what_fails_is_said_and_tried_again_after_a_pause(
    case: Case, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(artifact_files, "_FIRST_PAUSE", 0.05)
    monkeypatch.setattr(artifact_files, "_LONGEST_PAUSE", 0.05)
    case.downloader.answer = error
    for _ in range(3):
        with pytest.raises(FilesMissing, match=str(error)):
            await case.current()
    assert len(case.downloader.downloads) < 3
    case.downloader.answer = FILES
    async with asyncio.timeout(5):
        while True:
            await case.again.wait()
            case.again.clear()
            try:
                found = await case.current()
            except FilesMissing:
                continue
            break
    assert found.digest == files_digest(FILES)


async def test_files_that_no_configmap_could_keep_are_refused_by_name(case: Case) -> None:
    case.downloader.answer = {"main.py": b"", "data.bin": bytes(MAX_TOTAL_BYTES // 2)}
    with pytest.raises(FilesMissing, match=r"data\.bin"):
        await case.current()


async def test_a_source_without_an_artifact_is_asked_again(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(artifact_files, "_PENDING_SECONDS", 0.01)
    case.sources.artifact_now = Pending("has no artifact yet")
    with pytest.raises(Pending, match="has no artifact yet"):
        await case.current()
    async with asyncio.timeout(5):
        await case.again.wait()


async def test_a_project_that_is_reconciled_often_has_one_timer(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(artifact_files, "_PENDING_SECONDS", 0.05)
    case.sources.artifact_now = Pending("has no artifact yet")
    loop, timers = asyncio.get_running_loop(), []
    call_later = loop.call_later
    monkeypatch.setattr(loop, "call_later", lambda *given: (timers.append(given), call_later(*given))[1])
    for _ in range(5):
        with pytest.raises(Pending):
            await case.current()
    assert len(timers) == 1
    async with asyncio.timeout(5):
        await case.again.wait()
    with pytest.raises(Pending):
        await case.current()
    assert len(timers) == 2
