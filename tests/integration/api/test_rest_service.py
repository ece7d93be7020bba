"""What surrounds the operations: probes, documents, metrics, logs, and Kubernetes being away."""

import asyncio
import hashlib
import json
import logging
import socket
import threading
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jsonschema_rs
import openapi_spec_validator
import orjson
import pytest
import yaml

from tests.harness.kubectl import Organisation
from tests.integration.api.conftest import Client, Server
from tests.integration.api.objects import make_project, make_system
from tieline_api.service.documentation import ASSETS, assets_folder
from tieline_api.service.logs import JsonLines

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
        for line in (json.loads(JsonLines().format(record)) for record in caplog.records)
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


class Relay:
    """A TCP relay to the API server that can be cut."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._loop = asyncio.new_event_loop()
        self._writers: list[asyncio.StreamWriter] = []
        self.cut = False
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        self.port: int = self._run(self._listen())

    def _run(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(10)

    async def _listen(self) -> int:
        server = await asyncio.start_server(self._relay, "127.0.0.1", 0)
        found: int = server.sockets[0].getsockname()[1]
        return found

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.cut:
            writer.close()
            return
        there, back = await asyncio.open_connection("127.0.0.1", self._target)
        self._writers += [writer, back]

        async def pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
            try:
                while data := await source.read(65536):
                    sink.write(data)
                    await sink.drain()
            except OSError:
                pass
            finally:
                sink.close()

        await asyncio.gather(pump(reader, back), pump(there, writer), return_exceptions=True)

    def cut_off(self) -> None:
        async def cut() -> None:
            self.cut = True
            for writer in self._writers:
                writer.close()

        self._run(cut())


def test_while_kubernetes_is_away_reads_go_on_and_writes_are_503(
    api_kubeconfig: Path, client: Client, org: Organisation, tmp_path: Path
) -> None:
    project = make_project(client)
    config = yaml.safe_load(api_kubeconfig.read_text())
    cluster = config["clusters"][0]["cluster"]
    host, _, port = cluster["server"].removeprefix("https://").partition(":")
    if socket.gethostbyname(host) != "127.0.0.1":
        pytest.skip("the API server's certificate must be good for 127.0.0.1, where the relay listens")
    relay = Relay(int(port))
    cluster["server"] = f"https://127.0.0.1:{relay.port}"
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump(config))
    server = Server(path)
    server.start()
    try:
        away = Client(server.url, client.token, org.id)
        for one in ("/projects", "/systems"):
            assert away("GET", one).status == 200
        assert away("PUT", f"/projects/{project['id']}", {"name": "x"}).status == 200
        server.platform.access._seconds = 1000  # the answers that follow must not need a new review
        for one in ("/projects", "/systems"):
            away("GET", one)
        time.sleep(0.6)
        for one in ("/projects", "/systems"):
            away("GET", one)
        away("PUT", f"/projects/{project['id']}", {"name": "x"})
        relay.cut_off()
        listed = away("GET", "/projects")
        assert listed.status == 200
        assert project["id"] in listed.raw.decode()
        refused = away("PUT", f"/projects/{project['id']}", {"name": "y"})
        assert (refused.status, refused.json["code"]) == (503, "unavailable")
        assert int(refused.headers["Retry-After"]) >= 1
        stranger = Client(server.url, "another.token", org.id)
        assert stranger("GET", "/projects").status == 503
        object.__setattr__(server.platform.settings, "stale_seconds", 0.01)
        assert int(away("GET", "/projects").headers["X-Tieline-Stale"]) >= 0
        assert away.at("/readyz").status == 503
        assert away.at("/healthz").status == 200
    finally:
        server.stop()


def test_the_server_ends_though_a_pod_is_waiting(
    api_kubeconfig: Path, kubectl: Any, org: Organisation, client: Client
) -> None:
    from tests.integration.api.test_rest_internal import account_token

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
    time.sleep(0.3)
    began = time.monotonic()
    server.stop()
    waiting.join(5)
    assert answers == [304]
    assert time.monotonic() - began < 5


def test_settings_tell_what_is_wrong(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from tieline_api.main import main

    monkeypatch.setenv("TIELINE_LISTEN_PORT", "many")
    assert main() == 2
    assert "TIELINE_LISTEN_PORT must be a number from 1 to 65535" in capsys.readouterr().err
