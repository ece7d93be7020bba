"""An author with the command line alone: from an empty folder to a production failure that is found and mended."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.harness.cluster.deployed_platform import Platform, Rest, Tenant, external_system
from tests.harness.session.waiting import eventually

pytestmark = pytest.mark.e2e

SHOP = """
from aiohttp import web

orders = []


async def take(request):
    order = await request.json()
    if "reference" not in order:
        return web.Response(status=422, text="An order needs a reference")
    orders.append(order)
    return web.Response(status=201)


async def tell(_request):
    return web.json_response(orders)


app = web.Application()
app.router.add_post("/orders", take)
app.router.add_get("/", tell)
web.run_app(app, port=8080, print=None)
"""
MAIN = "integration/main.py"
BROKEN = """
from tieline import Context, Integration, Reject, Request

integration = Integration()


@integration.webhook("orders", delivery="queued")
async def orders(ctx: Context, request: Request) -> None:
    order = await request.json()
    response = await ctx.fetch("shop", "/orders", method="POST", json={"number": order["number"]})
    if response.status == 422:
        ctx.log.error("The shop refuses the order", number=order["number"])
        raise Reject((await response.text()))
    response.raise_for_status()
"""


@dataclass
class Author:
    """Runs ``tieline`` in a folder, with a configuration of its own."""

    folder: Path
    configuration: Path

    def __call__(
        self, *arguments: str, stdin: str | None = None, code: int = 0
    ) -> subprocess.CompletedProcess[str]:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("TIELINE_")}
        ended = subprocess.run(
            [sys.executable, "-c", "from tieline.cli.main import main; main()", *arguments],
            cwd=self.folder,
            env={**environment, "TIELINE_CONFIG_FOLDER": str(self.configuration), "TIELINE_NO_KEYRING": "1"},
            input=stdin,
            capture_output=True,
            text=True,
            timeout=400,
            check=False,
        )
        assert ended.returncode == code, f"{arguments}: {ended.returncode}\n{ended.stdout}\n{ended.stderr}"
        return ended

    def json(self, *arguments: str) -> Any:
        return json.loads(self(*arguments, "--output", "json").stdout)


def _make_project(tieline: Author, tenant: Tenant, url: str) -> None:
    """A project whose name ``shop`` leads to the shop, made by commands."""
    tieline("init", "order-sync")
    tieline.folder = tieline.folder / "order-sync"
    (tieline.folder / MAIN).write_text(BROKEN)
    tieline("projects", "create", "order-sync")
    tenant.apply(
        {
            "kind": "System",
            "metadata": {"name": "web-shop"},
            "spec": {"name": "Web shop", "domain": "shop.example", "templateBaseUrl": url},
        },
        {
            "kind": "Connection",
            "metadata": {"name": "web-shop"},
            "spec": {"name": "Ours", "systemRef": {"name": "web-shop"}},
        },
    )
    unknown = tieline("deploy", code=1)
    assert "shop" in unknown.stderr, "the code names a template that the environment does not have"
    eventually("the connection known", lambda: tieline.json("connections", "list"))
    tieline("templates", "add", "shop", "--system", "Web shop", "--connection", "Ours")
    assert "Ours" in tieline("templates", "list").stdout


def test_an_author_finds_and_mends_a_failure_with_commands_alone(
    platform: Platform, tenant: Tenant, rest: Rest, tmp_path: Path
) -> None:
    tenant.apply(*external_system("shop", image=platform.images["runtime"], program=SHOP))
    url = f"http://shop.{tenant.namespace}.svc"
    tieline = Author(tmp_path, tmp_path / "configuration")
    login = ("login", platform.url, "--organisation", rest.organisation, "--token-stdin")
    refused = tieline(*login, stdin="no.valid.token", code=3)
    assert "no.valid.token" not in refused.stderr
    signed_in = tieline(*login, stdin=rest.token)
    assert rest.token not in signed_in.stdout + signed_in.stderr

    _make_project(tieline, tenant, url)

    planned = tieline("deploy", "--dry-run", "--diff")
    assert "+ main.py" in planned.stderr
    assert tieline.json("versions") == []
    deployed = tieline.json("deploy", "--version-name", "v1", "--message", "The first one")
    assert deployed["rollout"]["state"] == "complete"
    again = tieline("deploy")
    assert "serves these files already" in again.stderr

    assert "HTTP 202" in tieline("call", "orders", "--data", '{"number": "A-1"}', "--include").stderr
    (dead,) = eventually("the failure", lambda: tieline.json("runs", "list", "--status", "dead"))
    shown = tieline("runs", "show", dead["id"]).stdout
    assert "An order needs a reference" in shown
    assert '"number": "A-1"' in shown, "its input"
    line = eventually(
        "its log line", lambda: tieline("logs", "--run", dead["id"], "--severity", "ERROR").stdout
    )
    assert "The shop refuses the order" in line
    assert "orders" in tieline("traces", "show", dead["traceId"]).stdout

    (tieline.folder / MAIN).write_text(
        BROKEN.replace('{"number": order["number"]}', '{"reference": order["number"]}')
    )
    fixed = tieline("deploy", "--version-name", "v2", "--diff")
    assert (
        '+    response = await ctx.fetch("shop", "/orders", method="POST", json={"reference"' in fixed.stderr
    )
    counted = tieline("replay", "--status", "dead", "--dry-run")
    assert "Replay 1 runs" in counted.stdout
    tieline("replay", "--status", "dead", code=2)
    tieline("replay", "--status", "dead", "--yes")
    eventually(
        "the run again",
        lambda: tieline.json("runs", "list", "--status", "succeeded")[0]["replayOf"] == dead["id"],
    )
    assert [version["name"] for version in tieline.json("versions")] == ["v2", "v1"]
    back = tieline.json("rollback", "--yes")
    assert back["version"]["name"] == "v1"
    assert back["rollout"]["state"] == "complete"

    tieline("manifests")
    manifests = (tieline.folder / "deploy/project.yaml").read_text()
    assert "kind: ConnectionTemplate" in manifests
    rendered = tenant.kubectl(
        "kustomize", str(tieline.folder / "deploy"), "--load-restrictor=LoadRestrictionsNone"
    ).stdout
    tenant.kubectl("apply", "--dry-run=server", "-f", "-", stdin=rendered, namespace=tenant.namespace)
    tieline("logout")
    assert "tieline login" in tieline("versions", code=3).stderr
