"""Projects: versions, environments and their workloads, from the first apply to the last pod."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.unit.operator.fake_cluster import files_of
from tests.unit.operator.objects import NAMESPACE, namespace, obj, project, template
from tests.unit.operator.project_fixtures import MAIN, change, reconciling, running, source
from tests.unit.operator.reconcile_loop import CONFIG, ReconcileLoop, crashed
from tests.unit.protocol.deploy_cases import CASES, UNSAVED, Case
from tieline_core.kubernetes import resources as r
from tieline_core.project_files.deploy_findings import check_files
from tieline_operator.cache.indexers import CHILD_RESOURCES
from tieline_operator.reconcilers.project.environment_plan import OPTIONAL_CHILDREN


async def test_a_project_that_follows_latest_gets_a_version_a_workload_and_starts() -> None:
    there = reconciling(project())
    await there.until_quiet()
    (version,) = there.cluster[r.PROJECT_VERSIONS].list()
    assert there.environment()["status"] == "draft"
    assert there.environment()["desiredVersion"] == version["metadata"]["name"]
    assert there.ready(r.PROJECTS, "order-sync")[:2] == ("Unknown", "Starting")
    assert all(
        len(there.cluster[resource].list()) == 1
        for resource in CHILD_RESOURCES
        if resource not in OPTIONAL_CHILDREN
    )
    assert files_of(there.cluster, [version["spec"]["configMaps"][0]["name"]]) == {MAIN: b"print('one')\n"}

    there.kubelet()
    await there.until_quiet()
    environment = there.environment()
    assert (environment["status"], environment["version"]) == ("running", version["metadata"]["name"])
    assert environment["publicUrl"] == "http://10.96.0.77"
    assert there.ready(r.PROJECTS, "order-sync")[:2] == ("True", "Running")
    assert (
        there.cluster[r.PROJECTS].get(NAMESPACE, "order-sync")["status"]["summary"] == "production: running"
    )


async def test_reconciling_what_has_not_changed_writes_nothing() -> None:
    there = await running()
    await there.advance(CONFIG.healthy_seconds)
    again = ReconcileLoop(there.cluster)
    again.now += timedelta(hours=1)
    assert await again.until_quiet() == 0


async def test_a_project_without_environments_gets_a_draft_called_production_that_runs_nothing() -> None:
    there = reconciling(project(environments=[]))
    await there.until_quiet()
    assert there.environment()["status"] == "draft"
    assert there.deployment() is None
    assert there.cluster[r.PROJECT_VERSIONS].list() == []
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


async def test_files_with_a_syntax_error_are_never_rolled_out_and_the_finding_is_reported() -> None:
    there = await running()
    before = there.deployment()["spec"]["template"]
    change(there, source=source("def broken(:\n"))
    await there.until_quiet()
    environment = there.environment()
    assert environment["status"] == "running"
    assert "main.py:1" in environment["message"]
    assert there.deployment()["spec"]["template"] == before
    failed = there.cluster[r.PROJECT_VERSIONS].get(NAMESPACE, environment["desiredVersion"])
    assert failed["status"]["state"] == "failed"
    assert failed["status"]["findings"][0]["line"] == 1


@pytest.mark.parametrize("case", [*CASES, *UNSAVED], ids=str)
async def test_the_status_says_what_the_rules_for_deploys_say(case: Case) -> None:
    keys = {f"file-{number}": path for number, path in enumerate(case.files)}
    items = [{"key": key, "path": path} for key, path in keys.items()]
    there = reconciling(
        project(source={"configMaps": [{"name": "code", "items": items}]}, labels=case.labels)
    )
    there.cluster.put_config_map("code", {key: case.files[path].decode() for key, path in keys.items()})
    await there.until_quiet()
    if not case.words:
        assert there.deployment() is not None
        return
    (finding,) = check_files(case.files, case.labels, case.templates)
    status, _, message = there.ready(r.PROJECTS, "order-sync")
    assert (status, there.deployment()) == ("False", None)
    assert finding.message in message


async def test_required_packages_without_hashes_are_refused_with_the_line_and_what_to_do() -> None:
    contents = {"main.py": "", "requirements.txt": "# ours\nrequests==2.32.0\n"}
    files = [{"filename": name, "content": content} for name, content in contents.items()]
    there = reconciling(project(source={"files": files}))
    await there.until_quiet()
    environment = there.environment()
    assert environment["status"] == "error"
    (version,) = there.cluster[r.PROJECT_VERSIONS].list(NAMESPACE)
    (finding,) = version["status"]["findings"]
    assert (finding["filename"], finding["line"]) == ("requirements.txt", 2)
    assert "requirements.txt:2: requests has no --hash" in environment["message"]
    assert "packageLock" not in version["status"]


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
    there.cluster.put(r.CONNECTION_TEMPLATES, template())
    await there.until_quiet()
    assert there.deployment() is not None


async def test_a_namespace_that_is_no_organisation_is_told_how_to_become_one() -> None:
    there = reconciling(project(), organisation=False)
    await there.until_quiet()
    status, reason, message = there.ready(r.PROJECTS, "order-sync")
    assert (status, reason) == ("False", "OrganisationMissing")
    assert "kubectl label --overwrite namespace acme tieline.dev/organisation=" in message
    assert there.deployment() is None


async def test_it_is_told_so_where_a_policy_forbids_all_but_status_there() -> None:
    there = reconciling(project(), organisation=False)
    there.cluster.closed.add(NAMESPACE)
    await there.until_quiet()
    assert there.ready(r.PROJECTS, "order-sync")[:2] == ("False", "OrganisationMissing")
    await there.once(r.PROJECTS, "order-sync")
    assert there.requeue_after == 60
    found = there.cluster[r.PROJECTS].get(NAMESPACE, "order-sync")
    assert "labels" not in found["metadata"]

    there.cluster.closed.clear()
    await there.changed(r.NAMESPACES, namespace())
    labelled = there.cluster[r.PROJECTS].get(NAMESPACE, "order-sync")
    assert labelled["metadata"]["labels"]["tieline.dev/id"] == found["status"]["id"]
    assert there.deployment() is not None


async def test_an_invalid_stored_object_is_stalled_and_does_not_loop() -> None:
    there = reconciling(obj("Project", "odd", spec={"name": "x", "environments": [{"name": 7}]}))
    await there.until_quiet()
    status, reason, message = there.ready(r.PROJECTS, "odd")
    assert (status, reason) == ("False", "Invalid")
    assert "spec.environments.0.name" in message


async def test_each_transition_of_ready_is_told_once_as_an_event() -> None:
    there = await running()
    told = [event["reason"] for event in there.cluster.posted if event["regarding"]["kind"] == "Project"]
    assert told == ["Starting", "Running"]
    assert all(len(event["note"].encode()) <= 1024 for event in there.cluster.posted)


async def test_a_whole_life_follows_from_what_was_seen_to_change_alone() -> None:
    """Nothing is polled: each step is reached only by the routes from changes to the objects they concern."""
    there = reconciling()
    code = 'async def f(ctx):\n    return await ctx.session("shop")\n'
    await there.changed(r.PROJECTS, project(source={"configMaps": [{"name": "code"}]}))
    assert there.ready(r.PROJECTS, "order-sync")[1] == "FilesMissing"
    there.cluster.put_config_map("code", {MAIN: code})
    await there.changed(r.CONFIG_MAPS, there.cluster[r.CONFIG_MAPS].get(NAMESPACE, "code"))
    assert there.ready(r.PROJECTS, "order-sync")[1] == "TemplateNotFound"
    await there.changed(r.CONNECTION_TEMPLATES, template())
    assert there.deployment()
    there.kubelet()
    for pod in there.cluster[r.PODS].list():
        await there.changed(r.PODS, pod)
    assert there.environment()["status"] == "running"
    (version,) = there.cluster[r.PROJECT_VERSIONS].list()
    assert version["status"]["state"] == "ready"
