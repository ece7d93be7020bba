"""Schedules on real pods, as the system that they call sees them: every due time once, whatever happens to pods."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest

from tests.harness.cluster.deployed_platform import Answer, Rest, Tenant, external_system, http, project
from tests.harness.session.waiting import eventually

pytestmark = pytest.mark.e2e

CODE = """
import asyncio
import os

from tieline import Context, Integration, ScheduledRun

integration = Integration()


async def tell(ctx, run, what):
    user = ctx.activation.user
    seen = {
        "what": what,
        "due": run.due.isoformat(),
        "attempt": run.attempt,
        "pod": os.environ["HOSTNAME"],
        "version": "VERSION",
        "user": user.external_id if user else None,
        "execution": ctx.execution_id,
    }
    (await ctx.fetch("recorder", "/", method="POST", json=seen)).raise_for_status()


@integration.schedule("tick", "*/5 * * * * *")
async def tick(ctx: Context, run: ScheduledRun) -> None:
    await tell(ctx, run, "tick")


@integration.schedule("each", "*/10 * * * * *", activations="users", parallel=2)
async def each(ctx: Context, run: ScheduledRun) -> None:
    await tell(ctx, run, "each")


@integration.schedule("long", "*/20 * * * * *", timezone="Europe/Berlin")
async def long(ctx: Context, run: ScheduledRun) -> None:
    await tell(ctx, run, "begun")
    await asyncio.sleep(6)
    await tell(ctx, run, "ended")


@integration.webhook("crash")
async def crash() -> None:
    os._exit(137)
"""
RECORDER = """
import json
from aiohttp import web

seen = []


async def take(request):
    seen.append(await request.json())
    return web.Response(status=204)


async def tell(_request):
    return web.json_response(seen)


app = web.Application()
app.router.add_post("/", take)
app.router.add_get("/", tell)
web.run_app(app, port=8080, print=None)
"""
SECONDS = {"tick": 5, "each": 10, "begun": 20, "ended": 20}


class Recorder:
    """What the called system has seen."""

    def __init__(self, tenant: Tenant) -> None:
        self._url = f"http://{tenant.get('service', 'recorder')['spec']['clusterIP']}"

    def seen(self, what: str) -> list[dict[str, Any]]:
        answer = http("GET", self._url, timeout=10)
        assert answer.status == 200
        return [item for item in answer.json if item["what"] == what]

    def until(self, what: str, count: int) -> list[dict[str, Any]]:
        return eventually(
            f"{count} times {what}", lambda: found if len(found := self.seen(what)) >= count else None
        )


def _recorder(tenant: Tenant, image: str) -> list[dict[str, Any]]:
    system = {
        "name": "Recorder",
        "domain": "recorder",
        "templateBaseUrl": f"http://recorder.{tenant.namespace}.svc",
    }
    template = {
        "name": "recorder",
        "projectRef": {"name": "orders"},
        "environment": "production",
        "systemRef": {"name": "recorder"},
        "connectionRef": {"name": "recorder"},
    }
    return [
        *external_system("recorder", image=image, program=RECORDER),
        {"kind": "System", "metadata": {"name": "recorder"}, "spec": system},
        {
            "kind": "Connection",
            "metadata": {"name": "recorder"},
            "spec": {"name": "Recorder", "systemRef": {"name": "recorder"}},
        },
        {"kind": "ConnectionTemplate", "metadata": {"name": "recorder"}, "spec": template},
    ]


def _users(*names: str) -> list[dict[str, Any]]:
    manifests: list[dict[str, Any]] = []
    for name in names:
        manifests += [
            {
                "kind": "EndUser",
                "metadata": {"name": name},
                "spec": {"externalId": name, "displayName": name},
            },
            {
                "kind": "Activation",
                "metadata": {"name": name},
                "spec": {
                    "projectRef": {"name": "orders"},
                    "environment": "production",
                    "endUserRef": {"name": name},
                },
            },
        ]
    return manifests


def _deploy(tenant: Tenant, version: str, **spec: Any) -> None:
    tenant.apply(project(CODE.replace("VERSION", version), runtime={"replicas": 2}, **spec))


def _no_gap_and_no_double(seen: list[dict[str, Any]]) -> None:
    """Every due time from the first to the last, once for each activation."""
    counts = Counter((item["due"], item["user"]) for item in seen)
    assert set(counts.values()) == {1}, counts.most_common(3)
    dues = sorted({datetime.fromisoformat(item["due"]) for item in seen})
    step = timedelta(seconds=SECONDS[seen[0]["what"]])
    assert {later - earlier for earlier, later in pairwise(dues)} == {step}


def test_a_rollout_loses_no_due_time_and_runs_none_twice(
    tenant: Tenant, rest: Rest, runtime_image: str
) -> None:
    tenant.apply(*_recorder(tenant, runtime_image), *_users("ann", "ben", "cem"))
    eventually("the recorder", lambda: tenant.get("pod", "recorder")["status"]["phase"] == "Running")
    _deploy(tenant, "one")
    tenant.until("orders", "running", within=240)
    recorder = Recorder(tenant)
    recorder.until("tick", 4)
    before = {pod["metadata"]["uid"] for pod in tenant.pods("orders")}
    _deploy(tenant, "two")

    def replaced() -> bool:
        now = {pod["metadata"]["uid"] for pod in tenant.pods("orders")}
        return len(now) == 2 and not now & before

    eventually("both pods replaced", replaced)
    recorder.until("tick", len(recorder.seen("tick")) + 4)
    ticks, each = recorder.seen("tick"), recorder.seen("each")
    assert {item["version"] for item in ticks} == {"one", "two"}
    assert {item["attempt"] for item in ticks + each} == {1}
    _no_gap_and_no_double(ticks)
    # The last sweep may still be under way.
    last = max(item["due"] for item in each)
    whole = [item for item in each if item["due"] != last]
    _no_gap_and_no_double(whole)
    assert {item["user"] for item in whole} == {"ann", "ben", "cem"}
    assert len(whole) == 3 * len({item["due"] for item in whole})
    _no_gap_and_no_double(recorder.seen("begun"))

    execution = ticks[-1]["execution"]
    project_id = rest("GET", "/projects").json["projects"][0]["id"]
    trace = eventually(
        "the run's trace",
        lambda: _items(rest("GET", f"/projects/{project_id}/traces?filter=executionId:{execution}")),
    )[0]
    assert trace["name"] == "tick"
    _pause_and_run_for_one_user(tenant, rest, recorder)


def _pause_and_run_for_one_user(tenant: Tenant, rest: Rest, recorder: Recorder) -> None:
    """By REST, and without a new pod."""
    pods = {pod["metadata"]["uid"] for pod in tenant.pods("orders")}
    environment = rest("GET", "/projects").json["projects"][0]["environments"][0]["id"]
    path = f"/environments/{environment}/schedulers"
    found = {one["name"]: one for one in rest("GET", path).json}
    assert {name: one["timezone"] for name, one in found.items()} == {
        "each": "UTC",
        "long": "Europe/Berlin",
        "tick": "UTC",
    }
    each = f"{path}/{found['each']['id']}"
    assert found["each"]["lastRun"] < found["each"]["nextRun"]
    assert rest("PUT", each, {"paused": True}).json["paused"]
    # What was under way, or due before pods knew, has ended by then.
    recorder.until("tick", len(recorder.seen("tick")) + 3)
    before = recorder.seen("each")
    assert "nextRun" not in rest("GET", each).json
    assert rest("POST", each, {"user": "ben"}).status == 204
    recorder.until("each", len(before) + 1)
    recorder.until("tick", len(recorder.seen("tick")) + 3)
    assert [item["user"] for item in recorder.seen("each")[len(before) :]] == ["ben"]
    last = eventually("the run", lambda: _newer(rest("GET", each).json, than=found["each"]["lastRun"]))
    assert last["lastRunStatus"] == "succeeded"
    assert rest("PUT", each, {"paused": False}).json["nextRun"]
    recorder.until("each", len(before) + 4)
    assert {pod["metadata"]["uid"] for pod in tenant.pods("orders")} == pods


def _newer(shown: dict[str, Any], *, than: str) -> dict[str, Any] | None:
    return shown if shown["lastRun"] > than else None


def test_a_run_is_taken_over_when_its_pod_crashes_and_nothing_runs_while_suspended(
    tenant: Tenant, runtime_image: str
) -> None:
    tenant.apply(*_recorder(tenant, runtime_image))
    eventually("the recorder", lambda: tenant.get("pod", "recorder")["status"]["phase"] == "Running")
    _deploy(tenant, "one")
    tenant.until("orders", "running", within=240)
    recorder = Recorder(tenant)

    def under_way() -> dict[str, Any] | None:
        begun, ended = recorder.seen("begun"), recorder.seen("ended")
        return begun[-1] if len(begun) > len(ended) else None

    victim = eventually("a long run under way", under_way)
    (address,) = (
        pod["status"]["podIP"] for pod in tenant.pods("orders") if pod["metadata"]["name"] == victim["pod"]
    )
    with pytest.raises(OSError, match=r"."):
        http("POST", f"http://{address}:8080/crash", timeout=5)

    def again() -> dict[str, Any] | None:
        ended = [item for item in recorder.seen("ended") if item["due"] == victim["due"]]
        return ended[0] if ended else None

    ended = eventually("the run's end, by another process", again)
    assert ended["attempt"] == 2
    assert ended["execution"] != victim["execution"]
    attempts = [item["attempt"] for item in recorder.seen("begun") if item["due"] == victim["due"]]
    assert attempts == [1, 2]
    # Only a run that was under way in the crashed pod may come twice, and says so.
    first = Counter(item["due"] for item in recorder.seen("tick") if item["attempt"] == 1)
    assert set(first.values()) == {1}

    suspended = [{"name": "production", "version": "latest", "suspended": True}]
    _deploy(tenant, "one", environments=suspended)
    tenant.until("orders", "suspended")
    count = len(recorder.seen("tick"))
    assert len(recorder.seen("tick")) == count


def _items(answer: Answer) -> list[dict[str, Any]]:
    return list(answer.json["items"])
