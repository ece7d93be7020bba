"""A package index on this machine that wants a password, and packages for it."""

from __future__ import annotations

import base64
import hashlib
import io
import ssl
import tarfile
import tempfile
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.harness.identity.certificate_authority import Authority, pem
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


def server_tls(authority: Authority) -> ssl.SSLContext:
    """What a server of this machine needs to be one by HTTPS."""
    certificate, key = authority.issue("localhost")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    with tempfile.NamedTemporaryFile("w") as file:
        file.write(certificate + pem(key))
        file.flush()
        context.load_cert_chain(file.name)
    return context


@contextmanager
def local_index(authority: Authority | None = None) -> Iterator[LocalIndex]:
    """The index, while it is used; by HTTPS with a certificate of the authority, if there is one."""
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

        def do_HEAD(self) -> None:
            self.do_GET()

        def answer(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Content-Type", "text/html")
            self.send_header("WWW-Authenticate", "Basic")
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if authority is not None:
        server.socket = server_tls(authority).wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    scheme = "https" if authority else "http"
    served.url = f"{scheme}://127.0.0.1:{server.server_port}/simple"
    try:
        yield served
    finally:
        server.shutdown()
        server.server_close()
