"""Credentials reach the connection's origin and nothing else; URLs are joined without losses."""

import aiohttp
import pytest
from yarl import URL

from tests.unit.runtime.external_systems import (
    ContextFor,
    External,
    api_key,
    basic,
    configured,
    context,
    environment,
)
from tieline import (
    DynamicTemplateError,
    ForeignOriginError,
    ForeignRedirectError,
    InvalidPathError,
    TemplateNotLinkedError,
    UnknownTemplateError,
)
from tieline.auth.urls import join
from tieline.errors import ConfigurationError
from tieline.http_client.session import new_client
from tieline.server.settings import Settings
from tieline_protocol.egress import Egress

ALL = (
    api_key("header", "header-key", id="h"),
    api_key("query", "query-key", id="q", name="key"),
    api_key("cookie", "cookie-key", id="c", name="token"),
    basic(),
)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_redirect_to_another_origin_is_not_followed(
    external: External, elsewhere: External, context_for: ContextFor, status: int, method: str
) -> None:
    external.redirects["/orders"] = (status, f"{elsewhere.url}/away?page=2&key=query-key")
    ctx = context_for(environment(external.url, *ALL))
    with pytest.raises(ForeignRedirectError, match=elsewhere.url) as caught:
        await ctx.fetch("shop", "/orders", method=method, data=b"x" if method == "POST" else None)
    assert elsewhere.seen == []
    assert "query-key" not in str(caught.value)
    response = await ctx.fetch("shop", "/orders", method=method, allow_redirects=False)
    assert (response.status, elsewhere.seen) == (status, [])


async def test_a_redirect_within_the_origin_keeps_the_credentials(
    external: External, context_for: ContextFor
) -> None:
    external.redirects["/orders"] = (307, "/v2/orders")
    await context_for(environment(external.url, *ALL)).fetch(
        "shop", "/orders", method="POST", data=b"\x00\xff"
    )
    assert external.last.headers["X-API-Key"] == "header-key"
    assert external.last.url.raw_path_qs == "/v2/orders?key=query-key"
    assert external.last.body == b"\x00\xff"


async def test_inner_addresses_are_refused_at_once_unless_they_are_allowed(external: External) -> None:
    body = environment(external.url)
    async with new_client(Egress()) as closed:
        with pytest.raises(aiohttp.ClientConnectorError, match="TIELINE_EGRESS_ALLOWED"):
            await context(closed, configured(body)).fetch("shop", "/orders")
    assert external.seen == []
    async with new_client(Egress.parse(allowed=["127.0.0.0/8"])) as opened:
        await context(opened, configured(body)).fetch("shop", "/orders")
    assert len(external.seen) == 1


def test_what_the_operator_says_of_addresses_is_read_and_checked() -> None:
    assert Settings.from_environment({}).egress is None, "on your own machine all is open"
    assert Settings.from_environment({"TIELINE_EGRESS_ALLOWED": ""}).egress == Egress()
    told = Settings.from_environment({"TIELINE_EGRESS_ALLOWED": "*.svc"}).egress
    assert told is not None
    assert told.opens("shop.acme.svc")
    with pytest.raises(ConfigurationError, match="TIELINE_EGRESS_ALLOWED"):
        Settings.from_environment({"TIELINE_EGRESS_ALLOWED": "10.0.0.1/8"})


async def test_an_absolute_url_of_another_origin_is_refused(
    external: External, elsewhere: External, context_for: ContextFor
) -> None:
    ctx = context_for(environment(external.url, *ALL))
    with pytest.raises(ForeignOriginError, match="template 'shop'"):
        await ctx.fetch("shop", f"{elsewhere.url}/orders")
    assert elsewhere.seen == []
    await ctx.fetch("shop", f"{external.url}/next?page=2")
    assert external.last.url.raw_path_qs == "/next?page=2&key=query-key"


@pytest.mark.parametrize(
    ("base", "path", "joined"),
    [
        ("https://shop.example", "/orders", "https://shop.example/orders"),
        ("https://shop.example/api/v2/", "/orders", "https://shop.example/api/v2/orders"),
        ("https://shop.example/api/v2", "orders", "https://shop.example/api/v2/orders"),
        ("https://shop.example/api/v2", "", "https://shop.example/api/v2"),
        ("https://shop.example", "", "https://shop.example/"),
        ("https://shop.example/api?a=1", "?b=2", "https://shop.example/api?a=1&b=2"),
        ("https://shop.example/a%2Fb", "/c%2Fd?x=%26", "https://shop.example/a%2Fb/c%2Fd?x=%26"),
        ("https://shop.example", "/a b/ü", "https://shop.example/a%20b/%C3%BC"),
        ("https://shop.example", "orders:search", "https://shop.example/orders:search"),
        ("https://shop.example", "https://shop.example:443/x#part", "https://shop.example:443/x"),
        ("https://shop.example", "//shop.example/x", "https://shop.example/x"),
    ],
)
def test_paths_and_queries_are_joined_without_losing_any(base: str, path: str, joined: str) -> None:
    assert join(base=base, path=path, template="shop") == URL(joined, encoded=True)


@pytest.mark.parametrize(
    "url",
    [
        "http://shop.example/x",
        "https://shop.example:8443/x",
        "https://shop.example.evil.example/x",
        "https://shop.example@evil.example/x",
        "//evil.example/x",
        "///evil.example/x",
        "ftp://shop.example/x",
    ],
)
def test_another_scheme_host_or_port_is_another_origin(url: str) -> None:
    with pytest.raises(ForeignOriginError):
        join(base="https://shop.example", path=url, template="shop")


@pytest.mark.parametrize("path", ["/../admin", "../admin", "/a/%2e%2e/b", "/a/..%2Fb"])
def test_a_path_that_climbs_out_of_the_base_url_is_refused(path: str) -> None:
    with pytest.raises(InvalidPathError, match=r"\.\."):
        join(base="https://shop.example/api", path=path, template="shop")


@pytest.mark.parametrize("base", ["https://{shop}.example", "ftp://shop.example", "shop.example"])
def test_a_base_url_that_leads_nowhere_says_what_to_set(base: str) -> None:
    with pytest.raises(InvalidPathError, match="baseUrl"):
        join(base=base, path="/x", template="shop")


async def test_a_template_that_does_not_exist_is_answered_with_those_that_do(context_for: ContextFor) -> None:
    with pytest.raises(UnknownTemplateError, match=r"'crm'.*there are: 'shop'.*create a ConnectionTemplate"):
        await context_for(environment("http://x")).fetch("crm", "/")


@pytest.mark.parametrize(
    ("dynamic", "error"), [(False, TemplateNotLinkedError), (True, DynamicTemplateError)]
)
async def test_a_template_without_a_connection_says_why(
    context_for: ContextFor, dynamic: bool, error: type[Exception]
) -> None:
    templates = {"crm": {"id": "01T", "dynamic": dynamic, "linked": False}}
    with pytest.raises(error, match="'crm'"):
        context_for(environment("http://x", templates=templates)).session("crm")
