"""What pods keep between runs: documents with compare-and-swap, each environment's and each user's own."""

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import quote

import pytest

from tests.harness.cluster.kubectl import Kubectl, Organisation
from tests.harness.processes.nats_server import NatsServer
from tests.harness.session.waiting import eventually
from tests.integration.api.conftest import Answer, Client
from tests.integration.api.engine_objects import make_state_streams
from tests.integration.api.objects import activate, make_template
from tests.integration.api.pods import ENVIRONMENT, account_token
from tieline_api.state.state_scopes import SCHEDULES, STATE

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module", autouse=True)
def state_streams(engine: NatsServer, org: Organisation) -> None:
    """The organisation's place in the event engine."""
    make_state_streams(engine, org.id)


def _send(client: Client, token: str | None, method: str, path: str, body: Any = None) -> Answer:
    return Client(client.url, token, "").at(ENVIRONMENT + path, method=method, body=body)


def test_a_value_is_kept_and_only_its_latest_version_can_be_replaced(
    client: Client, kubectl: Kubectl, org: Organisation
) -> None:
    project, _ = make_template(client)
    token = account_token(kubectl, org, project)
    for path in ("/state/cursor", "/schedules/sync"):
        missing = _send(client, token, "GET", path)
        assert (missing.status, missing.json["code"]) == (404, "no_value")
        first = _send(client, token, "PUT", path, {"value": {"page": 1}, "version": None})
        assert first.status == 200, first.json
        assert _send(client, token, "PUT", path, {"value": 2, "version": None}).status == 409
        found = _send(client, token, "GET", path)
        assert found.json == {"value": {"page": 1}, "version": first.json["version"]}
        second = _send(client, token, "PUT", path, {"value": 2, "version": first.json["version"]})
        assert second.status == 200
        assert _send(client, token, "PUT", path, {"value": 3, "version": first.json["version"]}).status == 409
        assert _send(client, token, "PUT", path, {"value": 4}).status == 200
        assert _send(client, token, "DELETE", path, {"version": first.json["version"]}).status == 409
        assert _send(client, token, "DELETE", path).status == 204
        assert _send(client, token, "DELETE", path).status == 204
        assert _send(client, token, "GET", path).status == 404


def test_of_many_that_claim_at_once_one_succeeds_and_other_keys_are_not_in_the_way(
    client: Client, kubectl: Kubectl, org: Organisation
) -> None:
    project, _ = make_template(client)
    token = account_token(kubectl, org, project)
    statuses: dict[str, list[int]] = {"sync": [], "report": []}

    def claim(name: str, value: int) -> None:
        body = {"value": value, "version": None}
        statuses[name].append(_send(client, token, "PUT", f"/schedules/{name}", body).status)

    threads = [
        threading.Thread(target=claim, args=(name, value))
        for value in range(4)
        for name in ("sync", "report")
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    for answers in statuses.values():
        assert sorted(answers) == [200, 409, 409, 409]


def test_many_values_can_be_set_at_once(client: Client, kubectl: Kubectl, org: Organisation) -> None:
    project, _ = make_template(client)
    token = account_token(kubectl, org, project)
    statuses: list[int] = []

    def keep(number: int) -> None:
        statuses.append(_send(client, token, "PUT", f"/state/value-{number}", {"value": number}).status)

    threads = [threading.Thread(target=keep, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert statuses == [200] * 20
    assert _send(client, token, "GET", "/state/value-7").json["value"] == 7


def test_users_and_environments_have_values_of_their_own(
    client: Client, kubectl: Kubectl, org: Organisation
) -> None:
    project, template = make_template(client, dynamic=True)
    ann, _ = activate(client, project, template, "s3cr3t-ann")
    ben, _ = activate(client, project, template, "s3cr3t-ben")
    other, _ = make_template(client)
    own, others = account_token(kubectl, org, project), account_token(kubectl, org, other)

    def path(user: dict[str, Any]) -> str:
        return f"/users/{quote(user['externalId'], safe='')}/state/cursor"

    assert _send(client, own, "PUT", path(ann), {"value": "a"}).status == 200
    assert _send(client, own, "PUT", "/state/cursor", {"value": "static"}).status == 200
    assert _send(client, own, "GET", path(ann)).json["value"] == "a"
    assert _send(client, own, "GET", path(ben)).json["code"] == "no_value"
    assert _send(client, others, "GET", "/state/cursor").json["code"] == "no_value"
    unknown = _send(client, others, "PUT", path(ann), {"value": "b"})
    assert (unknown.status, unknown.json["code"]) == (404, "not_found")
    assert _send(client, str(client.token), "GET", "/state/cursor").status == 401
    assert _send(client, None, "PUT", "/state/cursor", {"value": 1}).status == 401


def test_values_are_bounded_in_size_and_keys_are_checked(
    client: Client, kubectl: Kubectl, org: Organisation
) -> None:
    project, _ = make_template(client)
    token = account_token(kubectl, org, project)
    largest = "x" * (256 * 1024 - 2)
    assert _send(client, token, "PUT", "/state/big", {"value": largest}).status == 200
    assert _send(client, token, "GET", "/state/big").json["value"] == largest
    refused = _send(client, token, "PUT", "/state/big", {"value": largest + "x"})
    assert (refused.status, refused.json["code"]) == (413, "too_large")
    for key in ("a%2F%2Fb", "%2E%2E%2Fx", "a%00b", "x" * 513):
        assert _send(client, token, "PUT", f"/state/{key}", {"value": 1}).fields == ["key"]
    assert _send(client, token, "PUT", "/schedules/a%2Fb", {"value": 1}).fields == ["key"]
    assert _send(client, token, "PUT", "/state/small", {"value": 1, "version": 7}).fields == ["version"]
    for expires in (0, -1, "1", True, 10**12):
        body = {"value": 1, "expires": expires}
        assert _send(client, token, "PUT", "/state/small", body).fields == ["expires"]
    assert _send(client, token, "PUT", "/state/small", {}).fields == ["value"]


def test_any_text_is_a_key_and_keys_are_listed_by_prefix(
    client: Client, kubectl: Kubectl, org: Organisation
) -> None:
    project, template = make_template(client, dynamic=True)
    ann, _ = activate(client, project, template, "s3cr3t-ann")
    token = account_token(kubectl, org, project)
    hostile = ["*", ">", "orders/*", "orders/2.5", "orders/a b", "~own", "=2F", "größe", "a.>", "$JS.API"]
    for number, key in enumerate(hostile):
        assert _send(client, token, "PUT", f"/state/{quote(key, safe='')}", {"value": number}).status == 200
    for number, key in enumerate(hostile):
        assert _send(client, token, "GET", f"/state/{quote(key, safe='')}").json["value"] == number
    assert _send(client, token, "GET", "/state").json == {"keys": sorted(hostile)}
    orders = [key for key in sorted(hostile) if key.startswith("orders/")]
    assert _send(client, token, "GET", "/state?prefix=orders%2F").json == {"keys": orders}
    assert _send(client, token, "DELETE", f"/state/{quote('*', safe='')}").status == 204
    assert _send(client, token, "GET", "/state").json == {"keys": sorted(set(hostile) - {"*"})}
    users = f"/users/{quote(ann['externalId'], safe='')}/state"
    assert _send(client, token, "GET", users).json == {"keys": []}


def test_a_value_expires_and_a_later_one_does_not(
    client: Client, kubectl: Kubectl, org: Organisation
) -> None:
    project, _ = make_template(client)
    token = account_token(kubectl, org, project)
    assert _send(client, token, "PUT", "/state/soon", {"value": 1, "expires": 0.5}).status == 200
    assert _send(client, token, "PUT", "/state/kept", {"value": 1, "expires": 1}).status == 200
    assert _send(client, token, "PUT", "/state/kept", {"value": 2}).status == 200
    eventually("the value to expire", lambda: _send(client, token, "GET", "/state/soon").status == 404)
    assert _send(client, token, "PUT", "/state/soon", {"value": 2, "version": None}).status == 200
    kept = _send(client, token, "GET", "/state/kept").json
    assert kept["value"] == 2
    assert "expiresAt" not in kept
    assert _send(client, token, "PUT", "/state/later", {"value": 1, "expires": 3600}).status == 200
    assert "expiresAt" in _send(client, token, "GET", "/state/later").json


def test_a_version_of_another_key_deletes_and_replaces_nothing(
    client: Client, kubectl: Kubectl, org: Organisation
) -> None:
    project, _ = make_template(client)
    token = account_token(kubectl, org, project)
    one = _send(client, token, "PUT", "/state/one", {"value": 1}).json["version"]
    _send(client, token, "PUT", "/state/two", {"value": 2})
    for version in (one, "0" * 20, "f" * 20, "zz", "-" + "1" * 19, ""):
        assert _send(client, token, "DELETE", "/state/two", {"version": version}).status == 409
        assert _send(client, token, "PUT", "/state/two", {"value": 3, "version": version}).status == 409
    assert _send(client, token, "GET", "/state/one").json["value"] == 1
    assert _send(client, token, "GET", "/state/two").json["value"] == 2


def test_of_too_many_schedules_the_one_that_ran_longest_ago_is_forgotten(
    client: Client, kubectl: Kubectl, org: Organisation
) -> None:
    project, _ = make_template(client)
    token = account_token(kubectl, org, project)
    for number in range(SCHEDULES.keys):
        assert _send(client, token, "PUT", f"/schedules/s{number}", {"value": number}).status == 200
    assert _send(client, token, "PUT", "/schedules/s0", {"value": "again"}).status == 200
    assert _send(client, token, "PUT", "/schedules/new", {"value": 1}).status == 200
    assert _send(client, token, "GET", "/schedules/s0").json["value"] == "again"
    assert _send(client, token, "GET", "/schedules/s1").status == 404
    assert _send(client, token, "GET", "/schedules/s2").status == 200


def test_too_many_values_are_refused_and_others_can_still_be_changed(
    client: Client, kubectl: Kubectl, org: Organisation
) -> None:
    project, _ = make_template(client)
    token = account_token(kubectl, org, project)

    def keep(first: int) -> None:
        for number in range(first, STATE.keys, 8):
            assert _send(client, token, "PUT", f"/state/k{number}", {"value": number}).status == 200

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(keep, range(8)))
    # Keys are counted now and then: of those that are set at the same moment, a few more may be kept.
    answers = (_send(client, token, "PUT", f"/state/more{number}", {"value": 1}) for number in range(16))
    refused = next(answer for answer in answers if answer.status != 200)
    assert (refused.status, refused.fields) == (422, ["key"])
    assert "1,000" in refused.json["message"]
    assert _send(client, token, "PUT", "/state/k7", {"value": 1}).status == 200
    kept = len(_send(client, token, "GET", "/state").json["keys"])
    assert STATE.keys <= kept < STATE.keys + 16
    for number in range(8, 9 + kept - STATE.keys):
        assert _send(client, token, "DELETE", f"/state/k{number}").status == 204
    assert _send(client, token, "PUT", "/state/more", {"value": 1}).status == 200
    assert len(_send(client, token, "GET", "/state").json["keys"]) == STATE.keys


def test_users_are_listed_page_by_page(client: Client, kubectl: Kubectl, org: Organisation) -> None:
    project, template = make_template(client, dynamic=True)
    users = [activate(client, project, template, "s3cr3t")[0]["externalId"] for _ in range(5)]
    other, _ = make_template(client, dynamic=True)
    token = account_token(kubectl, org, project)
    found, after = [], ""
    while True:
        page = _send(client, token, "GET", f"/users?limit=2&after={quote(after)}").json
        assert len(page["externalIds"]) <= 2
        found += page["externalIds"]
        if page["next"] is None:
            break
        after = page["next"]
    assert sorted(found) == sorted(users)
    nobody = _send(client, account_token(kubectl, org, other), "GET", "/users")
    assert nobody.json == {"externalIds": [], "next": None}
    assert _send(client, token, "GET", "/users?limit=0").status == 422
