"""The examples of docs/sdk/ do what the pages say."""

import ast
import base64
import dataclasses
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult

from tests.harness.inputs.type_checkers import mypy_cache
from tests.harness.processes.ports import free_port
from tests.unit.runtime.external_systems import api_key
from tieline import Retry
from tieline.cli.type_stubs import variables_types
from tieline.configuration.api_tokens import AccessTokens
from tieline.configuration.snapshot import Connection
from tieline.server.sleeper_replay import SleeperReplay
from tieline.server.sleeping_runs import SleepingRun, sleeping_run
from tieline.testing import ApprovalRefusedError, AskedApproval, Project
from tieline.testing.isolation import loaded
from tieline_protocol.runtime_image import HOLDS

FOLDER = Path(__file__).parents[3] / "docs" / "sdk"
TEXT = "\n".join(page.read_text(encoding="utf-8") for page in sorted(FOLDER.glob("*.md")))
BLOCKS = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
Serve = Callable[..., Project]


def example(marker: str, language: str = "python") -> str:
    """The pages' example that has ``marker`` in it."""
    (found,) = [
        block for block in re.findall(rf"```{language}\n(.*?)```", TEXT, re.DOTALL) if marker in block
    ]
    return str(found)


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Serves an example, with other files beside it."""
    with ExitStack() as stack:

        def start(code: str, **files: str) -> Project:
            (tmp_path / "main.py").write_text(code)
            for name, text in files.items():
                (tmp_path / name.replace("__", ".")).write_text(text)
            return stack.enter_context(Project(tmp_path))

        yield start


def by_marker() -> dict[str, Callable[..., None]]:
    """The tests of examples; each marker is in exactly one block."""
    return {
        "async def orders": test_an_order_is_sent_on,
        "def orders(ctx: SyncContext": test_an_order_is_sent_on,
        "async def rows": test_rows_are_counted_in_a_span,
        "async def report": test_a_report_is_the_users_with_the_file_of_the_page,
        "async def changes": test_changes_are_taken_from_the_storefront_only,
        "async def export": test_an_export_is_streamed,
        "async def products": test_products_are_read_since_the_last_run,
        "async def catalogue": test_only_changed_customers_are_read_and_only_failed_products_repeated,
        "async def names": test_orders_are_named_over_pages_and_one_is_closed,
        "async def visits": test_visits_are_counted_for_each_user,
        "async def shipped_orders": test_shipped_orders_are_listed_for_a_month,
        "async def forward": test_an_event_is_forwarded_after_the_answer,
        "async def limits": test_variables_have_their_defaults_and_types,
        "def test_an_order_is_sent_on": test_the_pages_test_passes,
        "async def accept": test_an_accepted_order_is_tried_again_with_one_key,
        "async def parcel_sent": test_a_parcel_is_registered_once_and_a_review_asked_for_three_days_later,
        "async def nightly": test_orders_of_a_shop_are_published_together_and_once,
        "async def parcel_returned": test_a_parcel_is_sent_again_to_the_address_of_a_signal,
        "async def order_placed": test_an_order_is_shipped_once_it_is_paid,
        "async def credit(": test_a_credit_has_the_limit_that_finance_has_approved,
        "async def approved_refund": test_a_refund_is_paid_once_somebody_approves_it,
        "async def product_changed": test_a_product_that_is_edited_often_is_sent_once,
        "async def invoice_sync": test_ten_invoices_of_a_customer_are_sent_a_minute,
        "async def price_changed": test_prices_are_sent_together,
        "async def product_imported": test_an_order_goes_before_the_products_of_an_import,
        "async def stock_nightly": test_changes_of_a_day_are_sent_at_night,
        "async def order_reminded": test_nobody_is_reminded_of_a_cancelled_order,
        "async def trip_planned": test_offers_are_asked_for_side_by_side,
        "async def subscription_ordered": test_a_subscription_is_charged_with_and_without_the_patch,
        "def test_subscriptions_from": test_a_subscription_is_charged_with_and_without_the_patch,
        "async def deliver": test_the_pages_test_of_a_delivery_passes,
        "def test_an_erp_that_is_away": test_the_pages_test_of_a_delivery_passes,
        "async def trip_ordered": test_a_trip_is_cancelled_in_reverse_when_a_part_is_refused,
        "async def statements": test_each_user_has_a_statement_and_one_broken_account_holds_up_nobody,
        "async def reconcile": test_a_second_reconciliation_stores_nothing_twice,
        "async def ticket": test_a_ticket_is_created_once,
        "async def refund": test_a_refund_is_found_by_its_order,
        "def send_invoice": test_an_invoice_is_sent_through_a_server_that_asks_for_a_login,
        "async def contacts": test_a_refused_access_token_is_given_back_for_another_one,
        "async def open_orders": test_orders_are_counted_with_the_url_of_the_environment,
    }


def test_every_example_has_a_test() -> None:
    # Those of a section that another test module runs have its marker there.
    known = [*by_marker(), *OTHERS]
    for block in BLOCKS:
        assert sum(marker in block for marker in known) == 1, block


OTHERS: tuple[str, ...] = ()


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_every_example_is_python_of_the_line_length_of_the_page(block: str) -> None:
    ast.parse(block)
    assert max(map(len, block.splitlines())) <= 110


def test_orders_of_a_shop_are_published_together_and_once(serve: Serve) -> None:
    project = serve(example("async def nightly"))
    orders = [{"id": f"A-{number}", "customer": f"c-{number % 3}"} for number in range(7)]
    project.connection("shop").on("GET", "/orders").answer(json={"orders": orders})
    erp = project.connection("erp")
    erp.on("POST", "/orders").answer(201)
    for _ in range(2):
        project.run_schedule("import")
        project.run_events()
    assert sorted(request.json()["id"] for request in erp.requests) == [one["id"] for one in orders]


@pytest.mark.parametrize(("sent", "address"), [(True, {"city": "Bonn"}), (False, None)])
def test_a_parcel_is_sent_again_to_the_address_of_a_signal(serve: Serve, sent: bool, address: object) -> None:
    project = serve(example("async def parcel_returned"))
    mail, carrier = project.connection("mail"), project.connection("carrier")
    mail.on("POST", "/messages").answer(202)
    carrier.on("PUT", "/parcels/P-1").answer(200)
    run = project.publish("parcel.returned", {"customer": "ann", "parcel": "P-1"})
    assert run is not None
    project.run_events()
    assert mail.requests[0].json()["link"].endswith(run)
    if sent:
        project.signal(run, "address", address)
        project.run_events()
    else:
        project.advance(timedelta(days=7))
    assert [request.json() for request in carrier.requests] == [{"address": address}]


@pytest.mark.parametrize("marker", ["async def orders", "def orders(ctx: SyncContext"])
def test_an_order_is_sent_on(serve: Serve, marker: str) -> None:
    project = serve(example(marker))
    shop = project.connection("shop", credentials=[api_key("header")])
    shop.on("POST", "/orders").answer(json={"id": "7"})
    assert project.post("/orders", json={"reference": "A-1"}).json() == {"created": "7"}
    (request,) = shop.requests
    assert (request.json(), request.headers["X-API-Key"]) == ({"reference": "A-1"}, "key-1234")


def test_a_refund_is_found_by_its_order(serve: Serve) -> None:
    project = serve(example("async def refund"))
    project.connection("shop").on("PUT", "/orders/N-1101/refund").answer(500).answer(204)
    project.publish("refund", {"order": "N-1101", "customer": "C-17"})
    attempts = project.advance(timedelta(minutes=5))
    assert [one.status for one in attempts] == ["waiting", "succeeded"]
    (run,) = project.tagged_runs
    assert (run.task, run.tags) == ("refund", {"order": "N-1101", "customer": "C-17"})


def test_rows_are_counted_in_a_span(serve: Serve) -> None:
    project = serve(example("async def rows"))
    assert project.post("/rows", data="a\nb").json() == {"rows": 2}
    assert project.spans[0].attributes["rows"] == 2


def test_only_changed_customers_are_read_and_only_failed_products_repeated(serve: Serve) -> None:
    project = serve(example("async def catalogue"))
    shop = project.connection("shop")
    ann = {"id": "ann", "updatedAt": "2026-01-02T00:00:00Z"}
    shop.on("GET", "/customers").answer(json={"data": [ann], "meta": {"next": "c2"}})
    shop.on("GET", "/customers", query={"after": "c2"}).answer(json={"data": [], "meta": {}})
    project.connection("crm").on("PUT", "/contacts/ann")
    project.run_schedule("customers")
    assert project.connection("crm").requests[0].json() == ann
    assert project.state.get("sync.customers")["cursor"] == "2026-01-02T00:00:00Z"
    shop.on("PUT", "/products/a").answer(200)
    shop.on("PUT", "/products/b").answer(422).answer(200)
    project.publish("prices.changed", [{"sku": "a"}, {"sku": "b"}])
    project.advance(timedelta(minutes=5))
    put = [request.path for request in shop.requests if request.method == "PUT"]
    assert put.count("/products/a") == 1
    assert put.count("/products/b") == 2


def test_products_are_read_since_the_last_run(serve: Serve) -> None:
    project = serve(example("async def products"))
    shop = project.connection("shop")
    shop.on("GET", "/products").answer(json=[{"sku": "a"}]).answer(json=[])
    due = datetime(2026, 11, 2, 9, tzinfo=UTC)
    project.run_schedule("products", at=due)
    project.run_schedule("products", at=due + timedelta(minutes=15))
    first, second = (datetime.fromisoformat(request.query["changed_since"]) for request in shop.requests)
    assert (first.year, second) == (1970, due)
    assert project.logs[0].fields == {"sku": "a"}


def test_orders_are_named_over_pages_and_one_is_closed(serve: Serve) -> None:
    project = serve(example("async def names"))
    closed = {"orderClose": {"order": {"id": "7"}}}
    graphql = project.connection("shop").on("POST", "/graphql")
    for name, after in (("A-1", "c1"), ("A-2", None)):
        page = {"hasNextPage": after is not None, "endCursor": after}
        graphql.answer(json={"data": {"orders": {"nodes": [{"id": name, "name": name}], "pageInfo": page}}})
    graphql.answer(json={"data": closed})
    assert project.get("/names").json() == ["A-1", "A-2"]
    assert project.post("/close", json={"id": "7"}).json() == closed
    assert [request.json()["variables"] for request in project.connection("shop").requests] == [
        {},
        {"after": "c1"},
        {"id": "7"},
    ]


def test_visits_are_counted_for_each_user(serve: Serve) -> None:
    project = serve(example("async def visits"))
    project.user("ann")
    counts = [project.post("/visits", user=user).json()["visits"] for user in (None, "ann", None)]
    assert counts == [1, 1, 2]


def test_shipped_orders_are_listed_for_a_month(serve: Serve) -> None:
    project = serve(example("async def shipped_orders"))
    for number in ("A-2", "A-1"):
        project.publish("order.shipped", {"number": number, "at": "2026-11-25"})
    assert [one.status for one in project.run_events()] == ["succeeded"] * 2
    assert project.post("/shipped").json() == ["A-1", "A-2"]
    assert project.state.keys("shipped/") == ["shipped/A-1", "shipped/A-2"]
    project.advance(timedelta(days=29))
    project.state.set("shipped/A-3", "2026-12-24", expires=timedelta(days=30))
    project.advance(timedelta(days=1, seconds=1))
    assert project.post("/shipped").json() == ["A-3"]


def test_an_event_is_forwarded_after_the_answer(serve: Serve) -> None:
    project = serve(example("async def forward"))
    shop = project.connection("shop")
    shop.on("POST", "/events").answer(503)
    assert project.post("/events", json={"id": 1}).status == 204
    assert [request.json() for request in shop.requests] == [{"id": 1}]
    assert any("Background work forward failed" in entry.message for entry in project.logs)


def test_a_report_is_the_users_with_the_file_of_the_page(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_KEY", "key-of-this-machine")
    project = serve(
        example("async def report(ctx: Context) -> dict"), connections__yaml=example("SHOP_KEY", "yaml")
    )
    shop = project.connection("shop")
    shop.on("GET", "/orders").answer(json={"orders": ["A-1"]})
    assert project.get("/report", user="ann").json() == {"for": "ann", "orders": ["A-1"]}
    (request,) = shop.requests
    assert (str(request), request.headers["X-API-Key"]) == ("GET /orders?region=us", "key-of-this-machine")
    assert project.get("/report", user="ben").status == 404
    assert "error" in project.get("/report").json()
    assert project.connection("crm", user="ann").url


def test_changes_are_taken_from_the_storefront_only(serve: Serve) -> None:
    project = serve(example("async def changes"))
    project.connection("storefront", credentials=[api_key("header", "of-the-storefront")])
    shop = project.connection("shop")
    shop.on("DELETE", "/orders/{part}")
    changed = {"changed": ["A-1", "A-2"]}
    assert project.post("/changes", json=changed).status == 401
    assert shop.requests == []
    assert project.post("/changes", json=changed, caller="storefront").status == 204
    assert [str(request) for request in shop.requests] == ["DELETE /orders/A-1", "DELETE /orders/A-2"]


def test_an_export_is_streamed(serve: Serve) -> None:
    project = serve(example("async def export"))
    project.connection("shop").on("GET", "/export").answer(body=b"x" * 100_000)
    assert project.get("/export").json() == {"bytes": 100_000}


def test_variables_have_their_defaults_and_types(serve: Serve) -> None:
    schema = example("perDay", "json")
    types = variables_types(json.loads(schema))
    project = serve(example("async def limits"), variables__schema__json=schema, variables__py=types)
    project.variables = {"region": "eu"}
    assert project.get("/limits").json() == {"region": "eu", "left": 100}


def test_the_pages_test_passes(serve: Serve) -> None:
    project = serve(example("async def orders"))
    module: dict[str, Callable[[Project], None]] = {}
    exec(compile(example("def test_an_order_is_sent_on"), "docs/sdk/tutorial.md", "exec"), module)
    module["test_an_order_is_sent_on"](project)


def test_an_accepted_order_is_tried_again_with_one_key(serve: Serve) -> None:
    project = serve(example("async def accept"))
    project.connection("storefront", credentials=[api_key("header", "of-the-storefront")])
    erp = project.connection("erp")
    erp.on("POST", "/orders").answer(500).answer(201)
    assert project.post("/accept", json={"id": "A-1", "customer": "ann"}).status == 401
    for order in ({"id": "A-1", "customer": "ann"}, {"customer": "ann"}):
        assert project.post("/accept", caller="storefront", json=order).status == 202
    project.advance(60)
    assert len({request.headers["Idempotency-Key"] for request in erp.requests}) == 1
    assert len(erp.requests) == 2
    assert [letter.error for letter in project.dead_letters] == ["An order needs an id"]


def test_a_parcel_is_registered_once_and_a_review_asked_for_three_days_later(serve: Serve) -> None:
    project = serve(example("async def parcel_sent"))
    carrier, mail = project.connection("carrier"), project.connection("mail")
    carrier.on("POST", "/parcels").answer(201, json={"customer": "ann@example.org"})
    mail.on("POST", "/reviews").answer(503).answer(202)
    project.publish("parcel.sent", {"id": "A-1"})
    project.advance(timedelta(days=2))
    assert (len(carrier.requests), mail.requests) == (1, [])
    project.advance(timedelta(days=2))
    assert [request.json() for request in mail.requests] == [{"to": "ann@example.org"}] * 2
    assert len(carrier.requests) == 1


def test_an_order_is_shipped_once_it_is_paid(serve: Serve) -> None:
    project = serve(example("async def order_placed"))
    bank = project.connection("bank", credentials=[api_key("header")])
    erp = project.connection("erp")
    bank.on("POST", "/requests").answer(202)
    erp.on("PUT", "/orders/A-1/shipment").answer(503).answer(204)
    erp.on("DELETE", "/orders/A-2").answer(204)
    for order in ("A-1", "A-2"):
        project.publish("order.placed", {"id": order})
    project.advance(timedelta(days=1))
    assert project.post("/payments", caller="bank", json={"reference": "A-1", "id": "R-7"}).status == 202
    project.advance(timedelta(days=2))
    assert [request.method for request in erp.requests] == ["PUT", "PUT", "DELETE"]
    assert erp.requests[0].json() == {"receipt": "R-7"}
    assert len(bank.requests) == 2
    assert project.waiting_events == 0


def test_a_credit_has_the_limit_that_finance_has_approved(serve: Serve) -> None:
    project = serve(example("async def credit("))
    erp = project.connection("erp")
    erp.on("PUT", "/customers/7/limit").answer(204)
    erp.on("POST", "/customers/{id}/notes").answer(204)
    for customer in ("7", "8", "9"):
        project.publish("credit.requested", {"customer": customer, "requestedBy": "ann"})
    project.run_events()
    first, second, _ = project.approvals
    assert (first.title, first.details["customer"]) == ("Give 7 credit?", "7")
    refused: list[dict[str, Any]] = [
        {"by": "bob", "values": {"limit": 5000}},
        {"by": "ann", "groups": ["finance"], "values": {"limit": 5000}},
        {"by": "bob", "groups": ["finance"], "values": {"limit": 50000}},
    ]
    for person in refused:
        with pytest.raises(ApprovalRefusedError):
            project.answer(first, approved=True, **person)
    project.answer(first, approved=True, by="bob", groups=["finance"], values={"limit": 5000})
    project.answer(second, approved=False, by="bob", groups=["finance"], comment="Too soon")
    project.advance(timedelta(days=4))
    sent = [(request.path, request.json()) for request in erp.requests]
    assert sorted(sent, key=str) == [
        ("/customers/7/limit", {"limit": 5000}),
        ("/customers/8/notes", {"text": "Too soon"}),
        ("/customers/9/notes", {"text": "Nobody has decided"}),
    ]


def test_a_shipped_order_reports_its_invoice(serve: Serve) -> None:
    project = serve(example("async def order_shipped("))
    erp, chat = project.connection("erp"), project.connection("chat")
    erp.on("PUT", "/invoices/A-1").answer(json={"number": "INV-7"})
    erp.on("PUT", "/invoices/A-2").answer(404)
    chat.on("POST", "/messages").answer(204)
    for order in ("A-1", "A-2"):
        project.publish("order.shipped", {"id": order, "customer": order})
    project.run_events()
    project.advance(timedelta(days=1))
    texts = [request.json()["text"] for request in chat.requests]
    assert texts[0] == "Invoice INV-7 for A-1"
    assert texts[1].startswith("No invoice for A-2, see run ")


def test_a_refund_is_paid_once_somebody_approves_it(serve: Serve) -> None:
    project = serve(example("async def approved_refund"))
    chat, bank = project.connection("chat"), project.connection("bank")
    chat.on("POST", "/messages").answer(204)
    for refund in ("R-0", "R-2"):
        bank.on("PUT", f"/refunds/{refund}").answer(204)

    def asked(refund: str) -> AskedApproval:
        return [one for one in project.approvals if one.details["id"] == refund][-1]

    for refund in ("R-0", "R-1", "R-2", "R-3"):
        project.publish("refund.requested", {"id": refund, "amount": "480", "customer": refund})
    project.run_events()
    project.answer(asked("R-0"), approved=True, by="ann")
    project.advance(timedelta(hours=30))
    project.answer(asked("R-1"), approved=False, by="bob")
    project.advance(timedelta(hours=20))
    with pytest.raises(ApprovalRefusedError):
        project.answer(asked("R-2"), approved=True, by="bob")
    project.answer(asked("R-2"), approved=True, by="eve", groups=["finance-leads"])
    project.advance(timedelta(days=3))
    assert [request.json() for request in bank.requests] == [
        {"amount": "480", "approvedBy": approver} for approver in ("ann", "eve")
    ]
    told = [request.json()["text"].split(" ")[0] for request in chat.requests]
    assert [told.count(word) for word in ("Please", "Reminder:", "Escalation:", "No")] == [4, 3, 2, 2]
    assert project.waiting_events == 0


def test_nobody_is_reminded_of_a_cancelled_order(serve: Serve) -> None:
    project = serve(example("async def order_reminded"))
    mail = project.connection("mail")
    mail.on("POST", "/reminders").answer(202)
    for order in (7, 8):
        project.publish("order.reminded", {"orderId": order})
    project.run_events()
    project.publish("order.cancelled", {"orderId": 7})
    attempts = project.advance(timedelta(days=4))
    assert [one.status for one in attempts if one.task == "order.reminded"] == ["cancelled", "succeeded"]
    assert [request.json() for request in mail.requests] == [{"order": 8}]


def test_a_product_that_is_edited_often_is_sent_once(serve: Serve) -> None:
    project = serve(example("async def product_changed"))
    shop = project.connection("shop")
    shop.on("PUT", "/products/mug").answer(200)
    for price in range(10):
        project.publish("product.changed", {"id": "mug", "price": price})
        project.advance(5)
    project.advance(31)
    assert [request.json() for request in shop.requests] == [{"id": "mug", "price": 9}]


def test_ten_invoices_of_a_customer_are_sent_a_minute(serve: Serve) -> None:
    project = serve(example("async def invoice_sync"))
    erp = project.connection("erp")
    erp.on("POST", "/invoices").answer(201)
    for number in range(25):
        project.publish("invoice.sync", {"customer": "ann", "number": number})
    project.publish("invoice.sync", {"customer": "bob", "number": 0})
    sent = []
    for _ in range(3):
        project.run_events()
        sent.append(len(erp.requests))
        project.advance(timedelta(minutes=1))
    assert sent == [11, 21, 26]


def test_prices_are_sent_together(serve: Serve) -> None:
    project = serve(example("async def price_changed"))
    shop = project.connection("shop")
    shop.on("PATCH", "/shops/de/prices").answer(200)
    for number in range(150):
        project.publish("price.changed", {"id": f"{number}", "shop": "de", "price": number})
    project.run_events()
    assert sorted(len(request.json()) for request in shop.requests) == [50, 100]


def test_an_order_goes_before_the_products_of_an_import(serve: Serve) -> None:
    project = serve(example("async def product_imported"))
    project.connection("shop").on("PUT", "/products").answer(200)
    project.connection("erp").on("POST", "/orders").answer(201)
    for number in range(3):
        project.publish("product.imported", {"id": number})
    project.publish("order.created", {"id": "A-1"})
    assert [one.task for one in project.run_events()] == ["order.created", *["product.imported"] * 3]


def test_changes_of_a_day_are_sent_at_night(serve: Serve) -> None:
    project = serve(example("async def stock_nightly"))
    erp = project.connection("erp")
    erp.on("PUT", "/stock").answer(204)
    for left in (9, 8, 7):
        project.publish("stock.changed", {"id": "mug", "left": left})
    project.publish("stock.changed", {"id": "cup", "left": 1})
    project.advance(timedelta(minutes=2))
    project.publish("stock.changed", {"id": "mug", "left": 5})
    project.advance(timedelta(minutes=2))
    project.advance(timedelta(days=1))
    sent = [row for request in erp.requests for row in request.json()]
    assert sorted(row["id"] for row in erp.requests[0].json()) == ["cup", "mug"]
    assert {row["id"]: row["left"] for row in sent} == {"cup": 1, "mug": 5}
    assert not {row["left"] for row in sent} & {9, 8}


def test_offers_are_asked_for_side_by_side(serve: Serve) -> None:
    project = serve(example("async def trip_planned"))
    hotels = project.connection("hotels")
    hotels.on("GET", "/offers/rome").answer(json={"price": 90})
    hotels.on("GET", "/offers/oslo").answer(500, text="closed").answer(json={"price": 80})
    hotels.on("POST", "/bookings").answer(201)
    project.publish("trip.planned", {"places": ["rome", "oslo"]})
    project.advance(timedelta(minutes=5))
    assert hotels.requests[-1].json() == {"place": "oslo", "price": 80}
    assert [request.path for request in hotels.requests].count("/offers/rome") == 1


def test_a_subscription_is_charged_with_and_without_the_patch(serve: Serve) -> None:
    project = serve(example("async def subscription_ordered"))
    erp, bank = project.connection("erp"), project.connection("bank")
    erp.on("GET", "/stock/tea").answer(json={"left": 7})
    erp.on("PUT", "/reservations/A-2").answer(204)
    bank.on("PUT", "/charges/A-2").answer(204)
    project.publish("subscription.ordered", {"id": "A-2", "product": "tea"})
    project.advance(timedelta(days=15))
    assert [request.path for request in erp.requests] == ["/stock/tea", "/reservations/A-2"]
    module: dict[str, Callable[[Project], None]] = {}
    exec(compile(example("def test_subscriptions_from"), "docs/sdk/deploying.md", "exec"), module)
    erp.requests.clear()
    bank.requests.clear()
    module["test_subscriptions_from_before_the_patch_are_charged"](project)


async def test_a_migration_of_steps_is_judged_as_the_page_says(tmp_path: Path) -> None:
    migrated = example("async def subscription_ordered")
    patch = '    if await ctx.patched("check the stock"):\n        await ctx.step("check"'
    assert patch in migrated
    verdicts = []
    for code in (migrated.replace(patch, '    await ctx.step("check"'), migrated):
        (tmp_path / "main.py").write_text(code)
        with loaded(tmp_path) as (_, tasks):
            replay = SleeperReplay(tmp_path, tasks)
            verdicts.append((await replay.replay(subscription_that_sleeps())).verdict)
            replay.close()
    assert verdicts == ["stops", "continues"]


def subscription_that_sleeps() -> SleepingRun:
    """A run from before the check of the stock."""
    steps = [
        {
            "name": name,
            "occurrence": 1,
            "place": place,
            "work": "",
            "version": "v1",
            "result": result,
        }
        for place, name, result in ((1, "reserve", "null"), (2, "sleep: until the trial ends", "1"))
    ]
    return sleeping_run(
        {
            "metadata": {"run": "01A", "kind": "event", "task": "subscription.ordered", "queued_at": 1.0},
            "payload": base64.b64encode(b'{"id": "A-1", "product": "tea"}').decode(),
            "steps": steps,
            "outcomes": [],
        }
    )


def test_the_pages_test_of_a_delivery_passes(serve: Serve) -> None:
    project = serve(example("async def deliver"))
    module: dict[str, Callable[[Project], None]] = {}
    exec(compile(example("def test_an_erp_that_is_away"), "docs/sdk/tutorial.md", "exec"), module)
    module["test_an_erp_that_is_away_gets_the_order_later"](project)
    erp = project.connection("erp")
    erp.on("POST", "/orders").answer(429, headers={"Retry-After": "300"}).answer(422, text="unknown")
    project.post("/deliveries", json={"id": "A-2"})
    attempts = [*project.run_events(), *project.advance(299), *project.advance(2)]
    assert [(one.status, one.attempt) for one in attempts] == [("waiting", 1), ("dead", 1)]
    assert project.dead_letters[0].error == "The ERP refuses it: unknown"


def test_a_trip_is_cancelled_in_reverse_when_a_part_is_refused(serve: Serve) -> None:
    project = serve(example("async def trip_ordered"))
    for service, status in (("flights", 200), ("hotels", 200), ("cars", 409)):
        fake = project.connection(service)
        fake.on("PUT", "/bookings/7").answer(status)
        fake.on("DELETE", "/bookings/7").answer(204)
    project.connection("flights").on("DELETE", "/bookings/7").answer(500).answer(204)
    project.publish("trip.ordered", {"id": "7"})
    attempts = project.advance(60)
    assert [one.status for one in attempts] == ["waiting", "dead"]
    assert attempts[0].steps[:2] == ("book flights", "book hotels")
    assert attempts[1].steps == ("book cars", "cancel flights")
    sent = [
        request.method
        for service in ("flights", "hotels")
        for request in project.connection(service).requests
    ]
    assert sent == ["PUT", "DELETE", "DELETE", "PUT", "DELETE"]
    assert project.dead_letters[0].error == "cars has nothing free"


def test_the_readmes_order_reaches_a_shop_that_was_down(serve: Serve) -> None:
    readme = (FOLDER.parents[1] / "README.md").read_text(encoding="utf-8")
    project = serve("\n\n".join(re.findall(r"```python\n(.*?)```", readme, re.DOTALL)))
    shop = project.connection("shop")
    shop.on("POST", "/orders").answer(503).answer(201)
    assert project.post("/orders", json={"number": "A-1"}).status == 202
    assert [attempt.status for attempt in project.advance(60)] == ["waiting", "succeeded"]


def test_each_user_has_a_statement_and_one_broken_account_holds_up_nobody(serve: Serve) -> None:
    project = serve(example("async def statements"))
    for user in ("ann", "ben"):
        project.connection("bank", user=user).on("GET", "/account").answer(json={"balance": 7})
    project.connection("bank", user="ann").on("GET", "/account").answer(500)
    for _ in range(2):
        project.run_schedule("statements", at=datetime(2026, 11, 1, 6, tzinfo=UTC))
    attempts = project.run_events()
    assert sorted(attempt.status for attempt in attempts) == ["succeeded", "waiting"]
    assert [entry.fields for entry in project.logs if entry.message == "Read the account"] == [{"balance": 7}]


def test_a_second_reconciliation_stores_nothing_twice(serve: Serve) -> None:
    project = serve(example("async def reconcile"))
    shop, erp = project.connection("shop"), project.connection("erp")

    def page_of(number: str, following: str) -> dict[str, object]:
        return {"invoices": [{"number": number}], "total": 2, "next": following}

    shop.on("GET", "/invoices", query={"after": ""}).answer(json=page_of("1", "1"))
    shop.on("GET", "/invoices", query={"after": "1"}).answer(json=page_of("2", ""))
    erp.on("PUT", "/invoices/{number}")
    due = datetime(2026, 11, 2, 2, tzinfo=UTC)
    project.run_schedule("reconcile", at=due)
    assert "Progress: 2 of 2 invoices (100 %)" in [entry.message for entry in project.logs]
    project.run_schedule("reconcile", at=due, attempt=2)
    project.run_events()
    assert sorted(request.path for request in erp.requests) == ["/invoices/1", "/invoices/2"]
    project.run_schedule("reconcile", at=due + timedelta(days=1))
    project.run_events()
    assert len(erp.requests) == 4


def test_a_ticket_is_created_once(serve: Serve) -> None:
    project = serve(example("async def ticket"))
    desk = project.connection("helpdesk")
    search = desk.on("GET", "/tickets").answer(json={"tickets": []})
    desk.on("POST", "/tickets").answer(504)
    project.publish("ticket", {"order": "A-1", "text": "broken"})
    project.run_events()
    search.answer(json={"tickets": ["7"]})
    project.advance(60)
    posted = [request for request in desk.requests if request.method == "POST"]
    assert [request.json()["reference"] for request in posted] == ["order-A-1"]
    assert project.waiting_events == 0


def test_the_page_says_what_the_retries_are_without_a_policy() -> None:
    delays = Retry().delays()
    assert (len(delays) + 1, delays[:3], delays[-1]) == (15, [5, 10, 20], 3600)
    assert 5.4 * 3600 < sum(delays) < 5.6 * 3600


def test_the_page_says_what_the_image_holds() -> None:
    assert HOLDS in " ".join(TEXT.split())


def test_the_examples_are_strictly_typed(tmp_path: Path) -> None:
    names = []
    for number, block in enumerate(BLOCKS):
        names.append(f"example_{number}.py")
        (tmp_path / names[-1]).write_text(block)
    # Of packages that are not installed here.
    (tmp_path / "crm_sdk.pyi").write_text(CRM_SDK_TYPES)
    (tmp_path / "asyncpg.pyi").write_text(ASYNCPG_TYPES)
    (tmp_path / "variables.py").write_text(variables_types(json.loads(example("perDay", "json"))))
    ended = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--cache-dir", mypy_cache(), *names],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert "Success" in ended.stdout, ended.stdout


class Postbox:
    """A real SMTP server that asks for a login."""

    def __init__(self) -> None:
        self.messages: list[bytes] = []

    async def handle_DATA(self, _server: Any, _session: Any, envelope: Any) -> str:  # noqa: N802
        self.messages.append(envelope.content)
        return "250 taken"

    def login(self, _server: Any, _session: Any, _envelope: Any, _how: str, given: Any) -> AuthResult:
        known = (given.login, given.password) == (b"billing", b"m4il-passw0rd")
        return AuthResult(success=known, handled=False)


def test_an_invoice_is_sent_through_a_server_that_asks_for_a_login(serve: Serve) -> None:
    box = Postbox()
    server = Controller(
        box,
        hostname="127.0.0.1",
        port=free_port(),
        authenticator=box.login,
        auth_required=True,
        auth_require_tls=False,
    )
    server.start()
    try:
        project = serve(example("def send_invoice"))

        def signing_in_with(password: str) -> None:
            login = {
                "type": "basic-auth",
                "authScheme": {"type": "basic-auth"},
                "data": {"username": "billing", "password": password},
                "fields": {"host": "127.0.0.1", "port": str(server.port)},
            }
            project.connection("mail", credentials=[login], expose_to_code=True)

        signing_in_with("m4il-passw0rd")
        assert project.post("/invoices").status < 300
        (message,) = box.messages
        assert b"Your invoice" in message
        signing_in_with("wr0ng-passw0rd")
        assert project.post("/invoices").status == 500
        assert "535" in str(project.logs[-1].error)
    finally:
        server.stop()


CRM_SDK_TYPES = """
class UnauthorizedError(Exception): ...
class CrmClient:
    def __init__(self, token: str) -> None: ...
    async def contacts(self) -> list[str]: ...
"""
ASYNCPG_TYPES = """
class Connection:
    async def fetchval(self, query: str) -> int: ...
    async def close(self) -> None: ...
async def connect(url: str, timeout: float) -> Connection: ...
"""
CRM_SDK = """
class UnauthorizedError(Exception):
    pass


class CrmClient:
    tokens = []

    def __init__(self, token):
        self.token = token

    async def contacts(self):
        self.tokens.append(self.token)
        if self.token == "test-access-token":
            raise UnauthorizedError(self.token)
        return ["Ann"]
"""


class OtherTokens:
    """Another access token for each that is refused."""

    async def ready(self, connection: Connection) -> Connection:
        return connection

    async def instead_of(self, connection: Connection) -> Connection:
        (one,) = connection.credentials
        other = dataclasses.replace(one, data={"accessToken": "an0ther-token"})
        return dataclasses.replace(connection, credentials=(other,))


def test_a_refused_access_token_is_given_back_for_another_one(serve: Serve) -> None:
    project = serve(example("async def contacts"), crm_sdk__py=CRM_SDK)
    token = {"type": "oauth2-token", "authScheme": {"type": "oauth2"}}
    project.connection("crm", credentials=[token], expose_to_code=True)
    project._configuration.tokens = cast(AccessTokens, OtherTokens())
    assert project.post("/contacts").json() == ["Ann"]
    tokens = sys.modules["crm_sdk"].CrmClient.tokens if "crm_sdk" in sys.modules else []
    assert tokens[-2:] in ([], ["test-access-token", "an0ther-token"])


# No driver and no server of PostgreSQL is installed with the tests: this one only notes what it is asked for.
ASYNCPG = """
class Connection:
    async def fetchval(self, query):
        return 3

    async def close(self):
        pass


async def connect(url, timeout):
    if url != "postgresql://orders:p4ssw0rd@db.example/orders":
        raise OSError(f"cannot sign in at {url}")
    print("connected with", url, "p4ssw0rd")
    return Connection()
"""


def test_orders_are_counted_with_the_url_of_the_environment(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://orders:p4ssw0rd@db.example/orders")
    monkeypatch.setenv("TIELINE_SECRET_ENV", "DATABASE_URL")
    project = serve(example("async def open_orders"), asyncpg__py=ASYNCPG)
    project.run_schedule("open-orders")
    (line,) = [entry for entry in project.logs if entry.message == "Open orders"]
    assert line.fields == {"count": 3}
    assert "p4ssw0rd" not in str(project.logs)
