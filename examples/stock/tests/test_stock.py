"""What the sync does with the supplier's pages; supplier and shop are fakes."""

import pytest

from tieline.testing import Project, RunFailedError


def page(*skus: str, following: str, more: bool = False) -> dict[str, object]:
    changes = [{"sku": sku, "quantity": 3} for sku in skus]
    return {"changes": changes, "next": following, "more": more}


def set_in_shop(project: Project) -> list[str]:
    return [request.path for request in project.connection("shop").requests]


def test_all_pages_go_into_the_shop_and_the_place_is_remembered(tieline_project: Project) -> None:
    supplier, shop = tieline_project.connection("supplier"), tieline_project.connection("shop")
    shop.on("PUT", "/stock/{sku}").answer(204)
    supplier.on("GET", "/changes", query={"after": ""}).answer(json=page("a", "b", following="2", more=True))
    supplier.on("GET", "/changes", query={"after": "2"}).answer(json=page("c", following="3"))
    tieline_project.run_schedule("stock")
    assert set_in_shop(tieline_project) == ["/stock/a", "/stock/b", "/stock/c"]
    assert shop.requests[0].json() == {"quantity": 3}
    assert tieline_project.get("/position").json() == {"cursor": "3"}
    supplier.on("GET", "/changes", query={"after": "3"}).answer(json=page(following="3"))
    tieline_project.run_schedule("stock")
    assert len(shop.requests) == 3
    assert tieline_project.state.get("changes") == "3"


def test_a_run_that_fails_goes_on_behind_the_last_page_the_next_time(tieline_project: Project) -> None:
    supplier, shop = tieline_project.connection("supplier"), tieline_project.connection("shop")
    tieline_project.state.set("changes", "1")
    supplier.on("GET", "/changes", query={"after": "1"}).answer(json=page("b", following="2", more=True))
    supplier.on("GET", "/changes", query={"after": "2"}).answer(json=page("c", following="3"))
    shop.on("PUT", "/stock/b").answer(204)
    shop.on("PUT", "/stock/c").answer(409).answer(204)
    with pytest.raises(RunFailedError, match="409"):
        tieline_project.run_schedule("stock")
    assert tieline_project.state.get("changes") == "2"
    tieline_project.run_schedule("stock")
    assert set_in_shop(tieline_project) == ["/stock/b", "/stock/c", "/stock/c"]
    assert tieline_project.state.get("changes") == "3"
