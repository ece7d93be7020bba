"""What becomes of orders. The fake of the billing system answers as its API description says."""

import pytest

from tieline.testing import AnswerNotDescribedError, Project

ORDER = {
    "number": "S-1",
    "customer": "ann",
    "lines": [{"sku": "mug", "quantity": 2, "price": "9.95"}],
}


def invoice(number: str, customer: str, cents: int) -> dict[str, object]:
    return {"id": number, "order": f"S-{number}", "customer": customer, "cents": cents, "state": "open"}


def test_an_order_becomes_one_invoice(tieline_project: Project) -> None:
    billing = tieline_project.connection("billing")
    billing.answer("createInvoice")
    assert tieline_project.post("/orders", json=ORDER).status == 202
    tieline_project.run_events()
    (sent,) = billing.requests
    assert sent.json() == {
        "order": "S-1",
        "customer": "ann",
        "lines": [{"sku": "mug", "quantity": 2, "cents": 995}],
    }
    assert sent.headers["Idempotency-Key"]


def test_an_order_that_the_description_does_not_allow_is_not_sent_and_not_tried_again(
    tieline_project: Project,
) -> None:
    billing = tieline_project.connection("billing")
    tieline_project.post("/orders", json={**ORDER, "lines": []})
    tieline_project.run_events()
    assert billing.requests == []
    (dead,) = tieline_project.dead_letters
    assert "body.lines" in dead.error


def test_open_amounts_are_summed_over_all_pages(tieline_project: Project) -> None:
    billing = tieline_project.connection("billing")
    first = {"invoices": [invoice("1", "ann", 1990), invoice("2", "ben", 500)], "next": "2"}
    last = {"invoices": [invoice("3", "ann", 10)], "next": None}
    billing.answer("listInvoices", json=first).answer_operation(json=last)
    assert tieline_project.get("/open").json() == {"cents": 2500, "customers": {"ann": 2000, "ben": 500}}
    assert [request.query.get("after") for request in billing.requests] == [None, "2"]


def test_a_payment_is_passed_on(tieline_project: Project) -> None:
    billing = tieline_project.connection("billing")
    billing.answer("payInvoice", json={**invoice("7", "ann", 1990), "state": "paid"})
    assert tieline_project.post("/paid", json={"invoice": "7"}).json() == {"state": "paid"}
    assert billing.requests[0].path == "/invoices/7/payment"


def test_an_answer_that_the_description_does_not_have_fails_the_test(tieline_project: Project) -> None:
    billing = tieline_project.connection("billing")
    with pytest.raises(AnswerNotDescribedError, match="state"):
        billing.answer("payInvoice", json={**invoice("7", "ann", 1990), "state": "settled"})
