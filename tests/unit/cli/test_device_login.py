"""Signing in on another device (RFC 8628), against a small issuer that answers as the test says."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any
from urllib.parse import parse_qs

import pytest

from tieline.cli.exit_codes import CommandError, ExitCode, UsageError
from tieline.cli.remote import device_login

TOKENS = {"access_token": "a.b.c", "refresh_token": "r1", "expires_in": 300}


class FakeIssuer:
    """An issuer; ``answers`` are those of the token endpoint, in order."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, Any]] = []
        self.forms: list[dict[str, list[str]]] = []
        self.device: tuple[int, Any] = (
            200,
            {
                "device_code": "d",
                "user_code": "AB-CD",
                "verification_uri": "https://x/device",
                "expires_in": 60,
                "interval": 5,
            },
        )
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._answer(200, issuer.configuration)

            def do_POST(self) -> None:
                form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
                issuer.forms.append(form)
                self._answer(*(issuer.device if self.path == "/device" else issuer.answers.pop(0)))

            def _answer(self, status: int, body: Any) -> None:
                content = body if isinstance(body, bytes) else json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: Any) -> None:
                """Tests are quiet."""

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.configuration: Any = {
            "issuer": self.url,
            "token_endpoint": f"{self.url}/token",
            "device_authorization_endpoint": f"{self.url}/device",
        }


@pytest.fixture
def fake() -> Iterator[FakeIssuer]:
    issuer = FakeIssuer()
    thread = threading.Thread(target=issuer.server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield issuer
    issuer.server.shutdown()
    issuer.server.server_close()


def polled(fake: FakeIssuer) -> tuple[device_login.OidcTokens, list[float]]:
    waits: list[float] = []
    issuer = device_login.discover(fake.url)
    code = device_login.begin(issuer, "cli", "openid")
    tokens = device_login.poll(issuer, "cli", code, sleep=waits.append, now=lambda: 1000.0 + sum(waits))
    return tokens, waits


def test_tokens_come_once_the_user_has_signed_in(fake: FakeIssuer) -> None:
    fake.answers = [(400, {"error": "authorization_pending"}), (400, {"error": "slow_down"}), (200, TOKENS)]
    tokens, waits = polled(fake)
    assert (tokens.access, tokens.refresh) == ("a.b.c", "r1")
    assert tokens.expires == 1000 + sum(waits) + 300 - 30
    assert waits == [5, 5, 10], "slow_down makes the pauses longer"
    assert fake.forms[-1]["device_code"] == ["d"]


def test_a_user_who_refuses_ends_the_command(fake: FakeIssuer) -> None:
    fake.answers = [(400, {"error": "access_denied", "error_description": "Not today"})]
    with pytest.raises(CommandError, match="Not today") as refused:
        polled(fake)
    assert refused.value.code is ExitCode.NOT_SIGNED_IN


def test_a_code_that_nobody_enters_expires(fake: FakeIssuer) -> None:
    fake.answers = [(400, {"error": "authorization_pending"})] * 20
    with pytest.raises(CommandError, match="expired"):
        polled(fake)


def test_a_refresh_keeps_the_token_that_the_issuer_does_not_replace(fake: FakeIssuer) -> None:
    fake.answers = [(200, {"access_token": "d.e.f"})]
    issuer = device_login.discover(fake.url)
    tokens = device_login.refresh(issuer, "cli", "r1", now=lambda: 0)
    assert (tokens.access, tokens.refresh) == ("d.e.f", "r1")
    fake.answers = [(400, {"error": "invalid_grant"}), (503, b"away")]
    with pytest.raises(CommandError, match="tieline login"):
        device_login.refresh(issuer, "cli", "r1")
    with pytest.raises(CommandError) as away:
        device_login.refresh(issuer, "cli", "r1")
    assert away.value.code is ExitCode.UNAVAILABLE


@pytest.mark.parametrize(
    "change",
    [{"issuer": "https://other"}, {"token_endpoint": "http://other.example/token"}, {"token_endpoint": None}],
)
def test_a_configuration_that_leads_elsewhere_is_refused(fake: FakeIssuer, change: dict[str, Any]) -> None:
    fake.configuration |= change
    fake.configuration = {name: value for name, value in fake.configuration.items() if value is not None}
    with pytest.raises(CommandError):
        device_login.discover(fake.url)


def test_an_issuer_without_https_is_refused_unless_it_is_on_this_machine() -> None:
    with pytest.raises(UsageError, match="not HTTPS"):
        device_login.discover("http://login.example")


@pytest.mark.parametrize(
    "answer", [(200, b"no json"), (400, {"error": "unauthorized_client"}), (200, {"user_code": 1})]
)
def test_a_device_endpoint_that_gives_no_code_is_told(fake: FakeIssuer, answer: tuple[int, Any]) -> None:
    fake.device = answer
    with pytest.raises(CommandError, match="gives no code"):
        polled(fake)
