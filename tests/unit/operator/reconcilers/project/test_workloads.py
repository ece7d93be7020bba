"""The objects that an environment runs as: put right, suspended, refused and removed."""

from __future__ import annotations

from tests.unit.operator.objects import NAMESPACE, project
from tests.unit.operator.project_fixtures import change, reconciling, running, source
from tests.unit.operator.reconcile_loop import no_image
from tieline_core.kubernetes import resources as r


async def test_a_change_is_one_write_of_the_workload_and_one_of_what_is_said_of_it() -> None:
    there = reconciling(project(runtime={"replicas": 0}))
    await there.until_quiet()
    change(there, runtime={"replicas": 0, "resources": {"limits": {"memory": "300Mi"}}})
    assert await there.until_quiet() == 2
    assert there.ready(r.PROJECTS, "order-sync")[:2] == ("True", "Suspended")


async def test_suspending_says_suspended_only_when_no_pod_is_left() -> None:
    there = await running()
    change(there, environments=[{"name": "production", "version": "latest", "suspended": True}])
    await there.until_quiet()
    assert there.deployment()["spec"]["replicas"] == 0
    assert there.environment()["status"] == "running"
    assert "Stopping" in there.environment()["message"]
    there.kubelet()
    await there.until_quiet()
    assert there.environment()["status"] == "suspended"
    assert there.ready(r.PROJECTS, "order-sync")[:2] == ("True", "Suspended")


async def test_resuming_stays_suspended_until_something_serves() -> None:
    there = await running()
    for suspended in (True, False):
        change(there, environments=[{"name": "production", "version": "latest", "suspended": suspended}])
        await there.until_quiet()
        if suspended:
            there.kubelet()
            await there.until_quiet()
    assert there.environment()["status"] == "suspended"
    assert "starting" in there.environment()["message"]
    there.kubelet()
    await there.until_quiet()
    assert there.environment()["status"] == "running"


async def test_an_image_that_does_not_exist_is_an_error_with_the_image_in_the_message() -> None:
    there = reconciling(project())
    await there.until_quiet()
    there.kubelet(ready=False, status=no_image())
    await there.until_quiet()
    assert there.environment()["status"] == "error"
    assert "nowhere/x:1" in there.environment()["message"]
    there.kubelet()
    await there.until_quiet()
    assert there.environment()["status"] == "running"


async def test_a_deleted_child_comes_back() -> None:
    there = await running()
    name = there.deployment()["metadata"]["name"]
    there.cluster.remove(r.SERVICE_ACCOUNTS, name)
    there.cluster.remove(r.DEPLOYMENTS, name)
    await there.until_quiet()
    assert there.cluster[r.SERVICE_ACCOUNTS].get(NAMESPACE, name)
    assert there.cluster[r.DEPLOYMENTS].get(NAMESPACE, name)


async def test_an_edited_deployment_is_put_right() -> None:
    there = await running()
    there.deployment()["spec"]["replicas"] = 7
    await there.until_quiet()
    assert there.deployment()["spec"]["replicas"] == 1


async def test_an_environment_that_is_removed_takes_its_workload_with_it() -> None:
    both = [{"name": name, "version": "latest"} for name in ("production", "staging")]
    there = reconciling(project(environments=both))
    await there.until_quiet()
    assert len(there.cluster[r.DEPLOYMENTS].list()) == 2
    change(there, environments=both[:1])
    await there.until_quiet()
    (left,) = there.cluster[r.DEPLOYMENTS].list()
    assert "production" in left["metadata"]["name"]
    assert len(there.cluster[r.SERVICES].list()) == 1


async def test_a_disruption_budget_is_there_only_with_several_replicas() -> None:
    there = reconciling(project(runtime={"replicas": 2}))
    await there.until_quiet()
    assert len(there.cluster[r.POD_DISRUPTION_BUDGETS].list()) == 1
    change(there, runtime={"replicas": 1})
    await there.until_quiet()
    assert there.cluster[r.POD_DISRUPTION_BUDGETS].list() == []


async def test_a_workload_that_kubernetes_refuses_is_an_error_in_its_environment_and_tried_again() -> None:
    there = reconciling(project())
    there.cluster.refused[r.DEPLOYMENTS] = "limits.memory: must be greater than the request"
    await there.until_quiet()
    await there.once(r.PROJECTS, "order-sync")
    assert there.requeue_after == 60
    assert there.environment()["status"] == "error"
    assert "limits.memory" in there.environment()["message"]
    assert there.ready(r.PROJECTS, "order-sync")[:2] == ("False", "WorkloadRefused")
    there.cluster.refused.clear()
    await there.until_quiet()
    assert there.deployment()


async def test_a_refused_change_leaves_what_serves_alone() -> None:
    there = await running()
    there.cluster.refused[r.DEPLOYMENTS] = "quota"
    change(there, source=source("print('two')\n"))
    await there.until_quiet()
    assert there.environment()["status"] == "running"
    assert "keeps serving" in there.environment()["message"]
