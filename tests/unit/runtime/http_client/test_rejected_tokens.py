"""A token that the other side no longer takes is replaced, once, and the request is sent again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from tests.unit.runtime.external_systems import configured, context, environment, scheme_credential
from tieline import Context, CredentialError
from tieline.configuration.api_tokens import ApiAccessTokens
from tieline.configuration.current import Configuration
from tieline.configuration.pod_api import PodApi
from tieline.configuration.snapshot import Connection, parse
from tieline.http_client.session import new_client


@dataclass
class Shop:
    """Takes one access token, and answers 401 to all others."""

    good: str = "at-2"
    seen: list[tuple[str, str, bytes]] = field(default_factory=list)
    rejection: tuple[int, Any] = (401, {})
    media_type: str = "application/json"

    async def handle(self, request: web.Request) -> web.Response:
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        self.seen.append((token, request.method, await request.read()))
        if request.path == "/moved":
            raise web.HTTPTemporaryRedirect("/orders")
        status, answer = (200, {}) if token == self.good else self.rejection
        return web.json_response(answer, status=status, content_type=self.media_type)


@dataclass
class Api:
    """Answers as the internal endpoint does."""

    token: str = "at-2"
    status: int = 200
    asked: list[tuple[str, Any]] = field(default_factory=list)

    async def handle(self, request: web.Request) -> web.Response:
        assert request.headers["Authorization"] == "Bearer pod-token"
        self.asked.append((request.path, await request.json()))
        await asyncio.sleep(0.05)
        if self.status != 200:
            return web.json_response({"code": "x", "message": "The provider says no"}, status=self.status)
        return web.json_response({"accessToken": self.token, "tokenType": "Bearer"})


@dataclass
class There:
    shop: Shop
    api: Api
    ctx: Context
    tokens: ApiAccessTokens
    learnt: list[str]
    now: list[float]
    configuration: Configuration
    url: str


@pytest.fixture
async def there(tmp_path: Path) -> AsyncIterator[There]:
    shop, api, servers = Shop(), Api(), []
    for handle in (shop.handle, api.handle):
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", handle)
        servers.append(TestServer(application))
        await servers[-1].start_server()
    urls = [str(server.make_url("")).rstrip("/") for server in servers]
    (tmp_path / "token").write_text("pod-token\n")
    credential = scheme_credential("oauth2", {}, type="oauth2-token", accessToken="at-1")
    configuration = configured(environment(urls[0], credential))
    learnt: list[str] = []
    now = [0.0]
    async with new_client() as client:
        tokens = ApiAccessTokens(PodApi(client, urls[1], tmp_path / "token"), learnt.extend, lambda: now[0])
        configuration.tokens = tokens
        yield There(shop, api, context(client, configuration), tokens, learnt, now, configuration, urls[0])
    for server in servers:
        await server.close()


async def test_a_rejected_token_is_replaced_and_the_request_repeated(there: There) -> None:
    answer = await there.ctx.fetch("shop", "/orders", method="POST", json={"a": 1})
    assert answer.status == 200
    assert there.shop.seen == [("at-1", "POST", b'{"a": 1}'), ("at-2", "POST", b'{"a": 1}')]
    path = "/internal/v1/connections/01CONNECTION/credentials/oauth2/token"
    assert there.api.asked == [(path, {"rejected": "at-1", "baseUrl": there.url})]
    assert there.learnt == ["at-2"]


@pytest.mark.parametrize("known", [{"accessToken": "at-1"}, {}])
async def test_a_token_past_its_end_is_replaced_before_it_is_sent(
    there: There, known: dict[str, str]
) -> None:
    """The platform hands out none that has ended; one that ends while a pod has it is not sent either."""
    ended = (datetime.now(UTC) - timedelta(seconds=1)).isoformat()
    credential = scheme_credential("oauth2", {}, type="oauth2-token", expiresAt=ended, **known)
    there.configuration.publish(parse(environment(there.url, credential)))
    for _ in range(2):
        assert (await there.ctx.fetch("shop", "/orders")).status == 200
    assert [token for token, *_ in there.shop.seen] == ["at-2", "at-2"]
    assert [body for _, body in there.api.asked] == [
        {"rejected": known.get("accessToken", ""), "baseUrl": there.url}
    ]


async def test_a_token_of_one_base_url_is_never_sent_to_another(there: There) -> None:
    """The connection has moved to another tenant: what was fetched for the old one is not its token."""
    ended = (datetime.now(UTC) - timedelta(seconds=1)).isoformat()
    credential = scheme_credential("oauth2", {}, type="oauth2-token", expiresAt=ended)
    there.configuration.publish(parse(environment(there.url, credential)))
    assert (await there.ctx.fetch("shop", "/orders")).status == 200
    there.configuration.publish(parse(environment(f"{there.url}/moved", credential)))
    await there.ctx.fetch("shop", "/orders")
    assert [body["baseUrl"] for _, body in there.api.asked] == [there.url, f"{there.url}/moved"]


async def test_a_token_that_the_platform_withholds_is_asked_for(there: There) -> None:
    """Its clock may be ahead, so that the end is still to come here."""
    end = (datetime.now(UTC) + timedelta(seconds=60)).isoformat()
    credential = scheme_credential("oauth2", {}, type="oauth2-token", expiresAt=end)
    there.configuration.publish(parse(environment(there.url, credential)))
    for _ in range(2):
        assert (await there.ctx.fetch("shop", "/orders")).status == 200
    assert [body for _, body in there.api.asked] == [{"rejected": "", "baseUrl": there.url}]


async def test_the_new_token_is_used_from_then_on(there: There) -> None:
    for _ in range(3):
        await there.ctx.fetch("shop", "/orders")
    assert [token for token, *_ in there.shop.seen] == ["at-1", "at-2", "at-2", "at-2"]
    assert len(there.api.asked) == 1


async def test_fifty_calls_ask_once(there: There) -> None:
    answers = await asyncio.gather(*(there.ctx.fetch("shop", "/orders") for _ in range(50)))
    assert {answer.status for answer in answers} == {200}
    assert len(there.api.asked) == 1


async def test_a_request_is_repeated_at_most_once(there: There) -> None:
    there.shop.good = "at-3"
    assert (await there.ctx.fetch("shop", "/orders")).status == 401
    assert [token for token, *_ in there.shop.seen] == ["at-1", "at-2"]


async def test_the_same_token_again_is_not_sent_again(there: There) -> None:
    there.api.token = "at-1"
    for _ in range(3):
        assert (await there.ctx.fetch("shop", "/orders")).status == 401
    assert len(there.shop.seen) == 3
    assert len(there.api.asked) == 1
    there.now[0] += 31
    await there.ctx.fetch("shop", "/orders")
    assert len(there.api.asked) == 2


@pytest.mark.parametrize("status", [404, 409, 503])
async def test_without_another_token_the_401_is_the_answer(there: There, status: int) -> None:
    there.api.status = status
    assert (await there.ctx.fetch("shop", "/orders")).status == 401
    assert len(there.shop.seen) == 1


async def test_a_body_that_is_gone_is_not_sent_again(there: There) -> None:
    async def parts() -> AsyncIterator[bytes]:
        yield b"once"

    answer = await there.ctx.fetch("shop", "/orders", method="PUT", data=parts())
    assert answer.status == 401
    assert len(there.shop.seen) == 1


async def test_a_form_and_a_redirect_keep_their_body(there: There) -> None:
    answer = await there.ctx.fetch("shop", "/moved", method="POST", data={"a": "1"})
    assert answer.status == 200
    assert there.shop.seen == [("at-1", "POST", b"a=1"), ("at-1", "POST", b"a=1"), ("at-2", "POST", b"a=1")]


async def test_an_expired_credential_is_used_no_more() -> None:
    expires = (datetime.now(UTC) - timedelta(seconds=1)).isoformat()
    credential = scheme_credential("api-key", {"name": "X-Key", "in": "header"}, value="hush")
    configuration = configured(environment("http://127.0.0.1:9", {**credential, "expiresAt": expires}))
    async with aiohttp.ClientSession() as client:
        with pytest.raises(CredentialError, match="expired"):
            await context(client, configuration).fetch("shop", "/orders")


@dataclass
class Outcomes:
    """Keeps what is reported."""

    seen: list[tuple[int, str]] = field(default_factory=list)

    def answered(self, _connection: Connection, status: int, said: str = "") -> None:
        self.seen.append((status, said))


REJECTIONS = {
    "expired": [{"status": 403, "path": "error.code", "equals": "token_expired"}],
    "revoked": [
        {"status": 200, "path": "error", "in": ["token_revoked", "invalid_auth"]},
        {"status": 410},
    ],
}


@pytest.mark.parametrize(
    ("rejections", "status", "answer", "requests", "reported"),
    [
        (REJECTIONS, 403, {"error": {"code": "token_expired"}}, 2, [200]),
        (REJECTIONS, 403, {"error": {"code": "too_fast"}}, 1, [403]),
        (REJECTIONS, 403, ["odd"], 1, [403]),
        (REJECTIONS, 401, {}, 1, [401]),
        (REJECTIONS, 200, {"ok": False, "error": "token_revoked"}, 1, [401]),
        (REJECTIONS, 200, {"ok": False, "error": "no_channel"}, 1, [200]),
        (REJECTIONS, 410, {}, 1, [401]),
        ({"revoked": [{"status": 400}]}, 401, {}, 2, [200]),
        ({}, 200, {"ok": False, "error": "token_revoked"}, 1, [200]),
    ],
)
async def test_the_scheme_says_which_answers_reject_a_token(
    there: There, rejections: Any, status: int, answer: Any, requests: int, reported: list[int]
) -> None:
    there.shop.rejection = (status, answer)
    credential = scheme_credential(
        "oauth2", {"rejections": rejections}, type="oauth2-token", accessToken="at-1", variables={"v": "1"}
    )
    there.configuration.publish(parse(environment(there.url, credential)))
    there.configuration.outcomes = outcomes = Outcomes()
    response = await there.ctx.fetch("shop", "/orders")
    assert len(there.shop.seen) == requests
    assert [status for status, _ in outcomes.seen] == reported
    assert response.status == (200 if requests == 2 else status)
    if requests == 1:
        assert await response.json() == answer
    if reported == [401] and status != 401 and answer:
        assert "token_revoked" in outcomes.seen[0][1]


async def test_a_long_answer_is_not_waited_for(there: There) -> None:
    there.shop.rejection = (200, ["x" * 1000] * 2000)
    credential = scheme_credential(
        "oauth2", {"rejections": REJECTIONS}, type="oauth2-token", accessToken="at-1"
    )
    there.configuration.publish(parse(environment(there.url, credential)))
    response = await there.ctx.fetch("shop", "/orders")
    assert len(await response.json()) == 2000


async def test_only_a_declared_json_body_is_looked_at(there: There) -> None:
    there.shop.rejection = (200, {"ok": False, "error": "token_revoked"})
    credential = scheme_credential(
        "oauth2", {"rejections": REJECTIONS}, type="oauth2-token", accessToken="at-1"
    )
    there.configuration.publish(parse(environment(there.url, credential)))
    there.configuration.outcomes = outcomes = Outcomes()
    for media_type, reported in (("application/jsonlines", 200), ("application/vnd.shop+json", 401)):
        there.shop.media_type = media_type
        await there.ctx.fetch("shop", "/orders")
        assert outcomes.seen[-1][0] == reported
