"""What is read out of the artifacts of Flux, and what is refused."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import tarfile
from collections.abc import AsyncIterator, Iterable

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from hypothesis import given
from hypothesis import strategies as st

from tieline_core.project_files.config_maps import FilesMissing
from tieline_operator.sources import artifacts
from tieline_operator.sources.artifacts import ArtifactDownloader, UnreadableArtifactError, files_in
from tieline_operator.sources.flux_sources import Artifact
from tieline_protocol.files import MAX_FILE_BYTES

pytestmark = pytest.mark.fast


def archive(
    files: dict[str, bytes], *, links: dict[str, str] | None = None, folders: Iterable[str] = ()
) -> bytes:
    """A tar.gz as source-controller makes it."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as made:
        for name in folders:
            folder = tarfile.TarInfo(name)
            folder.type = tarfile.DIRTYPE
            made.addfile(folder)
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            made.addfile(member, io.BytesIO(content))
        for name, target in (links or {}).items():
            link = tarfile.TarInfo(name)
            link.type, link.linkname = tarfile.SYMTYPE, target
            made.addfile(link)
    return buffer.getvalue()


REPOSITORY = {
    "README.md": b"# Shop",
    ".git/config": b"",
    "orders/project.yaml": b"kind: Project",
    "orders/connections.yaml": b"secrets: ${KEY}",
    "orders/integration/main.py": b"x = 1",
    "orders/integration/shop/prices.py": b"y = 2",
    "orders/integration/.hidden": b"",
    "orders/integration/__pycache__/main.pyc": b"",
    "orders/tests/test_orders.py": b"",
    "stock/main.py": b"z = 3",
    "stock/connections.yaml": b"a",
    "stock/connections.json": b"b",
    "stock/variables.schema.json": b"{}",
    "stock/variables.schema.md": b"c",
}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("orders", {"main.py": b"x = 1", "shop/prices.py": b"y = 2"}),
        ("./orders/", {"main.py": b"x = 1", "shop/prices.py": b"y = 2"}),
        ("/orders/integration", {"main.py": b"x = 1", "shop/prices.py": b"y = 2"}),
        ("stock", {"main.py": b"z = 3", "connections.json": b"b", "variables.schema.md": b"c"}),
    ],
)
def test_the_files_are_those_that_the_command_line_would_deploy(
    path: str, expected: dict[str, bytes]
) -> None:
    assert files_in(archive(REPOSITORY, folders=["orders", "orders/integration"]), path) == expected


@pytest.mark.parametrize(
    ("body", "path", "problem"),
    [
        (
            archive(REPOSITORY),
            "payments",
            'no files in the folder "payments"; correct spec.source.sourceRef.path',
        ),
        (archive(REPOSITORY), "orders/tests", 'There is no main.py in "orders/tests/"'),
        (archive(REPOSITORY), "", 'There is no main.py in "/"'),
        (archive(REPOSITORY), "../other", "leads out of the artifact"),
        (archive(REPOSITORY), "orders/../../x", "leads out of the artifact"),
        (archive({}), "", "no files in the root"),
        (b"no archive", "", "no tar.gz that can be read"),
        (archive(REPOSITORY)[:-400], "stock", "no tar.gz that can be read"),
        (
            archive({"main.py": b""}, links={"shop.py": "/etc/passwd"}),
            "",
            '"shop.py" is a link; put the file itself there',
        ),
        (
            archive({f"{number}.py": os.urandom(MAX_FILE_BYTES) for number in range(20)}),
            "",
            "more than 8 MiB of files",
        ),
    ],
)
def test_what_cannot_be_used_is_said(body: bytes, path: str, problem: str) -> None:
    with pytest.raises(FilesMissing, match=problem):
        files_in(body, path)


def test_names_that_lead_out_of_the_archive_stay_in_it() -> None:
    files = files_in(archive({"main.py": b"1", "/etc/cron.py": b"2", "a/../b.py": b"3"}), "")
    assert files == {"main.py": b"1", "etc/cron.py": b"2", "b.py": b"3"}
    with pytest.raises(FilesMissing, match="no files in"):
        files_in(archive({"../secret.py": b""}), "orders")


def test_a_small_archive_of_much_is_refused_before_it_is_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(artifacts, "MAX_UNPACKED_BYTES", 4 * 1024 * 1024)
    bomb = archive({"data/zeros": bytes(8 * 1024 * 1024), "orders/main.py": b""})
    assert len(bomb) < 16 * 1024
    with pytest.raises(FilesMissing, match="more than 4 MiB of files; leave out what is no code"):
        files_in(bomb, "orders")


def test_an_archive_of_very_many_files_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(artifacts, "MAX_ENTRIES", 10)
    with pytest.raises(FilesMissing, match="more than 10 files and folders"):
        files_in(archive({f"{number}": b"" for number in range(11)}), "")


@given(st.binary(max_size=2000), st.booleans(), st.text(max_size=20))
def test_whatever_is_served_is_files_or_a_reason(body: bytes, packed: bool, path: str) -> None:
    try:
        files = files_in(gzip.compress(body) if packed else body, path)
    except FilesMissing as error:
        files = {"main.py": str(error).encode()}
    assert files["main.py"] is not None


class Server:
    """Serves one body."""

    def __init__(self, body: bytes) -> None:
        self.body, self.status, self.asked = body, 200, 0

    async def answer(self, _request: web.Request) -> web.Response:
        self.asked += 1
        return web.Response(body=self.body, status=self.status, headers={"Location": "/elsewhere"})


@pytest.fixture
async def downloader() -> AsyncIterator[ArtifactDownloader]:
    found = ArtifactDownloader()
    yield found
    await found.close()


async def serve(server: Server) -> tuple[TestServer, str]:
    app = web.Application()
    app.router.add_get("/{path:.*}", server.answer)
    running = TestServer(app)
    await running.start_server()
    return running, str(running.make_url("/orders.tar.gz"))


async def test_an_artifact_is_what_its_digest_says(downloader: ArtifactDownloader) -> None:
    body = archive({"main.py": b"x"})
    running, url = await serve(Server(body))
    for algorithm in ("sha256", "sha512"):
        digest = f"{algorithm}:{hashlib.new(algorithm, body).hexdigest()}"
        assert await downloader.files(Artifact(url, digest, "main@1"), "") == {"main.py": b"x"}
    with pytest.raises(UnreadableArtifactError, match="another digest"):
        await downloader.files(Artifact(url, f"sha256:{'0' * 64}", "main@1"), "")
    for strange in ("md5:x", "", "blake3:x"):
        with pytest.raises(FilesMissing, match="artifact-digest-algo"):
            await downloader.files(Artifact(url, strange, "main@1"), "")
    await running.close()


@pytest.mark.parametrize("status", [302, 404, 500])
async def test_an_answer_that_is_no_artifact_is_worth_another_try(
    downloader: ArtifactDownloader, status: int
) -> None:
    server = Server(b"secret of another service")
    server.status = status
    running, url = await serve(server)
    with pytest.raises(UnreadableArtifactError, match=f"answers {status}") as caught:
        await downloader.files(Artifact(url, "sha256:x", "main@1"), "")
    assert "secret" not in str(caught.value)
    assert server.asked == 1
    await running.close()


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:1/x", "http://nowhere.invalid/x", "ftp://a/b", "", "file:///etc/passwd"]
)
async def test_a_controller_that_is_away_is_worth_another_try(
    downloader: ArtifactDownloader, url: str
) -> None:
    with pytest.raises(UnreadableArtifactError, match="cannot be downloaded"):
        await downloader.files(Artifact(url, "sha256:x", "main@1"), "")


async def test_an_artifact_that_is_too_large_is_not_read_to_its_end(
    downloader: ArtifactDownloader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(artifacts, "MAX_ARTIFACT_BYTES", 1024 * 1024)
    running, url = await serve(Server(bytes(2 * 1024 * 1024)))
    with pytest.raises(FilesMissing, match="more than 1 MiB"):
        await downloader.files(Artifact(url, "sha256:x", "main@1"), "")
    await running.close()
