"""The emulated API: limits, lists, further endpoints, and providers that share a host."""

from __future__ import annotations

from typing import Any

import pytest
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from tests.unit.emulator.providers import GOOGLE, SLACK, asked, call, connect, entry
from tieline.emulator.facts import ProviderFacts
from tieline.emulator.messages import Asked
from tieline.emulator.provider import Provider
from tieline.emulator.server import Emulator


def key_provider(**system: Any) -> Provider:
    """A provider with an API key."""
    made = entry("keyed", {}, system={"authSchemeConfigs": [KEY], **system})
    return Provider(made)


KEY = {
    "id": "key",
    "type": "api-key",
    "apiKey": {"name": "Authorization", "in": "header", "prefix": "Token "},
}


def get(provider: Provider, path: str, *, key: str | None = None, **query: str) -> Any:
    url = URL(f"{provider.base_url}{path}").update_query(query)
    return asked(provider, "GET", url, headers={"Authorization": f"Token {key or provider.api_key}"})


def test_a_limit_is_answered_in_the_providers_form() -> None:
    slack = Provider(SLACK)
    bearer = connect(slack, scope="chat:write")["access_token"]
    slack.limit_requests(1, seconds=7)
    reply = call(slack, bearer)
    assert (reply.status, reply.content, reply.headers["Retry-After"]) == (200, {"error": "ratelimited"}, "7")
    assert call(slack, bearer).content["ok"] is True
    reset = {"status": 403, "remaining": "X-Left", "header": "X-Reset", "unit": "epochMilliseconds"}
    other = key_provider(limits={"answers": [reset]})
    other.limit_requests(seconds=10)
    reply = get(other, "/me")
    assert (reply.status, reply.headers["X-Left"]) == (403, "0")
    assert int(reply.headers["X-Reset"]) == pytest.approx((other.clock.now() + 10) * 1000, abs=60_000)
    usual = key_provider()
    usual.limit_requests()
    assert (reply := get(usual, "/me")).status == 429
    assert reply.headers["Retry-After"] == "30"


def test_only_its_own_key_opens_the_api() -> None:
    provider = key_provider()
    assert get(provider, "/me").status == 200
    assert get(provider, "/me", key="wrong").status == 401
    assert get(provider, "/nothing").status == 501, "what the entry does not have is no success"


DIALECTS = [
    {"kind": "cursor", "items": "rows", "next": "paging.after", "parameter": "after"},
    {"kind": "cursor", "items": "rows", "nextHeader": "X-Next", "parameter": "after"},
    {"kind": "link", "items": "rows"},
    {"kind": "link", "next": "paging.next", "items": "rows"},
    {"kind": "odata"},
    {"kind": "numbered", "items": "rows", "parameter": "page", "totalPages": "pages"},
    {"kind": "offset", "items": "rows", "parameter": "skip", "total": "count"},
    {"kind": "lastId", "items": "rows", "parameter": "after", "hasMore": "more"},
]


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda one: "-".join(map(str, one.values())))
def test_a_list_ends_after_all_its_items(dialect: dict[str, Any]) -> None:
    provider = key_provider(lists={"paths": [{"path": "/rows", **dialect}]})
    pages, query = [], dict[str, str]()
    for number in range(1, 10):
        reply = get(provider, "/rows", **query)
        assert reply.status == 200
        rows = reply.content["value" if dialect["kind"] == "odata" else "rows"]
        pages.append([one["id"] for one in rows])
        query = _next(dialect, reply, number, rows)
        if not query:
            break
    assert pages == [["item-1", "item-2"], ["item-3", "item-4"], ["item-5"]]


def _next(dialect: dict[str, Any], reply: Any, number: int, rows: list[Any]) -> dict[str, str]:
    """The query of the next page, by the documentation of each kind."""
    match dialect:
        case {"nextHeader": name}:
            return {"after": reply.headers[name]} if name in reply.headers else {}
        case {"kind": "cursor"}:
            after = reply.content["paging"]["after"]
            return {"after": after} if after else {}
        case {"kind": "link", "next": _}:
            return dict(URL(reply.content["paging"]["next"] or "").query)
        case {"kind": "link"}:
            links = [part for part in reply.headers.get("Link", "").split(", ") if 'rel="next"' in part]
            return dict(URL(links[0].split(">")[0].lstrip("<")).query) if links else {}
        case {"kind": "odata"}:
            return dict(URL(reply.content.get("@odata.nextLink", "")).query)
        case {"kind": "numbered"}:
            return {"page": str(number + 1)} if number < reply.content["pages"] else {}
        case {"kind": "offset"}:
            return {"skip": str(number * 2)} if number * 2 < reply.content["count"] else {}
        case _:
            return {"after": rows[-1]["id"]} if reply.content["more"] else {}


def test_a_link_to_an_empty_page_says_so() -> None:
    made = entry("keyed", {}, system={"authSchemeConfigs": [KEY], "lists": {"default": {"kind": "link"}}})
    provider = Provider({**made, "emulator": {"list": {"path": "/rows", "items": 3, "linkAlways": True}}})
    first = get(provider, "/rows")
    assert first.headers["Link"].endswith('; rel="next"; results="true"')
    url = URL(first.headers["Link"].partition(">")[0].lstrip("<"))
    last = get(provider, "/rows", **dict(url.query))
    assert [one["id"] for one in last.content] == ["item-3"]
    assert last.headers["Link"].endswith('; rel="next"; results="false"')


def test_a_page_number_inside_an_object_of_the_body_is_read_there_alone() -> None:
    page = {"kind": "numbered", "items": "rows", "parameter": "variables.page", "parameterIn": "body"}
    provider = key_provider(lists={"paths": [{"path": "/rows", **page, "hasMore": "more"}]})
    headers = {"Authorization": f"Token {provider.api_key}"}
    first = []
    for body in ({"variables": {"page": 3}}, {"variables.page": 3}):
        reply = asked(provider, "POST", f"{provider.base_url}/rows", content=body, headers=headers)
        first.append(reply.content["rows"][0]["id"])
    assert first == ["item-5", "item-1"]


def test_a_check_by_post_is_answered_to_its_body_alone() -> None:
    check = {"method": "POST", "path": "/graphql", "body": '{"query": "{ viewer { id } }"}'}
    provider = key_provider(check=check)
    headers = {"Authorization": f"Token {provider.api_key}"}
    for query, status in (("{ viewer { id } }", 200), ("{ orders { id } }", 501)):
        url = f"{provider.base_url}/graphql"
        assert asked(provider, "POST", url, content={"query": query}, headers=headers).status == status
    assert get(provider, "/graphql").status == 501


def test_a_graphql_connection_is_paged() -> None:
    provider = key_provider(
        lists={"paths": [{"path": "/graphql", "kind": "graphql", "items": "data.orders"}]}
    )
    headers, seen, after = {"Authorization": f"Token {provider.api_key}"}, [], None
    for _ in range(10):
        body = {"query": "query($after: String) {…}", "variables": {"after": after}}
        orders = asked(provider, "POST", f"{provider.base_url}/graphql", content=body, headers=headers)
        connection = orders.content["data"]["orders"]
        seen += [node["id"] for node in connection["nodes"]]
        if not connection["pageInfo"]["hasNextPage"]:
            break
        after = connection["pageInfo"]["endCursor"]
    assert seen == [f"item-{number}" for number in range(1, 6)]


@pytest.mark.parametrize("dialect", [DIALECTS[0], DIALECTS[5], DIALECTS[7]])
def test_a_cursor_that_never_was_is_an_error(dialect: dict[str, Any]) -> None:
    provider = key_provider(lists={"paths": [{"path": "/rows", **dialect}]})
    assert get(provider, "/rows", **{dialect["parameter"]: "never"}).status == 400


def test_an_outage_comes_back() -> None:
    provider = key_provider()
    provider.fail(2)
    assert [get(provider, "/me").status for _ in range(3)] == [503, 503, 200]


def test_providers_with_one_host_keep_their_tokens_apart() -> None:
    other = {**GOOGLE, "key": "google-drive"}
    emulator = Emulator([Provider(GOOGLE), Provider(other)])
    drive = emulator.providers["google-drive"]
    bearer = connect(drive)["access_token"]
    request = Asked(
        method="GET",
        url=URL(f"{drive.base_url}/me"),
        headers=CIMultiDictProxy(CIMultiDict({"Authorization": f"Bearer {bearer}"})),
    )
    assert emulator.serve(request).status == 200
    assert len(emulator.providers["google"].seen) == 0


def test_an_unknown_field_of_an_entry_is_refused() -> None:
    with pytest.raises(ValueError, match="refreshToken"):
        ProviderFacts.model_validate({"refreshToken": "always"})
