"""Token requests as providers see them, and what becomes of every kind of answer."""

from base64 import b64decode, b64encode
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote_plus

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from tieline_core.oauth import token_secret_codec
from tieline_core.oauth.endpoint_urls import url_problem
from tieline_protocol.egress import Egress
from tieline_protocol.oauth.token_client import (
    Endpoint,
    MisconfiguredError,
    RefusedError,
    TokenClient,
    TokenError,
    UnreachableError,
    client_certificate,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SECRET = "s3cr:et ä"
OPEN = Egress.parse(allowed=["127.0.0.0/8"])


class Provider:
    """Answers what it is told to, and keeps what it was asked."""

    def __init__(self) -> None:
        self.answer: dict[str, Any] = {"json_": {"access_token": "at", "token_type": "Bearer"}}
        self.asked: list[tuple[str, dict[str, str], str | None]] = []
        self.url = ""

    async def handle(self, request: web.Request) -> web.Response:
        header = request.headers.get("Authorization")
        auth = b64decode(header.removeprefix("Basic ")).decode() if header else None
        form = {name: str(value) for name, value in (await request.post()).items()}
        self.asked.append((request.path, form, auth))
        answer = dict(self.answer)
        if "json_" in answer:
            return web.json_response(answer.pop("json_"), **answer)
        return web.Response(**answer)


@pytest.fixture
async def provider() -> AsyncIterator[Provider]:
    found = Provider()
    app = web.Application()
    app.router.add_post("/{tail:.*}", found.handle)
    async with TestServer(app) as server:
        found.url = str(server.make_url("")).rstrip("/")
        yield found


@pytest.fixture
def client(session: aiohttp.ClientSession) -> TokenClient:
    return TokenClient(session, timeout=5, now=lambda: NOW)


def endpoint(provider: Provider, **changes: Any) -> Endpoint:
    given = {"token_url": f"{provider.url}/token", "client_id": "me", "client_secret": SECRET}
    return Endpoint(**{**given, **changes})


async def test_a_code_is_exchanged_with_its_verifier(provider: Provider, client: TokenClient) -> None:
    provider.answer = {
        "json_": {"access_token": "at", "refresh_token": "rt", "expires_in": 60, "scope": "a b"}
    }
    tokens = await client.exchange(
        endpoint(provider), code="c&1", redirect_uri="https://us.example/cb", verifier="v" * 43
    )
    [(_, form, auth)] = provider.asked
    assert form == {
        "grant_type": "authorization_code",
        "code": "c&1",
        "redirect_uri": "https://us.example/cb",
        "code_verifier": "v" * 43,
    }
    assert auth == "me:s3cr%3Aet+%C3%A4"
    assert (tokens.refresh_token, tokens.scopes) == ("rt", ("a", "b"))
    assert tokens.expires_at == NOW + timedelta(seconds=60)


async def test_a_client_can_authenticate_in_the_body(provider: Provider, client: TokenClient) -> None:
    asked = endpoint(provider, authentication="body", additional_params="audience=x+y&grant_type=evil")
    tokens = await client.client_credentials(asked, scopes=["a", "b"])
    [(_, form, auth)] = provider.asked
    assert auth is None
    assert form == {
        "grant_type": "client_credentials",
        "scope": "a b",
        "client_id": "me",
        "client_secret": SECRET,
        "audience": "x y",
    }
    assert tokens.expires_at is None
    assert tokens.scopes == ("a", "b")


async def test_a_password_is_sent_as_it_is(provider: Provider, client: TokenClient) -> None:
    await client.password(endpoint(provider), username="u", password="p&=ä")
    assert provider.asked[0][1] == {"grant_type": "password", "username": "u", "password": "p&=ä"}


async def test_a_refresh_keeps_the_token_that_no_answer_replaces(
    provider: Provider, client: TokenClient
) -> None:
    asked = endpoint(provider, refresh_url=f"{provider.url}/refresh")
    tokens = await client.refresh(asked, refresh_token="old", scopes=["a"])
    path, form, _ = provider.asked[0]
    assert (path, form) == ("/refresh", {"grant_type": "refresh_token", "refresh_token": "old"})
    assert (tokens.refresh_token, tokens.scopes) == ("old", ("a",))


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ({"status": 400, "json_": {"error": "invalid_grant"}}, RefusedError),
        ({"status": 401, "json_": {"error": "invalid_client"}}, RefusedError),
        ({"status": 401, "text": "no"}, RefusedError),
        ({"status": 200, "json_": {"error": "bad_verification_code"}}, RefusedError),
        ({"status": 200, "json_": {"ok": False, "error": "token_revoked"}}, RefusedError),
        ({"status": 400, "json_": {"error": {"code": 190, "message": "revoked"}}}, RefusedError),
        ({"status": 403, "json_": {"error": "token_expired"}}, RefusedError),
        ({"status": 400, "json_": {"code": "revoked", "message": "Connect again"}}, RefusedError),
        ({"status": 403, "text": "The token was revoked"}, RefusedError),
        ({"status": 400, "text": ""}, RefusedError),
        ({"status": 400, "text": "<html>Bad Request</html>"}, MisconfiguredError),
        ({"status": 404, "json_": {"error": "Not Found"}}, MisconfiguredError),
        ({"status": 405, "json_": {"error": "Method Not Allowed"}}, MisconfiguredError),
        ({"status": 500, "json_": {"error": "invalid_grant"}}, UnreachableError),
        ({"status": 503, "text": "away"}, UnreachableError),
        ({"status": 429, "json_": {"error": "invalid_grant"}}, UnreachableError),
        ({"status": 400, "json_": {"error": "temporarily_unavailable"}}, UnreachableError),
        ({"status": 302, "headers": {"Location": "http://127.0.0.1/"}}, MisconfiguredError),
        ({"status": 404, "text": "what?"}, MisconfiguredError),
        ({"status": 403, "text": "<html>firewall</html>"}, MisconfiguredError),
        ({"status": 200, "text": "<html>welcome</html>"}, MisconfiguredError),
        ({"status": 200, "json_": ["odd"]}, MisconfiguredError),
        ({"status": 200, "body": b"\xff\xfe"}, MisconfiguredError),
        ({"status": 200, "json_": {"access_token": {"odd": 1}}}, MisconfiguredError),
        ({"status": 200, "json_": {"access_token": "two\r\nlines"}}, MisconfiguredError),
        ({"status": 200, "json_": {"access_token": "\ud800"}}, MisconfiguredError),
        ({"status": 200, "text": "[" * 100_000}, MisconfiguredError),
    ],
)
async def test_only_a_refusal_is_reported_as_bad_credentials(
    provider: Provider, client: TokenClient, answer: dict[str, Any], error: type[TokenError]
) -> None:
    provider.answer = answer
    with pytest.raises(TokenError) as caught:
        await client.refresh(endpoint(provider), refresh_token="old")
    assert type(caught.value) is error
    assert len(provider.asked) == 1


async def test_an_answer_that_begins_with_a_byte_order_mark_is_read(
    provider: Provider, client: TokenClient
) -> None:
    provider.answer = {"body": b'\xef\xbb\xbf{"access_token": "at"}'}
    assert (await client.refresh(endpoint(provider), refresh_token="old")).access_token == "at"
    provider.answer = {"status": 400, "body": b'\xef\xbb\xbf{"error": "invalid_grant"}'}
    with pytest.raises(RefusedError):
        await client.refresh(endpoint(provider), refresh_token="old")


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ({"status": 400, "json_": {"message": "Bad Request"}}, MisconfiguredError),
        ({"status": 403, "text": "no"}, MisconfiguredError),
        ({"status": 400, "json_": {"error": "client_revoked"}}, RefusedError),
    ],
)
async def test_a_first_request_is_refused_by_an_error_alone(
    provider: Provider, client: TokenClient, answer: dict[str, Any], error: type[TokenError]
) -> None:
    provider.answer = answer
    with pytest.raises(TokenError) as caught:
        await client.client_credentials(endpoint(provider))
    assert type(caught.value) is error


@pytest.mark.parametrize("lifetime", [10**400, float("inf"), -1, 10**12, True, "", None])
async def test_a_lifetime_that_is_none_does_not_undo_an_answer(
    provider: Provider, client: TokenClient, lifetime: Any
) -> None:
    provider.answer = {"json_": {"access_token": "at", "expires_in": lifetime, "refresh_token": {"odd": 1}}}
    tokens = await client.refresh(endpoint(provider), refresh_token="old")
    assert (tokens.access_token, tokens.refresh_token) == ("at", "old")
    assert tokens.expires_at in (None, NOW + timedelta(seconds=1))


@pytest.mark.parametrize(
    ("header", "seconds"),
    [("7", 7), ("31536000", 3600), ("never", None)],
    ids=["soon", "a year", "no number"],
)
async def test_a_provider_that_is_busy_says_when_to_ask_again_and_is_left_alone_for_an_hour_at_most(
    provider: Provider, client: TokenClient, header: str, seconds: float | None
) -> None:
    provider.answer = {"status": 429, "headers": {"Retry-After": header}}
    with pytest.raises(UnreachableError) as caught:
        await client.refresh(endpoint(provider), refresh_token="old")
    assert caught.value.retry_after == seconds


async def test_a_closed_port_is_no_refusal(client: TokenClient) -> None:
    asked = Endpoint(token_url="http://127.0.0.1:1/token", client_id="me")
    with pytest.raises(UnreachableError):
        await client.refresh(asked, refresh_token="old")


@pytest.mark.parametrize(
    "host", ["a..b", "a" * 64 + ".example", "ü" * 64, "[::1", "a.example:99999", "127.1", "x" * 300]
)
async def test_a_url_with_a_host_that_cannot_be_one_is_told_and_not_tried_again(
    client: TokenClient, host: str
) -> None:
    asked = Endpoint(token_url=f"http://{host}/token", client_id="me")
    with pytest.raises(MisconfiguredError):
        await client.refresh(asked, refresh_token="old")
    assert url_problem(asked.token_url) or host == "127.1"


async def test_a_provider_inside_the_cluster_is_not_asked(provider: Provider) -> None:
    async with aiohttp.ClientSession(connector=Egress().connector()) as session:
        with pytest.raises(MisconfiguredError):
            await TokenClient(session).refresh(endpoint(provider), refresh_token="old")
    assert provider.asked == []


BASIC = b64encode(b"me:s3cr%3Aet+%C3%A4").decode()


@pytest.mark.parametrize(
    ("echoed", "kept"),
    [
        ("orders items:read", ("orders", "items:read")),
        (f"orders {SECRET}", ("asked",)),
        (f"orders client_secret={quote_plus(SECRET)} refresh_token=old-refresh-token", ("orders",)),
        ("orders old-refresh-token new-access-token new-refresh-token", ("orders",)),
        (f"orders {BASIC} Basic", ("orders", "Basic")),
        ("orders old-refresh-tok", ("orders", "old-refresh-tok")),
        ("orders a-very-long-client-assertion", ("orders",)),
        ("orders eyJhbGciOiJIUzI1NiJ9.eyJzdWI", ("orders",)),
        (["orders", "items read", "old-refresh-token"], ("orders", "items", "read")),
        ('orders say"so\\ ünder \x07 \ud800', ("orders",)),
        (None, ("asked",)),
        ("", ("asked",)),
        (" ".join(f"scope{n}" for n in range(600)), tuple(f"scope{n}" for n in range(512))),
        ("x" * 257, ("asked",)),
    ],
    ids=lambda value: str(value)[:30],
)
async def test_scopes_of_an_answer_show_no_secret_and_nothing_that_is_no_scope(
    provider: Provider, client: TokenClient, echoed: Any, kept: tuple[str, ...]
) -> None:
    provider.answer = {
        "json_": {
            "access_token": "new-access-token",
            "refresh_token": "new-refresh-token",
            "id_token": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJtZSJ9.c2ln",
            "scope": echoed,
            "token_type": "new-access-token",
        }
    }
    asked = endpoint(
        provider, additional_params="client_assertion=a-very-long-client-assertion&audience=orders"
    )
    tokens = await client.refresh(
        asked, refresh_token="old-refresh-token", scopes=["asked", "new-access-token"]
    )
    assert tokens.scopes == kept
    assert tokens.token_type == "Bearer"


@pytest.mark.parametrize(
    ("shown", "kept"),
    [
        ("bearer", "Bearer"),
        ("DPoP", "DPoP"),
        ("Bearer\r\nX-Other: 1", "Bearer"),
        ({"odd": 1}, "Bearer"),
        (None, "Bearer"),
    ],
)
async def test_the_type_of_a_token_is_a_word(
    provider: Provider, client: TokenClient, shown: Any, kept: str
) -> None:
    provider.answer = {"json_": {"access_token": "at", "token_type": shown}}
    assert (await client.client_credentials(endpoint(provider))).token_type == kept


def test_what_was_stored_shows_no_token_either() -> None:
    values = {
        "accessToken": "at-of-the-user",
        "refreshToken": "rt-of-the-user",
        "scopes": "orders at-of-the-user refresh_token=rt-of-the-user",
        "tokenType": "rt-of-the-user",
    }
    tokens = token_secret_codec.from_values(values, issued_at=NOW)
    assert (tokens.scopes, tokens.token_type) == (("orders",), "Bearer")
    assert tokens.access_token == "at-of-the-user"


async def test_no_secret_is_in_an_error_or_a_representation(provider: Provider, client: TokenClient) -> None:
    asked = endpoint(provider)
    provider.answer = {
        "status": 400,
        "json_": {"error": "invalid_grant", "error_description": f"old-rt and {SECRET} are wrong"},
    }
    with pytest.raises(RefusedError) as caught:
        await client.refresh(asked, refresh_token="old-rt")
    provider.answer = {"json_": {"access_token": "new-at", "refresh_token": "new-rt"}}
    tokens = await client.refresh(asked, refresh_token="old-rt")
    shown = f"{caught.value!r} {caught.value.__cause__!r} {asked!r} {tokens!r}"
    assert not any(value in shown for value in (SECRET, "old-rt", "new-at", "new-rt"))


def test_a_certificate_that_does_not_fit_is_told_without_quoting_it() -> None:
    with pytest.raises(MisconfiguredError) as caught:
        client_certificate(certificate="hush", key="hush")
    assert "hush" not in str(caught.value)
