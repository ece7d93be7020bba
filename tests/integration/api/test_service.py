"""What surrounds the operations: probes, documents, metrics, logs, and Kubernetes being away."""

import hashlib
import http.client
import json
import logging
import threading
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import jsonschema_rs
import openapi_spec_validator
import orjson
import pytest

from tests.harness.cluster.kubectl import Kubectl, Organisation
from tests.harness.processes import api_ports
from tests.harness.session.waiting import PATIENCE
from tests.integration.api.conftest import Client, Server
from tests.integration.api.objects import make_project, make_system
from tests.integration.api.pods import account_token
from tieline_api.body_limits import MIB
from tieline_api.server.swagger_ui import ASSETS, assets_folder
from tieline_core.json_logging import JsonFormatter

pytestmark = pytest.mark.cluster

# Of swagger-ui-dist 5.31.0 as npm has it: the Python package that brings it must bring just that.
_SWAGGER = {
    "swagger-ui-bundle.js": "93b7b0862a80e2786f85b560be7693c2344354ffa7e7e224f850a54349724c31",
    "swagger-ui.css": "9e576f8322132c76949da47f9bb53c891373c303ea3a761ff548ffc9de50a98c",
}


@pytest.fixture
def nobody(server: Server) -> Client:
    """Without a token."""
    return Client(server.url, None, "")


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics", "/openapi.json", "/docs"])
def test_these_need_no_token(nobody: Client, path: str) -> None:
    assert nobody.at(path).status == 200


def test_the_openapi_document_that_is_served_is_valid(nobody: Client) -> None:
    served = nobody.at("/openapi.json").json
    openapi_spec_validator.validate(served)
    schemas = Path(openapi_spec_validator.__file__).parent / "resources" / "schemas" / "v3.1" / "schema.json"
    jsonschema_rs.validator_for(orjson.loads(schemas.read_bytes()), offline=True).validate(served)
    assert served["info"]["version"] == version("tieline")


def test_the_documentation_asks_no_other_server(nobody: Client) -> None:
    page = nobody.at("/docs")
    assert b"//" not in page.raw.replace(b"<!doctype", b"")
    assert "default-src 'none'" in page.headers["Content-Security-Policy"]
    for name in [*ASSETS, "start.js"]:
        assert nobody.at(f"/docs/{name}").status == 200
    assert nobody.at("/docs/..%2fsecret").status == 404


def test_swagger_ui_is_the_one_that_its_makers_published() -> None:
    for name, digest in _SWAGGER.items():
        assert hashlib.sha256((assets_folder() / name).read_bytes()).hexdigest() == digest


def test_metrics_count_by_operation_and_status(client: Client, nobody: Client) -> None:
    make_system(client)
    client.ok("GET", "/projects")
    client("GET", "/systems/x")
    text = nobody.at("/metrics").raw.decode()
    assert 'tieline_api_requests_total{operation="listProjects",status="200"}' in text
    assert 'tieline_api_requests_total{operation="getSystem",status="404"}' in text
    assert 'tieline_api_kubernetes_requests_total{resource="systems",verb="apply"}' in text


def test_each_request_is_one_line_without_secrets(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="tieline_api.requests"):
        client("GET", "/systems?search=hunter2", X_Request_Id="line-1")
        client("POST", "/systems", {"name": "hunter2"}, X_Request_Id="line-2")
    lines = {
        line["request_id"]: line
        for line in (json.loads(JsonFormatter().format(record)) for record in caplog.records)
        if line.get("request_id", "").startswith("line-")
    }
    assert lines["line-1"]["operation"] == "listSystems"
    assert lines["line-1"]["route"] == "/api/v2/o/{organisation_id}/systems"
    assert lines["line-1"]["status"] == 200
    assert lines["line-1"]["organisation"] == client.organisation
    assert lines["line-1"]["user"].endswith(":admin")
    assert lines["line-2"]["status"] == 422
    assert "hunter2" not in str(lines)
    assert str(client.token) not in str(lines)


def test_the_line_of_a_write_names_what_it_wrote_and_the_change(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, logger="tieline_api.requests"):
        made = make_system(client)["id"].lower()
        client.ok("GET", f"/systems/{made.upper()}")
    lines = [json.loads(JsonFormatter().format(record)) for record in caplog.records]
    by_operation = {line["operation"]: line for line in lines if "operation" in line}
    ((written, generation),) = by_operation["createSystem"]["wrote"].items()
    assert (written.split("/")[0], written.split("/")[2], generation) == ("systems", made, 1)
    assert by_operation["createSystem"]["changes"] == [f"{made.upper()}.1"]
    assert not {"wrote", "changes", "deleted"} & by_operation["getSystem"].keys()


def test_pages_of_a_growing_list_lose_nothing(client: Client) -> None:
    made = [make_system(client)["id"] for _ in range(4)]
    seen: list[str] = []
    page = client.ok("GET", "/systems?first=3")
    while True:
        seen += [item["id"] for item in page["items"]]
        if "next" not in page:
            break
        if len(made) < 8:
            made.append(make_system(client)["id"])
        page = client.ok("GET", f"/systems?first=3&after={page['next']}")
    assert len(seen) == len(set(seen))
    assert set(made) <= set(seen)


def test_the_server_ends_though_a_pod_is_waiting(
    api_kubeconfig: Path, kubectl: Any, org: Organisation, client: Client
) -> None:
    project = make_project(client)
    token = account_token(kubectl, org, project)
    server = Server(api_kubeconfig)
    server.start()
    pod = Client(server.url, token, org.id)
    etag = pod.at("/internal/v1/environment").headers["ETag"]
    answers: list[int] = []
    waiting = threading.Thread(
        target=lambda: answers.append(pod.at("/internal/v1/environment?wait=30", If_None_Match=etag).status)
    )
    waiting.start()
    time.sleep(0.3)  # it waits by now, and would for half a minute
    server.stop()
    waiting.join(PATIENCE)
    assert answers == [304]


@pytest.mark.parametrize("path", ["/internal/v1/environment", "/internal/v1/traces", "/metrics"])
def test_the_public_port_serves_nothing_of_what_pods_and_prometheus_ask_for(
    server: Server, kubectl: Kubectl, org: Organisation, client: Client, path: str
) -> None:
    token = account_token(kubectl, org, make_project(client))
    pod = Client(server.url, token, org.id)
    method = "POST" if path.endswith("traces") else "GET"
    if path != "/metrics":
        assert pod.at(path, method=method, body={}).status in (200, 415)
    for caller in (pod, client, Client(server.url, "guess", org.id), Client(server.url, None, org.id)):
        refused = caller.answered(server.url + path, method, {} if method == "POST" else None)
        assert (refused.status, refused.json["code"]) == (404, "not_found")


def test_the_other_ports_serve_no_rest(server: Server, client: Client) -> None:
    for url in (api_ports.INTERNAL[server.url], api_ports.METRICS[server.url]):
        for path in (f"/api/v2/o/{client.organisation}/projects", "/docs", "/openapi.json"):
            assert client.answered(url + path).status == 404
        assert client.answered(f"{url}/readyz").status == 200


def test_settings_tell_what_is_wrong(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from tieline_api.main import main

    monkeypatch.setenv("TIELINE_LISTEN_PORT", "many")
    assert main() == 2
    assert "TIELINE_LISTEN_PORT must be a number from 1 to 65535" in capsys.readouterr().err


def test_limits_are_what_the_settings_say(api_kubeconfig: Path, client: Client, org: Organisation) -> None:
    sizes = {"body_mebibytes": 1000 / MIB, "files_body_mebibytes": 3000 / MIB, "body_seconds": 0.5}
    server = Server(api_kubeconfig, **sizes, request_id_header="X-Correlation-Id")
    with server:
        limited = Client(server.url, client.token, org.id)
        project = make_project(limited)
        too_large = limited("PUT", f"/projects/{project['id']}", {"name": "x" * 1000})
        assert (too_large.status, too_large.json["limit"]) == (413, 1000)
        files = {"files": [{"filename": "main.py", "content": "#" * 2000}], "labels": {}}
        assert limited("PUT", f"/projects/{project['id']}/files", files).status == 200
        files["files"] = [{"filename": "main.py", "content": "#" * 3000}]
        assert limited("PUT", f"/projects/{project['id']}/files", files).status == 413
        answer = limited("GET", "/projects", X_Correlation_Id="mine-1")
        assert answer.headers["X-Correlation-Id"] == "mine-1"
        # A body that does not arrive is not waited for longer than that.
        place = urlsplit(server.url)
        slow = http.client.HTTPConnection(str(place.hostname), place.port, timeout=30)
        slow.putrequest("POST", f"/api/v2/o/{org.id}/projects")
        slow.putheader("Authorization", f"Bearer {client.token}")
        slow.putheader("Content-Length", "100")
        slow.endheaders(b'{"name"')
        assert slow.getresponse().status == 408
