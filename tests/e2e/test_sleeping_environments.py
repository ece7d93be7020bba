"""An environment without work has no pods, and work finds it all the same."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.harness.cluster.deployed_platform import Rest, Tenant, http, project
from tests.harness.session.waiting import eventually

pytestmark = pytest.mark.e2e

CODE = """
from tieline import Context, Event, Integration, Request, ScheduledRun

integration = Integration()


@integration.webhook("hello")
async def hello(ctx: Context, request: Request) -> str:
    return "hello " + (await request.text())


@integration.event("order")
async def order(ctx: Context, event: Event) -> None:
    ctx.log.info("An order")


@integration.schedule("tick", "*/2 * * * *")
async def tick(ctx: Context, run: ScheduledRun) -> None:
    ctx.log.info("A tick")
"""


def test_webhooks_events_and_schedules_wake_an_environment(tenant: Tenant, rest: Rest) -> None:
    tenant.apply(project(CODE, runtime={"scaling": {"min": 0, "idleAfter": "10s"}}))
    tenant.until("orders", "running", within=240)
    seen = rest("GET", "/projects").json["projects"][0]["environments"][0]
    assert seen["config"]["scaling"] == {"min": 0, "idleAfter": "10s"}
    environment = seen["id"]
    url = _environment(tenant)["publicUrl"]

    _until_asleep(tenant)
    with ThreadPoolExecutor(8) as threads:
        answers = list(
            threads.map(lambda name: http("POST", f"{url}/hello", body=name.encode(), timeout=60), "abcdefgh")
        )
    assert [(one.status, one.body) for one in answers] == [
        (200, f"hello {name}".encode()) for name in "abcdefgh"
    ]

    _until_asleep(tenant)
    sent = rest("POST", f"/environments/{environment}/events", {"task": "order", "payload": {}})
    assert sent.status == 202, sent
    eventually("the event's run", lambda: _runs(rest, "order"), within=120)

    _until_asleep(tenant)
    before = len(_runs(rest, "tick"))
    eventually("a run of the schedule", lambda: len(_runs(rest, "tick")) > before, within=300)


def _environment(tenant: Tenant) -> dict[str, Any]:
    found: dict[str, Any] = tenant.get("project", "orders")["status"]["environments"][0]
    return found


def _until_asleep(tenant: Tenant) -> None:
    eventually(
        "no pods",
        lambda: _environment(tenant).get("sleeping") and not tenant.pods("orders"),
        within=300,
    )
    assert _environment(tenant)["status"] == "running"


def _runs(rest: Rest, task: str) -> list[dict[str, Any]]:
    return list(rest("GET", f"/runs?task={task}&status=succeeded").json["items"])
