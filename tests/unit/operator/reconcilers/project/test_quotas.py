"""Quotas of environments and pods: what exceeds them is refused, and what runs stays."""

from __future__ import annotations

import json
from typing import Any

from prometheus_client import generate_latest

from tests.unit.operator.objects import NAMESPACE, namespace, project
from tests.unit.operator.project_fixtures import change, reconciling
from tests.unit.operator.reconcile_loop import ReconcileLoop
from tieline_core.kubernetes import resources as r
from tieline_core.resources.quotas import NO_QUOTAS
from tieline_operator.metrics import Metrics
from tieline_operator.reconcilers.project.quota_grants import quota_usage


def limited(**quotas: Any) -> dict[str, Any]:
    found = namespace()
    found["metadata"]["annotations"] = {"tieline.dev/quotas": json.dumps(quotas)}
    return found


def environments(*names: str, **fields: Any) -> list[dict[str, Any]]:
    return [{"name": name, "version": "latest", **fields} for name in names]


async def ran(*objects: dict[str, Any], **quotas: Any) -> ReconcileLoop:
    there = reconciling(*objects)
    there.cluster.put(r.NAMESPACES, limited(**quotas))
    await there.until_quiet()
    return there


def pods(there: ReconcileLoop) -> dict[str, int]:
    found = there.cluster[r.DEPLOYMENTS].list()
    return {one["metadata"]["labels"]["tieline.dev/environment"]: one["spec"]["replicas"] for one in found}


async def test_an_environment_beyond_the_quota_is_refused() -> None:
    there = await ran(project(environments=environments("production", "staging")), environments=1)
    assert pods(there) == {"production": 1}
    assert there.environment("staging")["status"] == "error"
    status, reason, message = there.ready(r.PROJECTS, "order-sync")
    assert (status, reason) == ("False", "QuotaExceeded")
    assert "staging: the organisation has 1 environments of 1 (quota environments)" in message
    assert "an administrator of the cluster can raise it" in message


async def test_a_refused_environment_starts_once_another_is_deleted() -> None:
    there = await ran(project(environments=environments("production", "staging")), environments=1)
    change(there, environments=environments("staging"))
    await there.until_quiet()
    assert pods(there) == {"staging": 1}


async def test_a_refused_environment_starts_once_the_quota_is_raised() -> None:
    there = await ran(project(environments=environments("production", "staging")), environments=1)
    await there.changed(r.NAMESPACES, limited(environments=2))
    assert pods(there) == {"production": 1, "staging": 1}


async def test_a_lowered_quota_stops_nothing() -> None:
    there = await ran(project(environments=environments("production", "staging")), environments=2)
    await there.changed(r.NAMESPACES, limited(environments=1, replicas=1))
    await there.until_quiet()
    assert pods(there) == {"production": 1, "staging": 1}


async def test_drafts_take_no_place() -> None:
    items = [{"name": "draft"}, *environments("production")]
    assert pods(await ran(project(environments=items), environments=1)) == {"production": 1}


async def test_projects_share_the_quota_of_their_organisation() -> None:
    there = await ran(project("first"), project("second"), environments=1)
    assert len(pods(there)) == 1
    assert sorted(there.ready(r.PROJECTS, name)[1] for name in ("first", "second")) == [
        "QuotaExceeded",
        "Starting",
    ]


async def test_an_environment_gets_the_pods_that_are_left() -> None:
    items = [*environments("production", runtime={"replicas": 2}), *environments("staging")]
    there = await ran(project(environments=items), replicas=4)
    items[0]["runtime"] = {"replicas": 9}
    change(there, environments=items)
    await there.until_quiet()
    assert pods(there) == {"production": 3, "staging": 1}
    for name in ("production", "staging"):
        there.kubelet(environment=name)
    await there.until_quiet()
    assert there.environment()["status"] == "running"
    assert there.ready(r.PROJECTS, "order-sync")[:2] == ("False", "QuotaExceeded")
    assert "it gets 3 of 9 pods" in there.environment()["message"]


async def test_an_environment_without_pods_left_does_not_start() -> None:
    items = [*environments("production", runtime={"replicas": 2}), *environments("staging")]
    there = await ran(project(environments=items), replicas=2)
    assert pods(there)["production"] == 2
    assert not pods(there).get("staging")
    assert "it gets 0 of 1 pods" in there.environment("staging")["message"]


async def test_a_scaled_environment_gets_no_more_than_the_quota() -> None:
    there = await ran(project(), replicas=2)
    scaled = there.cluster.edited(r.ENVIRONMENTS, "order-sync.production")
    scaled["spec"]["replicas"] = 5
    await there.until_quiet()
    assert pods(there) == {"production": 2}
    assert there.cluster[r.ENVIRONMENTS].get(NAMESPACE, "order-sync.production")["spec"]["replicas"] == 5


async def test_an_unreadable_annotation_refuses_new_environments() -> None:
    there = await ran(project(), enviroments=1)
    assert pods(there) == {}
    assert "cannot be used: enviroments" in there.environment()["message"]


async def test_metrics_count_used_up_quotas_and_name_organisations_only_on_request() -> None:
    there = await ran(project(), environments=1, replicas=5)
    texts = []
    for names in (False, True):
        metrics = Metrics(object_names=names)
        metrics.watch_quotas(lambda: quota_usage(there.cluster, NO_QUOTAS))
        texts.append(generate_latest(metrics.registry).decode())
    for text in texts:
        assert 'tieline_operator_quotas_exhausted{quota="environments"} 1.0' in text
        assert 'tieline_operator_quotas_exhausted{quota="replicas"} 0.0' in text
    assert NAMESPACE not in texts[0]
    labels = f'object_namespace="{NAMESPACE}",quota="replicas"'
    assert f"tieline_operator_quota_used{{{labels}}} 1.0" in texts[1]
    assert f"tieline_operator_quota_limit{{{labels}}} 5.0" in texts[1]
