"""OAuth 2.0 on your own machine: tokens are obtained, kept and replaced without a platform."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import aiohttp
import pytest
import yaml
from aiohttp import web
from aiohttp.test_utils import TestServer

from tests.unit.cli.commands import COMMAND, Running, project, tieline
from tests.unit.runtime.external_systems import configured, context, environment, scheme_credential
from tieline import Context, CredentialError
from tieline.configuration.local_tokens import LocalAccessTokens
from tieline.http_client.session import new_client
from tieline.testing import Project

SECRET = "cl1ent-s3cret"


@dataclass
class Provider:
    """A token URL, and a shop that takes the tokens it has issued last."""

    asked: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    lifetime: int | None = 3600
    status: int = 200
    good: set[str] = field(default_factory=set)
    ended: set[str] = field(default_factory=set)
    """Access tokens that can be refreshed."""
    url: str = ""
    more: dict[str, Any] = field(default_factory=dict)
    """What answers have besides."""
    tenants: list[str | None] = field(default_factory=list)
    """The tenants that requests to the shop were for."""

    async def token(self, request: web.Request) -> web.Response:
        form = dict(parse_qsl(await request.text()))
        self.asked.append((request.headers.get("Authorization", ""), form))
        await asyncio.sleep(0.02)
        if self.status != 200:
            return web.json_response({"error": "invalid_client", "said": SECRET}, status=self.status)
        token = f"access-{len(self.asked)}"
        self.good = {token}
        more = {"expires_in": self.lifetime} if self.lifetime else {}
        refresh = (
            {"refresh_token": f"rt-{len(self.asked)}"} if form["grant_type"] != "client_credentials" else {}
        )
        issued = {"access_token": token, "token_type": "bearer", **more, **refresh, **self.more}
        return web.json_response(issued)

    async def refreshed(self, request: web.Request) -> web.Response:
        """In the way of Instagram: a GET request with the access token."""
        self.asked.append(("", dict(request.query)))
        if request.query.get("access_token") not in self.ended:
            return web.json_response({"error": "invalid"}, status=400)
        token = f"access-{len(self.asked)}"
        self.good = {token}
        return web.json_response({"access_token": token, "expires_in": self.lifetime})

    async def shop(self, request: web.Request) -> web.Response:
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        self.tenants.append(request.headers.get("X-Tenant"))
        return web.json_response({"token": token}, status=200 if token in self.good else 401)


@pytest.fixture
async def provider() -> AsyncIterator[Provider]:
    made = Provider()
    application = web.Application()
    application.router.add_post("/token", made.token)
    application.router.add_get("/refresh", made.refreshed)
    application.router.add_get("/orders", made.shop)
    async with TestServer(application) as server:
        made.url = str(server.make_url("")).rstrip("/")
        yield made


@dataclass
class There:
    ctx: Context
    learnt: list[str]
    clock: list[float]

    async def status(self) -> int:
        return (await self.ctx.fetch("shop", "/orders")).status


@pytest.fixture
async def client() -> AsyncIterator[aiohttp.ClientSession]:
    async with new_client() as made:
        yield made


def machine(provider: Provider, **data: str) -> dict[str, Any]:
    options = {
        "tokenUrl": f"{provider.url}/token",
        "grant": {"type": "clientCredentials"},
        "defaultScopes": ["orders"],
    }
    given = {"clientId": "m:1", "clientSecret": SECRET, **data}
    return scheme_credential("oauth2", options, type="oauth2-client", **given)


def connected(client: aiohttp.ClientSession, provider: Provider, credential: dict[str, Any]) -> There:
    configuration = configured(environment(provider.url, credential))
    clock, learnt = [1000.0], list[str]()
    configuration.tokens = LocalAccessTokens(client, learnt.extend, now=lambda: clock[0])
    return There(context(client, configuration), learnt, clock)


async def test_one_token_serves_all_requests_until_shortly_before_its_end(
    client: aiohttp.ClientSession, provider: Provider
) -> None:
    there = connected(client, provider, machine(provider, additionalParams="audience=shop"))
    assert await asyncio.gather(*(there.status() for _ in range(5))) == [200] * 5
    ((authorization, form),) = provider.asked
    assert authorization == aiohttp.encode_basic_auth("m%3A1", SECRET)
    assert form == {"grant_type": "client_credentials", "scope": "orders", "audience": "shop"}
    assert there.learnt == ["access-1"]
    there.clock[0] += 3571
    assert await there.status() == 200
    assert len(provider.asked) == 2


async def test_a_dialect_is_understood_without_a_platform(
    client: aiohttp.ClientSession, provider: Provider
) -> None:
    provider.more = {"team": {"id": "T-1"}, "end": 60_000}
    credential = machine(provider)
    credential["authScheme"]["oauth2"] |= {
        "defaultScopes": ["orders", "stock"],
        "scopeSeparator": ",",
        "clientAuthentication": "body",
        "tokenRequest": {"clientIdParameter": "client_key"},
        "tokenAnswer": {
            "expiresIn": "end",
            "expiresUnit": "milliseconds",
            "keep": [{"path": "team.id", "variable": "tenant"}],
        },
        "token": {"headers": {"X-Tenant": "{tenant}"}},
    }
    there = connected(client, provider, credential)
    assert await there.status() == 200
    assert provider.asked[0][1] == {
        "grant_type": "client_credentials",
        "scope": "orders,stock",
        "client_key": "m:1",
        "client_secret": SECRET,
    }
    assert provider.tenants == ["T-1"]
    there.clock[0] += 31
    assert await there.status() == 200
    assert len(provider.asked) == 2, "it ends after a minute"


async def test_a_token_that_is_rejected_is_replaced(
    client: aiohttp.ClientSession, provider: Provider
) -> None:
    provider.lifetime = None
    there = connected(client, provider, machine(provider))
    assert await there.status() == 200
    provider.good = set()
    assert await there.status() == 401, "one that was just issued is not asked for again at once"
    there.clock[0] += 31
    assert await there.status() == 200
    assert len(provider.asked) == 2


async def test_a_password_and_a_refresh_token_bring_tokens_too(
    client: aiohttp.ClientSession, provider: Provider
) -> None:
    options = {
        "tokenUrl": f"{provider.url}/token",
        "clientAuthentication": "body",
        "grant": {"type": "password", "password": {"clientId": "tieline", "clientSecret": SECRET}},
    }
    person = scheme_credential("oauth2", options, type="oauth2-password", username="ada", password="p4ss")
    assert await connected(client, provider, person).status() == 200
    client_of = {"client_id": "tieline", "client_secret": SECRET}
    assert provider.asked[0][1] == {
        "grant_type": "password",
        "username": "ada",
        "password": "p4ss",
        **client_of,
    }
    kept = scheme_credential("oauth2", options, type="oauth2-token", accessToken="old", refreshToken="rt-0")
    there = connected(client, provider, kept)
    assert await there.status() == 200
    there.clock[0] += 3600
    assert await there.status() == 200
    assert [form["refresh_token"] for _, form in provider.asked[1:]] == ["rt-0", "rt-2"]
    given = connected(
        client, provider, scheme_credential("oauth2", {}, type="oauth2-token", accessToken="access-3")
    )
    assert await given.status() == 200
    provider.good = set()
    assert await given.status() == 401
    assert len(provider.asked) == 3


async def test_an_access_token_that_refreshes_itself_brings_the_next_one(
    client: aiohttp.ClientSession, provider: Provider
) -> None:
    provider.ended = {"old", "access-1"}
    options = {
        "tokenUrl": f"{provider.url}/token",
        "refreshUrl": f"{provider.url}/refresh",
        "refresh": {"token": "accessToken", "tokenParameter": "access_token", "method": "GET"},
    }
    given = scheme_credential("oauth2", options, type="oauth2-token", accessToken="old", clientId="tieline")
    there = connected(client, provider, given)
    assert await there.status() == 200
    there.clock[0] += 3600
    assert await there.status() == 200
    assert [form["access_token"] for _, form in provider.asked] == ["old", "access-1"]


async def test_an_error_names_the_url_that_was_asked_without_its_secrets(
    client: aiohttp.ClientSession, provider: Provider
) -> None:
    secret = provider.url.replace("http://", f"http://id:{SECRET}@")
    options = {"tokenUrl": f"{provider.url}/token", "refreshUrl": f"{secret}/none?key={SECRET}"}
    given = scheme_credential("oauth2", options, type="oauth2-token", refreshToken="rt", clientId="tieline")
    with pytest.raises(
        CredentialError, match=rf"the token URL {provider.url}/none\?\*\*\* gave no"
    ) as raised:
        await connected(client, provider, given).status()
    assert SECRET not in str(raised.value)
    with pytest.raises(CredentialError) as raised:
        await connected(client, provider, machine(provider, tokenUrl="http://127.0.0.1:1")).status()
    assert "retried" not in str(raised.value)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (
            {"status": 401},
            r"the token URL http://\S+/token gave no token: The provider refused \S+ \S+ \(invalid_client\)",
        ),
        ({"status": 500}, "answered 500"),
        ({"url": "http://127.0.0.1:1"}, "The token URL cannot be reached"),
    ],
)
async def test_what_is_wrong_is_told_without_secrets(
    client: aiohttp.ClientSession, provider: Provider, change: dict[str, Any], told: str
) -> None:
    provider.status = change.get("status", 200)
    credential = machine(provider, **({"tokenUrl": change["url"]} if "url" in change else {}))
    with pytest.raises(CredentialError, match=told) as raised:
        await connected(client, provider, credential).status()
    assert SECRET not in str(raised.value)


MAIN = """
from tieline import Context, Integration

integration = Integration()


@integration.webhook("orders", methods=["GET"])
async def orders(ctx: Context) -> dict:
    print("the token is", (await (await ctx.fetch("shop", "/orders")).json())["token"])
    return {"status": (await ctx.fetch("shop", "/orders")).status}


@integration.schedule("nightly", "0 3 * * *")
async def nightly(ctx: Context) -> None:
    (await ctx.fetch("shop", "/orders")).raise_for_status()
"""


def connections(provider: Provider, **data: str) -> str:
    credential = machine(provider, **data)
    credential["data"]["clientSecret"] = "${CLIENT_SECRET}"
    shop = {"baseUrl": provider.url, "credentials": [credential]}
    return yaml.safe_dump({"connections": {"shop": shop}})


async def test_the_commands_obtain_tokens_and_hide_them(
    tmp_path: Path, provider: Provider, client: aiohttp.ClientSession
) -> None:
    folder = project(tmp_path, {"main.py": MAIN, "connections.yaml": connections(provider)})
    async with Running(folder, env={"CLIENT_SECRET": SECRET}) as running:
        url = (await running.said("/orders")).split()[-1]
        async with client.get(url) as response:
            assert await response.json() == {"status": 200}
        await running.said("the token is")
    assert not any("access-1" in line or SECRET in line for line in running.lines)
    once = await asyncio.create_subprocess_exec(
        *COMMAND, "run", str(folder), "--once", "nightly", env=os.environ | {"CLIENT_SECRET": SECRET},
        stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    output, _ = await once.communicate()
    assert once.returncode == 0, output


@pytest.mark.parametrize(
    ("credential", "told"),
    [
        ({"type": "oauth2-client", "data": {"clientId": "m"}}, "it has no tokenUrl and no clientSecret"),
        ({"type": "oauth2-code", "data": {"code": "c"}}, "a user's consent needs the platform"),
        ({"type": "oauth2-client", "data": {"mTLSEnabled": "true"}}, "mutual TLS towards the token URL"),
        ({"type": "oauth2-token", "data": {"accessToken": "at"}}, None),
        ({"data": {"accessToken": "at"}}, None),
    ],
)
def test_check_tells_what_can_never_work(
    tmp_path: Path, credential: dict[str, Any], told: str | None
) -> None:
    shop = {
        "baseUrl": "https://shop.example",
        "credentials": [{**credential, "authScheme": {"type": "oauth2"}}],
    }
    project(tmp_path, {"connections.yaml": yaml.safe_dump({"connections": {"shop": shop}})})
    ended = tieline("check", str(tmp_path), "--no-load", "--format=json")
    messages = [finding["message"] for finding in json.loads(ended.stdout)["findings"]]
    assert (ended.returncode, len(messages)) == ((1, 1) if told else (0, 0)), messages
    assert not told or told in messages[0]


def test_tests_need_no_token_url(tmp_path: Path) -> None:
    folder = project(
        tmp_path, {"main.py": MAIN, "connections.yaml": connections(Provider(url="https://x.example"))}
    )
    with Project(folder) as made:
        made.connection("shop").on("GET", "/orders").answer(json={"token": "at"})
        assert made.get("/orders").json() == {"status": 200}
        assert made.connection("shop").requests[0].headers["Authorization"] == "Bearer test-access-token"
