"""Deploying a project updates its connector: triggers from its code, actions from its description."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import orjson
import pytest

from tests.harness.session.waiting import eventually_async
from tests.unit.operator.fake_cluster import FakeCluster
from tests.unit.operator.objects import NAMESPACE, namespace, project
from tests.unit.operator.reconcile_loop import ReconcileLoop
from tieline_core.connectors.packing import all_lines
from tieline_core.connectors.storage import content_of
from tieline_core.identity.ids import object_id, object_name, project_connector_id
from tieline_core.kubernetes import resources as r
from tieline_operator.reconcilers.connector_results import STORING
from tieline_operator.reconcilers.project.connector import VERSIONS_KEPT

WRONG_CLOCKS = pytest.mark.parametrize(
    "ahead",
    [timedelta(minutes=-4), timedelta(), timedelta(minutes=4)],
    ids=["clock behind", "clock right", "clock ahead"],
)


def code(*names: str, more: str = "") -> str:
    return more + "".join(f'@integration.webhook("{name}")\ndef f(ctx): ...\n' for name in names)


def files(text: str, description: dict[str, Any] | str | None = None) -> dict[str, Any]:
    found = [{"filename": "main.py", "content": text}]
    if description is not None:
        content = description if isinstance(description, str) else json.dumps(description)
        found.append({"filename": "openapi.json", "content": content})
    return {"files": found}


def described(path: str = "/a") -> dict[str, Any]:
    return {"openapi": "3.1.0", "info": {"title": "T", "version": "1"}, "paths": {path: {"get": {}}}}


async def deployed(there: ReconcileLoop, source: dict[str, Any]) -> None:
    """A user changes the project's files, and its pods come up."""
    if (NAMESPACE, "order-sync") not in there.cluster.objects[r.PROJECTS]:
        there.cluster.put(r.PROJECTS, project(source=source))
    else:
        stored = there.cluster.edited(r.PROJECTS, "order-sync")
        stored["spec"]["source"] = source
        stored["metadata"]["generation"] += 1
    await there.until_quiet()
    there.kubelet()

    async def imported() -> bool:
        await there.until_quiet()
        connector = the_connector(there)
        return connector is None or there.ready(r.CONNECTORS, connector["metadata"]["name"])[0] != "Unknown"

    await eventually_async("its description, which another process imports", imported)


def new() -> ReconcileLoop:
    cluster = FakeCluster()
    cluster.put(r.NAMESPACES, namespace())
    return ReconcileLoop(cluster)


def the_connector(there: ReconcileLoop) -> Any:
    return next(iter(there.cluster[r.CONNECTORS].list()), None)


def versions(there: ReconcileLoop) -> list[Any]:
    return sorted(there.cluster[r.CONNECTOR_VERSIONS].list(), key=lambda item: item["spec"]["publishedAt"])


def items(there: ReconcileLoop, version: Any, name: str) -> list[str]:
    maps = [content_of(there.cluster.contents[name]) for name in version["spec"]["configMaps"]]
    return [orjson.loads(line)["name"] for line in all_lines(maps, name)]


def default(there: ReconcileLoop) -> Any:
    name = the_connector(there)["status"]["defaultVersion"]
    return next(version for version in versions(there) if version["spec"]["name"] == name)


async def test_a_deployed_project_has_a_connector_with_its_webhooks_as_triggers() -> None:
    there = new()
    await deployed(there, files(code("orders", "returns")))
    connector = the_connector(there)
    owner = there.cluster[r.PROJECTS].get(NAMESPACE, "order-sync")
    identifier = project_connector_id(object_id(owner))
    assert (object_id(connector), connector["metadata"]["name"]) == (identifier, object_name(identifier))
    assert connector["metadata"]["ownerReferences"][0]["uid"] == owner["metadata"]["uid"]
    assert connector["spec"] == {"name": "Order sync", "projectRef": {"name": "order-sync"}}
    (version,) = versions(there)
    (of_the_project,) = there.cluster[r.PROJECT_VERSIONS].list()
    assert version["spec"]["name"] == of_the_project["metadata"]["name"]
    assert items(there, version, "triggers") == ["orders", "returns"]
    assert of_the_project["status"]["interface"]["webhooks"] == ["orders", "returns"]


async def test_its_openapi_file_gives_the_actions() -> None:
    there = new()
    await deployed(there, files(code("orders"), described()))
    assert items(there, default(there), "actions") == ["get_a"]
    assert items(there, default(there), "triggers") == ["orders"]
    await deployed(there, files(code("orders"), described("/b")))
    assert items(there, default(there), "actions") == ["get_b"]
    assert len(versions(there)) == 2


async def test_a_description_that_cannot_be_read_is_told_and_the_webhooks_work() -> None:
    there = new()
    await deployed(there, files(code("orders"), "{"))
    connector = the_connector(there)
    assert items(there, default(there), "triggers") == ["orders"]
    assert connector["status"]["messages"][0]["severity"] == "error"
    assert there.ready(r.CONNECTORS, connector["metadata"]["name"])[:2] == ("True", "Imported")


async def test_a_deploy_that_changes_nothing_for_others_makes_no_version() -> None:
    there = new()
    await deployed(there, files(code("orders")))
    await deployed(there, files(code("orders", more="x = 1\n")))
    assert len(there.cluster[r.PROJECT_VERSIONS].list()) == 2
    assert len(versions(there)) == 1
    assert await ReconcileLoop(there.cluster).until_quiet() == 0


async def test_a_deploy_that_changes_webhooks_makes_a_version_and_rolling_back_makes_none() -> None:
    there = new()
    await deployed(there, files(code("one")))
    await deployed(there, files(code("one", "two")))
    assert items(there, default(there), "triggers") == ["one", "two"]
    first, second = versions(there)
    assert the_connector(there)["status"]["latestVersion"] == second["spec"]["name"]
    await deployed(there, files(code("one")))
    assert len(versions(there)) == 2
    assert default(there)["spec"]["name"] == first["spec"]["name"]


async def test_code_that_never_serves_changes_nothing() -> None:
    there = new()
    await deployed(there, files(code("one")))
    stored = there.cluster.edited(r.PROJECTS, "order-sync")
    stored["spec"]["source"] = files(code("two"))
    stored["metadata"]["generation"] += 1
    await there.until_quiet()
    assert len(versions(there)) == 1
    assert items(there, default(there), "triggers") == ["one"]


async def test_a_project_that_offers_nothing_has_no_connector() -> None:
    there = new()
    await deployed(there, files("x = 1\n"))
    assert the_connector(there) is None


async def test_a_project_that_offers_nothing_any_more_keeps_its_connector_empty() -> None:
    there = new()
    await deployed(there, files(code("one")))
    await deployed(there, files("x = 1\n"))
    assert items(there, default(there), "triggers") == []


async def test_what_was_deleted_or_changed_by_hand_comes_back() -> None:
    there = new()
    await deployed(there, files(code("one")))
    (version,) = versions(there)
    name = the_connector(there)["metadata"]["name"]
    there.cluster.remove(r.CONNECTOR_VERSIONS, version["metadata"]["name"])
    there.cluster.objects[r.CONNECTORS][NAMESPACE, name]["spec"]["name"] = "Mine"
    await there.until_quiet()
    assert items(there, default(there), "triggers") == ["one"]
    assert the_connector(there)["spec"]["name"] == "Order sync"
    there.cluster.remove(r.CONNECTORS, name)
    await there.until_quiet()
    assert the_connector(there) is not None


@WRONG_CLOCKS
async def test_a_version_whose_storing_was_broken_off_goes_and_comes_back_whole(ahead: timedelta) -> None:
    """As an operator leaves it that dies half-way, where the project is suspended before another takes over."""
    there = new()
    await deployed(there, files(code("one")))
    half = _as_just_made(there)
    _suspend(there, suspended=True)
    await there.once(r.PROJECTS, "order-sync")
    there.kubelet()
    there.now += ahead
    await there.until_quiet()
    await there.once(r.CONNECTOR_VERSIONS, half)
    assert there.ready(r.CONNECTOR_VERSIONS, half)[:2] == ("Unknown", "Storing")
    assert there.requeue_after == STORING.total_seconds()
    there.now += STORING - timedelta(seconds=1)
    await there.until_quiet()
    assert versions(there), "somebody may be storing it just now"
    there.now += timedelta(seconds=1)
    # The version comes back after this time, and what it says then leads to its connector.
    await there.changed(r.CONNECTOR_VERSIONS, versions(there)[0])
    assert versions(there) == []
    assert the_connector(there)["status"].get("latestVersion") is None
    _suspend(there, suspended=False)
    await there.until_quiet()
    there.kubelet()
    await there.until_quiet()
    assert items(there, default(there), "triggers") == ["one"]


@WRONG_CLOCKS
async def test_what_is_served_is_stored_by_an_operator_whose_clock_is_wrong(ahead: timedelta) -> None:
    there = new()
    there.now += ahead
    await deployed(there, files(code("one")))
    assert items(there, default(there), "triggers") == ["one"]
    assert there.cluster.requests["delete"] == 0, "nothing is taken for a leftover that was just made"
    (before,) = versions(there)
    there.cluster.remove(r.CONFIG_MAPS, before["spec"]["configMaps"][0])
    await there.until_quiet()
    (after,) = versions(there)
    assert after["metadata"]["uid"] == before["metadata"]["uid"], "it is completed, not made anew"
    assert items(there, after, "triggers") == ["one"]


async def test_what_is_deployed_after_a_clock_that_was_ahead_is_the_latest() -> None:
    there = new()
    await deployed(there, files(code("one")))
    (first,) = versions(there)
    stored = there.cluster.edited(r.CONNECTOR_VERSIONS, first["metadata"]["name"])
    stored["spec"]["publishedAt"] = "2100-01-01T00:00:00.000Z"
    await deployed(there, files(code("two")))
    latest = default(there)
    assert items(there, latest, "triggers") == ["two"]
    assert the_connector(there)["status"]["latestVersion"] == latest["spec"]["name"]


async def test_half_a_version_as_another_release_lays_it_out_is_made_anew() -> None:
    there = new()
    await deployed(there, files(code("one")))
    (version,) = versions(there)
    for name in version["spec"]["configMaps"]:
        there.cluster.remove(r.CONFIG_MAPS, name)
    stored = there.cluster.edited(r.CONNECTOR_VERSIONS, version["metadata"]["name"])
    stored["spec"]["configMaps"] = [f"{version['metadata']['name']}-000-other"]
    await there.until_quiet()
    (after,) = versions(there)
    assert after["metadata"]["uid"] != version["metadata"]["uid"]
    assert items(there, after, "triggers") == ["one"]


async def test_a_part_of_a_whole_version_that_went_is_told_at_once() -> None:
    there = new()
    await deployed(there, files(code("one")))
    (version,) = versions(there)
    there.cluster.remove(r.CONFIG_MAPS, version["spec"]["configMaps"][0])
    name = version["metadata"]["name"]
    await there.once(r.CONNECTOR_VERSIONS, name)
    assert there.ready(r.CONNECTOR_VERSIONS, name)[:2] == ("False", "ResultMissing")
    await there.until_quiet()
    assert there.ready(r.CONNECTOR_VERSIONS, name)[:2] == ("True", "Imported")


def _as_just_made(there: ReconcileLoop) -> str:
    """The only version lacks a part, and nobody has said anything about it yet. Its name."""
    (version,) = versions(there)
    there.cluster.remove(r.CONFIG_MAPS, version["spec"]["configMaps"][0])
    name: str = version["metadata"]["name"]
    del there.cluster.edited(r.CONNECTOR_VERSIONS, name)["status"]
    return name


def _suspend(there: ReconcileLoop, *, suspended: bool) -> None:
    stored = there.cluster.edited(r.PROJECTS, "order-sync")
    stored["spec"]["environments"][0]["suspended"] = suspended
    stored["metadata"]["generation"] += 1


async def test_old_versions_go_and_what_is_served_stays() -> None:
    there = new()
    for number in range(VERSIONS_KEPT + 3):
        await deployed(there, files(code(f"w{number}")))
    assert len(versions(there)) == VERSIONS_KEPT
    assert items(there, default(there), "triggers") == [f"w{VERSIONS_KEPT + 2}"]
    assert await ReconcileLoop(there.cluster).until_quiet() == 0
