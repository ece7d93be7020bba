"""Environments as objects: they follow their Projects, and scale where the Project leaves that to them."""

from __future__ import annotations

from typing import Any

from tests.unit.operator.objects import NAMESPACE, obj, project
from tests.unit.operator.project_fixtures import change, reconciling, running, source
from tests.unit.operator.reconcile_loop import ReconcileLoop, crashed
from tieline_core.identity.ids import environment_id
from tieline_core.kubernetes import resources as r

NAME = "order-sync.production"


def shown(there: ReconcileLoop, name: str = NAME) -> dict[str, Any]:
    found: dict[str, Any] = there.cluster[r.ENVIRONMENTS].get(NAMESPACE, name)
    return found


async def scaled(there: ReconcileLoop, replicas: int) -> None:
    """What ``kubectl scale environment`` does."""
    found = shown(there)
    await there.changed(r.ENVIRONMENTS, {**found, "spec": {**found["spec"], "replicas": replicas}})
    await there.until_quiet()


def pods_wanted(there: ReconcileLoop) -> int:
    deployment = there.deployment()
    assert deployment is not None
    count: int = deployment["spec"]["replicas"]
    return count


async def test_an_environment_shows_what_runs_and_which_pods() -> None:
    there = await running()
    found = shown(there)
    version = there.environment()["version"]
    status = found["status"]
    assert (status["state"], status["version"], status["readyReplicas"]) == ("running", version, 1)
    assert status["id"] == there.environment()["id"]
    workload = there.environment()["workload"]
    assert status["selector"].endswith(f"app.kubernetes.io/instance={workload}")
    assert there.ready(r.ENVIRONMENTS, NAME)[:2] == ("True", "Running")
    assert found["metadata"]["ownerReferences"][0]["name"] == "order-sync"
    assert "replicas" not in found["spec"], "it is left to whoever scales"


async def test_whoever_scales_an_environment_gets_as_many_pods() -> None:
    there = await running()
    await scaled(there, 3)
    assert pods_wanted(there) == 3
    await scaled(there, 0)
    assert pods_wanted(there) == 0


async def test_a_number_in_the_project_counts_and_is_put_back() -> None:
    there = await running()
    change(there, runtime={"replicas": 2})
    await there.until_quiet()
    assert shown(there)["spec"]["replicas"] == 2
    await scaled(there, 5)
    assert (pods_wanted(there), shown(there)["spec"]["replicas"]) == (2, 2)


async def test_a_deploy_that_crashes_is_said_of_its_environment_alone() -> None:
    environments = [{"name": "production", "version": "latest"}, {"name": "staging"}]
    there = reconciling(project(environments=environments))
    await there.until_quiet()
    there.kubelet(ready=False, status=crashed("RuntimeError: no"))
    await there.until_quiet()
    assert there.ready(r.ENVIRONMENTS, NAME)[:2] == ("False", "Crashed")
    assert there.ready(r.ENVIRONMENTS, "order-sync.staging")[:2] == ("True", "Draft")
    change(there, source=source("print('two')\n"))
    await there.until_quiet()
    there.kubelet()
    await there.until_quiet()
    assert there.ready(r.ENVIRONMENTS, NAME)[:2] == ("True", "Running")


async def test_an_environment_goes_with_its_place_in_the_project() -> None:
    there = reconciling(project(environments=[{"name": "production"}, {"name": "staging"}]))
    await there.until_quiet()
    assert {item["metadata"]["name"] for item in there.cluster[r.ENVIRONMENTS].list()} == {
        NAME,
        "order-sync.staging",
    }
    change(there, environments=[{"name": "staging"}])
    await there.until_quiet()
    assert [item["metadata"]["name"] for item in there.cluster[r.ENVIRONMENTS].list()] == [
        "order-sync.staging"
    ]


async def test_a_deleted_environment_comes_back() -> None:
    there = await running()
    there.cluster.remove(r.ENVIRONMENTS, NAME)
    assert shown(there) is None
    await there.until_quiet()
    assert there.ready(r.ENVIRONMENTS, NAME)[:2] == ("True", "Running")


async def test_an_environment_of_no_project_says_what_to_do() -> None:
    strangers = [
        obj("Environment", "mine", spec={"projectRef": {"name": "order-sync"}, "environment": "production"}),
        obj("Environment", "no.where", spec={"projectRef": {"name": "no"}, "environment": "where"}),
    ]
    there = reconciling(project(), *strangers)
    await there.until_quiet()
    status, reason, message = there.ready(r.ENVIRONMENTS, "mine")
    assert (status, reason) == ("False", "NotInProject")
    assert "add environments to the Project" in message
    assert there.ready(r.ENVIRONMENTS, "no.where")[:2] == ("False", "ProjectNotFound")


async def test_somebody_elses_object_of_the_name_is_left_alone_and_named() -> None:
    spec = {"projectRef": {"name": "order-sync"}, "environment": "production"}
    theirs = obj("Environment", NAME, spec=spec, metadata={"resourceVersion": "7"})
    there = reconciling(project(), theirs)
    await there.until_quiet()
    status, reason, message = there.ready(r.PROJECTS, "order-sync")
    assert (status, reason) == ("False", "NotOwned")
    assert f'Environment "{NAME}" exists already' in message
    assert "ownerReferences" not in shown(there)["metadata"]


async def test_ids_are_those_of_rest() -> None:
    there = await running()
    identifier = there.cluster[r.PROJECTS].get(NAMESPACE, "order-sync")["status"]["id"]
    assert shown(there)["status"]["id"] == environment_id(identifier, "production")
