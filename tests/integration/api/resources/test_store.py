"""State of activations by REST, as clients of key-value stores ask for it."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.harness.cluster.kubectl import Kubectl, Organisation
from tests.harness.processes.nats_server import NatsServer
from tests.harness.session.waiting import eventually
from tests.integration.api.conftest import Answer, Client, Server
from tests.integration.api.engine_objects import make_state_streams
from tests.integration.api.objects import activate, make_template
from tests.integration.api.pods import ENVIRONMENT, account_token
from tieline_core.identity.ids import new_id, static_activation_id

pytestmark = pytest.mark.cluster

Ask = Callable[..., Answer]


@pytest.fixture(scope="module", autouse=True)
def state_streams(engine: NatsServer, org: Organisation, other_org: Organisation) -> None:
    """The organisations' places in the event engine."""
    for one in (org, other_org):
        make_state_streams(engine, one.id)


@pytest.fixture
def project(client: Client) -> dict[str, Any]:
    found: dict[str, Any] = make_template(client)[0]
    return found


@pytest.fixture
def store(project: dict[str, Any]) -> str:
    """The environment's own activation, for which there is no object."""
    return static_activation_id(project["environments"][0]["id"])


@pytest.fixture(params=["/api/v2/store", "/api/v2/o/{organisation}/store"])
def ask(request: pytest.FixtureRequest, client: Client, store: str) -> Ask:
    """Asks for the store, by the path with the organisation and by the one without."""
    base = f"{request.param.format(organisation=client.organisation)}/{store}/kv"

    def send(method: str, path: str, body: Any = None, **headers: str) -> Answer:
        return client.at(base + path, method=method, body=body, **headers)

    return send


def test_a_value_is_set_read_and_deleted(ask: Ask) -> None:
    assert ask("GET", "/orders/A-1").status == 404
    text = '{"total": 12345678901234567890.10,  "n": 1}'
    first = ask("PUT", "/orders/A-1", {"value": text})
    assert first.status == 200, first.raw
    assert first.json["committed"] is True
    found = ask("GET", "/orders/A-1").json
    assert (found["value"], found["versionstamp"]) == (text, first.json["versionstamp"])
    assert datetime.fromisoformat(found["createdAt"]).tzinfo is not None
    assert "expiresAt" not in found
    second = ask("PUT", "/orders/A-1", {"value": "2"}).json
    assert second["versionstamp"] > first.json["versionstamp"]
    assert ask("GET", "/orders%2FA-1").json["value"] == "2"
    assert ask("DELETE", "/orders/A-1").status == 204
    assert ask("GET", "/orders/A-1").status == 404
    assert ask("DELETE", "/orders/A-1").status == 204


def test_a_value_that_is_there_stays_if_it_is_to(ask: Ask) -> None:
    body = {"value": "1", "options": {"ifNotExists": True}}
    assert ask("PUT", "/once", body).json["committed"] is True
    again = ask("PUT", "/once", {**body, "value": "2"})
    assert (again.status, again.json) == (200, {"committed": False})
    assert ask("GET", "/once").json["value"] == "1"


def test_a_value_is_changed_only_if_it_is_the_one_that_was_read(ask: Ask) -> None:
    first = ask("PUT", "/n", {"value": "1"}).headers["ETag"]
    assert ask("GET", "/n").headers["ETag"] == first
    second = ask("PUT", "/n", {"value": "2"}, If_Match=first)
    assert second.status == 200
    late = ask("PUT", "/n", {"value": "3"}, If_Match=first)
    assert (late.status, late.json["code"]) == (412, "precondition_failed")
    assert ask("PUT", "/absent", {"value": "3"}, If_Match="*").status == 412
    assert ask("GET", "/n").json["value"] == "2"
    assert ask("GET", "/n", If_None_Match=second.headers["ETag"]).status == 304


def test_a_value_expires(ask: Ask) -> None:
    assert ask("PUT", "/soon", {"value": "1", "options": {"expireIn": 500}}).json["committed"] is True
    assert ask("PUT", "/later", {"value": "1", "options": {"expireIn": 3_600_000}}).status == 200
    later = ask("GET", "/later").json
    lives = datetime.fromisoformat(later["expiresAt"]) - datetime.fromisoformat(later["createdAt"])
    assert lives == timedelta(hours=1)
    eventually("it to expire", lambda: ask("GET", "/soon").status == 404)
    assert ask("POST", "/count").json == {"count": 1}


def test_keys_are_listed_counted_and_deleted_with_those_below(ask: Ask) -> None:
    for key in ("orders/2", "orders/10", "orders/10/lines", "users/ann", "list", "count"):
        assert ask("PUT", f"/{key}", {"value": "1"}).json["committed"] is True
    assert ask("GET", "/list").json["value"] == "1", "words of other paths are keys like any other"
    whole = ask("POST", "/list", {"selector": {"prefix": ["orders"]}})
    assert whole.json == {
        "data": [{"key": ["orders", "10"]}, {"key": ["orders", "10", "lines"]}, {"key": ["orders", "2"]}],
        "pagination": {},
    }
    page = ask("POST", "/list", {"options": {"limit": 2, "reverse": True}}).json
    assert [one["key"] for one in page["data"]] == [["users", "ann"], ["orders", "2"]]
    body = {
        "selector": {"after": page["pagination"]["nextCursor"]},
        "options": {"limit": 2, "reverse": True},
    }
    following = ask("POST", "/list", body).json
    assert [one["key"] for one in following["data"]] == [["orders", "10", "lines"], ["orders", "10"]]
    body["selector"] = {"before": following["pagination"]["prevCursor"]}
    assert ask("POST", "/list", body).json["data"] == page["data"]
    assert ask("POST", "/count", {"selector": {"prefix": ["orders"], "filter": "lines"}}).json == {"count": 1}
    assert ask("DELETE", "/orders/10", {"options": {"cascade": True}}).status == 204
    assert ask("POST", "/count").json == {"count": 4}
    assert ask("POST", "/list", {"options": {"limit": 101}}).fields == ["options.limit"]


def test_code_and_clients_see_the_same_values(
    ask: Ask, client: Client, kubectl: Kubectl, org: Organisation, project: dict[str, Any]
) -> None:
    token = account_token(kubectl, org, project)

    def pod(method: str, path: str, body: Any = None) -> Answer:
        return Client(client.url, token, "").at(f"{ENVIRONMENT}/state{path}", method=method, body=body)

    assert ask("PUT", "/cursor", {"value": '{"page": 2}'}).status == 200
    found = pod("GET", "/cursor").json
    assert found["value"] == {"page": 2}
    changed = pod("PUT", "/cursor", {"value": {"page": 3}, "version": found["version"]})
    assert changed.status == 200
    assert json.loads(ask("GET", "/cursor").json["value"]) == {"page": 3}
    assert ask("GET", "/cursor").json["versionstamp"] == changed.json["version"]


def test_what_cannot_be_kept_is_refused_by_its_field(ask: Ask) -> None:
    assert ask("PUT", "/a", {"value": "{"}).fields == ["value"]
    assert ask("PUT", "/a", {}).fields == ["value"]
    assert ask("PUT", "/a", {"value": "1", "options": {"expireIn": 0}}).fields == ["options.expireIn"]
    assert ask("PUT", "/a//b", {"value": "1"}).fields == ["key"]
    assert ask("GET", "/%2E%2E").status in (404, 422)
    assert ask("PUT", "/a", {"value": f'"{"x" * 262_144}"'}).status == 413
    assert ask("POST", "/list", {"selector": {"after": "x"}}).fields == ["selector.after"]


def test_each_user_has_a_store_and_others_have_no_way_to_it(
    client: Client,
    neighbour: Client,
    org: Organisation,
    token_for: Callable[..., str],
    server: Server,
) -> None:
    project, template = make_template(client, dynamic=True)
    _, ann = activate(client, project, template, "s3cr3t")
    _, ben = activate(client, project, template, "s3cr3t")

    def at(store: str, *, by: Client = client, method: str = "GET", body: Any = None) -> Answer:
        return by.at(f"/api/v2/store/{store}/kv/cursor", method=method, body=body)

    assert at(ann["id"], method="PUT", body={"value": '"hers"'}).status == 200
    assert at(ann["id"]).json["value"] == '"hers"'
    assert at(ben["id"]).status == 404
    assert at(static_activation_id(project["environments"][0]["id"])).status == 404
    unknown = at(new_id())
    assert (unknown.status, unknown.json["code"]) == (404, "not_found")
    for method, body in (("GET", None), ("PUT", {"value": "1"}), ("DELETE", None)):
        refused = at(ann["id"], by=neighbour, method=method, body=body)
        assert refused.status == 404
        assert refused.json["message"].replace(ann["id"], "") == unknown.json["message"].replace(
            unknown.json["message"].split('"')[1], ""
        )
        inside = neighbour(method, f"/store/{ann['id']}/kv/cursor", body)
        assert inside.status == 404
    viewer = Client(server.url, token_for(org.namespace, "viewer", "tieline-viewer"), org.id)
    eventually("the viewer's role", lambda: at(ann["id"], by=viewer).status == 200)
    assert at(ann["id"], by=viewer, method="PUT", body={"value": "1"}).status == 403
    assert at(ann["id"], by=viewer, method="DELETE").status == 403
    assert at(ann["id"]).json["value"] == '"hers"'


def test_values_wait_while_the_engine_is_away(
    client: Client,
    api_kubeconfig: Path,
    kubectl: Kubectl,
    org: Organisation,
    project: dict[str, Any],
    store: str,
) -> None:
    with Server(api_kubeconfig) as cut_off:
        here = Client(cut_off.url, client.token, client.organisation)
        eventually("the project", lambda: here("GET", f"/projects/{project['id']}").status == 200)
        pod = Client(cut_off.url, account_token(kubectl, org, project), "")
        for refused in (
            here("GET", f"/store/{store}/kv/cursor"),
            here("PUT", f"/store/{store}/kv/cursor", {"value": "1"}),
            pod.at(f"{ENVIRONMENT}/state/cursor"),
            pod.at(f"{ENVIRONMENT}/state/cursor", method="PUT", body={"value": 1}),
        ):
            assert (refused.status, refused.json["code"]) == (503, "unavailable")
            assert "event engine cannot be reached" in refused.json["message"]
            assert refused.headers["Retry-After"] == "2"
