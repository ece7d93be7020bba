"""A project's server whose token the shop rejects: the platform refreshes once, and no caller notices."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from tests.harness.cluster.deployed_platform import http
from tests.harness.cluster.kubectl import Kubectl, Organisation
from tests.harness.processes import api_ports
from tests.harness.processes.local_servers import HandlerServer, Quiet
from tests.harness.processes.running_runtime import RunningRuntime
from tests.integration.api.conftest import Client
from tests.integration.api.oauth_provider import Provider
from tests.integration.api.pods import Pod

pytestmark = pytest.mark.cluster

MAIN = """
from tieline import Integration

integration = Integration()

@integration.webhook("orders")
async def orders(ctx, request):
    answer = await ctx.fetch("shop", "/orders", method="POST", json={"order": 7})
    ctx.log.info(f"Sent with {answer.request_info.headers['Authorization']}")
    return {"status": answer.status}
"""


class Shop(HandlerServer):
    """Rejects the token that was given, and takes any other."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, bytes]] = []
        shop = self

        class Handler(Quiet, BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                token = self.headers["Authorization"].removeprefix("Bearer ")
                shop.seen.append((token, self.rfile.read(int(self.headers["Content-Length"]))))
                self.send_response(401 if token == "at-given" else 200)
                self.send_header("Content-Length", "0")
                self.end_headers()

        super().__init__(Handler)


@pytest.fixture
def shop() -> Iterator[Shop]:
    with Shop() as running:
        yield running


@pytest.fixture
def project(
    first: Client,
    kubectl: Kubectl,
    org: Organisation,
    login: Provider,
    shop: Shop,
    tmp_path: Path,
) -> Iterator[RunningRuntime]:
    pod = Pod(first, kubectl, org, login)
    first.ok("PUT", f"/connections/{pod.connection['id']}", {"baseUrl": shop.url})
    running = RunningRuntime(
        folder=tmp_path / "pod",
        code=MAIN,
        token=pod.token,
        variables={"TIELINE_API_URL": api_ports.INTERNAL[first.url], "TIELINE_EGRESS_ALLOWED": "127.0.0.0/8"},
    )
    with running:
        yield running


def test_thirty_callers_notice_nothing_and_the_provider_is_asked_once(
    project: RunningRuntime, shop: Shop, login: Provider
) -> None:
    login.slow = 0.2
    with ThreadPoolExecutor(30) as callers:
        url = f"{project.url}/orders"
        answers = list(callers.map(lambda _: http("POST", url, body=b"{}", timeout=60), range(30)))
    assert {(answer.status, answer.body.replace(b" ", b"")) for answer in answers} == {
        (200, b'{"status":200}')
    }
    assert [one["refresh_token"] for one in login.requests] == ["rt-given"]
    taken = [body for token, body in shop.seen if token != "at-given"]
    assert len(taken) == 30
    assert {body.replace(b" ", b"") for _, body in shop.seen} == {b'{"order":7}'}
    new = next(token for token, _ in shop.seen if token != "at-given")
    log = project.log.read_text()
    assert "Sent with Bearer ***" in log
    assert new not in log
    assert "at-given" not in log
