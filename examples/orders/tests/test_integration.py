"""What the integration does; the other side is a fake."""

from datetime import timedelta

from tieline.testing import Project

ORDER = {"number": "A-1", "customer": "ann"}


def test_an_order_is_sent_to_the_shop(tieline_project: Project) -> None:
    shop = tieline_project.connection("shop")
    shop.on("POST", "/orders").answer(201, json={"id": "7"})
    assert tieline_project.post("/orders", json=ORDER).status == 202
    tieline_project.run_events()
    (request,) = shop.requests
    assert request.json() == ORDER


def test_an_order_survives_a_shop_that_is_away(tieline_project: Project) -> None:
    shop = tieline_project.connection("shop")
    shop.on("POST", "/orders").answer(503).answer(503).answer(201, json={"id": "7"})
    assert tieline_project.post("/orders", json=ORDER).status == 202
    tieline_project.advance(timedelta(minutes=5))
    assert [request.json() for request in shop.requests] == [ORDER] * 3
    assert tieline_project.dead_letters == []
