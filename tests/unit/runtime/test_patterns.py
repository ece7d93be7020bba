"""Pages, incremental syncs and work for many items, as an integration's code uses them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tieline.testing import Answer, Project
from tieline.testing.fake_connections import SeenRequest

Serve = Callable[..., Project]
HEAD = """
from tieline import *

integration = Integration()
"""
LIST = (
    HEAD
    + """
@integration.webhook("list")
async def listed(ctx: Context) -> list:
    return [item["id"] async for item in ctx.paginate("shop", "/items", pages=PAGES, items=ITEMS, **OPTIONS)]


@integration.webhook("plain")
def plain(ctx: SyncContext) -> list:
    return [item["id"] for item in ctx.paginate("shop", "/items", pages=PAGES, items=ITEMS, **OPTIONS)]
"""
)


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    with ExitStack() as stack:

        def start(code: str, base_url: str = "https://shop.example", more: str = "") -> Project:
            (tmp_path / "main.py").write_text(code)
            (tmp_path / "connections.yaml").write_text(
                f"connections:\n  shop:\n    baseUrl: {base_url}{more}"
            )
            return stack.enter_context(Project(tmp_path))

        yield start


def listing(pages: str, *, items: str = '"items"', options: str = "{}") -> str:
    return LIST.replace("PAGES", pages).replace("ITEMS", items).replace("OPTIONS", options)


def ids(*numbers: int) -> list[dict[str, int]]:
    return [{"id": number} for number in numbers]


@pytest.mark.parametrize("webhook", ["list", "plain"])
def test_pages_with_cursors_are_read_to_the_end_with_the_author_s_filters(serve: Serve, webhook: str) -> None:
    project = serve(
        listing('CursorPages(parameter="after", next="meta.next")', options='{"params": {"state": "open"}}')
    )
    shop = project.connection("shop")
    shop.on("GET", "/items").answer(json={"items": ids(1, 2), "meta": {"next": "c2"}})
    shop.on("GET", "/items", query={"after": "c2"}).answer(json={"items": ids(3), "meta": {"next": None}})
    assert project.post(f"/{webhook}").json() == [1, 2, 3]
    assert [str(request) for request in shop.requests] == [
        "GET /items?state=open",
        "GET /items?state=open&after=c2",
    ]


BY_SYSTEM = (
    HEAD
    + """
@integration.webhook("list")
async def listed(ctx: Context) -> list:
    return [item["id"] async for item in ctx.paginate("shop", "/items?state=open", **OPTIONS)]


@integration.webhook("plain")
def plain(ctx: SyncContext) -> list:
    return [item["id"] for item in ctx.paginate("shop", "/items?state=open", **OPTIONS)]
"""
)
SYSTEM_LISTS = """
    lists:
      default: {kind: cursor, parameter: after, next: meta.next, items: items}
      paths: [{path: /other, kind: link}]
"""


@pytest.mark.parametrize("webhook", ["list", "plain"])
@pytest.mark.parametrize(
    "options",
    [
        "{}",
        "{'items': 'items'}",
        "{'pages': CursorPages(parameter='after', next='meta.next'), 'items': 'items'}",
    ],
)
def test_the_system_says_how_its_lists_come_in_pages(serve: Serve, webhook: str, options: str) -> None:
    project = serve(BY_SYSTEM.replace("OPTIONS", options), more=SYSTEM_LISTS)
    shop = project.connection("shop")
    shop.on("GET", "/items").answer(json={"items": ids(1, 2), "meta": {"next": "c2"}})
    shop.on("GET", "/items", query={"after": "c2"}).answer(json={"items": ids(3), "meta": {}})
    assert project.post(f"/{webhook}").json() == [1, 2, 3]
    assert str(shop.requests[-1]) == "GET /items?state=open&after=c2"


@pytest.mark.parametrize("webhook", ["list", "plain"])
def test_pages_of_code_without_items_are_the_lists_themselves(serve: Serve, webhook: str) -> None:
    options = "{'pages': NumberedPages(size_parameter='size')}"
    project = serve(BY_SYSTEM.replace("OPTIONS", options), more=SYSTEM_LISTS)
    project.connection("shop").on("GET", "/items").answer(json=ids(1, 2))
    assert project.post(f"/{webhook}").json() == [1, 2]


def test_a_list_of_which_nobody_says_how_it_is_read_is_an_error(serve: Serve) -> None:
    project = serve(BY_SYSTEM.replace("OPTIONS", "{}"))
    assert project.post("/list").status == 500
    assert "does not say how the list /items?state=open comes in pages; set its lists" in str(
        project.logs[-1].error
    )


@pytest.mark.parametrize(
    ("pages", "asked"),
    [
        (
            'NumberedPages(size_parameter="per_page", size=2)',
            ["GET /items?page=1&per_page=2", "GET /items?page=2&per_page=2"],
        ),
        ("OffsetPages(limit=2)", ["GET /items?offset=0&limit=2", "GET /items?offset=2&limit=2"]),
        ("NumberedPages(start=0)", ["GET /items?page=0", "GET /items?page=1", "GET /items?page=2"]),
    ],
)
def test_pages_with_numbers_or_offsets_end_at_a_short_one(serve: Serve, pages: str, asked: list[str]) -> None:
    project = serve(listing(pages))
    shop = project.connection("shop")
    answers = shop.on("GET", "/items").answer(json={"items": ids(1, 2)}).answer(json={"items": ids(3)})
    answers.answer(json={"items": []})
    assert project.post("/list").json() == [1, 2, 3]
    assert [str(request) for request in shop.requests] == asked


def test_links_in_the_header_are_followed_within_the_system(serve: Serve) -> None:
    project = serve(listing("LinkPages()", items='""'))
    shop = project.connection("shop")
    link = '</items?page=2>; rel="next", </items?page=9>; rel="last"'
    shop.on("GET", "/items").answer(json=ids(1), headers={"Link": link})
    shop.on("GET", "/items", query={"page": "2"}).answer(json=ids(2))
    assert project.post("/list").json() == [1, 2]


@pytest.mark.parametrize("link", ["/v2/items?page=2", "?page=2", "items?page=2", "{origin}/v2/items?page=2"])
def test_links_in_the_body_are_those_of_the_system_and_not_of_the_base_url(serve: Serve, link: str) -> None:
    project = serve(listing('LinkPages(next="next")'), "https://shop.example/v2")
    shop = project.connection("shop")
    named = link.replace("{origin}", shop.url.removesuffix("/v2"))
    shop.on("GET", "/items").answer(json={"items": ids(1), "next": named})
    shop.on("GET", "/items", query={"page": "2"}).answer(json={"items": ids(2), "next": None})
    assert project.post("/list").json() == [1, 2]


def test_a_link_that_is_none_is_reported(serve: Serve) -> None:
    project = serve(listing('LinkPages(next="next")'))
    project.connection("shop").on("GET", "/items").answer(
        json={"items": ids(1), "next": {"href": "/items?page=2"}}
    )
    assert project.post("/list").status == 500
    assert "has no URL at 'next'" in str(project.logs[-1].error)


def test_a_link_elsewhere_gets_no_credentials(serve: Serve) -> None:
    project = serve(listing('LinkPages(next="next")'))
    project.connection("shop").on("GET", "/items").answer(
        json={"items": ids(1), "next": "https://elsewhere.example/items"}
    )
    assert project.post("/list").status == 500
    assert "elsewhere.example" in str(project.logs[-1].error)


@pytest.mark.parametrize(
    ("pages", "answer", "says"),
    [
        ("CursorPages()", {"items": ids(1), "next": "same"}, "its pages have no end"),
        ("CursorPages()", {"data": ids(1)}, "has no list at 'items' (there are: 'data')"),
        ("CursorPages()", ids(1), "has no list at 'items'"),
        (
            "CursorPages()",
            {"ok": False, "error": "token_revoked"},
            "(there are: 'error', 'ok'); it says: token_revoked",
        ),
        ("CursorPages()", {"items": {"id": 1}}, "has no list at 'items'"),
    ],
)
def test_a_list_that_does_not_come_as_the_code_says_is_reported(
    serve: Serve, pages: str, answer: Any, says: str
) -> None:
    project = serve(listing(pages))
    shop = project.connection("shop").on("GET", "/items")
    shop.answer(json=answer).answer(json=answer).answer(json=answer)
    assert project.post("/list").status == 500
    assert says in str(project.logs[-1].error)


def test_more_pages_than_allowed_are_an_error_and_not_an_endless_run(serve: Serve) -> None:
    project = serve(listing("NumberedPages()", options='{"max_pages": 2}'))
    project.connection("shop").on("GET", "/items").answer(json={"items": ids(1)}).answer(
        json={"items": ids(2)}
    )
    assert project.post("/list").status == 500
    assert "has more than 2 pages" in str(project.logs[-1].error)


SYNC = (
    HEAD
    + """
@integration.webhook("sync")
async def sync(ctx: Context) -> None:
    async with ctx.incremental("items", start=0) as sync:
        query = {"since": sync.cursor}
        async for item in ctx.paginate("shop", "/items", pages=CursorPages(), items="items", params=query):
            if item["id"] == 13:
                raise ValueError("a secret: s3cr3t")
            sync.advance(item["id"])
            if item.get("safe"):
                await sync.checkpoint()


@integration.webhook("plain")
def plain(ctx: SyncContext) -> None:
    with ctx.incremental("items", start=0) as sync:
        query = {"since": sync.cursor}
        for item in ctx.paginate("shop", "/items", pages=CursorPages(), items="items", params=query):
            sync.advance(item["id"])
            ctx.checkpoint(sync)
"""
)


@pytest.mark.parametrize("webhook", ["sync", "plain"])
def test_a_sync_goes_on_after_the_greatest_cursor_that_it_has_seen(serve: Serve, webhook: str) -> None:
    project = serve(SYNC)
    shop = project.connection("shop")
    shop.on("GET", "/items").answer(json={"items": ids(3, 7, 5)}).answer(json={"items": []})
    assert project.post(f"/{webhook}").status == 204
    state = project.state.get("sync.items")
    assert (state["cursor"], state["items"], state["error"]) == (7, 3, None)
    assert state["startedAt"] <= state["endedAt"]
    assert project.post(f"/{webhook}").status == 204
    assert [str(request) for request in shop.requests] == ["GET /items?since=0", "GET /items?since=7"]
    assert project.state.get("sync.items")["cursor"] == 7


def test_a_sync_that_fails_begins_again_at_its_checkpoint_and_tells_no_secret(serve: Serve) -> None:
    project = serve(SYNC)
    items = [{"id": 1}, {"id": 2, "safe": True}, {"id": 3}, {"id": 13}]
    project.connection("shop").on("GET", "/items").answer(json={"items": items})
    assert project.post("/sync").status == 500
    state = project.state.get("sync.items")
    assert (state["cursor"], state["error"]) == (2, "ValueError")
    assert "s3cr3t" not in str(state)


REJECTED = (
    HEAD
    + """
@integration.event("sync")
async def sync(ctx: Context, event: Event) -> None:
    async with ctx.incremental("items", start=0):
        await ctx.state.set("sync.items", {"cursor": 9})  # another run of it
        raise Reject("The shop is closed")


@integration.webhook("begin")
async def begin(ctx: Context) -> None:
    await ctx.publish("sync", {})
"""
)


def test_what_the_code_raises_counts_also_where_the_cursor_was_changed_meanwhile(serve: Serve) -> None:
    project = serve(REJECTED)
    project.post("/begin")
    project.run_events()
    (dead,) = project.dead_letters
    assert "The shop is closed" in str(dead.error)
    assert project.state.get("sync.items") == {"cursor": 9}


BULK = (
    HEAD
    + """
@integration.event("orders.placed", retry=Retry(attempts=3, first=1))
async def placed(ctx: Context, event: Event) -> None:
    async def send(order):
        headers = {"Idempotency-Key": ctx.idempotency_key}
        (await ctx.fetch("shop", "/orders", method="POST", json=order, headers=headers)).raise_for_status()
        return order["id"]

    result = await ctx.bulk("send", event.payload, send, key=lambda order: order["id"], concurrency=2)
    result.raise_for_failures()
    ctx.log.info("Sent", orders=list(result.results.values()))


@integration.event("orders.plain", retry=Retry(attempts=3, first=1))
def plain(ctx: SyncContext, event: Event) -> None:
    def send(order):
        ctx.fetch("shop", "/orders", method="POST", json=order).raise_for_status()
        return order["id"]

    result = ctx.bulk("send", event.payload, send, key=lambda order: order["id"])
    result.raise_for_failures()
    ctx.log.info("Sent", orders=list(result.results.values()))


@integration.webhook("twice")
async def twice(ctx: Context) -> None:
    await ctx.bulk("send", [1, 1], None, key=str)
"""
)


@pytest.mark.parametrize("task", ["orders.placed", "orders.plain"])
def test_a_retry_sends_only_the_items_that_failed(serve: Serve, task: str) -> None:
    project = serve(BULK)
    shop = project.connection("shop")
    refused: list[str] = []

    def answer(request: SeenRequest) -> Answer:
        identifier = request.json()["id"]
        if identifier in ("A-2", "A-3") and identifier not in refused:
            refused.append(identifier)
            return Answer.of(503, json={"error": "later"})
        return Answer.of(201)

    shop.on("POST", "/orders").answer(answer)
    project.publish(task, [{"id": "A-1"}, {"id": "A-2"}, {"id": "A-3"}])
    attempts = project.advance(60)
    assert [attempt.status for attempt in attempts] == ["waiting", "succeeded"]
    assert "2 of 3 failed: A-2" in str([entry.message + str(entry.error) for entry in project.logs])
    sent = sorted(request.json()["id"] for request in shop.requests)
    assert sent == ["A-1", "A-2", "A-2", "A-3", "A-3"]
    (sent_line,) = [entry for entry in project.logs if entry.message == "Sent"]
    assert sent_line.fields["orders"] == ["A-1", "A-2", "A-3"]


def test_each_item_has_an_idempotency_key_that_its_retry_has_too(serve: Serve) -> None:
    project = serve(BULK)
    shop = project.connection("shop")
    shop.on("POST", "/orders").answer(503, headers={"Retry-After": "60"}).answer(201).answer(201)
    project.publish("orders.placed", [{"id": "A-1"}, {"id": "A-2"}])
    project.advance(120)
    keys: dict[str, set[str]] = {}
    for request in shop.requests:
        keys.setdefault(request.json()["id"], set()).add(request.headers["Idempotency-Key"])
    assert all(len(found) == 1 for found in keys.values())
    assert len(set.union(*keys.values())) == 2


def test_items_with_the_same_key_are_refused(serve: Serve) -> None:
    project = serve(BULK)
    assert project.post("/twice").status == 500
    assert "have the key '1'" in str(project.logs[-1].error)


GRAPHQL = (
    HEAD
    + '''
QUERY = """query ($after: String, $state: String) {
  shop { orders(first: 2, after: $after, state: $state) { nodes { id } pageInfo { hasNextPage endCursor } } }
}"""


@integration.webhook("ask")
async def ask(ctx: Context) -> dict:
    return await ctx.graphql("shop", "{ shop { id } }", {"a": 1})


@integration.webhook("change")
async def change(ctx: Context) -> dict:
    return await ctx.graphql("shop", "mutation { close { id } }", retries=2)


@integration.webhook("plain")
def plain(ctx: SyncContext) -> list:
    return [ctx.graphql("shop", "{ a }")["a"], *(one["id"] for one in ctx.graphql_pages("shop", QUERY))]


@integration.webhook("pages")
async def pages(ctx: Context) -> list:
    return [order["id"] async for order in ctx.graphql_pages("shop", QUERY, {"state": "open"}, **OPTIONS)]
'''
)
ENDPOINT = "\n    graphqlPath: /graphql.json"


def connection(*numbers: int, cursor: str | None = None) -> dict[str, Any]:
    info = {"hasNextPage": cursor is not None, "endCursor": cursor}
    return {"data": {"shop": {"orders": {"nodes": ids(*numbers), "pageInfo": info}}}}


@pytest.mark.parametrize("options", ["{}", '{"items": "shop.orders"}'])
def test_a_connection_of_graphql_is_read_to_its_end(serve: Serve, options: str) -> None:
    project = serve(GRAPHQL.replace("OPTIONS", options), more=ENDPOINT)
    endpoint = project.connection("shop").on("POST", "/graphql.json")
    endpoint.answer(json=connection(1, 2, cursor="c2")).answer(json=connection(3))
    assert project.post("/pages").json() == [1, 2, 3]
    sent = [request.json()["variables"] for request in project.connection("shop").requests]
    assert sent == [{"state": "open"}, {"state": "open", "after": "c2"}]


def test_plain_functions_speak_graphql_too(serve: Serve) -> None:
    project = serve(GRAPHQL.replace("OPTIONS", "{}"))
    endpoint = project.connection("shop").on("POST", "/graphql")
    endpoint.answer(json={"data": {"a": 7}}).answer(json=connection(1, cursor="c2")).answer(
        json=connection(2)
    )
    assert project.post("/plain").json() == [7, 1, 2]


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (
            {"errors": [{"message": "no field x", "extensions": {"code": "BAD"}, "path": ["shop", 0]}]},
            "no field x (BAD) at shop.0",
        ),
        (
            {"data": {"a": 1}, "errors": [{"message": "one"}, {"message": "two"}, 3, 4]},
            "one; two; 3, and 1 more",
        ),
        ({"errors": "broken"}, "answered with errors: broken"),
        ({"orders": []}, "without data and without errors: is this its endpoint? (there are: 'orders')"),
        ([], "without data and without errors"),
        (
            {"errors": [{"message": "slow down", "extensions": {"code": "THROTTLED"}}]},
            "The limits of the system are reached",
        ),
    ],
)
def test_errors_of_graphql_are_errors(serve: Serve, answer: Any, says: str) -> None:
    project = serve(GRAPHQL.replace("OPTIONS", "{}"))
    project.connection("shop").on("POST", "/graphql").answer(json=answer)
    assert project.post("/change").status == 500
    assert says in str(project.logs[-1].error)
    assert len(project.connection("shop").requests) == 1


def test_a_query_that_is_throttled_is_sent_again(serve: Serve) -> None:
    project = serve(GRAPHQL.replace("OPTIONS", "{}"))
    cost = {"requestedQueryCost": 100, "throttleStatus": {"currentlyAvailable": 0, "restoreRate": 50}}
    throttled = {"errors": [{"extensions": {"code": "THROTTLED"}}], "extensions": {"cost": cost}}
    endpoint = project.connection("shop").on("POST", "/graphql")
    endpoint.answer(json=throttled).answer(json={"data": {"shop": {"id": 7}}})
    assert project.post("/ask").json() == {"shop": {"id": 7}}
    assert len(project.connection("shop").requests) == 2


@pytest.mark.parametrize(
    ("query", "answer", "says"),
    [
        ("{ orders { nodes { id } } }", None, "has no argument after: $name"),
        (
            "query ($c: ID) { a(after: $c) { nodes { id } } }",
            {"data": {"a": {"nodes": []}}},
            "asks for no connection",
        ),
        (
            "query ($c: ID) { a(after: $c) { pageInfo { endCursor } } b { pageInfo { endCursor } } }",
            {"data": {"a": {"pageInfo": {}}, "b": {"pageInfo": {}}}},
            "several connections (a, b)",
        ),
    ],
)
def test_a_connection_that_cannot_be_read_is_an_error(
    serve: Serve, query: str, answer: Any, says: str
) -> None:
    project = serve(
        f'{HEAD}\n@integration.webhook("list")\nasync def listed(ctx: Context) -> list:\n'
        f'    return [one async for one in ctx.graphql_pages("shop", "{query}")]\n'
    )
    project.connection("shop").on("POST", "/graphql").answer(json=answer)
    assert project.post("/list").status == 500
    assert says in str(project.logs[-1].error)
