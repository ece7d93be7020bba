"""Signing in on another device (RFC 8628), against a small issuer that answers as the test says."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any
from urllib.parse import parse_qs

import pytest

from tieline.cli.exit_codes import CommandError, ExitCode, UsageError
from tieline.cli.remote import device_login
from tieline.cli.remote.contexts import OidcToken

TOKENS = {"access_token": "a.b.c", "id_token": "i.d.t", "refresh_token": "r1", "expires_in": 300}


def jwt(**claims: object) -> str:
    """A token with these claims; nobody here looks at its signature."""
    return f"e30.{base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip('=')}.c2ln"


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


def polled(fake: FakeIssuer, wanted: OidcToken = "id") -> tuple[device_login.OidcTokens, list[float]]:
    waits: list[float] = []
    issuer = device_login.discover(fake.url)
    code = device_login.begin(issuer, "cli", "openid")
    tokens = device_login.poll(
        issuer, "cli", code, wanted=wanted, sleep=waits.append, now=lambda: 1000.0 + sum(waits)
    )
    return tokens, waits


def test_tokens_come_once_the_user_has_signed_in(fake: FakeIssuer) -> None:
    fake.answers = [(400, {"error": "authorization_pending"}), (400, {"error": "slow_down"}), (200, TOKENS)]
    tokens, waits = polled(fake)
    assert (tokens.token, tokens.refresh) == ("i.d.t", "r1")
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
    fake.answers = [(200, {"id_token": "d.e.f", "refresh_token": None})]
    issuer = device_login.discover(fake.url)
    tokens = device_login.refresh(issuer, "cli", "r1", now=lambda: 0)
    assert (tokens.token, tokens.refresh) == ("d.e.f", "r1")
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
def test_a_device_endpoint_that_gives_no_code_is_reported(fake: FakeIssuer, answer: tuple[int, Any]) -> None:
    fake.device = answer
    with pytest.raises(CommandError, match="gives no code"):
        polled(fake)


def test_the_api_is_called_with_the_id_token_or_the_access_token(fake: FakeIssuer) -> None:
    token = jwt(iat=10, exp=910)
    fake.answers = [(200, TOKENS | {"id_token": token}), (200, TOKENS), (200, {"access_token": "a.b.c"})]
    tokens, waits = polled(fake)
    assert (tokens.token, tokens.expires) == (token, 1000 + sum(waits) + 900 - 30), (
        "it says how long it is good"
    )
    tokens, waits = polled(fake, "access")
    assert (tokens.token, tokens.expires) == ("a.b.c", 1000 + sum(waits) + 300 - 30)
    with pytest.raises(CommandError, match="without an ID token; ask for the scope openid"):
        polled(fake)


def test_a_code_that_the_issuer_calls_expired_asks_for_another_sign_in(fake: FakeIssuer) -> None:
    fake.answers = [(400, {"error": "expired_token", "error_description": "Device code is expired"})]
    with pytest.raises(CommandError, match="run `tieline login` again") as refused:
        polled(fake)
    assert refused.value.code is ExitCode.NOT_SIGNED_IN


def test_an_issuer_that_is_away_while_the_user_signs_in_is_asked_again(fake: FakeIssuer) -> None:
    fake.answers = [(502, b"<html>"), (503, b""), (200, TOKENS)]
    tokens, waits = polled(fake)
    assert (tokens.token, waits) == ("i.d.t", [5, 10, 20])
    fake.answers = [(502, b"<html>")] * 20
    with pytest.raises(CommandError, match="HTTP 502") as away:
        polled(fake)
    assert away.value.code is ExitCode.UNAVAILABLE


@pytest.mark.parametrize("interval", [0, -5, 1e-9, "nan", 1e9, None])
def test_an_issuer_is_not_asked_all_the_time_whatever_it_says(fake: FakeIssuer, interval: object) -> None:
    fake.device[1]["interval"] = interval
    fake.device[1]["expires_in"] = 90
    fake.answers = [(400, {"error": "authorization_pending"}), (200, TOKENS)] * 2
    if interval in ("nan", None):
        with pytest.raises(CommandError, match="gives no code"):
            polled(fake)
        return
    if interval == 1e9:
        with pytest.raises(CommandError, match="expired"):
            polled(fake)
        return
    assert polled(fake)[1] == [1, 1]


def test_a_refresh_token_is_revoked_where_the_issuer_offers_it(fake: FakeIssuer) -> None:
    assert device_login.revoke(device_login.discover(fake.url), "cli", "r1") is False
    fake.configuration["revocation_endpoint"] = f"{fake.url}/revoke"
    fake.answers = [(200, b"")]
    assert device_login.revoke(device_login.discover(fake.url), "cli", "r1") is True
    assert fake.forms == [{"token": ["r1"], "token_type_hint": ["refresh_token"], "client_id": ["cli"]}]
