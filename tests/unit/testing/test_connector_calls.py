"""Calls of a connector's operations: checked, sent, and checked again."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.unit.cli.connector_files import SHOP, file_of, source_of
from tieline.connectors.answers import AnswerChecks
from tieline.connectors.description import UnknownOperationError, parse
from tieline.connectors.requests import RequestChecks
from tieline.testing import AnswerNotDescribedError, Project
from tieline.testing.described import answer_of

MAIN = """\
from datetime import date
from typing import Any

from connectors.shop import Shop
from tieline import Context, Integration, InvalidCallError, Request, UnexpectedAnswerError

integration = Integration()


@integration.webhook("call")
async def call(ctx: Context, request: Request) -> Any:
    given = await request.json()
    try:
        return {"answer": await ctx.call("shop", **given)}
    except (InvalidCallError, UnexpectedAnswerError) as error:
        return {"problems": error.problems}


@integration.webhook("typed")
async def typed(ctx: Context, request: Request) -> Any:
    shop = Shop(ctx)
    order = await shop.create_order({"reference": "A-1", "lines": [{"sku": "x"}]}, idempotency_key="k")
    listed = [item["id"] async for item in shop.list_orders_pages(state="open")]
    gone = await shop.delete_order("a/b")
    receipt = await shop.upload({"file": b"content", "name": "x"})
    return {"created": order["id"], "listed": listed, "gone": gone, "receipt": receipt}


@integration.webhook("plain")
def plain(ctx, request):
    listed = [item["id"] for item in ctx.call_pages("shop", "listOrders")]
    return [ctx.call("shop", "getOrder", path={"id": "1"})["id"], *listed]


@integration.webhook("dated")
async def dated(ctx: Context, request: Request) -> Any:
    return await ctx.call("shop", "createOrder", body={"reference": date(2026, 11, 25), "lines": ()})


@integration.webhook("other")
async def other(ctx: Context, request: Request) -> Any:
    return await Shop(ctx, "second").get_order("7")
"""
KNOWN = "(there are: 'after', 'ids', 'state', 'tags', 'total')"
KEY = ['headers.Idempotency-Key: is not of type "string"']
ORDER = {"id": "7", "reference": "A-1", "lines": []}


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    (tmp_path / "main.py").write_text(MAIN)
    (tmp_path / "connectors").mkdir()
    (tmp_path / "connectors/shop.json").write_text(json.dumps(file_of(SHOP)))
    (tmp_path / "connectors/shop.py").write_text(source_of(SHOP))
    with Project(tmp_path) as made:
        made.connection("shop")
        yield made


def call(project: Project, operation: str, **given: Any) -> Any:
    answer = project.post("/call", json={"operation": operation, **given})
    assert answer.status == 200, [entry.error for entry in project.logs]
    return answer.json()


def test_a_typed_module_calls_operations(project: Project) -> None:
    shop = project.connection("shop")
    shop.on("POST", "/orders").answer(201, json=ORDER)
    shop.on("GET", "/orders").answer(json={"orders": [ORDER], "next": "c2"}).answer(
        json={"orders": [], "next": None}
    )
    shop.on("DELETE", "*").answer(204)
    shop.on("POST", "/files").answer(text="taken")
    assert project.post("/typed").json() == {
        "created": "7",
        "listed": ["7"],
        "gone": None,
        "receipt": "taken",
    }
    created, first, second, deleted, uploaded = shop.requests
    assert created.json() == {"reference": "A-1", "lines": [{"sku": "x"}]}
    assert (created.headers["Content-Type"], created.headers["Idempotency-Key"]) == ("application/json", "k")
    assert (dict(first.query), dict(second.query)) == ({"state": "open"}, {"state": "open", "after": "c2"})
    assert deleted.url.raw_path == "/orders/a%2Fb"
    assert b'name="file"' in uploaded.body
    assert b"content" in uploaded.body


def test_plain_functions_call_operations(project: Project) -> None:
    shop = project.connection("shop")
    shop.on("GET", "/orders/1").answer(json=ORDER)
    shop.on("GET", "/orders").answer(json={"orders": [ORDER, {**ORDER, "id": "8"}]})
    assert project.post("/plain").json() == ["7", "7", "8"]


def test_another_template_may_lead_to_the_same_kind_of_system(project: Project) -> None:
    project.connection("second").on("GET", "/orders/7").answer(json=ORDER)
    assert project.post("/other").json() == ORDER


@pytest.mark.parametrize(
    ("operation", "given", "problems"),
    [
        (
            "getOrder",
            {"path": {"id": "7"}, "headers": {"X-Note": "a\r\nX-Admin: 1", "X\n": "1"}},
            [
                "headers.X-Note: must not have line breaks or other control characters",
                "headers.X\n: must not have line breaks or other control characters",
            ],
        ),
        ("createOrder", {}, ["body: is needed"]),
        (
            "createOrder",
            {"body": {"reference": 7, "lines": [{"sku": "x", "quantity": 0}]}},
            [
                'body.reference: is not of type "string"',
                "body.lines[0].quantity: is less than or equal to the minimum of 0",
            ],
        ),
        ("createOrder", {"body": {"lines": []}}, ['body: "reference" is a required property']),
        ("getOrder", {}, ["path.id: is needed"]),
        ("getOrder", {"path": {"id": ".."}}, ["path.id: must not be empty, '.' or '..'"]),
        ("getOrder", {"path": {"id": "1"}, "body": {}}, ["body: the operation has none"]),
        ("getOrder", {"path": {"id": "1", "x": 1}}, ["path.x: is no parameter of the operation (there are: 'id')"]),
        ("listOrders", {"query": {"state": "secret"}}, ['query.state: is not one of "open" or "paid"']),
        ("listOrders", {"query": {"sate": "open"}}, [f"query.sate: is no parameter of the operation {KNOWN}"]),
        ("listOrders", {"query": {"total": {"above": 1, "admin": 1}}}, ["query.total: has no property 'admin'"]),
        ("createOrder", {"body": {"reference": "x", "lines": []}, "headers": {"Idempotency-Key": 7}}, KEY),
        ("upload", {"body": {"name": "x"}}, ["body.file: is needed"]),
    ],
)  # fmt: skip
def test_nothing_is_sent_that_the_description_does_not_allow(
    project: Project, operation: str, given: dict[str, Any], problems: list[str]
) -> None:
    assert call(project, operation, **given) == {"problems": problems}
    assert project.connection("shop").requests == []


def test_parameters_are_written_as_the_description_says(project: Project) -> None:
    shop = project.connection("shop")
    shop.on("GET", "/orders").answer(json={"orders": []})
    call(project, "listOrders", query={"tags": ["a", "b c"], "ids": [1, 2], "total": {"above": 5}})
    assert shop.requests[0].url.query_string == "tags=a&tags=b c&ids=1,2&above=5"


@pytest.mark.parametrize(
    ("answer", "problems"),
    [
        ({"json": {"id": 7, "reference": "x", "lines": []}}, ['answer.id: is not of type "string"']),
        ({"status": 202, "json": {}}, ["status: 202 is not described"]),
        (
            {"text": "{", "headers": {"Content-Type": "application/json"}},
            ["answer: is declared as JSON, and is none"],
        ),
        ({"status": 200}, ["answer: is empty"]),
    ],
)
def test_a_test_fails_by_answers_that_are_not_described(
    project: Project, answer: dict[str, Any], problems: list[str]
) -> None:
    project.connection("shop").on("GET", "/orders/1").answer(**answer)
    assert call(project, "getOrder", path={"id": "1"}) == {"problems": problems}


def test_an_answer_that_begins_with_a_byte_order_mark_is_read(project: Project) -> None:
    content = b"\xef\xbb\xbf" + json.dumps(ORDER).encode()
    headers = {"Content-Type": "application/json"}
    project.connection("shop").on("GET", "/orders/1").answer(body=content, headers=headers)
    assert call(project, "getOrder", path={"id": "1"}) == {"answer": ORDER}


def test_a_pod_logs_such_answers_once_without_their_values(project: Project) -> None:
    project._connectors.checks = AnswerChecks.LOG
    shop = project.connection("shop")
    shop.on("GET", "/orders/{id}").answer(json={**ORDER, "reference": ["hidden"]})
    for number in "12":
        assert call(project, "getOrder", path={"id": number})["answer"]["reference"] == ["hidden"]
    (entry,) = [entry for entry in project.logs if entry.severity == "WARNING"]
    assert entry.fields["operation"] == "getOrder"
    assert entry.fields["problems"] == ['answer.reference: is not of type "string"']
    assert "hidden" not in str(entry)


def test_a_pod_may_send_what_the_description_refuses_and_log_it_once(project: Project) -> None:
    project._connectors.request_checks = RequestChecks.LOG
    shop = project.connection("shop")
    shop.on("POST", "/orders").answer(201, json=ORDER)
    for _ in "12":
        assert call(project, "createOrder", body={"reference": ["hidden"], "lines": []}) == {"answer": ORDER}
    assert shop.requests[0].json() == {"reference": ["hidden"], "lines": []}
    (entry,) = [entry for entry in project.logs if entry.severity == "WARNING"]
    assert entry.fields["problems"] == ['body.reference: is not of type "string"']
    assert "hidden" not in str(entry)


def test_a_call_is_a_span_with_the_operations_name(project: Project) -> None:
    project.connection("shop").on("GET", "/orders/1").answer(503).answer(json=ORDER)
    assert call(project, "getOrder", path={"id": "1"}) == {"answer": ORDER}
    spans = {span.span_id: span for span in project.spans}
    (operation,) = [span for span in spans.values() if span.name == "getOrder"]
    assert operation.attributes["connector"] == "Shop"
    tries = [span for span in spans.values() if span.parent_id == operation.span_id]
    assert [span.attributes["http.response.status_code"] for span in tries] == [503, 200]


def test_a_refusal_of_the_system_is_its_own_error(project: Project) -> None:
    project.connection("shop").on("GET", "/orders/1").answer(404, json={"error": "gone"})
    assert project.post("/call", json={"operation": "getOrder", "path": {"id": "1"}}).status == 500
    assert "UpstreamError" in project.logs[-1].error


def test_values_of_python_are_written_as_json(project: Project) -> None:
    shop = project.connection("shop")
    shop.on("POST", "/orders").answer(201, json=ORDER)
    assert project.post("/dated").json() == ORDER
    assert shop.requests[0].json() == {"reference": "2026-11-25", "lines": []}


def test_a_fake_answers_with_the_descriptions_example(project: Project) -> None:
    project.connection("shop").answer("createOrder")
    assert call(project, "createOrder", body={"reference": "x", "lines": []}) == {"answer": ORDER}


def test_a_fake_makes_an_answer_where_there_is_no_example(project: Project) -> None:
    project.connection("shop").answer("getOrder").answer_operation(json=ORDER)
    made = {"reference": "text", "lines": [{"sku": "text"}]}
    assert call(project, "getOrder", path={"id": "1"}) == {"answer": made}
    assert call(project, "getOrder", path={"id": "2"}) == {"answer": ORDER}


def test_a_fake_refuses_answers_that_the_system_never_gives(project: Project) -> None:
    shop = project.connection("shop")
    with pytest.raises(AnswerNotDescribedError, match=r"answer.id: is not of type"):
        shop.answer("getOrder", json={**ORDER, "id": 7})
    with pytest.raises(AnswerNotDescribedError, match="status: 201 is not described"):
        shop.answer("getOrder", 201, json=ORDER)
    with pytest.raises(UnknownOperationError, match="did you mean 'getOrder'"):
        shop.answer("getOrders")
    shop.answer("getOrder", 404, json={"error": "gone"})
    shop.answer("listOrders", json={"orders": "none"}, check=False)
    assert call(project, "listOrders") == {"problems": ['answer.orders: is not of type "array"']}


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array", "minItems": 10**12, "items": {"type": "string"}},
        {"type": "string", "minLength": 10**12},
        {"type": "array", "minItems": 1000, "items": {"type": "array", "minItems": 1000, "items": {}}},
        {
            "type": "object",
            "required": list("abcdefghij"),
            "properties": {name: {"$ref": "#/$defs/Wide"} for name in "abcdefghij"},
        },
    ],
)
def test_an_example_that_would_be_too_large_is_not_made(schema: dict[str, Any]) -> None:
    operation = {
        "method": "GET",
        "path": "/",
        "answers": {"200": {"mediaType": "application/json", "schema": schema}},
    }
    shop = parse(
        "shop",
        {
            "format": 1,
            "connector": {"name": "Shop", "version": "1"},
            "operations": {"get": operation},
            "schemas": {"Wide": schema},
        },
    )
    with pytest.raises(AnswerNotDescribedError, match="give an answer by json="):
        answer_of(shop, "get", None, {}, check=True)
