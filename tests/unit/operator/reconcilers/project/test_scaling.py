"""Environments sleep while they have no work, and wake for it."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.unit.operator.objects import NOW
from tests.unit.operator.project_fixtures import change, running, source
from tests.unit.operator.reconcile_loop import ReconcileLoop, crashed
from tieline_core.identity.ids import format_time
from tieline_core.kubernetes import resources as r
from tieline_core.resources.scaling import Scaling
from tieline_operator.engine.environment_work import EnvironmentWork, registered_schedules
from tieline_operator.reconcilers.project.scaling import AWAKE, ObservedWork, decide

_MINUTE = timedelta(minutes=1)
_LONG_AGO = NOW - timedelta(hours=1)
IDLE_WORK = EnvironmentWork(read_at=NOW, schedules={"v1": []}, settled={})
IDLE = ObservedWork(
    scaling=Scaling(min=0),
    version="v1",
    is_healthy=True,
    asleep=False,
    serving_since=_LONG_AGO,
    active_at=_LONG_AGO,
    reported_at=NOW - _MINUTE,
    can_be_woken=True,
    work=IDLE_WORK,
)
ASLEEP = replace(IDLE, asleep=True, serving_since=None, reported_at=_LONG_AGO)
_SHORT = {"scaling": Scaling(min=0, idleAfter="1m"), "reported_at": NOW}


def _scheduled(cron: str) -> EnvironmentWork:
    code = f'{{"v1": [{{"name": "report", "cron": "{cron}", "timezone": "UTC"}}]}}'
    return replace(IDLE_WORK, schedules=registered_schedules(code.encode()), settled={"report": NOW})


def test_an_environment_without_work_sleeps_until_something_is_due() -> None:
    assert decide(IDLE, NOW).asleep
    due = NOW + timedelta(hours=1)
    found = decide(replace(IDLE, work=replace(IDLE_WORK, timer=due)), NOW)
    assert found.asleep
    assert found.recheck_after == (due - NOW).total_seconds() - 30


@pytest.mark.parametrize(
    "fields",
    [
        {"scaling": Scaling()},
        {"scaling": Scaling(min=1)},
        {"is_healthy": False},
        {"can_be_woken": False},
        {"serving_since": None},
        {"serving_since": NOW - 9 * _MINUTE},
        {"active_at": NOW - 9 * _MINUTE},
        {"reported_at": None},
        {"reported_at": NOW - 11 * _MINUTE},
        {"work": None},
        {"work": replace(IDLE_WORK, read_at=NOW - 5 * _MINUTE)},
        {"work": replace(IDLE_WORK, read_at=NOW - 3 * _MINUTE), "active_at": NOW - 2 * _MINUTE, **_SHORT},
        {"work": replace(IDLE_WORK, schedules={"v0": []})},
        {"work": replace(IDLE_WORK, queued=1)},
        {"work": replace(IDLE_WORK, is_swept=True)},
        {"work": replace(IDLE_WORK, timer=NOW + 9 * _MINUTE)},
        {"work": _scheduled("*/5 * * * *")},
    ],
)
def test_an_environment_that_may_work_is_not_stopped(fields: dict[str, Any]) -> None:
    assert not decide(replace(IDLE, **fields), NOW).asleep


@pytest.mark.parametrize(
    "fields",
    [
        {"active_at": NOW - _MINUTE},
        {"work": replace(IDLE_WORK, queued=1)},
        {"work": replace(IDLE_WORK, timer=NOW + timedelta(seconds=29))},
        {"work": replace(IDLE_WORK, timer=_LONG_AGO)},
        {"work": _scheduled("* * * * *")},
        {"is_healthy": False},
        {"can_be_woken": False},
        {"scaling": Scaling(min=1)},
    ],
)
def test_work_wakes_an_environment(fields: dict[str, Any]) -> None:
    at = NOW + timedelta(seconds=35) if "work" in fields else NOW
    assert not decide(replace(ASLEEP, **fields), at).asleep


def test_a_sleeper_does_not_wake_because_the_engine_is_away() -> None:
    assert decide(ASLEEP, NOW).asleep
    assert decide(replace(ASLEEP, work=None), NOW).asleep
    assert decide(replace(ASLEEP, work=replace(IDLE_WORK, read_at=_LONG_AGO)), NOW).asleep


def test_scaling_is_off_unless_somebody_asks_for_it() -> None:
    assert decide(replace(IDLE, scaling=Scaling()), NOW) == AWAKE
    assert Scaling().idle_seconds == 600


async def _serving(**runtime: Any) -> ReconcileLoop:
    there = await running(runtime={"scaling": {"min": 0, "idleAfter": "10m"}, **runtime})
    endpoints = [{"addresses": ["10.1.0.7"], "conditions": {"ready": True}}]
    slices = {
        "metadata": {"name": "tieline-api-internal-x", "namespace": "tieline-system"},
        "addressType": "IPv4",
        "endpoints": endpoints,
    }
    there.cluster.put(r.API_ENDPOINTS, slices)
    return there


def _annotate(there: ReconcileLoop, **moments: datetime) -> None:
    (shown,) = there.cluster.objects[r.ENVIRONMENTS].values()
    annotations = shown["metadata"].setdefault("annotations", {})
    annotations |= {f"tieline.dev/{name}-at": format_time(moment) for name, moment in moments.items()}


async def _asleep(**runtime: Any) -> ReconcileLoop:
    there = await _serving(**runtime)
    there.now += timedelta(minutes=20)
    version = there.environment()["version"]
    there.environment_work = EnvironmentWork(read_at=there.now, schedules={version: []})
    _annotate(there, active=there.now - 15 * _MINUTE, reported=there.now)
    await there.until_quiet()
    return there


async def test_the_api_answers_for_an_environment_that_sleeps() -> None:
    there = await _asleep()
    assert there.deployment()["spec"]["replicas"] == 0
    (found,) = there.cluster.objects[r.ENDPOINT_SLICES].values()
    assert found["endpoints"] == [{"addresses": ["10.1.0.7"], "conditions": {"ready": True}}]
    assert found["metadata"]["labels"]["kubernetes.io/service-name"] == there.environment()["workload"]
    there.kubelet()
    await there.until_quiet()
    shown = there.environment()
    assert (shown["status"], shown["sleeping"], shown["rollout"]) == ("running", True, "complete")
    assert shown["version"] == shown["desiredVersion"]


async def test_pods_answer_themselves_once_they_are_awake() -> None:
    there = await _asleep(replicas=2)
    there.kubelet()
    await there.until_quiet()
    _annotate(there, active=there.now)
    await there.until_quiet()
    assert there.deployment()["spec"]["replicas"] == 2
    assert there.cluster.objects[r.ENDPOINT_SLICES]
    shown = there.environment()
    assert (shown["status"], shown["rollout"]) == ("running", "complete"), "that it wakes is no error"
    assert shown["version"] == shown["desiredVersion"]
    there.kubelet(ready=False)
    await there.until_quiet()
    assert there.environment()["status"] == "running"
    there.kubelet()
    await there.until_quiet()
    assert not there.cluster.objects[r.ENDPOINT_SLICES]
    assert "sleeping" not in there.environment()


async def test_a_time_that_somebody_wrote_at_an_environment_does_not_stop_its_project() -> None:
    there = await _serving()
    there.now += timedelta(minutes=20)
    (shown,) = there.cluster.objects[r.ENVIRONMENTS].values()
    shown["metadata"]["annotations"] = {"tieline.dev/active-at": "9999-12-31T23:59:59Z"}
    await there.until_quiet()
    assert there.environment()["status"] == "running"


async def test_a_deploy_wakes_a_sleeper_and_one_that_fails_keeps_the_old_version_awake() -> None:
    there = await _asleep()
    there.kubelet()
    await there.until_quiet()
    before = there.environment()["version"]
    change(there, source=source("def broken(:"), settings={"acceptCodeChangesAutomatically": True})
    await there.until_quiet()
    assert there.deployment()["spec"]["replicas"] == 1
    there.kubelet()
    await there.until_quiet()
    assert there.environment()["version"] == before
    assert there.environment()["rollout"] == "failed"


async def test_an_environment_stays_awake_while_no_activator_is_there() -> None:
    there = await _asleep()
    there.cluster.objects[r.API_ENDPOINTS].clear()
    await there.until_quiet()
    assert there.deployment()["spec"]["replicas"] == 1


async def test_a_deploy_to_a_sleeper_is_no_error_until_its_pods_fail() -> None:
    there = await _asleep()
    there.kubelet()
    await there.until_quiet()
    settings = {"acceptCodeChangesAutomatically": True}
    change(there, source=source("print('two')"), settings=settings)
    await there.until_quiet()
    shown = there.environment()
    assert (shown["status"], shown["rollout"]) == ("running", "progressing")
    there.kubelet(ready=False, status=crashed())
    await there.until_quiet()
    shown = there.environment()
    assert (shown["status"], shown["rollout"]) == ("error", "failed")
    assert "sleeping" not in shown
