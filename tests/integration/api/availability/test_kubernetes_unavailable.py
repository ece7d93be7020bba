"""Kubernetes is away for a while: reads go on and say so, writes are refused whole, and all comes back."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.cluster.kubectl import Kubectl, Organisation
from tests.harness.processes.tcp_relay import Relay, through_relay
from tests.harness.session.waiting import eventually
from tests.integration.api.conftest import Client, Server
from tests.integration.api.objects import API_KEY, make_project, make_system, make_template
from tieline_core.identity.ids import new_id

pytestmark = pytest.mark.cluster

STALE = "X-Tieline-Stale"
AWAY_SECONDS = 15


@pytest.fixture
def relayed(api_kubeconfig: Path, tmp_path: Path) -> Iterator[tuple[Server, Relay]]:
    """A server whose way to Kubernetes can be cut."""
    relay, path = through_relay(api_kubeconfig, tmp_path / "kubeconfig")
    with Server(path, token_cache_seconds=0.5) as server:
        yield server, relay


def test_reads_go_on_writes_are_refused_whole_and_all_comes_back(
    relayed: tuple[Server, Relay], client: Client, org: Organisation, kubectl: Kubectl
) -> None:
    server, relay = relayed
    away = Client(server.url, client.token, org.id)
    project, template = make_template(client)
    system = make_system(client)
    connection = {"name": "C", "credentials": [
        {"id": "key", "authSchemeConfig": API_KEY,
         "credential": {"type": "string", "data": {"string": {"value": "v"}}}}]}  # fmt: skip
    unknown = f"Never {new_id()}"
    body = {"name": unknown, "domain": "d.example", "templateBaseUrl": "https://d.example",
            "authSchemeConfigs": [API_KEY]}  # fmt: skip
    reads = ["/projects", "/systems?first=200", f"/systems/{system['id']}", "/users", "/connections"]
    writes = [
        ("PUT", f"/projects/{project['id']}", {"name": unknown}),
        ("POST", "/systems", body),
        ("DELETE", f"/systems/{system['id']}", None),
        ("POST", "/connections",
         {"connectionTemplateId": template["connectionTemplateId"], "connection": connection}),
        ("PUT", f"/projects/{project['id']}/deploy", {"files": [{"filename": "main.py", "content": ""}]}),
    ]  # fmt: skip
    for path in ("/projects", "/systems?first=200", f"/systems/{system['id']}"):
        known = client("GET", path).raw
        eventually(f"{path} as the other server knows it", lambda: away("GET", path).raw == known)  # noqa: B023
    before = {path: away("GET", path) for path in reads}
    assert all(answer.status == 200 and STALE not in answer.headers for answer in before.values())
    for method, path, _ in writes:  # asks for the permissions, and changes nothing
        assert away(method, path.replace(project["id"], new_id()).replace(system["id"], new_id()), {}).status in (
            404, 422,
        )  # fmt: skip

    relay.cut()
    began = time.monotonic()
    time.sleep(1.2)  # what is known of token and permission has expired by now
    ages = []
    while not ages or time.monotonic() < began + AWAY_SECONDS:
        for path in reads:
            answer = away("GET", path)
            assert answer.status == 200
            ages.append(int(answer.headers[STALE]))
            assert answer.raw == before[path].raw
        time.sleep(2)  # the age is told anew each time
    assert ages[0] >= 1
    assert ages[-1] >= AWAY_SECONDS - 4
    for method, path, body_ in writes:
        refused = away(method, path, body_)
        assert (refused.status, refused.json["code"]) == (503, "unavailable"), (method, path)
        assert int(refused.headers["Retry-After"]) >= 1
    assert Client(server.url, "another.token", org.id)("GET", "/projects").status == 503, "cannot tell"
    assert away.at("/readyz").status == 200, "all replicas would be out of service at once"
    assert away.at("/healthz").status == 200

    relay.mend()
    eventually("news again", lambda: STALE not in away("GET", "/projects").headers)
    for path in reads:
        assert away("GET", path).raw == before[path].raw, "nothing of the refused writes is there"
    assert away("PUT", f"/projects/{project['id']}", {"name": "Back"}).status == 200
    assert away.ok("GET", f"/projects/{project['id']}")["name"] == "Back"
    assert kubectl("get", "systems", "-o", "name", namespace=org.namespace).stdout.count(unknown.lower()) == 0


def test_what_changed_meanwhile_is_seen_afterwards(
    relayed: tuple[Server, Relay], client: Client, org: Organisation
) -> None:
    server, relay = relayed
    away = Client(server.url, client.token, org.id)
    gone, kept = make_project(client), make_project(client)
    eventually("both known", lambda: away("GET", f"/projects/{kept['id']}").status == 200)
    relay.cut()
    client.ok("DELETE", f"/projects/{gone['id']}", status=204)
    changed = client("PUT", f"/projects/{kept['id']}", {"name": "Meanwhile"})
    assert away("GET", f"/projects/{gone['id']}").status == 200, "it cannot know yet"
    relay.mend()
    eventually("the deletion heard of", lambda: away("GET", f"/projects/{gone['id']}").status == 404)
    assert away.ok("GET", f"/projects/{kept['id']}")["name"] == changed.json["name"]
