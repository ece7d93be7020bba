"""Fetching packages before code starts: from the API alone, compared with the digest that the operator named."""

from __future__ import annotations

import hashlib
import io
import ssl
import threading
import time
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.harness.identity.served_certificates import CertificateFolder
from tieline_operator.tls.certificates import Issued
from tieline_packages import unpack
from tieline_packages.archive import PackagesError, write_archive
from tieline_packages.unpack import Source, fetch_and_unpack

KEY = "a" * 64


@dataclass
class Api:
    """Answers with what is next, and with the archive once nothing is left."""

    archive: bytes
    answers: list[tuple[int, bytes]] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    url: str = ""
    server: ThreadingHTTPServer | None = None


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    packages, target = tmp_path / "packages", tmp_path / "packages.zip"
    packages.mkdir()
    (packages / "greetings.py").write_text("VALUE = 1\n")
    write_archive(packages, target, {"python": "cp311", "lock": "x"})
    served = Api(target.read_bytes())

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            served.asked.append(f"{self.path} {self.headers['Authorization']}")
            status, body = served.answers.pop(0) if served.answers else (200, served.archive)
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    served.server = server
    served.url = f"http://127.0.0.1:{server.server_port}"
    yield served
    server.shutdown()
    server.server_close()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(unpack, "_FIRST_PAUSE", 0.01)
    (tmp_path / "token").write_text("a-token\n")
    made = tmp_path / "pod"
    made.mkdir()
    return made


def fetch(api: Api, folder: Path, *, digest: str = "", seconds: float = 20) -> None:
    source = Source(
        api_url=api.url,
        token_file=folder.parent / "token",
        key=KEY,
        digest=digest or hashlib.sha256(api.archive).hexdigest(),
    )
    fetch_and_unpack(source, folder, until=time.monotonic() + seconds)


def test_the_archive_is_asked_for_with_the_pods_token_and_unpacked(api: Api, folder: Path) -> None:
    fetch(api, folder)
    digest = hashlib.sha256(api.archive).hexdigest()
    assert api.asked == [f"/internal/v1/environment/packages/{KEY}?digest={digest} Bearer a-token"]
    assert (folder / "greetings.py").read_text() == "VALUE = 1\n"
    assert sorted(path.name for path in folder.iterdir()) == ["greetings.py", "tieline-packages.json"]


@pytest.mark.parametrize("status", [401, 403, 404, 429, 503])
def test_what_may_pass_is_tried_again(api: Api, folder: Path, status: int) -> None:
    api.answers = [(status, b"{}"), (status, b"{}")]
    fetch(api, folder)
    assert len(api.asked) == 3
    assert (folder / "greetings.py").is_file()


def test_what_an_earlier_try_left_is_gone(api: Api, folder: Path) -> None:
    (folder / "old").mkdir()
    (folder / "old" / "module.py").write_text("")
    fetch(api, folder)
    assert not (folder / "old").exists()


def test_a_package_may_have_a_file_of_any_name(api: Api, folder: Path) -> None:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name in (".archive", "greetings.py"):
            archive.writestr(name, name)
    api.archive = content.getvalue()
    fetch(api, folder)
    assert [(folder / name).read_text() for name in (".archive", "greetings.py")] == [
        ".archive",
        "greetings.py",
    ]


def test_another_archive_than_the_operator_named_is_not_unpacked(api: Api, folder: Path) -> None:
    with pytest.raises(PackagesError, match="not the archive that was installed"):
        fetch(api, folder, digest="0" * 64, seconds=0)
    assert not (folder / "greetings.py").exists()


def test_an_archive_without_an_end_is_not_kept(
    api: Api, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unpack, "MAX_ARCHIVE_BYTES", 10)
    with pytest.raises(PackagesError, match="larger than any"):
        fetch(api, folder)
    assert not (folder / "greetings.py").exists()


def test_a_refusal_that_stays_is_told_with_what_the_api_says(api: Api, folder: Path) -> None:
    api.answers = [(422, b'{"message": "key: must be a SHA-256"}')]
    with pytest.raises(PackagesError, match="must be a SHA-256"):
        fetch(api, folder)


def test_an_api_that_is_away_is_reported(api: Api, folder: Path) -> None:
    api.url = "http://127.0.0.1:9"
    with pytest.raises(PackagesError, match="the API cannot be reached"):
        fetch(api, folder, seconds=0)


def test_the_token_is_sent_to_no_api_of_another_authority(
    api: Api, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the right one the archive comes by TLS."""
    served = CertificateFolder(tmp_path)
    served.issue()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "tls.crt", tmp_path / "tls.key")
    assert api.server is not None
    api.server.socket = context.wrap_socket(api.server.socket, server_side=True)
    api.url = f"https://localhost:{api.server.server_port}"
    monkeypatch.setenv("TIELINE_API_CA_FILE", str(served.authorities))
    served.trust(Issued.authority(datetime.now(UTC)))
    with pytest.raises(PackagesError, match="SSLCertVerificationError"):
        fetch(api, folder, seconds=0)
    assert not api.asked
    served.trust()
    fetch(api, folder)
    assert len(api.asked) == 1
