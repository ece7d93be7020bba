"""A system that refuses requests of real runtimes is seen at the connection, until it accepts one again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from tests.harness.cluster.deployed_platform import http
from tests.harness.cluster.kubectl import Kubectl, Organisation
from tests.harness.processes.running_api import RunningApi
from tests.harness.processes.running_runtime import RunningRuntime
from tests.harness.session.waiting import eventually
from tests.integration.api.conftest import Client
from tests.integration.api.objects import connect, make_project, make_template, stored
from tests.integration.api.pods import account_token, ask
from tieline_core.credentials.refusals import ANNOTATION

pytestmark = pytest.mark.cluster

MAIN = """
from tieline import Integration

integration = Integration()


@integration.webhook("ask")
async def ask(ctx, request):
    return {"status": (await ctx.fetch("shop", "/orders", retries=0)).status}
"""


@dataclass
class Provider:
    """A system that takes one API key."""

    key: str = "the-right-key"
    seen: list[str] = field(default_factory=list)
    url: str = ""

    def start(self) -> ThreadingHTTPServer:
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                given = self.headers.get("X-API-Key", "")
                provider.seen.append(given)
                body = b"{}" if given == provider.key else f"no such key: {given}".encode()
                self.send_response(200 if given == provider.key else 401)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        self.url = f"http://127.0.0.1:{server.server_address[1]}"
        return server


@dataclass
class There:
    client: Client
    kubectl: Kubectl
    org: Organisation
    connection: dict[str, Any]
    project: dict[str, Any]
    token: str
    provider: Provider
    pods: list[RunningRuntime]
    own: Client
    """At the API that may reach this machine."""

    def asked(self, pod: int = 0) -> int:
        """The status that code in a pod is answered with."""
        answer = http("POST", f"{self.pods[pod].url}/ask")
        return int(json.loads(answer.body).get("status") or answer.status)

    def told(self) -> dict[str, Any]:
        found: dict[str, Any] = self.client.ok("GET", f"/connections/{self.connection['id']}")
        return found

    def refused(self) -> dict[str, Any] | None:
        found: dict[str, Any] | None = self.told().get("refused")
        return found

    def report(self, body: Any, token: str = "") -> int:
        path = f"/internal/v1/connections/{self.connection['id']}/outcome"
        return Client(self.client.url, token or self.token, "").at(path, method="POST", body=body).status


@pytest.fixture(scope="module")
def there(
    client: Client,
    kubectl: Kubectl,
    org: Organisation,
    api_kubeconfig: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[There]:
    folder = tmp_path_factory.mktemp("refused")
    provider = Provider()
    server = provider.start()
    project, template = make_template(client)
    connection = connect(client, template, "the-right-key")
    client.ok("PUT", f"/connections/{connection['id']}", {"baseUrl": provider.url})
    token = account_token(kubectl, org, project)
    api = RunningApi(
        kubeconfig=api_kubeconfig,
        log=folder / "api.log",
        variables={"TIELINE_EGRESS_ALLOWED": "127.0.0.0/8", "TIELINE_RUNS_FILE": str(folder / "runs.db")},
    )
    with api:
        pods = [
            RunningRuntime(
                folder=folder / f"pod-{number}",
                code=MAIN,
                token=token,
                variables={"TIELINE_API_URL": api.internal_url, "TIELINE_EGRESS_ALLOWED": "127.0.0.0/8"},
            )
            for number in range(2)
        ]
        with pods[0], pods[1]:
            own = Client(api.url, client.token, client.organisation)
            yield There(client, kubectl, org, connection, project, token, provider, pods, own)
    server.shutdown()


def test_it_is_seen_since_when_and_how_often_and_another_pod_tells_that_it_is_over(there: There) -> None:
    assert there.told()["state"] == "not_checked"
    assert there.asked() == 200
    eventually("it works", lambda: there.told()["state"] == "works" and there.told().get("lastSuccessAt"))
    assert there.refused() is None
    updated = there.told()["updatedAt"]
    there.provider.key = "another"
    assert there.asked() == 401
    refused = eventually("refused", there.refused)
    assert (refused["status"], refused["count"] >= 1) == (401, True)
    assert refused["said"].startswith("no such key:")
    assert "the-right-key" not in refused["said"]
    assert there.told()["state"] == "refused"
    assert refused["since"] <= refused["lastAt"]
    assert there.told()["updatedAt"] == updated, "nobody has changed the connection"
    assert there.client.ok("GET", "/connections?first=200")["items"]
    eventually("pods know", lambda: ask(there.client, there.token).json["connections"]["shop"].get("refused"))
    written = stored(there.kubectl, there.org, "connection", there.connection["id"])
    assert "the-right-key" not in written["metadata"]["annotations"][ANNOTATION]
    there.provider.key = "the-right-key"
    # It is told by a pod that has seen no refusal itself, once that knows of it.
    eventually("accepted again", lambda: there.asked(1) == 200 and there.refused() is None)
    again = stored(there.kubectl, there.org, "connection", there.connection["id"])
    assert "accepted" in json.loads(again["metadata"]["annotations"][ANNOTATION])


def test_many_reports_are_few_writes(there: There) -> None:
    def version() -> str:
        found = stored(there.kubectl, there.org, "connection", there.connection["id"])
        return str(found["metadata"]["resourceVersion"])

    def begun() -> bool:
        assert there.report({"status": 401, "count": 2}) == 204
        return there.refused() is not None

    eventually("refused", begun)
    before = version()
    for _ in range(20):
        assert there.report({"status": 403, "count": 1000}) == 204
    assert version() == before
    eventually("accepted", lambda: there.report({"status": 200}) == 204 and there.refused() is None)


def test_a_test_by_rest_that_succeeds_ends_it(there: There) -> None:
    eventually("refused", lambda: there.report({"status": 401}) == 204 and there.refused() is not None)
    path = f"/connections/{there.connection['id']}/test"

    def ended() -> bool:
        there.provider.key = "the-right-key"
        assert there.own.ok("POST", path, {"path": "/orders"})["ok"] is True
        return there.refused() is None

    there.provider.key = "another"
    assert there.own.ok("POST", path, {"path": "/orders"})["ok"] is False
    assert there.refused() is not None
    eventually("ended", ended)


@pytest.mark.parametrize(
    "body",
    [None, [], {}, {"status": "401"}, {"status": True}, {"status": 99}, {"status": 401, "count": 0},
     {"status": 401, "count": 10**9}, {"status": 401, "count": 1.5}],
)  # fmt: skip
def test_what_is_no_report_is_refused(there: There, body: Any) -> None:
    assert there.report(body) in (400, 422)
    assert there.refused() is None


def test_a_pod_tells_nothing_of_connections_that_are_not_its_own(there: There) -> None:
    other = account_token(there.kubectl, there.org, make_project(there.client))
    assert there.report({"status": 401}, other) in (403, 404)
    assert there.refused() is None
