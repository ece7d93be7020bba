"""Lists of systems that page in every way that systems page, and dialects that do not fit."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast
from urllib.parse import unquote

import aiohttp
import pytest
from hypothesis import given
from hypothesis import strategies as st
from multidict import CIMultiDict
from yarl import URL

from tieline import NoPagesError, PaginationError
from tieline.auth.urls import join, path_below
from tieline.connectors.paging import Paging, paging_of
from tieline.errors import ForeignOriginError
from tieline.patterns.links import links_of, target_of
from tieline.patterns.list_pages import Pages
from tieline.patterns.pagination import CursorPages, NumberedPages, Pager
from tieline_protocol.list_dialects import ListDialect, ListDialects, ListKind

BASE = "https://shop.example/v2"
ONE, TWO, THREE = ({"id": f"i{number}"} for number in (1, 2, 3))


@dataclass
class Answer:
    """As much of a response as lists read."""

    url: URL
    content: Any
    headers: CIMultiDict[str]

    def raise_for_status(self) -> None:
        """It is good."""

    async def json(self, **_options: Any) -> Any:
        return self.content


@dataclass
class Shop:
    """Answers by request, such as ``GET /items?page=2``; a tuple is a body with its headers."""

    answers: Mapping[str, Any]
    asked: list[str] = field(default_factory=list)

    async def fetch(self, template: str, path: str, **options: Any) -> aiohttp.ClientResponse:
        url = join(base=BASE, path=path, template=template)
        if params := options.get("params"):
            url = url.update_query(params)
        body = f" {json.dumps(options['json'])}" if "json" in options else ""
        request = f"{options.get('method', 'GET')} {unquote(str(url)).removeprefix(BASE)}{body}"
        self.asked.append(request)
        found = self.answers[request]
        content, headers = found if isinstance(found, tuple) else (found, {})
        return cast(aiohttp.ClientResponse, Answer(url, content, CIMultiDict(headers)))


async def read(
    answers: Mapping[str, Any], pages: Pages | Mapping[str, Any], url: str = "/items", **options: Any
) -> list[Any]:
    """All items. Every answer must have been asked for once, in the order in which they stand."""
    shop = Shop(answers)
    how = ListDialect.parse(pages) if isinstance(pages, Mapping) else pages
    max_pages, items = options.pop("max_pages", 50), options.pop("items", None)
    pager = Pager(shop.fetch, "shop", url, pages=how, items=items, max_pages=max_pages, options=options)
    found = [item async for item in pager.all()]
    assert shop.asked == list(answers)
    return found


CURSOR = {"kind": "cursor", "parameter": "after", "next": "paging.next.after", "items": "results"}
NEXT_LINK = f'<{BASE}/items?page=2>; rel="prev", <{BASE}/items?page=3>; Rel="last NEXT"'


@pytest.mark.parametrize(
    ("dialect", "options", "answers"),
    [
        pytest.param(
            {**CURSOR, "limitParameter": "limit", "limit": 2},
            {"params": {"state": "open"}},
            {
                "GET /items?state=open&limit=2": {"results": [ONE, TWO], "paging": {"next": {"after": "c2"}}},
                "GET /items?state=open&after=c2&limit=2": {"results": [THREE]},
            },
            id="a cursor in the body that is left out at the end",
        ),
        pytest.param(
            {"kind": "cursor", "parameter": "cursor", "next": "response_metadata.next_cursor", "items": "members"},
            {},
            {
                "GET /items": {"members": [ONE, TWO], "response_metadata": {"next_cursor": "c2"}},
                "GET /items?cursor=c2": {"members": [THREE], "response_metadata": {"next_cursor": ""}},
            },
            id="a last cursor that is empty",
        ),
        pytest.param(
            {"kind": "cursor", "parameter": "cursor", "next": "next", "items": "data", "endValue": "-1"},
            {},
            {"GET /items": {"data": [ONE], "next": 7}, "GET /items?cursor=7": {"data": [TWO, THREE], "next": -1}},
            id="a last cursor that is a number",
        ),
        pytest.param(
            {"kind": "cursor", "parameter": "start_cursor", "parameterIn": "body", "next": "next_cursor",
             "hasMore": "has_more", "items": "results", "limitParameter": "page_size", "limit": 2},
            {"method": "POST", "json": {"filter": {"open": True}}},
            {
                'POST /items {"filter": {"open": true}, "page_size": 2}':
                    {"results": [ONE, TWO], "has_more": True, "next_cursor": "c2"},
                'POST /items {"filter": {"open": true}, "start_cursor": "c2", "page_size": 2}':
                    {"results": [THREE], "has_more": False, "next_cursor": None},
            },
            id="a cursor in the body of the request",
        ),
        pytest.param(
            {"kind": "cursor", "parameter": "token", "nextHeader": "X-Next-Token", "absentAtEnd": True},
            {},
            {"GET /items": ([ONE, TWO], {"x-next-token": "c2"}), "GET /items?token=c2": [THREE]},
            id="a cursor in a header",
        ),
        pytest.param(
            {"kind": "cursor", "parameter": "page_info", "nextRelation": "next", "nextIsUrl": True, "items": "items",
             "following": {"keep": ["limit"]}},
            {"params": {"limit": 2, "status": "any"}},
            {
                "GET /items?limit=2&status=any":
                    ({"items": [ONE, TWO]}, {"Link": '<https://inside.example/items?page_info=c2>; rel="next"'}),
                "GET /items?limit=2&page_info=c2": {"items": [THREE]},
            },
            id="a cursor in a link to another host, and a second query that differs",
        ),
        pytest.param(
            {"kind": "cursor", "parameter": "cursor", "parameterIn": "body", "next": "cursor", "hasMore": "has_more",
             "items": "entries", "following": {"path": "/items/continue", "keep": []}},
            {"method": "POST", "json": {"path": "", "recursive": True}},
            {
                'POST /items {"path": "", "recursive": true}':
                    {"entries": [ONE, TWO], "cursor": "c2", "has_more": True},
                'POST /items/continue {"cursor": "c2"}': {"entries": [THREE], "cursor": "c3", "has_more": False},
            },
            id="a second request to another path",
        ),
        pytest.param(
            {"kind": "cursor", "parameter": "NextToken", "next": "payload.NextToken", "items": "payload.Orders",
             "following": {"keep": ["MarketplaceIds"], "parameters": {"Continue": "true"}}},
            {"params": {"MarketplaceIds": "A1", "CreatedAfter": "2026"}},
            {
                "GET /items?MarketplaceIds=A1&CreatedAfter=2026":
                    {"payload": {"Orders": [ONE, TWO], "NextToken": "c2"}},
                "GET /items?MarketplaceIds=A1&NextToken=c2&Continue=true": {"payload": {"Orders": [THREE]}},
            },
            id="a second query with other parameters",
        ),
        pytest.param(
            {"kind": "link"},
            {"params": {"state": "open"}},
            {
                "GET /items?state=open": ([ONE, TWO], {"Link": NEXT_LINK}),
                "GET /items?page=3": ([THREE], {"Link": '<https://shop.example/v2/items?page=1>; rel=first'}),
            },
            id="links in the header, whose relation is a list",
        ),
        pytest.param({"kind": "link"}, {}, {"GET /items": [ONE, TWO, THREE]}, id="no links in the header at all"),
        pytest.param(
            {"kind": "link"},
            {},
            {
                "GET /items": ([ONE, TWO], {"Link": '</v2/items?cursor=2>; rel="next"; results="true"'}),
                "GET /items?cursor=2": ([THREE], {"Link": '</v2/items?cursor=4>; rel="next"; results="false"'}),
            },
            id="a link after the last page that says that there is nothing",
        ),
        pytest.param(
            {"kind": "link", "next": "links.next", "items": "data"},
            {},
            {
                "GET /items": {"data": [ONE, TWO], "links": {"self": "/v2/items", "next": "?page[cursor]=c2"}},
                "GET /items?page[cursor]=c2": {"data": [THREE], "links": {"self": "/v2/items?page[cursor]=c2"}},
            },
            id="relative links in the body",
        ),
        pytest.param(
            {"kind": "odata"},
            {"params": {"$top": "2"}},
            {
                "GET /items?$top=2":
                    {"value": [ONE, TWO], "@odata.nextLink": f"{BASE}/items?$top=2&$skiptoken=x"},
                "GET /items?$top=2&$skiptoken=x": {"value": [THREE]},
            },
            id="OData",
        ),
        pytest.param(
            {"kind": "lastId", "parameter": "starting_after", "items": "data", "hasMore": "has_more",
             "limitParameter": "limit", "limit": 2},
            {},
            {
                "GET /items?limit=2": {"data": [ONE, TWO], "has_more": True},
                "GET /items?starting_after=i2&limit=2": {"data": [THREE], "has_more": False},
            },
            id="the last id, with has_more",
        ),
        pytest.param(
            {"kind": "lastId", "parameter": "since", "lastId": "id"},
            {},
            {"GET /items": [ONE, TWO], "GET /items?since=i2": [THREE], "GET /items?since=i3": []},
            id="the last id, until a page is empty",
        ),
        pytest.param(
            {"kind": "numbered", "parameter": "page", "totalPages": "meta.pages", "items": "items"},
            {},
            {
                "GET /items?page=1": {"items": [ONE, TWO], "meta": {"pages": 2}},
                "GET /items?page=2": {"items": [THREE], "meta": {"pages": 2}},
            },
            id="page numbers, with the number of pages",
        ),
        pytest.param(
            {"kind": "numbered", "parameter": "page", "start": 0, "totalPagesHeader": "X-Total-Pages"},
            {"params": {"page": 1}},
            {
                "GET /items?page=1": ([ONE, TWO], {"X-Total-Pages": "3"}),
                "GET /items?page=2": ([THREE], {"X-Total-Pages": "3"}),
            },
            id="page numbers from where the code says",
        ),
        pytest.param(
            {"kind": "numbered", "parameter": "page", "limitParameter": "per_page", "limit": 100},
            {"params": {"per_page": 2}},
            {"GET /items?per_page=2&page=1": [ONE, TWO], "GET /items?per_page=2&page=2": [THREE]},
            id="page numbers, and a size of the code",
        ),
        pytest.param(
            {"kind": "offset", "parameter": "offset", "limitParameter": "limit", "limit": 100, "total": "total",
             "items": "items"},
            {},
            {
                "GET /items?offset=0&limit=100": {"items": [ONE, TWO], "total": "3"},
                "GET /items?offset=2&limit=100": {"items": [THREE], "total": "3"},
            },
            id="offsets with a total, of a system that gives less than it is asked for",
        ),
        pytest.param(
            {"kind": "offset", "parameter": "skip", "parameterIn": "body", "totalHeader": "X-Total-Count"},
            {"method": "POST", "json": {"open": True}},
            {
                'POST /items {"open": true, "skip": 0}': ([ONE, TWO], {"X-Total-Count": "3"}),
                'POST /items {"open": true, "skip": 2}': ([THREE], {"X-Total-Count": "3"}),
            },
            id="offsets in the body of the request",
        ),
        pytest.param(
            {"kind": "numbered", "parameter": "variables.page", "parameterIn": "body", "items": "data.Page.media",
             "limitParameter": "variables.perPage", "limit": 2, "hasMore": "data.Page.pageInfo.hasNextPage"},
            {"method": "POST", "json": {"query": "…", "variables": {"open": True}}},
            {
                'POST /items {"query": "\\u2026", "variables": {"open": true, "page": 1, "perPage": 2}}':
                    {"data": {"Page": {"media": [ONE, TWO], "pageInfo": {"hasNextPage": True}}}},
                'POST /items {"query": "\\u2026", "variables": {"open": true, "page": 2, "perPage": 2}}':
                    {"data": {"Page": {"media": [THREE], "pageInfo": {"hasNextPage": False}}}},
            },
            id="page numbers in an object of the body",
        ),
        pytest.param(
            {"kind": "graphql", "items": "data.orders", "limitParameter": "first", "limit": 2},
            {"method": "POST", "json": {"query": "…", "variables": {"open": True}}},
            {
                'POST /items {"query": "\\u2026", "variables": {"open": true, "first": 2}}':
                    {"data": {"orders": {"nodes": [ONE, TWO], "pageInfo": {"hasNextPage": True, "endCursor": "c2"}}}},
                'POST /items {"query": "\\u2026", "variables": {"open": true, "after": "c2", "first": 2}}':
                    {"data": {"orders": {"edges": [{"node": THREE}], "pageInfo": {"hasNextPage": False}}}},
            },
            id="a connection of GraphQL",
        ),
    ],
)  # fmt: skip
async def test_lists_are_read_to_their_end(
    dialect: dict[str, Any], options: dict[str, Any], answers: dict[str, Any]
) -> None:
    assert await read(answers, dialect, **options) == [ONE, TWO, THREE]


@pytest.mark.parametrize(
    ("pages", "answer", "says"),
    [
        # The cursor is not where the dialect says: never the first page alone.
        (CURSOR, {"results": [ONE, TWO]}, "has no cursor at 'paging.next.after' (there are: 'results')"),
        (CURSOR, {"results": [ONE], "next": "c2"}, "has no cursor at 'paging.next.after'"),
        (
            CURSOR,
            {"results": [ONE], "paging": {"next_cursor": "c2"}},
            "says by 'paging.next_cursor' that there is more",
        ),
        (CURSOR, {"results": [ONE], "paging": {"next": {"after": {"id": 7}}}}, "neither a text nor a number"),
        (CURSOR, {"results": [ONE], "paging": {"next": {"after": True}}}, "neither a text nor a number"),
        ({**CURSOR, "limit": 1}, {"results": [ONE]}, "has no cursor at"),
        (
            {**CURSOR, "hasMore": "more"},
            {"results": [ONE], "more": True},
            "says that there are more pages, and has nothing",
        ),
        ({**CURSOR, "hasMore": "more"}, {"results": [ONE]}, "has no field at more"),
        (
            {**CURSOR, "nextIsUrl": True},
            {"results": [ONE], "paging": {"next": {"after": "/x?page=2"}}},
            "has no parameter 'after'",
        ),
        ({"kind": "link", "next": "next"}, [ONE], "has no link at 'next'"),
        ({"kind": "link", "items": "items"}, {"items": [ONE], "next": "/items?page=2"}, "says by 'next'"),
        ({"kind": "odata"}, {"value": [ONE], "nextLink": "/items?page=2"}, "says by 'nextLink'"),
        ({"kind": "odata"}, {"items": [ONE]}, "has no list"),
        ({"kind": "numbered", "parameter": "page", "limit": 50}, [ONE], None),
        (
            {"kind": "numbered", "parameter": "page", "limit": 50, "items": "d"},
            {"d": [ONE], "hasMore": True},
            "says by 'hasMore'",
        ),
        ({"kind": "numbered", "parameter": "page"}, [ONE], "the same page as the one before"),
        (
            {"kind": "numbered", "parameter": "page", "totalPages": "pages", "items": "d"},
            {"d": [ONE]},
            "no number at 'pages'",
        ),
        ({"kind": "offset", "parameter": "o", "totalHeader": "X-Total"}, [ONE], "no header X-Total"),
        ({"kind": "lastId", "parameter": "after", "lastId": "uuid"}, [ONE], "has no id at 'uuid'"),
        (
            {"kind": "graphql", "items": "data.a"},
            {"data": {"a": {"nodes": [ONE]}}},
            "does not ask for pageInfo",
        ),
        (
            {"kind": "graphql", "items": "data.a"},
            {"data": {"a": {"nodes": [ONE], "pageInfo": {"hasNextPage": True}}}},
            "does not ask for endCursor",
        ),
        # Code names the places itself.
        (CursorPages(), {"items": [ONE], "subscription": {"next": "2026-01-01"}}, None),
        (NumberedPages(size_parameter="size"), {"items": [ONE], "has_more": True}, None),
        # A list of one page.
        (CURSOR, {"results": []}, None),
        (CURSOR, {"results": [ONE], "paging": {"next": None}}, None),
        (CURSOR, {"results": [ONE], "paging": {"prev": {"before": "c0"}}}, None),
        ({**CURSOR, "limit": 2}, {"results": [ONE]}, None),
        ({**CURSOR, "absentAtEnd": True}, {"results": [ONE]}, None),
        ({**CURSOR, "hasMore": "more"}, {"results": [ONE], "more": False, "next": "of something else"}, None),
        (
            {**CURSOR, "next": "nextPageToken"},
            {"results": [ONE], "nextPageToken": None, "nextSyncToken": "s"},
            None,
        ),
        ({"kind": "link"}, [ONE], None),
        ({"kind": "odata"}, {"value": [ONE], "@odata.deltaLink": "/delta"}, None),
        (CursorPages(), {"items": [ONE]}, None),
    ],
)
async def test_a_dialect_that_does_not_fit_never_gives_the_first_page_alone(
    pages: Any, answer: Any, says: str | None
) -> None:
    class Always(dict[str, Any]):
        def __missing__(self, _request: str) -> Any:
            return answer

    shop = Shop(Always())
    how = ListDialect.parse(pages) if isinstance(pages, Mapping) else pages
    items = None if isinstance(pages, Mapping) else "items"
    pager = Pager(shop.fetch, "shop", "/items", pages=how, items=items, max_pages=5)
    if says is None:
        assert [item async for item in pager.all()] == ([] if answer == {"results": []} else [ONE])
        return
    with pytest.raises(PaginationError) as error:
        [item async for item in pager.all()]
    assert says in str(error.value)


async def test_the_same_cursor_twice_is_an_error_and_no_loop() -> None:
    pages = {"kind": "cursor", "parameter": "after", "next": "next", "items": "items"}
    answers = {
        "GET /items": {"items": [ONE], "next": "a"},
        "GET /items?after=a": {"items": [TWO], "next": "b"},
        "GET /items?after=b": {"items": [THREE], "next": "a"},
    }
    with pytest.raises(PaginationError, match="names a page again"):
        await read(answers, pages)


@pytest.mark.parametrize(
    "url", ["https://elsewhere.example/v2/items", "//elsewhere.example/items", "http://shop.example/v2/items"]
)
async def test_a_next_link_to_another_host_gets_no_credentials(url: str) -> None:
    with pytest.raises(ForeignOriginError):
        await read({"GET /items": ([ONE], {"Link": f'<{url}>; rel="next"'})}, {"kind": "link"})


@pytest.mark.parametrize(
    ("base", "url", "path"),
    [
        ("https://h/v2", "https://h/v2/x", "/x"),
        ("https://h/v2/", "https://h/v2", "/"),
        ("https://h/v2", "https://h/v20/x", "/v20/x"),
        ("https://h", "https://h/x?a=1", "/x"),
        ("https://h", "https://h", "/"),
    ],
)
def test_the_path_is_the_one_below_the_base_url(base: str, url: str, path: str) -> None:
    assert path_below(base=base, url=url) == path


def test_the_first_path_that_fits_says_the_dialect() -> None:
    lists = ListDialects.parse(
        {
            "default": {"kind": "link"},
            "paths": [
                {"path": "/shops/{shop}/orders", "kind": "odata"},
                {"path": "/shops/*/*", "kind": "lastId", "parameter": "after"},
            ],
        }
    )
    kinds = {
        path: cast(ListDialect, lists.at(path)).kind
        for path in ("/shops/7/orders", "/shops/7/items/", "/shops/7", "/")
    }
    assert list(kinds.values()) == [ListKind.ODATA, ListKind.LAST_ID, ListKind.LINK, ListKind.LINK]


def test_an_operation_without_described_pages_is_read_as_its_system_says() -> None:
    operation, description = (
        SimpleNamespace(id="listItems", pages=None, document=None),
        SimpleNamespace(name="shop"),
    )

    def paging(system: ListDialect | None) -> Paging:
        return paging_of(cast(Any, description), cast(Any, operation), pages=None, items=None, system=system)

    dialect = ListDialect.parse({**CURSOR, "limitParameter": "limit"})
    assert paging(dialect) == Paging(pages=dialect, items=None, parameters=frozenset({"after", "limit"}))
    with pytest.raises(NoPagesError):
        paging(None)


TOKENS = st.text("abcdefghijklmnopqrstuvwxyz0123456789-._~", min_size=1, max_size=8)
QUOTED = st.text(st.characters(codec="ascii", categories=("L", "N", "P", "S", "Zs")), max_size=12)


@given(
    st.lists(
        st.tuples(
            st.text("abc/?=&,;%12", min_size=1, max_size=12),
            st.lists(TOKENS, min_size=1, max_size=3),
            st.dictionaries(TOKENS.filter(lambda name: name not in ("rel", "anchor")), QUOTED, max_size=3),
            st.booleans(),
        ),
        max_size=4,
    )
)
def test_every_link_that_is_written_is_read(links: list[tuple[str, list[str], dict[str, str], bool]]) -> None:
    def quoted(value: str) -> str:
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'

    header = ", ".join(
        f"<{url}>"
        + "".join(f"; {name}={quoted(value)}" for name, value in parameters.items())
        + (f' ;REL = "{" ".join(relations)}"' if is_quoted or len(relations) > 1 else f"; rel={relations[0]}")
        for url, relations, parameters, is_quoted in links
    )
    assert [(link.url, link.relations, dict(link.parameters)) for link in links_of([header])] == [
        (url, frozenset(relations), parameters) for url, relations, parameters, _ in links
    ]


@given(st.lists(st.text(max_size=60), max_size=3))
def test_no_header_is_too_odd_to_read(headers: list[str]) -> None:
    for link in links_of(headers):
        assert link.url == link.url.strip()


@pytest.mark.parametrize(
    ("headers", "url"),
    [
        (['<a>; rel="next"; rel="prev"'], "a"),
        (["<a>; rel=prev", "<b>; rel=NEXT"], "b"),
        (['<a>; title="x, <b>; rel=\\"next\\""; rel=prev, <c>; rel=next'], "c"),
        (['<a>; rel="next"; anchor="/other", <b>; rel="prev next"'], "b"),
        (["<a>; rel", "nonsense", "<b", ""], None),
        (["garbage, </p2>; rel=next"], "/p2"),
        (["<b, x>y<, </p2>; rel=next"], "/p2"),
        ([",<" * 30_000, "</p2>; rel=next"], "/p2"),
        (["<a>;; rel=next"], "a"),
    ],
)
def test_the_first_link_with_the_relation_counts(headers: list[str], url: str | None) -> None:
    assert target_of(headers, "next") == url
