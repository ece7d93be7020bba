"""Which version of a project serves, where its files lie, and how long old ones are kept."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.unit.operator.objects import NAMESPACE, project
from tests.unit.operator.project_fixtures import MAIN, change, reconciling, running, source
from tieline_core.kubernetes import resources as r
from tieline_core.project_files.config_maps import config_map, pack
from tieline_operator.reconcilers.project.versions import ORPHANED_PACK_GRACE


async def test_a_missing_configmap_is_told_and_heals_when_it_comes() -> None:
    there = reconciling(project(source={"configMaps": [{"name": "code"}]}))
    await there.until_quiet()
    status, reason, message = there.ready(r.PROJECTS, "order-sync")
    assert (status, reason) == ("False", "FilesMissing")
    assert 'ConfigMap "code" does not exist' in message
    there.cluster.put_config_map("code", {MAIN: "print(1)\n"})
    await there.until_quiet()
    assert there.ready(r.PROJECTS, "order-sync")[0] == "Unknown"
    assert len(there.cluster[r.PROJECT_VERSIONS].list()) == 1


async def test_a_version_that_is_seen_before_its_files_waits_for_them_before_its_deploy_fails() -> None:
    there = await running()
    first = there.environment()["version"]
    (packed,) = pack("order-sync", {MAIN: b"print('two')\n"})
    there.cluster.behind[r.CONFIG_MAPS] = {(NAMESPACE, packed.name): None}
    change(there, source=source("print('two')\n"))
    await there.until_quiet()
    second = there.environment()["desiredVersion"]
    assert there.ready(r.PROJECT_VERSIONS, second)[:2] == ("Unknown", "WaitingForFiles")
    assert there.environment()["rollout"] == "progressing"
    there.now += timedelta(seconds=3)
    await there.until_quiet()
    assert there.ready(r.PROJECT_VERSIONS, second)[:2] == ("False", "FilesMissing")
    assert there.environment()["deployFailure"] == "VersionRefused"
    assert there.environment()["version"] == first
    there.cluster.behind.clear()
    await there.until_quiet()
    assert there.ready(r.PROJECT_VERSIONS, second)[0] == "True"
    there.kubelet()
    await there.until_quiet()
    assert there.environment()["version"] == second


async def test_a_changed_source_configmap_makes_a_new_version() -> None:
    there = reconciling(project(source={"configMaps": [{"name": "code"}]}))
    there.cluster.put_config_map("code", {MAIN: "print(1)\n"})
    await there.until_quiet()
    there.cluster.put_config_map("code", {MAIN: "print(2)\n"})
    await there.until_quiet()
    assert len(there.cluster[r.PROJECT_VERSIONS].list()) == 2


async def test_contents_of_configmaps_are_read_again_only_when_they_changed() -> None:
    there = reconciling(project(source={"configMaps": [{"name": "code"}]}))
    there.cluster.put_config_map("code", {MAIN: "print(1)\n"})
    await there.until_quiet()
    reads = there.cluster.reads
    await there.once(r.PROJECTS, "order-sync")
    assert there.cluster.reads == reads


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


async def test_operator_and_api_write_the_same_configmap() -> None:
    """Server-side apply refuses a field that the other one has written in another way."""
    there = await running()
    (made,) = there.cluster[r.CONFIG_MAPS].list()
    (packed,) = pack("order-sync", {MAIN: b"print('one')\n"})
    applied = config_map(packed, there.cluster[r.PROJECTS].get(NAMESPACE, "order-sync"))
    assert {key: made["metadata"][key] for key in applied["metadata"]} == applied["metadata"]


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
    names = {version["metadata"]["name"] for version in there.cluster[r.PROJECT_VERSIONS].list()}
    assert first in names
    assert there.environment("staging")["version"] in names
    assert len(names) == 3

    there.now += ORPHANED_PACK_GRACE * 2
    await there.until_quiet()
    needed = {v["spec"]["configMaps"][0]["name"] for v in there.cluster[r.PROJECT_VERSIONS].list()}
    assert {c["metadata"]["name"] for c in there.cluster[r.CONFIG_MAPS].list()} == needed


async def test_configmaps_that_no_version_needs_yet_are_left_alone_for_a_while() -> None:
    there = await running()
    owner = {"uid": there.cluster[r.PROJECTS].get(NAMESPACE, "order-sync")["metadata"]["uid"]}
    fresh = there.cluster._stored(
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
    there.cluster.put(r.CONFIG_MAPS, fresh)
    await there.once(r.PROJECTS, "order-sync")
    assert there.requeue_after
    assert there.requeue_after > 0
    assert there.cluster[r.CONFIG_MAPS].get(NAMESPACE, "order-sync-files-fresh")


async def test_a_lost_configmap_of_the_current_files_is_made_again() -> None:
    there = await running()
    (name,) = [c["metadata"]["name"] for c in there.cluster[r.CONFIG_MAPS].list()]
    there.cluster.remove(r.CONFIG_MAPS, name)
    await there.until_quiet()
    assert there.cluster[r.CONFIG_MAPS].get(NAMESPACE, name)
    assert there.ready(r.PROJECTS, "order-sync")[0] == "True"
