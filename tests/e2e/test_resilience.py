"""What ends a pod of an environment: its memory runs out, its code blocks it, the API goes away."""

from __future__ import annotations

import json
import time

import pytest

from tests.harness.cluster.deployed_platform import Platform, Rest, Tenant, http, project
from tests.harness.cluster.evictions import serves
from tests.harness.session.waiting import eventually

pytestmark = pytest.mark.e2e

CODE = """
import os

from tieline import Context, Integration

integration = Integration()


@integration.webhook("key")
async def key(ctx: Context) -> str:
    return str(ctx.variables["region"])


@integration.webhook("eat")
async def eat(ctx: Context) -> str:
    ctx.log.info("Eating without end")
    eaten = []
    while True:
        eaten.append(os.urandom(1024 * 1024))


@integration.webhook("block")
async def block(ctx: Context) -> str:
    while True:
        pass
"""
SCHEMA = {"type": "object", "properties": {"region": {"type": "string", "default": "eu"}}}


def _says(url: str) -> str:
    answer = http("POST", f"{url}/key", timeout=5)
    assert answer.status == 200, answer
    return answer.body.decode()


def test_runs_that_eat_memory_or_block_end_in_explained_restarts(tenant: Tenant, rest: Rest) -> None:
    limits = {"resources": {"limits": {"memory": "128Mi"}}}
    tenant.apply(project(CODE, dynamicVariablesSchema=SCHEMA, runtime=limits))
    url = tenant.until("orders", "running")["publicUrl"]
    assert _says(url) == "eu"
    with pytest.raises(OSError, match=r"closed|reset|Remote"):
        http("POST", f"{url}/eat", timeout=60)
    told = tenant.until("orders", "running", message="The code used more memory than its limit of 128Mi")
    assert "runtime.resources.limits.memory" in told["message"]
    eventually("the next run", lambda: _says(url) == "eu")
    pod = tenant.pods("orders")[0]["status"]["containerStatuses"][0]
    assert pod["restartCount"] == 1  # its lastState may be lost by now: kubernetes/kubernetes#101044

    # What it logged before it was ended is still there, and says in which run.
    identifier = rest("GET", "/projects").json["projects"][0]["id"]
    lines = rest("GET", f"/projects/{identifier}/logs?search=Eating&order=asc").json["logs"]
    assert [line["message"] for line in lines] == ["Eating without end"]
    assert lines[0]["fields"]["executionId"]

    with pytest.raises(OSError, match=r"closed|reset|Remote"):
        http("POST", f"{url}/block", timeout=60)
    said = tenant.until(
        "orders", "running", message="Webhook block blocked the event loop for 10 seconds at main.py:"
    )
    assert " in block," in said["message"]
    assert "memory" not in said["message"]
    eventually("the next run", lambda: _says(url) == "eu")


def test_pods_serve_on_while_the_api_is_away_and_those_that_start_wait_for_it(
    platform: Platform, tenant: Tenant
) -> None:
    tenant.apply(project(CODE, dynamicVariablesSchema=SCHEMA, runtime={"replicas": 2}))
    url = tenant.until("orders", "running")["publicUrl"]
    eventually("two pods", lambda: len(_ready(tenant)) == 2)
    kubectl = platform.kubectl
    kubectl("scale", "deployment", "tieline-api", "--replicas=0", namespace="tieline-system")
    try:
        eventually("the API away", lambda: not _api_pods(platform))
        stayed, restarted = sorted(_ready(tenant))
        kubectl("delete", "pod", restarted, "--wait=false", namespace=tenant.namespace)
        until = time.monotonic() + 15
        while time.monotonic() < until:  # all the while, not at its end
            assert _says(url) == "eu"
            time.sleep(0.2)
        eventually("only the old pod left", lambda: _ready(tenant) == {stayed})
        waiting = [pod for pod in tenant.pods("orders") if pod["metadata"]["name"] not in (stayed, restarted)]
        assert waiting[0]["status"]["containerStatuses"][0]["state"].get("running"), (
            "it waits, and does not crash"
        )
        assert _says(url) == "eu"
    finally:
        kubectl("scale", "deployment", "tieline-api", "--replicas=1", namespace="tieline-system")
    eventually("both again", lambda: len(_ready(tenant)) == 2)
    kubectl("rollout", "status", "deployment/tieline-api", "--timeout=60s", namespace="tieline-system")
    assert _says(url) == "eu"


def _ready(tenant: Tenant) -> set[str]:
    return {pod["metadata"]["name"] for pod in tenant.pods("orders") if serves(pod)}


def _api_pods(platform: Platform) -> list[dict]:
    found = platform.kubectl(
        "get", "pods", "-l", "app.kubernetes.io/name=tieline-api", "-o", "json", namespace="tieline-system"
    )
    return json.loads(found.stdout)["items"]
