"""Each customer's points go to their own account; the connections are those of connections.json."""

from base64 import b64encode

from tieline.testing import Project


def test_points_are_credited_to_the_customers_own_account(tieline_project: Project) -> None:
    account = tieline_project.connection("loyalty", user="ann")
    account.on("PUT", "/credits/{order}").answer(json={"balance": 39})
    answer = tieline_project.post(
        "/paid", user="ann", caller="storefront", json={"number": "1", "total": "19.90"}
    )
    assert answer.json() == {"credited": 39, "balance": 39}
    (request,) = account.requests
    assert (request.path, request.json()) == ("/credits/1", {"points": 39})
    assert request.headers["Authorization"] == f"Basic {b64encode(b'ann:anns-password').decode()}"


def test_a_credit_is_sent_again_after_a_failure_that_passes(tieline_project: Project) -> None:
    account = tieline_project.connection("loyalty", user="ben")
    account.on("PUT", "/credits/2").answer(503, headers={"Retry-After": "3"}).answer(json={"balance": 5})
    order = {"number": "2", "total": 5}
    assert tieline_project.post("/paid", user="ben", caller="storefront", json=order).ok
    assert (len(account.requests), tieline_project.waits) == (2, [3])


def test_only_the_storefront_may_credit_points(tieline_project: Project) -> None:
    order = {"number": "1", "total": "19.90"}
    assert tieline_project.post("/paid", user="ann", json=order).status == 401
    assert tieline_project.post("/paid", user="zoe", caller="storefront", json=order).status == 404
    assert tieline_project.connection("loyalty", user="ann").requests == []


def test_points_for_an_amount_follow_the_users_rate(tieline_project: Project) -> None:
    tieline_project.user("cleo", variables={"pointsPerEuro": 3})
    account = tieline_project.connection("loyalty", user="cleo")
    account.on("PUT", "*").answer(json={"balance": 1})
    order = {"number": "1", "total": "1.50"}
    answer = tieline_project.post("/paid", user="cleo", caller="storefront", json=order)
    assert answer.json()["credited"] == 4
