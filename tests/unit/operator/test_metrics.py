"""What the operator's metrics say of the objects and of its own work."""

from __future__ import annotations

import logging
from importlib.metadata import version

import pytest
from prometheus_client import generate_latest

from tests.unit.operator.fake_cluster import FakeCluster
from tests.unit.operator.objects import NAMESPACE, project, system
from tests.unit.operator.reconcile_loop import ReconcileLoop
from tieline_core.kubernetes import resources as r
from tieline_operator.cache.organisations import OrganisationClaim
from tieline_operator.metrics import Metrics
from tieline_operator.reconcilers.connector_imports import DescriptionImports, ImportRefusal

KINDS = ("System", "Project", "Connector")


def test_objects_are_told_by_kind_and_ready_and_environments_by_status() -> None:
    ready, broken = ({"conditions": [{"type": "Ready", "status": status}]} for status in ("True", "False"))
    states = [
        {"name": "a", "status": "running"},
        {"name": "b", "status": "running"},
        {"name": "c", "status": "error"},
    ]
    metrics = Metrics()
    metrics.watch_objects(
        lambda: {
            r.SYSTEMS: [{**system(), "status": ready}, {**system("new"), "status": {}}],
            r.PROJECTS: [project(status={**broken, "environments": states})],
        }
    )

    def told(name: str, **labels: str) -> float | None:
        return metrics.registry.get_sample_value(name, labels)

    assert told("tieline_operator_objects", kind="System", ready="true") == 1
    assert told("tieline_operator_objects", kind="System", ready="unknown") == 1
    assert told("tieline_operator_objects", kind="Project", ready="false") == 1
    assert told("tieline_operator_environments", status="running") == 2
    assert told("tieline_operator_environments", status="error") == 1
    assert told("tieline_operator_environments", status="suspended") == 0
    assert told("tieline_operator_build_info", version=version("tieline")) == 1


def test_objects_and_environments_are_told_by_name_with_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tieline_operator.metrics.MAX_NAMED", 2)
    ready, broken = ({"conditions": [{"type": "Ready", "status": status}]} for status in ("True", "False"))
    states = [{"name": "a", "status": "running"}, {"name": "b", "status": "error"}, {"name": "c"}]
    metrics = Metrics(object_names=True)
    metrics.watch_objects(
        lambda: {
            r.SYSTEMS: [
                {**system("good"), "status": ready},
                {**system("fine"), "status": ready},
                {**system("bad"), "status": broken},
            ],
            r.PROJECTS: [project(status={**broken, "environments": states})],
            r.END_USERS: [{"metadata": {"name": "ann", "namespace": NAMESPACE}}],
        }
    )
    families = {family.name: family.samples for family in metrics.registry.collect()}
    told = {
        (one.labels["kind"], one.labels["object"]): one.value
        for one in families["tieline_operator_object_ready"]
    }
    assert told == {("Project", "order-sync"): 0, ("System", "bad"): 0, ("System", "fine"): 1}
    assert {one.labels["object_namespace"] for one in families["tieline_operator_object_ready"]} == {
        NAMESPACE
    }
    status = [
        (one.labels["project"], one.labels["environment"], one.labels["status"])
        for one in families["tieline_operator_environment_status"]
    ]
    assert status == [("order-sync", "b", "error"), ("order-sync", "a", "running")]
    unnamed = {one.labels["kind"]: one.value for one in families["tieline_operator_objects_unnamed"]}
    assert unnamed == {"Project": 0, "System": 1, "Environment": 1}


def test_no_name_is_told_unless_the_administrator_asks() -> None:
    """Whoever reaches the port reads all organisations' metrics."""
    ready, broken = ({"conditions": [{"type": "Ready", "status": status}]} for status in ("True", "False"))
    states = [{"name": name, "status": "error"} for name in ("live", "beta", "production")]
    states.append({"name": "new"})
    metrics = Metrics()
    metrics.watch_objects(
        lambda: {
            r.SYSTEMS: [{**system("good"), "status": ready}, {**system("bad"), "status": broken}],
            r.PROJECTS: [project(status={**ready, "environments": states})],
            r.CONNECTORS: [],
        }
    )
    metrics.watch_organisations(lambda: {"second": OrganisationClaim(id="01E", holder="first")})
    text = generate_latest(metrics.registry).decode()
    for name in (NAMESPACE, "order-sync", "good", "bad", "live", "beta", "second", "first"):
        assert f'"{name}"' not in text
    value = metrics.registry.get_sample_value
    ready_by_kind = {kind: value("tieline_operator_object_ready", {"kind": kind}) for kind in KINDS}
    assert ready_by_kind == {"System": 0, "Project": 1, "Connector": 1}
    assert value("tieline_operator_environment_status", {"status": "error", "production": "false"}) == 2
    assert value("tieline_operator_environment_status", {"status": "error", "production": "true"}) == 1
    assert value("tieline_operator_objects_unnamed", {"kind": "System"}) == 2
    assert value("tieline_operator_objects_unnamed", {"kind": "Environment"}) == 4
    assert value("tieline_operator_duplicate_organisations") == 1


def test_jobs_that_install_packages_are_counted_by_state() -> None:
    metrics = Metrics()
    ended = [
        {"status": {"conditions": [{"type": how, "status": "True"}]}}
        for how in ("Complete", "Failed", "Failed")
    ]
    metrics.watch_package_jobs(lambda: [*ended, {"status": {"active": 1}}, {}])
    value = metrics.registry.get_sample_value
    states = {
        state: value("tieline_operator_package_jobs", {"state": state})
        for state in ("running", "complete", "failed")
    }
    assert states == {"running": 2, "complete": 1, "failed": 2}


async def test_a_refused_import_is_counted() -> None:
    outcomes: list[str] = []
    imports = DescriptionImports(ended=outcomes.append)

    async def read() -> bytes:
        return b"no description"

    assert await imports.result("digest", read, owner="acme") is None
    await next(iter(imports._running.values()))
    assert isinstance(await imports.result("digest", read, owner="acme"), ImportRefusal)
    assert outcomes == ["refused"]


async def test_each_generation_that_is_worked_on_is_a_line_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    cluster = FakeCluster(system())
    reconciling = ReconcileLoop(cluster)

    async def lines(generation: int) -> list[tuple[object, ...]]:
        caplog.clear()
        cluster.objects[r.SYSTEMS][NAMESPACE, "shop"]["metadata"]["generation"] = generation
        await reconciling.until_quiet()
        return [
            (record.__dict__["kind"], record.__dict__["object"], record.__dict__["generation"])
            for record in caplog.records
            if "generation" in record.__dict__
        ]

    assert await lines(1) == [("System", f"{NAMESPACE}/shop", 1)]
    assert await lines(2) == [("System", f"{NAMESPACE}/shop", 2)], "Ready stays as it is, the line comes"
    assert await lines(2) == []
