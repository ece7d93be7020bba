"""What the integration does with a storefront's orders; the shop is a fake."""

from typing import Any

import pytest

from tieline.testing import Project

ORDER = {
    "number": "S-1",
    "buyer": {"email": "ann@example.org"},
    "items": [{"product": "mug", "count": 2, "price": "9.90"}],
}


def test_an_order_is_sent_to_the_shop_in_its_form(tieline_project: Project) -> None:
    shop = tieline_project.connection("shop")
    shop.on("POST", "/orders").answer(201, json={"id": "7", "totalCents": 1980})
    answer = tieline_project.post("/orders", json=ORDER)
    assert (answer.status, answer.json()) == (201, {"created": "7", "totalCents": 1980})
    (request,) = shop.requests
    assert request.headers["X-API-Key"] == "test-SHOP_API_KEY"
    assert request.json() == {
        "reference": "S-1",
        "customer": "ann@example.org",
        "lines": [{"sku": "mug", "quantity": 2, "unitPriceCents": 990}],
    }
    assert tieline_project.logs[-1].fields == {"reference": "S-1", "order_id": "7"}


def test_what_the_shop_refuses_is_a_bad_gateway(tieline_project: Project) -> None:
    tieline_project.connection("shop").on("POST", "/orders").answer(409)
    assert tieline_project.post("/orders", json=ORDER).status == 502


@pytest.mark.parametrize("order", [{}, [], {**ORDER, "items": [{"product": "mug"}]}])
def test_what_is_no_order_is_not_sent(tieline_project: Project, order: Any) -> None:
    assert tieline_project.post("/orders", json=order).status == 422
    assert tieline_project.connection("shop").requests == []
