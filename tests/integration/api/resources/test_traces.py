"""Traces through the API: pods bring them in, people look at them, and each sees their own only."""

import gzip
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness.cluster.kubectl import Kubectl, Organisation
from tests.integration.api.conftest import Answer, Client, Server
from tests.integration.api.objects import make_project
from tests.integration.api.pods import account_token
from tests.unit.api.traces.otlp_requests import attribute, body_json, body_protobuf, span_json
from tieline_api.traces.otlp_batch import JSON, PROTOBUF

pytestmark = pytest.mark.cluster

PATH = "/internal/v1/traces"


@pytest.fixture(scope="module")
def server(api_kubeconfig: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Without an event engine, so that spans are kept at once."""
    file = tmp_path_factory.mktemp("traces") / "traces.db"
    with Server(api_kubeconfig, traces_file=str(file)) as started:
        yield started


@pytest.fixture(scope="module")
def client(server: Server, org: Organisation, token_for: Callable[..., str]) -> Client:
    """An administrator of the organisation, at this server."""
    return Client(server.url, token_for(org.namespace, "admin", "tieline-admin"), org.id)


def send(client: Client, token: str | None, body: bytes, **headers: str) -> Answer:
    sender = Client(client.url, token, client.organisation)
    return sender.at(PATH, method="POST", raw=body, **{"Content_Type": JSON, **headers})


def test_what_a_pod_sends_is_seen_in_list_and_trace(
    client: Client, server: Server, kubectl: Kubectl, org: Organisation
) -> None:
    project = make_project(client)
    token = account_token(kubectl, org, project)
    mine = [attribute("executionId", "E1"), attribute("task", "orders"), attribute("user", "ann")]
    run = span_json(1, attributes=mine, traceId="0A" * 16)
    inner = span_json(
        2,
        traceId="0a" * 16,
        parentSpanId=run["spanId"],
        kind=3,
        name="GET",
        status={"code": 2, "message": "x"},
    )
    assert send(client, token, body_json(run)).json == {}
    answer = send(client, token, body_protobuf(inner), Content_Type=PROTOBUF)
    assert (answer.status, answer.raw, answer.headers["Content-Type"]) == (200, b"", PROTOBUF)
    assert server.platform.traces.store.flush()
    item = {
        "traceId": "0a" * 16,
        "spanId": run["spanId"],
        "name": "orders",
        "serviceName": "Shop sync",
        "startTime": "2025-11-21T10:00:00.000000001Z",
        "duration": 0.001,
        "status": {"code": "UNSET"},
        "user": {"externalId": "ann"},
        "executionId": "E1",
    }
    base = f"/projects/{project['id']}/traces"
    assert client.ok("GET", base) == {"items": [item]}
    for query in (
        "project_env=production",
        "error=false",
        "task=orders",
        "filter=executionId:E1%20task:orders",
    ):
        assert client.ok("GET", f"{base}?{query}") == {"items": [item]}, query
    for query in (
        "error=true",
        "task=x",
        "filter=a:b",
        "start=2026-01-01T00:00:00Z",
        "end=9999-01-01T00:00:00Z",
    ):
        assert (client.ok("GET", f"{base}?{query}")["items"] == [item]) is query.startswith("end"), query
    trace = client.ok("GET", f"{base}/{'0A' * 16}")
    assert trace["traceId"] == "0a" * 16
    assert trace["spans"][0] == {
        "spanId": run["spanId"],
        "name": "orders",
        "startTime": "2025-11-21T10:00:00.000000001Z",
        "endTime": "2025-11-21T10:00:00.000001001Z",
        "attributes": [
            {"key": "executionId", "value": "E1"},
            {"key": "task", "value": "orders"},
            {"key": "user", "value": "ann"},
        ],
        "status": {"code": "UNSET"},
    }
    assert trace["spans"][1]["parentSpanId"] == run["spanId"]
    assert trace["spans"][1]["status"] == {"code": "ERROR", "message": "x"}, "with which the run has coped"


def test_a_run_that_failed_tells_by_what_and_for_whom(
    client: Client, server: Server, kubectl: Kubectl, org: Organisation
) -> None:
    project = make_project(client)
    told = [attribute("exception.type", "builtins.ValueError"), attribute("activation", "A1")]
    failed = span_json(1, attributes=told, status={"code": 2, "message": "ValueError"})
    send(client, account_token(kubectl, org, project), body_json(failed, span_json(2)))
    assert server.platform.traces.store.flush()
    (item,) = client.ok("GET", f"/projects/{project['id']}/traces?error=true")["items"]
    assert item["spanId"] == failed["spanId"]
    assert item["status"] == {"code": "ERROR", "message": "ValueError"}
    assert item["error"] == {"type": "builtins.ValueError", "message": "ValueError"}
    assert item["activationId"] == "A1"
    assert "user" not in item


def test_pages_hold_each_run_once(
    client: Client, server: Server, kubectl: Kubectl, org: Organisation
) -> None:
    project = make_project(client)
    token = account_token(kubectl, org, project)
    send(client, token, body_json(*[span_json(number) for number in range(1, 26)]))
    assert server.platform.traces.store.flush()
    base, found, query = f"/projects/{project['id']}/traces", [], ""
    while True:
        page = client.ok("GET", f"{base}?first=10{query}")
        found += [item["spanId"] for item in page["items"]]
        if "nextToken" not in page:
            break
        query = f"&next_token={page['nextToken']}"
    assert found == [f"{number:016x}" for number in range(25, 0, -1)]
    other = make_project(client)
    assert client("GET", f"/projects/{other['id']}/traces?next_token={query[12:]}").status == 400
    assert client("GET", f"{base}?next_token=nonsense").status == 400


def test_whose_spans_they_are_is_what_the_token_says(
    client: Client, server: Server, kubectl: Kubectl, org: Organisation
) -> None:
    project, other = make_project(client), make_project(client)
    lying = span_json(
        1, attributes=[attribute("projectId", other["id"]), attribute("tieline.project", other["id"])]
    )
    send(client, account_token(kubectl, org, project), body_json(lying))
    assert server.platform.traces.store.flush()
    assert client.ok("GET", f"/projects/{other['id']}/traces") == {"items": []}
    assert client("GET", f"/projects/{other['id']}/traces/{lying['traceId']}").status == 404
    assert client("GET", f"/projects/{project['id']}/traces/{lying['traceId']}").status == 200


def test_only_pods_may_bring_spans(client: Client, kubectl: Kubectl, org: Organisation) -> None:
    assert send(client, None, b"{}").status == 401
    assert send(client, "nonsense", b"{}").status == 401
    assert send(client, client.token, b"{}").status == 401, "a token for the API is none for this endpoint"
    other = kubectl("create", "token", "admin", "--audience=tieline", namespace=org.namespace).stdout.strip()
    assert send(client, other, b"{}").status == 403


def test_what_cannot_be_read_is_told(
    client: Client, server: Server, kubectl: Kubectl, org: Organisation, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = account_token(kubectl, org, make_project(client))

    def status(body: bytes, **headers: str) -> int:
        return send(client, token, body, **headers).status

    assert status(b"{") == 400
    assert status(b"[]") == 400
    assert status(b"\xff\xff", Content_Type=PROTOBUF) == 400
    assert status(b"{}", Content_Type="text/plain") == 415
    assert status(b"{}", Content_Encoding="compress") == 415
    assert status(gzip.compress(body_json(span_json(1))), Content_Encoding="gzip") == 200
    assert status(b"no gzip", Content_Encoding="gzip") == 400
    assert status(b" " * (5 * 1024 * 1024)) == 413
    bomb = gzip.compress(b" " * (50 * 1024 * 1024))
    assert len(bomb) < 100_000
    assert status(bomb, Content_Encoding="gzip") == 413
    monkeypatch.setattr(server.platform.traces.store, "offer", lambda *_: False)
    answer = send(client, token, body_json(span_json(1)))
    assert answer.status == 429
    assert answer.headers["Retry-After"] == "1"


def test_a_wrong_question_is_told(client: Client) -> None:
    base = f"/projects/{make_project(client)['id']}/traces"
    cases: list[tuple[str, int, Any]] = [
        ("?filter=word", 422, ["filter"]),
        ("?start=yesterday", 422, ["start"]),
        ("?error=perhaps", 422, ["error"]),
        ("?project_env=none", 404, []),
        ("/nonsense", 404, []),
        (f"/{'0' * 32}", 404, []),
    ]
    for query, status, fields in cases:
        answer = client("GET", base + query)
        assert (answer.status, answer.fields) == (status, fields), query
