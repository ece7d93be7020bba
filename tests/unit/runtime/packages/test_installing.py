"""Installing a lock with the real pip from an index of the test's own, and unpacking what comes of it."""

from __future__ import annotations

import base64
import hashlib
import io
import os
import subprocess
import sys
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tieline_packages.activation import activate
from tieline_packages.archive import PackagesError, unpack_archive, write_archive
from tieline_packages.install import FinalError, Index, install, masked
from tieline_protocol.package_lock import PackageLock, parse_lock

PASSWORD = "an-index-password"


def wheel(name: str, version: str = "1.0", requires: str = "", **files: str) -> tuple[str, bytes]:
    """A wheel with these files, by default one module of its name."""
    info = f"{name}-{version}.dist-info"
    needs = f"Requires-Dist: {requires}\n" if requires else ""
    contents = {
        **(files or {f"{name}.py": f"VALUE = {version!r}\n"}),
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    contents[f"{info}/RECORD"] = "".join(f"{path},,\n" for path in (*contents, f"{info}/RECORD"))
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        for path, text in contents.items():
            archive.writestr(zipfile.ZipInfo(path), text)
    return f"{name}-{version}-py3-none-any.whl", target.getvalue()


def source_distribution(name: str) -> tuple[str, bytes]:
    """One whose build would leave a trace."""
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w:gz") as archive:
        for path, text in (
            ("setup.py", "raise SystemExit('it ran')"),
            ("PKG-INFO", f"Name: {name}\nVersion: 1.0\n"),
        ):
            entry = tarfile.TarInfo(f"{name}-1.0/{path}")
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))
    return f"{name}-1.0.tar.gz", target.getvalue()


@dataclass
class LocalIndex:
    """An index on this machine that wants a password."""

    files: dict[str, bytes] = field(default_factory=dict)
    url: str = ""

    def add(self, *files: tuple[str, bytes]) -> None:
        self.files.update(dict(files))

    def lock(self, *names: str) -> PackageLock:
        """A lock of these packages, with the hashes of the files that are there now."""
        lines = []
        for name in names:
            digests = [
                hashlib.sha256(c).hexdigest() for f, c in self.files.items() if f.startswith(f"{name}-")
            ]
            lines.append(f"{name}==1.0 " + " ".join(f"--hash=sha256:{digest}" for digest in digests))
        found = parse_lock("\n".join(lines).encode())
        assert isinstance(found, PackageLock)
        return found


@pytest.fixture
def index() -> Iterator[LocalIndex]:
    served = LocalIndex()
    allowed = "Basic " + base64.b64encode(f"reader:{PASSWORD}".encode()).decode()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            name = self.path.strip("/").split("/")[-1]
            files = [file for file in served.files if file.split("-")[0] == name]
            links = "".join(f'<a href="/files/{file}">{file}</a>' for file in files).encode()
            if self.headers.get("Authorization") != allowed:
                return self.answer(401, b"")
            if name in served.files:
                return self.answer(200, served.files[name])
            return self.answer(200 if files else 404, links)

        def answer(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Content-Type", "text/html")
            self.send_header("WWW-Authenticate", "Basic")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    served.url = f"http://127.0.0.1:{server.server_port}/simple"
    yield served
    server.shutdown()
    server.server_close()


@pytest.fixture
def credentials(tmp_path: Path) -> Path:
    folder = tmp_path / "index-secret"
    folder.mkdir()
    (folder / "username").write_text("reader")
    (folder / "password").write_text(PASSWORD)
    return folder


def installed(lock: PackageLock, url: str, credentials: Path | None, work: Path) -> Path:
    work.mkdir()
    return install(lock, Index(url=url, credentials=credentials), work)


def test_what_is_installed_can_be_unpacked_and_imported(
    index: LocalIndex, credentials: Path, tmp_path: Path
) -> None:
    index.add(wheel("greetings", requires="words"), wheel("words"))
    archive = installed(index.lock("greetings", "words"), index.url, credentials, tmp_path / "work")
    folder = tmp_path / "pod"
    folder.mkdir()
    unpack_archive(archive, folder)
    program = (
        "import sys; from pathlib import Path; from tieline_packages.activation import activate; "
        "activate(Path(sys.argv[1])); import greetings, words; print(greetings.VALUE, greetings.__cached__)"
    )
    said = subprocess.run(
        [sys.executable, "-c", program, str(folder)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
    ).stdout.split()
    assert said[0] == "1.0"
    assert Path(said[1]).is_file(), "it is compiled already"


def test_the_same_lock_gives_the_same_archive(index: LocalIndex, credentials: Path, tmp_path: Path) -> None:
    index.add(wheel("greetings"), wheel("words"))
    lock = index.lock("greetings", "words")
    digests = {
        hashlib.sha256(installed(lock, index.url, credentials, tmp_path / name).read_bytes()).hexdigest()
        for name in ("one", "two")
    }
    assert len(digests) == 1


def test_a_file_that_was_replaced_is_refused(index: LocalIndex, credentials: Path, tmp_path: Path) -> None:
    index.add(wheel("greetings"))
    lock = index.lock("greetings")
    index.add(wheel("greetings", **{"greetings.py": "import os\n"}))
    with pytest.raises(FinalError, match="has none of the hashes"):
        installed(lock, index.url, credentials, tmp_path / "work")


def test_a_source_distribution_is_not_built(index: LocalIndex, credentials: Path, tmp_path: Path) -> None:
    index.add(source_distribution("greetings"))
    with pytest.raises(FinalError, match="no wheel of greetings"):
        installed(index.lock("greetings"), index.url, credentials, tmp_path / "work")


def test_a_lock_that_leaves_out_a_dependency_is_refused_with_its_name(
    index: LocalIndex, credentials: Path, tmp_path: Path
) -> None:
    index.add(wheel("greetings", requires="words"), wheel("words"))
    with pytest.raises(FinalError, match="words"):
        installed(index.lock("greetings"), index.url, credentials, tmp_path / "work")


def test_an_index_that_is_away_is_told_as_that_and_tried_again(tmp_path: Path) -> None:
    index = LocalIndex()
    index.add(wheel("greetings"))
    lock = index.lock("greetings")
    with pytest.raises(PackagesError, match="the package index cannot be reached") as told:
        installed(lock, "http://127.0.0.1:9/simple", None, tmp_path / "work")
    assert not isinstance(told.value, FinalError)


def test_wrong_credentials_are_told_and_not_shown(
    index: LocalIndex, credentials: Path, tmp_path: Path
) -> None:
    index.add(wheel("greetings"))
    (credentials / "password").write_text("a-wrong-password")
    with pytest.raises(PackagesError) as told:
        installed(index.lock("greetings"), index.url, credentials, tmp_path / "work")
    assert "credentials" in str(told.value)
    assert "a-wrong-password" not in str(told.value)
    assert not isinstance(told.value, FinalError)


def test_nothing_of_the_credentials_is_in_the_archive(
    index: LocalIndex, credentials: Path, tmp_path: Path
) -> None:
    index.add(wheel("greetings"))
    archive = installed(index.lock("greetings"), index.url, credentials, tmp_path / "work")
    with zipfile.ZipFile(archive) as opened:
        contents = b"".join(opened.read(name) for name in opened.namelist())
    assert PASSWORD.encode() not in contents
    assert index.url.encode() not in contents


def test_a_wheel_cannot_write_outside_its_folder(
    index: LocalIndex, credentials: Path, tmp_path: Path
) -> None:
    index.add(wheel("greetings", **{"../../../escaped.py": "x = 1\n"}))
    with pytest.raises(PackagesError):
        installed(index.lock("greetings"), index.url, credentials, tmp_path / "work")
    assert not list(tmp_path.rglob("escaped.py"))


def test_an_archive_cannot_write_outside_its_folder(tmp_path: Path) -> None:
    archive, folder = tmp_path / "packages.zip", tmp_path / "pod" / "inner"
    folder.mkdir(parents=True)
    with zipfile.ZipFile(archive, "w") as opened:
        opened.writestr("../../escaped", "x")
        opened.writestr("/absolute", "x")
    unpack_archive(archive, folder)
    assert not (tmp_path / "escaped").exists()
    assert not Path("/absolute").exists()


def test_packages_of_another_python_are_refused_with_what_to_do(tmp_path: Path) -> None:
    source, folder, archive = tmp_path / "in", tmp_path / "out", tmp_path / "packages.zip"
    source.mkdir()
    folder.mkdir()
    write_archive(source, archive, {"python": "cp27", "lock": "x"})
    unpack_archive(archive, folder)
    with pytest.raises(PackagesError, match="installed for cp27"):
        activate(folder)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("no route to https://me:pw@pypi.example/simple", "no route to https://***@pypi.example/simple"),
        ("the password is an-index-password", "the password is ***"),
        ("plain", "plain"),
    ],
)
def test_messages_hold_no_credentials(text: str, shown: str) -> None:
    assert masked(text, [PASSWORD]) == shown
