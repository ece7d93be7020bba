"""An operator never takes over what another owner controls, and says so."""

from __future__ import annotations

import copy
import itertools
from typing import Any

import pytest

from tests.unit.operator.fake_cluster import FakeCluster
from tests.unit.operator.objects import NAMESPACE, project
from tests.unit.operator.project_fixtures import change, reconciling, running, source
from tests.unit.operator.reconcile_loop import ReconcileLoop
from tieline_core.identity.names import (
    ENVIRONMENT_ID_LABEL,
    PROJECT_LABEL,
    label_value,
    workload_name,
)
from tieline_core.kubernetes import Resource
from tieline_core.kubernetes import resources as r

NAME = workload_name("order-sync", "production")
PRIMARY_RESOURCES = project()
MANAGED_RESOURCES = (r.SERVICE_ACCOUNTS, r.NETWORK_POLICIES, r.SERVICES, r.DEPLOYMENTS)


def owner(kind: str = "Project", name: str = "other", uid: str = "uid-of-other") -> dict[str, Any]:
    return {"apiVersion": "example.org/v1", "kind": kind, "name": name, "uid": uid, "controller": True}


def theirs(resource: Resource, *owners: dict[str, Any], name: str = NAME, **labels: str) -> dict[str, Any]:
    """An object of somebody else's."""
    metadata = {
        "name": name,
        "namespace": NAMESPACE,
        "uid": f"{resource.kind} of another",
        "resourceVersion": "7",
        "labels": labels,
        "ownerReferences": list(owners),
    }
    content = {"spec": {"clusterIP": "10.96.0.5"}} if resource == r.SERVICES else {}
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, **content}


def put(
    there: ReconcileLoop, resource: Resource, obj: dict[str, Any], *, seen: bool = True
) -> dict[str, Any]:
    """Puts it into the cluster, and into the cache where it is ``seen``; a copy to compare with."""
    there.cluster.put(resource, obj)
    if not seen:
        key = obj["metadata"]["namespace"], obj["metadata"]["name"]
        there.cluster.behind.setdefault(resource, {})[key] = None
    return copy.deepcopy(obj)


def names(there: ReconcileLoop, resource: Resource) -> set[str]:
    return {name for _, name in there.cluster.objects[resource]}


@pytest.mark.parametrize("seen", [True, False], ids=["seen", "not in the cache"])
@pytest.mark.parametrize(
    "resource", [*MANAGED_RESOURCES, r.POD_DISRUPTION_BUDGETS], ids=lambda resource: resource.kind
)
async def test_what_another_object_controls_is_left_as_it_is_and_told(resource: Resource, seen: bool) -> None:
    there = reconciling(project(runtime={"replicas": 2}))
    labels = {PROJECT_LABEL: "order-sync"} if seen else {}
    before = put(there, resource, theirs(resource, owner("Rollout"), **labels), seen=seen)
    await there.until_quiet()
    assert there.cluster.objects[resource][NAMESPACE, NAME] == before
    status, reason, message = there.ready(r.PROJECTS, "order-sync")
    assert (status, reason) == ("False", "NotOwned")
    assert f'{resource.kind} "{NAME}" belongs to Rollout "other"' in message
    assert "NotOwned" in [event["reason"] for event in there.cluster.posted]
    await there.once(r.PROJECTS, "order-sync")
    assert there.requeue_after is not None
    assert there.requeue_after <= 60

    there.cluster.remove(resource, NAME)
    there.cluster.behind.clear()
    await there.until_quiet()
    assert names(there, resource) == {NAME}
    assert there.ready(r.PROJECTS, "order-sync")[0] == "Unknown", "the rollout has begun"


async def test_what_nobody_owns_is_not_taken_over_either() -> None:
    there = reconciling(project())
    before = put(there, r.DEPLOYMENTS, theirs(r.DEPLOYMENTS), seen=False)
    await there.until_quiet()
    assert there.cluster.objects[r.DEPLOYMENTS][NAMESPACE, NAME] == before
    assert there.ready(r.PROJECTS, "order-sync")[:2] == ("False", "NotOwned")
    assert "has no owner" in there.ready(r.PROJECTS, "order-sync")[2]


async def test_what_lost_its_owner_and_is_of_this_environment_is_adopted() -> None:
    there = await running()
    for resource in MANAGED_RESOURCES:
        del there.cluster.edited(resource, NAME)["metadata"]["ownerReferences"]
    await there.until_quiet()
    for resource in MANAGED_RESOURCES:
        (reference,) = there.cluster.objects[resource][NAMESPACE, NAME]["metadata"]["ownerReferences"]
        assert (reference["uid"], reference["controller"]) == (PRIMARY_RESOURCES["metadata"]["uid"], True)
    assert there.ready(r.PROJECTS, "order-sync")[0] == "True"


async def test_what_was_replaced_since_the_cache_saw_it_is_left_as_it_is() -> None:
    there = await running()
    key = NAMESPACE, NAME
    there.cluster.behind[r.DEPLOYMENTS] = {key: there.cluster.objects[r.DEPLOYMENTS][key]}
    before = put(there, r.DEPLOYMENTS, theirs(r.DEPLOYMENTS, owner()))
    change(there, runtime={"replicas": 3})
    await there.once(r.PROJECTS, "order-sync")
    assert there.cluster.objects[r.DEPLOYMENTS][key] == before
    assert there.ready(r.PROJECTS, "order-sync")[:2] == ("False", "NotOwned")


async def test_what_was_deleted_since_the_cache_saw_it_is_made_again() -> None:
    there = await running()
    key = NAMESPACE, NAME
    there.cluster.behind[r.DEPLOYMENTS] = {key: there.cluster.objects[r.DEPLOYMENTS].pop(key)}
    change(there, runtime={"replicas": 3})
    await there.once(r.PROJECTS, "order-sync")
    assert there.cluster.objects[r.DEPLOYMENTS][key]["spec"]["replicas"] == 3


async def test_an_own_child_that_the_cache_does_not_know_yet_is_no_obstacle() -> None:
    there = await running()
    there.cluster.behind[r.SERVICES] = {(NAMESPACE, NAME): None}
    await there.once(r.PROJECTS, "order-sync")
    assert there.ready(r.PROJECTS, "order-sync")[1] != "NotOwned"


async def test_what_a_deleted_project_of_the_same_name_leaves_is_waited_for() -> None:
    there = reconciling(project())
    put(there, r.DEPLOYMENTS, theirs(r.DEPLOYMENTS, owner(name="order-sync", uid="of-before")))
    await there.until_quiet()
    status, _, message = there.ready(r.PROJECTS, "order-sync")
    assert status == "Unknown"
    assert "Kubernetes removes it" in message
    await there.once(r.PROJECTS, "order-sync")
    assert there.requeue_after == 2
    there.cluster.remove(r.DEPLOYMENTS, NAME)
    await there.until_quiet()
    assert there.deployment() is not None


async def test_one_environment_that_is_blocked_does_not_hold_up_another() -> None:
    both = [{"name": "production", "version": "latest"}, {"name": "staging", "version": "latest"}]
    there = reconciling(project(environments=both))
    put(there, r.SERVICE_ACCOUNTS, theirs(r.SERVICE_ACCOUNTS, owner()), seen=False)
    await there.until_quiet()
    staging = workload_name("order-sync", "staging")
    assert names(there, r.DEPLOYMENTS) == {staging}
    assert names(there, r.SERVICES) == {staging}, "without its ServiceAccount, no part of production is made"
    assert there.environment("production")["status"] == "error"
    assert there.environment("staging")["status"] == "draft"


async def test_a_draft_deletes_nothing_of_others() -> None:
    there = reconciling(project(environments=[{"name": "production"}]))
    labels = {PROJECT_LABEL: "order-sync", ENVIRONMENT_ID_LABEL: "01ARZ3NDEKTSV4RRFFQ69G5FAV"}
    for resource in MANAGED_RESOURCES:
        put(there, resource, theirs(resource, owner(), **labels))
    await there.until_quiet()
    assert all(names(there, resource) == {NAME} for resource in MANAGED_RESOURCES)


# --- names ------------------------------------------------------------------------------------------------


async def test_new_environments_get_names_with_64_bits_of_hash() -> None:
    there = await running()
    assert names(there, r.DEPLOYMENTS) == {NAME}
    assert len(NAME.rpartition("-")[2]) == 16
    assert there.environment()["workload"] == NAME


async def test_projects_whose_long_names_begin_alike_both_run() -> None:
    prefix = "orders-of-the-northern-warehouse-and-its-shops"
    first, second = f"{prefix}-in-june", f"{prefix}-in-july"
    there = reconciling(project(first), project(second))
    await there.until_quiet()
    assert len(names(there, r.DEPLOYMENTS)) == 2
    assert len(names(there, r.PROJECT_VERSIONS)) == 2
    owners = {
        one["uid"]
        for resource in (r.CONFIG_MAPS, r.PROJECT_VERSIONS)
        for obj in there.cluster.objects[resource].values()
        for one in obj["metadata"]["ownerReferences"]
    }
    assert owners == {
        there.cluster[r.PROJECTS].get(NAMESPACE, name)["metadata"]["uid"] for name in (first, second)
    }
    assert {there.ready(r.PROJECTS, name)[1] for name in (first, second)} == {"Starting"}


def _alike() -> tuple[str, str]:
    """Two project names whose labels are the same: 24 bits of hash are found by trying."""
    known: dict[str, str] = {}
    for number in itertools.count():
        name = f"{'x' * 60}-{number:08d}"
        label = label_value(name)
        if label in known:
            return known[label], name
        known[label] = name
    raise AssertionError


async def test_pods_of_a_project_with_the_same_label_are_not_taken_for_its_own() -> None:
    first, second = _alike()
    there = reconciling(project(first), project(second))
    await there.until_quiet()
    _, deployed = min(there.cluster.objects[r.DEPLOYMENTS])
    template = there.cluster.objects[r.DEPLOYMENTS][NAMESPACE, deployed]["spec"]["template"]["metadata"]
    metadata = {**template, "name": "pod", "namespace": NAMESPACE, "uid": "pod", "resourceVersion": "1"}
    metadata["creationTimestamp"] = there.now.isoformat()
    ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    there.cluster.put(r.PODS, {"metadata": metadata, "status": ready})
    await there.until_quiet()
    states = sorted(there.environment(project=name)["status"] for name in (first, second))
    assert states == ["draft", "running"]


async def test_a_version_that_lost_a_file_gets_it_back() -> None:
    there = reconciling(project("orders-of-the-northern-warehouse-and-its-shops"))
    await there.until_quiet()
    (config_map,) = names(there, r.CONFIG_MAPS)
    there.cluster.remove(r.CONFIG_MAPS, config_map)
    await there.until_quiet()
    assert names(there, r.CONFIG_MAPS) == {config_map}


# --- what is made once ------------------------------------------------------------------------------------


async def _names_of_files(text: str) -> tuple[str, str]:
    elsewhere = reconciling(project(source=source(text)))
    await elsewhere.until_quiet()
    (config_map,), (version,) = names(elsewhere, r.CONFIG_MAPS), names(elsewhere, r.PROJECT_VERSIONS)
    return config_map, version


def _stored(cluster: FakeCluster, resource: Resource, name: str, owners: list[Any], **content: Any) -> None:
    metadata = {
        "name": name,
        "namespace": NAMESPACE,
        "uid": name,
        "resourceVersion": "7",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "ownerReferences": owners,
    }
    cluster.put(
        resource, {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, **content}
    )


@pytest.mark.parametrize("owned", [True, False], ids=["another project's", "nobody's"])
async def test_a_config_map_in_the_way_of_files_is_told_and_not_used(owned: bool) -> None:
    config_map, _ = await _names_of_files("print('one')\n")
    there = reconciling(project(source=source("print('one')\n")))
    owners = [owner()] if owned else []
    _stored(there.cluster, r.CONFIG_MAPS, config_map, owners, binaryData={"main.py": "cHJpbnQoJ2V2aWwnKQ=="})
    await there.until_quiet()
    expected = "NotOwned" if owned else "ContentDiffers"
    assert there.ready(r.PROJECTS, "order-sync")[:2] == ("False", expected)
    assert not names(there, r.PROJECT_VERSIONS), "no version refers to what somebody else wrote"
    there.cluster.remove(r.CONFIG_MAPS, config_map)
    await there.until_quiet()
    assert names(there, r.PROJECT_VERSIONS)


async def test_a_version_in_the_way_is_reported() -> None:
    _, version = await _names_of_files("print('one')\n")
    there = reconciling(project(source=source("print('one')\n")))
    spec = {"projectRef": {"name": "other"}, "digest": "0" * 64, "configMaps": []}
    _stored(there.cluster, r.PROJECT_VERSIONS, version, [owner()], spec=spec)
    await there.once(r.PROJECTS, "order-sync")
    status, reason, message = there.ready(r.PROJECTS, "order-sync")
    assert (status, reason) == ("False", "NotOwned")
    assert f'ProjectVersion "{version}" belongs to Project "other"' in message
    assert there.requeue_after == 60
