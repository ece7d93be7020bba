"""A pod trusts the certificate authorities of its project in addition to the system's."""

import os
import ssl
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest

from tests.harness.identity.certificate_authority import Authority, pem
from tieline.configuration.authorities import BUNDLE, trusting_environment
from tieline.errors import ConfigurationError

FETCH = """
import asyncio, sys
import aiohttp

async def main():
    async with aiohttp.ClientSession() as session, session.get(sys.argv[1]) as response:
        print(await response.text())

asyncio.run(main())
"""


class _Hello(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"hello")

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def authority() -> Authority:
    return Authority()


@pytest.fixture
def url(authority: Authority, tmp_path: Path) -> Iterator[str]:
    certificate, key = authority.issue("internal")
    (tmp_path / "cert.pem").write_text(certificate)
    (tmp_path / "key.pem").write_text(pem(key))
    server = HTTPServer(("127.0.0.1", 0), _Hello)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"https://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


def fetched(url: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", FETCH, url]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)


def test_a_server_whose_authority_is_in_the_bundle_is_trusted(
    authority: Authority, url: str, tmp_path: Path
) -> None:
    (tmp_path / "ca.crt").write_text(authority.ca)
    environment = trusting_environment({**os.environ, BUNDLE: str(tmp_path / "ca.crt")})
    assert environment is not None
    assert BUNDLE not in environment, "so that the process starts again once"
    assert "CERTIFICATE_VERIFY_FAILED" in fetched(url, dict(os.environ)).stderr
    assert fetched(url, environment).stdout == "hello\n"


def test_the_authorities_of_the_system_stay_trusted(authority: Authority, tmp_path: Path) -> None:
    system = tmp_path / "system.pem"
    system.write_text(Authority().ca)
    (tmp_path / "ca.crt").write_text(authority.ca)
    environment = trusting_environment({"SSL_CERT_FILE": str(system), BUNDLE: str(tmp_path / "ca.crt")})
    assert environment is not None
    written = Path(environment["SSL_CERT_FILE"]).read_text()
    assert system.read_text().strip() in written
    assert authority.ca.strip() in written
    assert environment["REQUESTS_CA_BUNDLE"] == environment["SSL_CERT_FILE"]


def test_libraries_that_the_project_points_elsewhere_stay_so(authority: Authority, tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_text(authority.ca)
    environment = trusting_environment(
        {"REQUESTS_CA_BUNDLE": "/mnt/own.pem", BUNDLE: str(tmp_path / "ca.crt")}
    )
    assert environment is not None
    assert environment["REQUESTS_CA_BUNDLE"] == "/mnt/own.pem"


def test_without_a_bundle_nothing_changes() -> None:
    assert trusting_environment({"PATH": "/bin"}) is None


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, "cannot be read"),
        ("", "has no certificates in PEM"),
        ("no certificate", "has a certificate that is not valid"),
        ("-----BEGIN CERTIFICATE-----\nbm9uZQ==\n-----END CERTIFICATE-----\n", "certificate"),
        ("x" * (4 << 20) + "x", "has more than 4 MiB"),
    ],
)
def test_a_bundle_that_cannot_be_used_is_named(tmp_path: Path, content: str | None, problem: str) -> None:
    file = tmp_path / "ca.crt"
    if content is not None:
        file.write_text(content)
    with pytest.raises(ConfigurationError, match=problem):
        trusting_environment({BUNDLE: str(file)})
