"""Projects: versions, environments and their workloads, from the first apply to the last pod."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tests.unit.operator.memory_world import MemoryWorld, files_of
from tests.unit.operator.objects import NAMESPACE, namespace, obj, project, template
from tests.unit.operator.reconciling import Reconciling, crashed, no_image
from tests.unit.rules.deploy_cases import CASES, UNSAVED, Case
from tieline_core.checks import check_files
from tieline_core.kube import resources as r
from tieline_operator.indexes import CHILDREN
from tieline_operator.snapshots import UNNEEDED_AFTER
from tieline_rules.image import REQUIREMENTS_REFUSED

MAIN = "main.py"


def reconciling(*objects: Any, organisation: bool = True) -> Reconciling:
    world = MemoryWorld(*objects)
    world.put(r.NAMESPACES, namespace() if organisation else namespace(organisation=None))
    return Reconciling(world)


def source(text: str) -> dict[str, Any]:
    return {"files": [{"filename": MAIN, "content": text}]}


def change(there: Reconciling, **spec: Any) -> None:
    """A user edits the project."""
    stored = there.world.objects[r.PROJECTS][NAMESPACE, "order-sync"]
    stored["spec"].update(spec)
    stored["metadata"]["generation"] += 1


async def running(**spec: Any) -> Reconciling:
    there = reconciling(project(**spec))
    await there.until_quiet()
    there.kubelet()
    await there.until_quiet()
    return there


async def test_a_project_that_follows_latest_gets_a_version_a_workload_and_starts() -> None:
    there = reconciling(project())
    await there.until_quiet()
    (version,) = there.world[r.PROJECT_VERSIONS].list()
    assert there.environment()["status"] == "draft"
    assert there.environment()["desiredVersion"] == version["metadata"]["name"]
    assert there.ready(r.PROJECTS, "order-sync")[:2] == ("Unknown", "Starting")
    assert all(
        len(there.world[resource].list()) == 1 for resource in CHILDREN if "budget" not in resource.plural
    )
    assert files_of(there.world, [version["spec"]["configMaps"][0]["name"]]) == {MAIN: b"print('one')\n"}

    there.kubelet()
    await there.until_quiet()
    environment = there.environment()
    assert (environment["status"], environment["version"]) == ("running", version["metadata"]["name"])
    assert environment["publicUrl"] == "http://10.96.0.77"
    assert there.ready(r.PROJECTS, "order-sync")[:2] == ("True", "Running")
    assert there.world[r.PROJECTS].get(NAMESPACE, "order-sync")["status"]["summary"] == "production: running"


async def test_reconciling_what_has_not_changed_writes_nothing() -> None:
    there = await running()
    again = Reconciling(there.world)
    again.now += timedelta(hours=1)
    assert await again.until_quiet() == 0


async def test_a_project_without_environments_gets_a_draft_called_production_that_runs_nothing() -> None:
    there = reconciling(project(environments=[]))
    await there.until_quiet()
    assert there.environment()["status"] == "draft"
    assert there.deployment() is None
    assert there.world[r.PROJECT_VERSIONS].list() == []
    assert there.ready(r.PROJECTS, "order-sync")[0] == "True"


async def test_during_a_rollout_the_old_version_is_told_to_serve_until_the_new_one_does() -> None:
    there = await running()
    old = there.environment()["version"]
    change(there, source=source("print('two')\n"))
    await there.until_quiet()
    there.kubelet(ready=False)
    await there.until_quiet()
    environment = there.environment()
    assert (environment["status"], environment["version"]) == ("running", old)
    assert environment["desiredVersion"] != old
    assert there.ready(r.PROJECTS, "order-sync")[:2] == ("Unknown", "RollingOut")
    there.kubelet()
    await there.until_quiet()
    assert there.environment()["version"] == environment["desiredVersion"]


async def test_a_new_version_that_crashes_leaves_the_old_one_serving_and_shows_its_last_lines() -> None:
    there = await running()
    old = there.environment()["version"]
    change(there, source=source("raise SystemExit(3)\n"))
    await there.until_quiet()
    there.kubelet(ready=False, status=crashed("KeyError: 'token'", exit_code=3))
    await there.until_quiet()
    environment = there.environment()
    assert (environment["status"], environment["version"]) == ("running", old)
    assert "KeyError: 'token'" in environment["message"]
    assert "exit code 3" in environment["message"]
    assert f"version {old} keeps serving" in environment["message"]
    assert there.ready(r.PROJECTS, "order-sync")[:2] == ("False", "Crashed")


async def test_files_with_a_syntax_error_are_never_rolled_out_and_the_finding_is_told() -> None:
    there = await running()
    before = there.deployment()["spec"]["template"]
    change(there, source=source("def broken(:\n"))
    await there.until_quiet()
    environment = there.environment()
    assert environment["status"] == "running"
    assert "main.py:1" in environment["message"]
    assert there.deployment()["spec"]["template"] == before
    failed = there.world[r.PROJECT_VERSIONS].get(NAMESPACE, environment["desiredVersion"])
    assert failed["status"]["state"] == "failed"
    assert failed["status"]["findings"][0]["line"] == 1


@pytest.mark.parametrize("case", [*CASES, *UNSAVED], ids=str)
async def test_the_status_says_what_the_rules_for_deploys_say(case: Case) -> None:
    keys = {f"file-{number}": path for number, path in enumerate(case.files)}
    items = [{"key": key, "path": path} for key, path in keys.items()]
    there = reconciling(
        project(source={"configMaps": [{"name": "code", "items": items}]}, labels=case.labels)
    )
    there.world.put_config_map("code", {key: case.files[path].decode() for key, path in keys.items()})
    await there.until_quiet()
    if not case.words:
        assert there.deployment() is not None
        return
    (finding,) = check_files(case.files, case.labels, case.templates)
    status, _, message = there.ready(r.PROJECTS, "order-sync")
    assert (status, there.deployment()) == ("False", None)
    assert finding.message in message


async def test_required_packages_are_refused_with_what_the_image_holds_and_how_to_build_one() -> None:
    files = [{"filename": name, "content": ""} for name in ("main.py", "requirements.txt")]
    there = reconciling(project(source={"files": files}))
    await there.until_quiet()
    environment = there.environment()
    assert environment["status"] == "error"
    (version,) = there.world[r.PROJECT_VERSIONS].list(NAMESPACE)
    assert [(item["filename"], item["message"]) for item in version["status"]["findings"]] == [
        ("requirements.txt", REQUIREMENTS_REFUSED)
    ]
    assert "requirements.txt: packages are not installed on deploy" in environment["message"]


async def test_a_first_deploy_with_broken_files_is_an_error() -> None:
    there = reconciling(project(source=source("def broken(:\n")))
    await there.until_quiet()
    assert there.environment()["status"] == "error"
    assert there.deployment() is None
    assert there.ready(r.PROJECTS, "order-sync")[:2] == ("False", "VersionRefused")


async def test_code_that_names_a_template_which_is_not_there_waits_for_it_and_heals() -> None:
    code = 'async def f(ctx):\n    await ctx.fetch("shop", "/orders")\n'
    there = reconciling(project(source=source(code)))
    await there.until_quiet()
    assert there.ready(r.PROJECTS, "order-sync")[:2] == ("False", "TemplateNotFound")
    assert "main.py:2" in there.environment()["message"]
    there.world.put(r.CONNECTION_TEMPLATES, template())
    await there.until_quiet()
    assert there.deployment() is not None


async def test_a_missing_configmap_is_told_and_heals_when_it_comes() -> None:
    there = reconciling(project(source={"configMaps": [{"name": "code"}]}))
    await there.until_quiet()
    status, reason, message = there.ready(r.PROJECTS, "order-sync")
    assert (status, reason) == ("False", "FilesMissing")
    assert 'ConfigMap "code" does not exist' in message
    there.world.put_config_map("code", {MAIN: "print(1)\n"})
    await there.until_quiet()
    assert there.ready(r.PROJECTS, "order-sync")[0] == "Unknown"
    assert len(there.world[r.PROJECT_VERSIONS].list()) == 1


async def test_a_changed_source_configmap_makes_a_new_version() -> None:
    there = reconciling(project(source={"configMaps": [{"name": "code"}]}))
    there.world.put_config_map("code", {MAIN: "print(1)\n"})
    await there.until_quiet()
    there.world.put_config_map("code", {MAIN: "print(2)\n"})
    await there.until_quiet()
    assert len(there.world[r.PROJECT_VERSIONS].list()) == 2


async def test_contents_of_configmaps_are_read_again_only_when_they_changed() -> None:
    there = reconciling(project(source={"configMaps": [{"name": "code"}]}))
    there.world.put_config_map("code", {MAIN: "print(1)\n"})
    await there.until_quiet()
    reads = there.world.reads
    await there.once(r.PROJECTS, "order-sync")
    assert there.world.reads == reads


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


async def test_a_pin_to_a_version_that_does_not_exist_keeps_what_serves() -> None:
    there = await running()
    old = there.environment()["version"]
    change(there, environments=[{"name": "production", "version": "order-sync-nope"}])
    await there.until_quiet()
    environment = there.environment()
    assert (environment["status"], environment["version"]) == ("running", old)
    assert there.ready(r.PROJECTS, "order-sync")[:2] == ("False", "VersionNotFound")


async def test_rolling_back_is_pointing_at_an_older_version() -> None:
    there = await running()
    first = there.environment()["version"]
    change(there, source=source("print('two')\n"))
    await there.until_quiet()
    there.kubelet()
    await there.until_quiet()
    assert there.environment()["version"] != first
    change(there, environments=[{"name": "production", "version": first}])
    await there.until_quiet()
    there.kubelet()
    await there.until_quiet()
    assert there.environment()["version"] == first
    assert there.ready(r.PROJECTS, "order-sync")[0] == "True"


@pytest.mark.parametrize("accept", [True, False])
async def test_a_pinned_environment_follows_new_files_only_where_the_project_accepts_them(
    accept: bool,
) -> None:
    there = await running()
    first = there.environment()["version"]
    change(
        there,
        environments=[{"name": "production", "version": first}],
        settings={"acceptCodeChangesAutomatically": accept},
    )
    await there.until_quiet()
    assert there.environment()["desiredVersion"] == first
    change(there, source=source("print('two')\n"))
    await there.until_quiet()
    assert (there.environment()["desiredVersion"] != first) is accept


async def test_an_accepting_project_can_still_be_rolled_back_until_its_files_change_again() -> None:
    there = await running(settings={"acceptCodeChangesAutomatically": True})
    first = there.environment()["version"]
    change(there, source=source("print('two')\n"))
    await there.until_quiet()
    change(there, environments=[{"name": "production", "version": first}])
    await there.until_quiet()
    assert there.environment()["desiredVersion"] == first
    change(there, source=source("print('three')\n"))
    await there.until_quiet()
    assert there.environment()["desiredVersion"] != first


async def test_a_deleted_child_comes_back() -> None:
    there = await running()
    name = there.deployment()["metadata"]["name"]
    there.world.remove(r.SERVICE_ACCOUNTS, name)
    there.world.remove(r.DEPLOYMENTS, name)
    await there.until_quiet()
    assert there.world[r.SERVICE_ACCOUNTS].get(NAMESPACE, name)
    assert there.world[r.DEPLOYMENTS].get(NAMESPACE, name)


async def test_an_edited_deployment_is_put_right() -> None:
    there = await running()
    there.deployment()["spec"]["replicas"] = 7
    await there.until_quiet()
    assert there.deployment()["spec"]["replicas"] == 1


async def test_an_environment_that_is_removed_takes_its_workload_with_it() -> None:
    both = [{"name": name, "version": "latest"} for name in ("production", "staging")]
    there = reconciling(project(environments=both))
    await there.until_quiet()
    assert len(there.world[r.DEPLOYMENTS].list()) == 2
    change(there, environments=both[:1])
    await there.until_quiet()
    (left,) = there.world[r.DEPLOYMENTS].list()
    assert "production" in left["metadata"]["name"]
    assert len(there.world[r.SERVICES].list()) == 1


async def test_a_disruption_budget_is_there_only_with_several_replicas() -> None:
    there = reconciling(project(runtime={"replicas": 2}))
    await there.until_quiet()
    assert len(there.world[r.POD_DISRUPTION_BUDGETS].list()) == 1
    change(there, runtime={"replicas": 1})
    await there.until_quiet()
    assert there.world[r.POD_DISRUPTION_BUDGETS].list() == []


async def test_old_versions_go_but_those_in_use_and_the_newest_stay() -> None:
    there = await running()
    first = there.environment()["version"]
    environments = [{"name": "production", "version": first}, {"name": "staging", "version": "latest"}]
    change(there, environments=environments)
    for number in range(5):
        change(there, source=source(f"print({number})\n"))
        await there.until_quiet()
        there.kubelet(environment="staging")
        await there.until_quiet()
    names = {version["metadata"]["name"] for version in there.world[r.PROJECT_VERSIONS].list()}
    assert first in names
    assert there.environment("staging")["version"] in names
    assert len(names) == 3

    there.now += UNNEEDED_AFTER * 2
    await there.until_quiet()
    needed = {v["spec"]["configMaps"][0]["name"] for v in there.world[r.PROJECT_VERSIONS].list()}
    assert {c["metadata"]["name"] for c in there.world[r.CONFIG_MAPS].list()} == needed


async def test_configmaps_that_no_version_needs_yet_are_left_alone_for_a_while() -> None:
    there = await running()
    owner = {"uid": there.world[r.PROJECTS].get(NAMESPACE, "order-sync")["metadata"]["uid"]}
    fresh = there.world._stored(
        {
            "kind": "ConfigMap",
            "metadata": {
                "name": "order-sync-files-fresh",
                "namespace": NAMESPACE,
                "labels": {"tieline.dev/project": "order-sync"},
                "ownerReferences": [owner],
            },
        }
    )
    there.world.put(r.CONFIG_MAPS, fresh)
    await there.once(r.PROJECTS, "order-sync")
    assert there.requeue_after
    assert there.requeue_after > 0
    assert there.world[r.CONFIG_MAPS].get(NAMESPACE, "order-sync-files-fresh")


async def test_a_lost_configmap_of_the_current_files_is_made_again() -> None:
    there = await running()
    (name,) = [c["metadata"]["name"] for c in there.world[r.CONFIG_MAPS].list()]
    there.world.remove(r.CONFIG_MAPS, name)
    await there.until_quiet()
    assert there.world[r.CONFIG_MAPS].get(NAMESPACE, name)
    assert there.ready(r.PROJECTS, "order-sync")[0] == "True"


async def test_a_namespace_that_is_no_organisation_is_told_how_to_become_one() -> None:
    there = reconciling(project(), organisation=False)
    await there.until_quiet()
    status, reason, message = there.ready(r.PROJECTS, "order-sync")
    assert (status, reason) == ("False", "OrganisationMissing")
    assert "kubectl label namespace acme tieline.dev/organisation=" in message
    assert there.deployment() is None


async def test_an_invalid_stored_object_is_stalled_and_does_not_loop() -> None:
    there = reconciling(obj("Project", "odd", spec={"name": "x", "environments": [{"name": 7}]}))
    await there.until_quiet()
    status, reason, message = there.ready(r.PROJECTS, "odd")
    assert (status, reason) == ("False", "Invalid")
    assert "spec.environments.0.name" in message


async def test_each_transition_of_ready_is_told_once_as_an_event() -> None:
    there = await running()
    told = [event["reason"] for event in there.world.posted if event["regarding"]["kind"] == "Project"]
    assert told == ["Starting", "Running"]
    assert all(len(event["note"].encode()) <= 1024 for event in there.world.posted)


async def test_a_workload_that_kubernetes_refuses_is_an_error_in_its_environment_and_tried_again() -> None:
    there = reconciling(project())
    there.world.refused[r.DEPLOYMENTS] = "limits.memory: must be greater than the request"
    await there.until_quiet()
    await there.once(r.PROJECTS, "order-sync")
    assert there.requeue_after == 60
    assert there.environment()["status"] == "error"
    assert "limits.memory" in there.environment()["message"]
    assert there.ready(r.PROJECTS, "order-sync")[:2] == ("False", "WorkloadRefused")
    there.world.refused.clear()
    await there.until_quiet()
    assert there.deployment()


async def test_a_refused_change_leaves_what_serves_alone() -> None:
    there = await running()
    there.world.refused[r.DEPLOYMENTS] = "quota"
    change(there, source=source("print('two')\n"))
    await there.until_quiet()
    assert there.environment()["status"] == "running"
    assert "keeps serving" in there.environment()["message"]


async def test_a_whole_life_follows_from_what_was_seen_to_change_alone() -> None:
    """Nothing is polled: each step is reached only by the routes from changes to the objects they concern."""
    there = reconciling()
    code = 'async def f(ctx):\n    return await ctx.session("shop")\n'
    await there.changed(r.PROJECTS, project(source={"configMaps": [{"name": "code"}]}))
    assert there.ready(r.PROJECTS, "order-sync")[1] == "FilesMissing"
    there.world.put_config_map("code", {MAIN: code})
    await there.changed(r.CONFIG_MAPS, there.world[r.CONFIG_MAPS].get(NAMESPACE, "code"))
    assert there.ready(r.PROJECTS, "order-sync")[1] == "TemplateNotFound"
    await there.changed(r.CONNECTION_TEMPLATES, template())
    assert there.deployment()
    there.kubelet()
    for pod in there.world[r.PODS].list():
        await there.changed(r.PODS, pod)
    assert there.environment()["status"] == "running"
    (version,) = there.world[r.PROJECT_VERSIONS].list()
    assert version["status"]["state"] == "ready"
