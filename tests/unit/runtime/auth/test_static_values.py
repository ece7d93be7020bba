"""What a connection's credentials put into requests."""

import base64
from copy import deepcopy
from typing import Any

import aiohttp
import pytest

from tests.unit.runtime.external_systems import (
    ContextFor,
    External,
    api_key,
    basic,
    configured,
    context,
    environment,
)
from tieline import CredentialError, UnsupportedAuthSchemeError
from tieline.configuration.snapshot import parse


async def test_an_api_key_is_sent_in_its_header(external: External, context_for: ContextFor) -> None:
    response = await context_for(environment(external.url, api_key("header"))).fetch("shop", "/orders")
    assert await response.json() == {"id": "1"}
    assert external.last.headers["X-API-Key"] == "key-1234"


@pytest.mark.parametrize("entered", ["key-1234", "Bearer key-1234"])
async def test_an_api_key_is_sent_behind_its_prefix(
    external: External, context_for: ContextFor, entered: str
) -> None:
    credential = api_key("header", entered, name="Authorization")
    credential["authScheme"]["apiKey"]["prefix"] = "Bearer "
    await context_for(environment(external.url, credential)).fetch("shop", "/orders")
    assert external.last.headers["Authorization"] == "Bearer key-1234"


@pytest.mark.parametrize(("credential", "scheme"), [(api_key("header"), "apiKey"), (basic(), "basicAuth")])
async def test_headers_of_the_scheme_go_with_each_request(
    external: External, context_for: ContextFor, credential: dict[str, Any], scheme: str
) -> None:
    credential = deepcopy(credential)
    sub_object = credential["authScheme"].setdefault(scheme, {})
    sub_object["headers"] = {"Api-Version": "2022-06-28", "Accept": "application/vnd.shop+json"}
    ctx = context_for(environment(external.url, credential))
    await ctx.fetch("shop", "/orders")
    assert external.last.headers["Api-Version"] == "2022-06-28"
    await ctx.fetch("shop", "/orders", headers={"api-version": "2025-09-03"})
    assert external.last.headers.getall("Api-Version") == ["2025-09-03"]
    assert external.last.headers.getall("Accept") == ["application/vnd.shop+json"]


async def test_an_api_key_in_the_query_leaves_the_rest_of_the_query_as_written(
    external: External, context_for: ContextFor
) -> None:
    ctx = context_for(
        environment(f"{external.url}/v2?tenant=a%2Fb", api_key("query", "k/ey &=1", name="key"))
    )
    await ctx.fetch("shop", "/orders?filter=a+b%3A&key=forged", params={"page": "2"})
    assert external.last.url.raw_path == "/v2/orders"
    query = external.last.url.raw_query_string
    assert query.startswith("tenant=a%2Fb&filter=a+b%3A&")
    assert query.endswith("page=2&key=k%2Fey%20%26%3D1")
    assert external.last.url.query.getall("key") == ["k/ey &=1"]


async def test_an_api_key_is_sent_as_a_cookie_beside_others(
    external: External, context_for: ContextFor
) -> None:
    ctx = context_for(environment(external.url, api_key("cookie", "abc=+/", name="token")))
    await ctx.fetch("shop", "/orders", cookies={"lang": "en", "token": "mine"})
    assert external.last.cookies == {"lang": "en", "token": "abc=+/"}


async def test_basic_authentication_is_sent_in_utf_8(external: External, context_for: ContextFor) -> None:
    await context_for(environment(external.url, basic())).fetch("shop", "/orders")
    scheme, token = external.last.headers["Authorization"].split()
    assert (scheme, base64.b64decode(token).decode()) == ("Basic", "ann:pa55wörd")


async def test_a_connection_without_authentication_sends_nothing(
    external: External, context_for: ContextFor
) -> None:
    nothing = {"id": "n", "type": "none", "authScheme": {"id": "n", "type": "none"}, "data": {}}
    await context_for(environment(external.url, nothing)).fetch("shop", "/orders")
    assert not {"Authorization", "Cookie", "X-API-Key"} & set(external.last.headers)


async def test_several_credentials_are_applied_and_of_two_for_one_place_the_later_holds(
    external: External, context_for: ContextFor
) -> None:
    first, second = api_key("header", "first-key", id="a"), api_key("header", "second-key", id="b")
    ctx = context_for(environment(external.url, first, basic(), second))
    await ctx.fetch("shop", "/orders", headers={"X-API-Key": "by-hand"})
    assert external.last.headers.getall("X-API-Key") == ["second-key"]
    assert external.last.headers["Authorization"].startswith("Basic ")


async def test_a_scheme_that_is_not_known_is_an_error_and_nothing_is_sent(
    external: External, context_for: ContextFor
) -> None:
    scheme = "of-tomorrow"
    credential = {
        "id": "c",
        "type": "string",
        "authScheme": {"id": "c", "type": scheme},
        "data": {"value": "x"},
    }
    with pytest.raises(UnsupportedAuthSchemeError, match=f"'shop'.*'{scheme}'"):
        await context_for(environment(external.url, api_key("header"), credential)).fetch("shop", "/orders")
    assert external.seen == []


@pytest.mark.parametrize(
    ("credential", "problem"),
    [
        (api_key("header", "key-with-newline\n"), "line break"),
        (api_key("cookie", "a;b"), "cookie"),
        (api_key("body"), "not header, query or cookie"),
        (basic("a:b"), "colon"),
        ({**api_key("header"), "data": {}}, "'value'"),
        ({**api_key("header"), "data": {"valueBase64": "/w=="}}, "binary"),
    ],
)
async def test_a_credential_that_cannot_be_used_is_named_without_its_value(
    external: External, context_for: ContextFor, credential: dict[str, object], problem: str
) -> None:
    with pytest.raises(CredentialError, match=problem) as failure:
        await context_for(environment(external.url, credential)).fetch("shop", "/orders")
    assert "key-with-newline" not in str(failure.value)
    assert external.seen == []


async def test_a_long_lived_session_uses_the_newest_credentials(
    external: External, client: aiohttp.ClientSession
) -> None:
    configuration = configured(environment(external.url, api_key("header", "old-key")))
    session = context(client, configuration).session("shop")
    async with session.get("/orders"):
        assert external.last.headers["X-API-Key"] == "old-key"
    configuration.publish(parse(environment(external.url, api_key("header", "new-key"))))
    async with session.get("/orders"):
        assert external.last.headers["X-API-Key"] == "new-key"


async def test_cookies_of_answers_are_not_carried_into_later_requests(
    external: External, context_for: ContextFor
) -> None:
    ctx = context_for(environment(external.url))
    await ctx.fetch("shop", "/login")
    await ctx.fetch("shop", "/orders")
    assert external.last.cookies == {}


async def test_binary_bodies_arrive_byte_by_byte(external: External, context_for: ContextFor) -> None:
    body = bytes(range(256)) * 300
    ctx = context_for(environment(external.url, api_key("header")))
    await ctx.fetch("shop", "/files", method="PUT", data=body)
    assert (external.last.method, external.last.body) == ("PUT", body)
