"""The logs of an environment with two replicas: one stream in the order of time, by every filter."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest

from tests.harness.cluster.deployed_platform import Rest, Tenant, http, project, says
from tests.harness.session.waiting import eventually

pytestmark = pytest.mark.e2e

CODE = """
import os

from tieline import Context, Integration, Request

integration = Integration()


@integration.webhook("say")
async def say(ctx: Context, request: Request) -> str:
    ctx.log.warning("Said %(version)s", words=await request.text(), pod=os.environ["HOSTNAME"])
    return ctx.execution_id


@integration.webhook("fall")
async def fall(ctx: Context) -> None:
    print("The last words", flush=True)
    os._exit(3)
"""


def test_lines_of_two_replicas_are_one_stream_with_execution_and_activation(
    tenant: Tenant, rest: Rest
) -> None:
    tenant.apply(project(CODE % {"version": "one"}, runtime={"replicas": 2}))
    url = tenant.until("orders", "running")["publicUrl"]
    eventually("two pods", lambda: tenant.environment("orders").get("readyReplicas") == 2)
    identifier = rest("GET", "/projects").json["projects"][0]["id"]

    def logs(**query: str) -> dict[str, Any]:
        text = "&".join(f"{name}={quote(value)}" for name, value in query.items())
        answer = rest("GET", f"/projects/{identifier}/logs?{text}")
        assert answer.status == 200, answer
        page: dict[str, Any] = answer.json
        return page

    executions: list[str] = []

    def words() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = logs(search="Said one", first="1000", order="asc")["logs"]
        return found

    def both_have_spoken() -> bool:
        """Whether two pods wrote, after one call more; Kubernetes puts its time when it reads a line, so that
        only what could be read before the next was written is sure to come before it."""
        executions.append(http("POST", f"{url}/say", body=f"words {len(executions)}".encode()).body.decode())
        eventually("its line", lambda: len(words()) == len(executions))
        return len(executions) >= 5 and len({line["fields"]["pod"] for line in words()}) == 2

    eventually("a line of each pod", both_have_spoken)
    said = words()
    assert [line["timestamp"] for line in said] == sorted(line["timestamp"] for line in said)
    assert [line["fields"]["executionId"] for line in said] == executions, "called one after the other"
    assert len({line["fields"]["activationId"] for line in said}) == 1
    assert {line["severity"] for line in said} == {"WARNING"}
    assert logs(search="Said one", first="1000", order="desc")["logs"] == said[::-1]

    middle = said[len(said) // 2]["timestamp"]
    earlier, later = (
        logs(search="Said one", first="1000", order="asc", **one)["logs"]
        for one in ({"end": middle}, {"start": middle})
    )
    assert earlier + later == said
    run = logs(search=executions[0], order="asc")["logs"]
    assert "Said one" in [line["message"] for line in run]
    assert any(line.get("httpRequest", {}).get("status") == 200 for line in run), "the run's own line"
    assert (
        logs(search="Said one", project_env="production", latest="true", first="1000", order="asc")["logs"]
        == said
    )
    paged: list[Any] = []
    token: dict[str, str] = {}
    while True:
        page = logs(search="Said one", first="3", order="asc", **token)
        paged += page["logs"]
        if "nextToken" not in page:
            break
        token = {"next_token": page["nextToken"]}
    assert paged == said

    with pytest.raises(OSError, match=r"closed|reset|Remote"):
        http("POST", f"{url}/fall", timeout=20)
    eventually("what was said before the crash", lambda: logs(search="The last words")["logs"])
    assert logs(search="Said one", first="1000", order="asc")["logs"] == said, (
        "with those of the crashed container"
    )


SECRETIVE = """
import os

from tieline import Context, Integration

integration = Integration()
print("The password is", os.environ["DB_PASSWORD"], flush=True)


@integration.webhook("hello", methods=["GET"])
async def hello(ctx: Context) -> dict[str, str]:
    ctx.log.info("Read", password=os.environ["DB_PASSWORD"])
    return {"says": os.environ["DB_PASSWORD"]}
"""


def database(password: str, *, opened: bool = True) -> dict[str, Any]:
    labels = {"tieline.dev/expose-to-code": "true"} if opened else {}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "tieline.dev/credential",
        "metadata": {"name": "db", "labels": labels},
        "stringData": {"password": password},
    }


def test_a_pod_reads_a_secret_variable_and_its_next_value_and_no_log_has_them(tenant: Tenant) -> None:
    first, second = "f1rst 'quoted'\npass$(HOME)word", "s3cond-password"
    variable = {"name": "DB_PASSWORD", "valueFrom": {"secretKeyRef": {"name": "db", "key": "password"}}}
    tenant.apply(database(first, opened=False), project(SECRETIVE, runtime={"env": [variable]}))
    tenant.until("orders", "error", message="tieline.dev/expose-to-code")
    assert tenant.pods("orders") == []

    tenant.apply(database(first))
    url = tenant.until("orders", "running")["publicUrl"]
    assert says(url) == first
    # A new value replaces the pods, of which one serves all the time.
    tenant.apply(database(second))
    eventually("the new value", lambda: says(url) == second)

    (pod,) = eventually("one pod", lambda: found if len(found := tenant.pods("orders")) == 1 else None)
    lines = tenant.kubectl("logs", pod["metadata"]["name"], namespace=tenant.namespace).stdout
    assert "The password is ***" in lines
    assert '"password":"***"' in lines.replace(" ", "")
    shown = str(tenant.get("projects,projectversions,deployments,pods,events"))
    for value in (first, second, "pass$(HOME)word"):
        assert value not in lines + shown
