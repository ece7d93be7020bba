"""What becomes of a storefront's orders while the ERP is away: both are fakes, and so is the time."""

from datetime import timedelta
from typing import Any

import pytest

from tieline.testing import Answer, Project, SeenRequest

CUSTOMERS = ("ann", "ben", "eve")


def order(customer: str, number: int) -> dict[str, object]:
    lines = [{"sku": "mug", "quantity": number}]
    return {"number": f"{customer}-{number}", "customer": customer, "lines": lines}


class Erp:
    """Books an order once for each Idempotency-Key, unless it is away; the storefront is told."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.back_at = 0.0
        self.bookings: dict[str, dict[str, Any]] = {}
        self.repeats = 0
        erp, storefront = project.connection("erp"), project.connection("storefront")
        for method in ("PUT", "DELETE"):
            erp.on(method, "/reservations/{number}").answer(self.reserve)
        erp.on("POST", "/orders").answer(self.book)
        storefront.on("PUT", "/orders/{number}/status").answer(204)

    def reserve(self, _request: SeenRequest) -> Answer:
        return Answer.of(503 if self.project.now() < self.back_at else 204)

    def book(self, request: SeenRequest) -> Answer:
        if self.project.now() < self.back_at:
            return Answer.of(503)
        key = request.headers["Idempotency-Key"]
        self.repeats += key in self.bookings
        self.bookings.setdefault(key, request.json())
        return Answer.of(201, json={"booking": f"B-{key}"})

    def booked(self, customer: str) -> list[str]:
        return [one["number"] for one in self.bookings.values() if one["customer"] == customer]

    def told(self) -> dict[str, str]:
        requests = self.project.connection("storefront").requests
        return {request.path.split("/")[2]: request.json()["status"] for request in requests}


@pytest.fixture
def erp(tieline_project: Project) -> Erp:
    return Erp(tieline_project)


def send(project: Project, *orders: dict[str, object]) -> None:
    for one in orders:
        assert project.post("/orders", caller="storefront", json=one).status == 202


def test_an_order_is_booked_and_the_storefront_is_told(tieline_project: Project, erp: Erp) -> None:
    send(tieline_project, order("ann", 1))
    assert erp.bookings == {}
    attempts = tieline_project.run_events()
    assert [(one.task, one.status) for one in attempts] == [
        ("orders", "succeeded"),
        ("order.created", "succeeded"),
        ("order.booked", "succeeded"),
    ]
    assert (erp.booked("ann"), erp.told()) == (["ann-1"], {"ann-1": "booked"})
    assert [one.task for one in tieline_project.tagged_runs if one.tags["order"] == "ann-1"] == [
        "orders",
        "order.created",
        "order.booked",
    ]
    assert tieline_project.connection("erp").requests[0].headers["X-API-Key"] == "only-for-local-runs"
    assert tieline_project.connection("storefront").requests[0].headers["X-Signature"].startswith("sha256=")


def test_an_erp_that_is_away_for_ten_minutes_gets_every_order_once_and_in_order_by_customer(
    tieline_project: Project, erp: Erp
) -> None:
    erp.back_at = tieline_project.now() + 600
    for number in range(1, 6):
        send(tieline_project, *(order(customer, number) for customer in CUSTOMERS))
        tieline_project.advance(timedelta(minutes=1))
    tieline_project.advance(timedelta(minutes=4))
    assert erp.bookings == {}
    # The longest pause between two attempts within ten minutes is one of eleven.
    tieline_project.advance(timedelta(minutes=30))
    for customer in CUSTOMERS:
        assert erp.booked(customer) == [f"{customer}-{number}" for number in range(1, 6)]
    assert (erp.repeats, len(erp.told())) == (0, 15)
    assert (tieline_project.waiting_events, tieline_project.dead_letters) == (0, [])


def test_a_booking_whose_answer_is_lost_is_asked_for_again_and_is_the_same(
    tieline_project: Project, erp: Erp
) -> None:
    def book_and_fail(request: SeenRequest) -> Answer:
        erp.book(request)
        return Answer.of(504)

    tieline_project.connection("erp").on("POST", "/orders").answer(book_and_fail).answer(erp.book)
    send(tieline_project, order("ann", 1))
    tieline_project.advance(timedelta(minutes=1))
    assert (erp.booked("ann"), erp.repeats) == (["ann-1"], 1)
    reservations = [one for one in tieline_project.connection("erp").requests if one.method == "PUT"]
    assert len(reservations) == 1


def test_what_the_erp_refuses_gives_its_stock_back_and_is_a_dead_letter(
    tieline_project: Project, erp: Erp
) -> None:
    fake = tieline_project.connection("erp")
    fake.on("POST", "/orders").answer(422, text="unknown customer").answer(erp.book)
    send(tieline_project, order("ann", 1), order("ann", 2))
    tieline_project.run_events()
    assert [str(one) for one in fake.requests if one.method == "DELETE"] == ["DELETE /reservations/ann-1"]
    assert erp.told() == {"ann-1": "refused", "ann-2": "booked"}
    (letter,) = tieline_project.dead_letters
    assert letter.payload["number"] == "ann-1"
    assert "unknown customer" in letter.error


def test_a_storefront_that_is_away_does_not_hold_up_the_customers_next_order(
    tieline_project: Project, erp: Erp
) -> None:
    storefront = tieline_project.connection("storefront")
    storefront.on("PUT", "/orders/ann-1/status").answer(503)
    send(tieline_project, order("ann", 1), order("ann", 2))
    tieline_project.run_events()
    assert erp.booked("ann") == ["ann-1", "ann-2"]


@pytest.mark.parametrize("body", [{}, [], {"number": "ann-1", "customer": "ann"}])
def test_what_is_no_order_is_a_dead_letter(tieline_project: Project, erp: Erp, body: Any) -> None:
    assert tieline_project.post("/orders", caller="storefront", json=body).status == 202
    tieline_project.run_events()
    (letter,) = tieline_project.dead_letters
    assert (letter.task, letter.payload, erp.bookings) == ("orders", body, {})


def test_an_order_without_the_storefronts_signature_is_not_stored(tieline_project: Project, erp: Erp) -> None:
    assert tieline_project.post("/orders", json=order("ann", 1)).status == 401
    assert tieline_project.waiting_events == 0
