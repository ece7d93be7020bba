"""An operator runs for years: what it remembers ends with what it is about, or with a bound."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.kubernetes.fake_api_server import FakeApiServer
from tests.unit.operator.fake_cluster import FakeCluster
from tests.unit.operator.objects import NAMESPACE, obj, project
from tests.unit.operator.project_fixtures import MAIN
from tests.unit.operator.reconcile_loop import CONFIG
from tieline_core.kubernetes import Change, Resource
from tieline_core.kubernetes.resources import END_USERS, PROJECT_VERSIONS, PROJECTS
from tieline_core.resources import Project
from tieline_operator.apply.plan import Key
from tieline_operator.controller.manager import Manager
from tieline_operator.metrics import Metrics
from tieline_operator.reconcilers.project.files import ProjectFiles


async def test_files_are_digested_once_for_each_state_of_a_project_and_no_former_state_is_kept() -> None:
    cluster = FakeCluster()
    cluster.put_config_map("code", {MAIN: "print(1)"})
    code = ProjectFiles(cluster)
    states = [
        Project.read({**found, "metadata": {**found["metadata"], "generation": generation}})
        for generation in (1, 2, 3)
        for found in [project(source={"configMaps": [{"name": "code"}]})]
    ]
    for state in states:
        before = cluster.reads
        first = await code.current(state, lambda: None)
        assert cluster.reads == before + 1
        assert await code.current(state, lambda: None) == first
        assert cluster.reads == before + 1, "it is remembered"
    assert len(code._digests) == 1
    code.forget(states[0].metadata.uid)
    assert len(code._digests) == 0


@pytest.mark.parametrize("resource", [PROJECTS, PROJECT_VERSIONS], ids=lambda resource: resource.kind)
async def test_what_was_found_in_files_goes_with_the_project_or_the_version(
    resource: Resource, monkeypatch: pytest.MonkeyPatch
) -> None:
    forgotten: list[str] = []
    monkeypatch.setattr(ProjectFiles, "forget", lambda _self, uid: forgotten.append(uid))
    spec: dict[str, Any] = {"projectRef": {"name": "order-sync"}}
    there = obj(resource.kind, "order-sync", spec=spec)
    async with FakeApiServer.running(resource) as server, server.client() as kube:
        service = Manager(CONFIG, kube, Metrics())
        service._changed(resource, Change(old=None, new=there))
        service._changed(resource, Change(old=there, new=there))
        assert forgotten == []
        service._changed(resource, Change(old=there, new=None))
    assert forgotten == [there["metadata"]["uid"]]


async def test_a_replica_that_waits_remembers_the_last_changes_and_not_all_of_them() -> None:
    """Users come and go for years while another replica leads."""
    async with FakeApiServer.running(END_USERS) as server, server.client() as kube:
        service = Manager(CONFIG, kube, Metrics())
        for number in range(5000):
            service._enqueue(Key("EndUser", NAMESPACE, f"user-{number}"))
    oldest_first = [service._changed_while_standby.popitem()[0].name for _ in range(4096)]
    assert not service._changed_while_standby
    assert oldest_first[::-1] == [f"user-{number}" for number in reversed(range(5000 - 4096, 5000))]
