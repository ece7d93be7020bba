"""Dialects of providers, field by field: what each changes, and what it must not change."""

import base64
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from hypothesis import given
from hypothesis import strategies as st

from tieline_core.credentials.tenants import Tenant
from tieline_core.resources.auth_schemes import OAuth2
from tieline_protocol.oauth.dialect import Dialect
from tieline_protocol.oauth.kept import Hosts, KeepRule, Kept, UnkeepableError, collect
from tieline_protocol.oauth.token_answers import RawAnswer, read
from tieline_protocol.oauth.token_client import (
    Endpoint,
    RefusedError,
    TokenClient,
    TokenError,
    UnreachableError,
)
from tieline_protocol.oauth.token_response import SecretMatcher

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
SECRET = "s3cret-of-the-client"
OLD = "old-refresh-token"


@dataclass
class Provider:
    url: str = ""
    answers: list[tuple[int, Any]] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    sent: list[Mapping[str, str]] = field(default_factory=list)
    """The headers of each request."""
    bodies: list[str] = field(default_factory=list)

    async def handle(self, request: web.Request) -> web.Response:
        self.asked.append(request.path)
        self.sent.append(request.headers)
        self.bodies.append(await request.text())
        status, answer = self.answers.pop(0)
        return web.json_response(answer, status=status, headers=self.headers)


@pytest.fixture
async def provider() -> AsyncIterator[Provider]:
    found = Provider()
    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", found.handle)
    async with TestServer(app) as server:
        found.url = str(server.make_url("")).rstrip("/")
        yield found


def dialect(url: str = "https://provider.example", **fields: Any) -> Dialect:
    grant = {"type": "authorizationCode", "authorizationCode": {"clientId": "me"}}
    model = OAuth2.model_validate({"tokenUrl": f"{url}/token", "grant": grant, **fields})
    return Dialect.of(model.to_dict())


def endpoint(provider: Provider, **fields: Any) -> Endpoint:
    return Endpoint(
        token_url=f"{provider.url}/token",
        client_id="me",
        client_secret=SECRET,
        dialect=dialect(provider.url, **fields),
    )


@pytest.fixture
def client(session: aiohttp.ClientSession) -> TokenClient:
    return TokenClient(session, timeout=5, now=lambda: NOW)


def jwt(**claims: Any) -> str:
    body = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return f"e30.{body}.c2ln"


IN_AN_HOUR = NOW + timedelta(hours=1)


@pytest.mark.parametrize(
    ("answer", "said", "ends"),
    [
        ({"expires_in": 3600}, {}, IN_AN_HOUR),
        ({"expires_in": "3600"}, {}, IN_AN_HOUR),
        ({"expires_in": 3_600_000}, {"expiresUnit": "milliseconds"}, IN_AN_HOUR),
        ({"expires_in": IN_AN_HOUR.timestamp()}, {"expiresUnit": "epochSeconds"}, IN_AN_HOUR),
        (
            {"at": IN_AN_HOUR.timestamp() * 1000},
            {"expiresUnit": "epochMilliseconds", "expiresIn": "at"},
            IN_AN_HOUR,
        ),
        (
            {"data": {"end": "2026-01-01T13:00:00Z"}},
            {"expiresUnit": "iso8601", "expiresIn": "data.end"},
            IN_AN_HOUR,
        ),
        ({"expires_in": "2026-01-01T13:00:00"}, {"expiresUnit": "iso8601"}, IN_AN_HOUR),
        ({"access_token": jwt(exp=IN_AN_HOUR.timestamp())}, {"expiresUnit": "jwt"}, IN_AN_HOUR),
        ({"access_token": "a.b.c"}, {"expiresUnit": "jwt"}, None),
        ({"access_token": jwt(exp=IN_AN_HOUR.timestamp())}, {}, None),
        ({}, {"expiresAfter": "1h"}, IN_AN_HOUR),
        ({"expires_in": 60}, {"expiresAfter": "1h"}, NOW + timedelta(seconds=60)),
        ({"expires_in": NOW.timestamp() - 1}, {"expiresUnit": "epochSeconds"}, None),
    ],
)
async def test_an_expiry_is_read_in_its_unit(
    provider: Provider,
    client: TokenClient,
    answer: dict[str, Any],
    said: dict[str, str],
    ends: datetime | None,
) -> None:
    provider.answers = [(200, {"access_token": "at", **answer})]
    tokens = await client.client_credentials(endpoint(provider, tokenAnswer=said))
    assert tokens.expires_at == ends


@pytest.mark.parametrize(
    ("refresh", "status", "answer", "error"),
    [
        ({}, 400, {"error": "too_early"}, RefusedError),
        ({"retryOn": ["too_early"]}, 400, {"error": "too_early"}, UnreachableError),
        ({"retryOn": ["too_early"]}, 400, {"error": "invalid_grant"}, RefusedError),
        ({"retryOn": ["400"]}, 400, {"error": "busy"}, UnreachableError),
        ({"retryOn": ["400"], "revokedOn": ["gone"]}, 400, {"error": "gone"}, RefusedError),
        ({"revokedOn": ["invalid_request"]}, 400, {"error": "invalid_request"}, RefusedError),
        ({"revokedOn": ["404"]}, 404, {"message": "unknown"}, RefusedError),
    ],
)
async def test_a_refresh_error_means_what_the_scheme_says(
    provider: Provider,
    client: TokenClient,
    refresh: dict[str, list[str]],
    status: int,
    answer: dict[str, str],
    error: type[TokenError],
) -> None:
    provider.answers = [(status, answer)]
    with pytest.raises(TokenError) as caught:
        await client.refresh(endpoint(provider, refresh=refresh), refresh_token=OLD)
    assert type(caught.value) is error


async def test_a_code_that_is_dead_for_the_scheme_ends_the_authorisation_for_good(
    provider: Provider, client: TokenClient
) -> None:
    provider.answers = [
        (403, {"error": "unauthorized_client", "error_description": "refresh_token is invalid"})
    ]
    with pytest.raises(RefusedError, match="unauthorized_client: refresh_token is invalid") as caught:
        await client.refresh(
            endpoint(provider, refresh={"revokedOn": ["unauthorized_client"]}), refresh_token="x9-old"
        )
    assert caught.value.code == "invalid_grant"


@pytest.mark.parametrize(
    ("answer", "said", "shown"),
    [
        ({"error": "invalid_grant", "error_description": "Bad code"}, {}, "(invalid_grant: Bad code)"),
        ({"ok": False, "error": "invalid_code"}, {}, "(invalid_code)"),
        ({"ok": False, "why": "no_team"}, {"success": {"path": "ok", "equals": "true"}, "error": "why"}, "(no_team)"),
        ({"code": 40100, "msg": "Bad app"}, {"success": {"path": "code", "equals": "0"}, "error": "code",
         "errorDescription": "msg"}, "(40100: Bad app)"),
        ({"error": {"code": 190, "message": "Expired"}}, {"error": "error.code", "errorDescription": "error.message"},
         "(190: Expired)"),
        ({"error": "invalid_grant", "error_description": f"no {OLD}! and Basic {SECRET[2:]}"}, {},
         "(invalid_grant: no *** and Basic ***)"),
        ({"error": SECRET, "error_description": "line\nbreak"}, {}, "(HTTP 200: line break)"),
    ],
)  # fmt: skip
async def test_an_error_with_status_200_is_told_with_its_text(
    provider: Provider, client: TokenClient, answer: dict[str, Any], said: dict[str, Any], shown: str
) -> None:
    provider.answers = [(200, {"access_token": "at", **answer} if "success" in said else answer)]
    with pytest.raises(RefusedError) as caught:
        await client.refresh(endpoint(provider, tokenAnswer=said), refresh_token=OLD)
    assert shown in str(caught.value)


@pytest.mark.parametrize(
    ("status", "answer", "header", "seconds"),
    [
        (200, {"ok": False, "error": "ratelimited"}, "30", 30),
        (200, {"ok": False, "error": "ratelimited"}, "", None),
        (400, {"error": {"code": "RATE_LIMITED"}}, "30", 30),
        (403, {"message": "slow"}, "30", 30),
        (403, {"error": "busy"}, "30", 30),
    ],
)
@pytest.mark.parametrize("is_refresh", [True, False])
async def test_too_many_requests_are_no_refusal(
    provider: Provider,
    client: TokenClient,
    status: int,
    answer: dict[str, Any],
    header: str,
    seconds: float | None,
    is_refresh: bool,
) -> None:
    provider.answers, provider.headers = [(status, answer)], {"Retry-After": header} if header else {}
    asked = endpoint(provider)
    if is_refresh:
        request = client.refresh(asked, refresh_token=OLD)
    else:
        request = client.exchange(asked, code="c0de", redirect_uri="https://us.example/cb")
    with pytest.raises(UnreachableError) as caught:
        await request
    assert caught.value.retry_after == seconds


async def test_a_code_of_the_rfc_is_a_refusal_though_the_provider_asks_to_wait(
    provider: Provider, client: TokenClient
) -> None:
    provider.answers, provider.headers = [(403, {"error": "invalid_grant"})], {"Retry-After": "30"}
    with pytest.raises(RefusedError):
        await client.refresh(endpoint(provider), refresh_token=OLD)


@pytest.mark.parametrize(
    ("scopes", "separator", "kept"),
    [
        ([], None, ("a", "b", "c")),
        ([{"name": "x,y"}], None, ("a,b", "c")),
        ([], ";", ("a,b", "c")),
    ],
)
async def test_commas_separate_scopes_unless_one_of_the_scheme_has_one(
    provider: Provider, client: TokenClient, scopes: list[Any], separator: str | None, kept: tuple[str, ...]
) -> None:
    provider.answers = [(200, {"access_token": "at", "scope": "a,b c"})]
    said = {"scopeSeparator": separator} if separator else {}
    tokens = await client.client_credentials(endpoint(provider, scopes=scopes, tokenAnswer=said))
    assert tokens.scopes == kept


@pytest.mark.parametrize(
    ("header", "seconds"),
    [("2026-01-01T12:00:30Z", 30), ("Thu, 01 Jan 2026 12:01:00 GMT", 60), ("2025-01-01T00:00:00Z", None)],
)
async def test_retry_after_is_understood_as_a_date(
    provider: Provider, client: TokenClient, header: str, seconds: float | None
) -> None:
    provider.answers, provider.headers = [(429, {})], {"Retry-After": header}
    with pytest.raises(UnreachableError) as caught:
        await client.refresh(endpoint(provider), refresh_token=OLD)
    assert caught.value.retry_after == seconds


BASE_URL = {"keep": [{"path": "url", "as": "baseUrl"}]}


@pytest.mark.parametrize(
    ("url", "is_kept"),
    [
        ("https://mine.shop.example", True),
        ("https://mine.shop.example:8443/api/", True),
        ("https://shop.example", False),
        ("https://mine.shop.example.evil.example", False),
        ("https://evilshop.example", False),
        ("https://evil.example/.shop.example", False),
        ("https://mine.shop.example@evil.example", False),
        ("https://evil.example\\.shop.example", False),
        ("http://mine.shop.example", False),
        ("javascript:alert(1)", False),
        ("https://mine.shop.example/?to=https://evil.example", False),
        ("https://mine.shop.example/{shop}", False),
        ("https://provider.example/v2", True),
    ],
)
def test_a_kept_base_url_leads_to_hosts_of_the_scheme_only(url: str, is_kept: bool) -> None:
    said = dialect(hosts=["*.shop.example"], tokenAnswer=BASE_URL)
    if is_kept:
        found = collect(said.answer.keep, {"url": url}.get, hosts=said.hosts)
        assert found.base_url == url.rstrip("/")
        return
    with pytest.raises(UnkeepableError) as refused:
        collect(said.answer.keep, {"url": url}.get, hosts=said.hosts)
    assert "evil" not in str(refused.value)


@pytest.mark.parametrize(
    ("value", "pattern", "kept"),
    [
        ("abc-1", "", "abc-1"),
        (12345, "", "12345"),
        ("a b", "", None),
        ("a/b", "", None),
        ("a\nb", "^.*$", None),
        ("x" * 600, "^x*$", None),
        ("shop.example", r"^[a-z.]+$", "shop.example"),
        ("shop.example!", r"^[a-z.]+$", None),
        ("shop$", r"[a-z]+\$", "shop$"),
        ("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!", "^(a+)+$", None),
        ("a", "^(a$", None),
    ],
)
def test_a_kept_variable_matches_its_pattern(value: Any, pattern: str, kept: str | None) -> None:
    rule = KeepRule(source="v", variable="v", pattern=pattern)
    try:
        found = collect([rule], {"v": value}.get, hosts=Hosts())
    except UnkeepableError:
        assert kept is None
    else:
        assert found.variables == {"v": kept}


@pytest.mark.parametrize(
    ("name", "kept"),
    [("Ada's\n shop\x1b", "Ada's shop"), ("x" * 600, "x" * 200), ({"odd": 1}, ""), (None, "")],
)
def test_an_odd_account_name_stops_no_authorisation(name: Any, kept: str) -> None:
    rule = KeepRule(source="n", target="accountName")
    assert collect([rule], {"n": name}.get, hosts=Hosts()).account_name == kept


async def test_a_secret_is_never_kept(provider: Provider, client: TokenClient) -> None:
    provider.answers = [
        (
            200,
            {"access_token": "the-access-token", "id_token": "an-id-token-here", "team": "an-id-token-here"},
        )
    ]
    said = {"keep": [{"path": "team", "as": "accountId"}]}
    with pytest.raises(RefusedError, match="shows a secret"):
        await client.client_credentials(endpoint(provider, tokenAnswer=said))


async def test_a_name_that_shows_a_secret_is_left_out(provider: Provider, client: TokenClient) -> None:
    said = {"keep": [{"path": "name", "as": "accountName"}, {"path": "id", "as": "accountId"}]}
    provider.answers = [(200, {"access_token": "the-access-token", "name": "the-access-token", "id": 1})]
    tokens = await client.client_credentials(endpoint(provider, tokenAnswer=said))
    assert tokens.kept == Kept(account_id="1")


async def test_a_users_name_is_no_secret(provider: Provider, client: TokenClient) -> None:
    said = {"keep": [{"path": "login", "as": "accountName"}, {"path": "login", "as": "accountId"}]}
    provider.answers = [(200, {"access_token": "at", "login": "ada@shop"})]
    tokens = await client.password(
        endpoint(provider, tokenAnswer=said), username="ada@shop", password="pass-of-ada"
    )
    assert (tokens.kept.account_name, tokens.kept.account_id) == ("ada@shop", "ada@shop")


async def test_the_token_that_lasts_is_never_kept(provider: Provider, client: TokenClient) -> None:
    longer = {"url": f"{provider.url}/longer", "grantType": "longer"}
    after = {"url": f"{provider.url}/me", "keep": [{"path": "id", "as": "accountId"}], "required": True}
    asked = endpoint(provider, tokenRequest={"longLived": longer}, afterToken=after)
    provider.answers = [(200, {"access_token": "short-lived-token"})]
    provider.answers += [
        (200, {"access_token": "long-lived-token"}),
        *[(200, {"id": "long-lived-token"})] * 2,
    ]
    with pytest.raises(RefusedError, match="shows a secret"):
        await client.exchange(asked, code="c0de", redirect_uri="https://us.example/cb")


OF_SHOP = {"keep": [{"path": "shop", "variable": "shop", "pattern": "^[a-z.-]+$"}]}


def of_shops(provider: Provider, url: str, **fields: Any) -> Endpoint:
    """An endpoint that asks for the account at a URL which may have the shop of the token's answer."""
    after = {"url": url, "keep": [{"path": "id", "as": "accountId"}], "required": True}
    use = {"headers": {"X-Shop": "{shop}"}}
    asked = endpoint(provider, tokenAnswer=OF_SHOP, afterToken=after, token=use, **fields)
    tenant = Tenant(own={}, defaults={}, inputs={}, hosts=tuple(fields.get("hosts", ())))
    return replace(asked, values=tenant)


async def test_the_account_is_asked_for_with_the_variables_of_the_tokens_answer(
    provider: Provider, client: TokenClient
) -> None:
    asked = of_shops(provider, f"{provider.url}/shops/{{shop}}/me")
    provider.answers = [(200, {"access_token": "at", "shop": "my-shop"}), (200, {"id": 7})]
    tokens = await client.exchange(asked, code="c0de", redirect_uri="https://us.example/cb")
    assert tokens.kept == Kept(account_id="7", variables={"shop": "my-shop"})
    assert provider.asked == ["/token", "/shops/my-shop/me"]
    assert provider.sent[1]["X-Shop"] == "my-shop"


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ({}, 'afterToken.url: the variable "shop" has no value'),
        ({"shop": "evil.example"}, "afterToken.url: the variables lead to a host that is none of"),
    ],
)
async def test_the_token_goes_to_no_host_that_the_scheme_does_not_name(
    provider: Provider, client: TokenClient, answer: dict[str, str], says: str
) -> None:
    asked = of_shops(provider, "https://{shop}/me", hosts=["*.shop.example"])
    provider.answers = [(200, {"access_token": "at", **answer})]
    with pytest.raises(RefusedError, match=says):
        await client.exchange(asked, code="c0de", redirect_uri="https://us.example/cb")
    assert provider.asked == ["/token"]


async def test_a_refresh_is_not_lost_for_a_value_that_cannot_be_kept(
    provider: Provider, client: TokenClient
) -> None:
    provider.answers = [
        (200, {"access_token": "at-2", "refresh_token": "rt-2", "url": "https://evil.example"})
    ]
    kept = Kept(base_url="https://mine.shop.example")
    asked = endpoint(provider, hosts=["*.shop.example"], tokenAnswer=BASE_URL)
    tokens = await client.refresh(asked, refresh_token=OLD, kept=kept)
    assert (tokens.access_token, tokens.refresh_token, tokens.kept) == ("at-2", "rt-2", kept)


@pytest.mark.parametrize("required", [True, False])
async def test_an_account_that_cannot_be_asked_for_stops_only_where_required(
    provider: Provider, client: TokenClient, required: bool
) -> None:
    provider.answers = [(200, {"access_token": "at"}), (500, {}), (403, {})]
    after = {"url": f"{provider.url}/me", "keep": [{"path": "id", "as": "accountId"}], "required": required}
    asked = endpoint(provider, afterToken=after)
    exchange = client.exchange(asked, code="c0de", redirect_uri="https://us.example/cb")
    if required:
        with pytest.raises(RefusedError, match="afterToken answered 403"):
            await exchange
    else:
        assert (await exchange).access_token == "at"
    assert provider.asked == ["/token", "/me", "/me"]


async def test_an_account_is_asked_for_by_a_query(provider: Provider, client: TokenClient) -> None:
    query = '{"query": "{ viewer { id } }"}'
    keep = [{"path": "data.viewer.id", "as": "accountId"}]
    after = {"url": f"{provider.url}/graphql", "method": "POST", "body": query, "keep": keep}
    provider.answers = [(200, {"access_token": "at"}), (200, {"data": {"viewer": {"id": "u7"}}})]
    asked = endpoint(provider, afterToken=after)
    tokens = await client.exchange(asked, code="c0de", redirect_uri="https://us.example/cb")
    assert tokens.kept.account_id == "u7"
    assert (provider.bodies[1], provider.sent[1]["Content-Type"]) == (query, "application/json")


async def test_an_account_is_asked_for_once_more_by_a_refresh(
    provider: Provider, client: TokenClient
) -> None:
    after = {"url": f"{provider.url}/me", "keep": [{"path": "id", "as": "accountId"}]}
    asked = endpoint(provider, afterToken=after)
    provider.answers = [(200, {"access_token": "at"}), (200, {"id": 7})]
    tokens = await client.refresh(asked, refresh_token=OLD)
    assert tokens.kept.account_id == "7"
    provider.answers = [(200, {"access_token": "at-2"})]
    assert (await client.refresh(asked, refresh_token=OLD, kept=tokens.kept)).kept == tokens.kept


async def test_an_early_refresh_waits_until_it_is_allowed(provider: Provider, client: TokenClient) -> None:
    provider.answers = [(200, {"access_token": "at", "expires_in": 7200})] * 2
    tokens = await client.client_credentials(endpoint(provider, refresh={"earliest": "30m"}))
    assert tokens.renewable_from == NOW + timedelta(minutes=90)
    tokens = await client.client_credentials(endpoint(provider, refresh={"minimumAge": "24h"}))
    assert tokens.renewable_from == NOW + timedelta(hours=24)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
PATHS = st.sampled_from(["access_token", "a", "a.0", "0.a", "/a/0", "a.b.c", "/", "error", "~"])
NAMES = (
    "access_token",
    "refresh_token",
    "expires_in",
    "scope",
    "error",
    "error_description",
    "a",
    "ok",
    "token_type",
)


@given(
    answer=st.one_of(st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=6), VALUES),
    path=PATHS,
    unit=st.sampled_from(["seconds", "milliseconds", "epochSeconds", "epochMilliseconds", "iso8601", "jwt"]),
    status=st.sampled_from([200, 201, 302, 400, 401, 403, 404, 429, 500]),
    is_refresh=st.booleans(),
)
def test_an_answer_of_any_shape_gives_tokens_or_an_error(
    answer: Any, path: str, unit: str, status: int, is_refresh: bool
) -> None:
    said = dialect(
        tokenAnswer={
            "accessToken": path,
            "expiresUnit": unit,
            "scope": path,
            "error": "error",
            "success": {"path": path},
        },
        refresh={"retryOn": ["a"], "revokedOn": ["401"]},
    )
    raw = RawAnswer(status=status, body=json.dumps(answer).encode())
    secrets = SecretMatcher([OLD], client=("me", SECRET))
    try:
        issued = read(raw, said, secrets, asked_at=NOW, is_refresh=is_refresh)
    except TokenError:
        return
    assert issued.access_token.isprintable()
    assert issued.expires_at is None or issued.expires_at > NOW


@given(
    secret=st.text("abcdefghij-_.~ABC0123456789", min_size=6, max_size=40),
    start=st.integers(0, 30),
    before=st.text(max_size=20),
    after=st.text(max_size=20),
    code=st.booleans(),
)
def test_an_error_shows_no_secret_and_no_large_part_of_one(
    secret: str, start: int, before: str, after: str, code: bool
) -> None:
    part = secret[start % (len(secret) - 5) :]
    answer = {"error": part if code else "invalid_grant", "error_description": f"{before}{part}{after}"}
    raw = RawAnswer(status=400, body=json.dumps(answer).encode())
    with pytest.raises(RefusedError) as caught:
        read(raw, dialect(), SecretMatcher([secret]), asked_at=NOW)
    said = (
        str(caught.value).replace("The provider refused the credentials", "").partition("; connect again")[0]
    )
    assert part not in said.replace("invalid_grant", "")


@given(answer=VALUES, text=st.text(max_size=60))
def test_what_was_kept_is_read_again_and_anything_else_is_nothing(answer: Any, text: str) -> None:
    assert isinstance(Kept.decoded(json.dumps(answer)), Kept)
    assert isinstance(Kept.decoded(text), Kept)
    kept = Kept(
        base_url="https://a.example",
        account_id=text,
        variables={"v": text or "x"},
        overrides=frozenset({"v"}),
    )
    assert Kept.decoded(kept.encoded()) == kept
