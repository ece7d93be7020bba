"""The Kubernetes port on a real API server, with ConfigMaps in a namespace of the test's own."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from tieline_core.kube import Cache, Change, Conflict, Invalid, Kube, NotFound, owned
from tieline_core.kube.resources import CONFIG_MAPS, NAMESPACES, SECRETS

pytestmark = pytest.mark.cluster

Object = dict[str, Any]
_MIB = 1024 * 1024


@pytest.fixture
async def kube(kubeconfig: Path) -> AsyncIterator[Kube]:
    async with await Kube.connect(kubeconfig=kubeconfig) as connected:
        yield connected


def config_map(namespace: str, name: str = "one", **data: str) -> Object:
    return {"metadata": {"name": name, "namespace": namespace}, "data": data}


async def test_apply_tells_whether_it_created(kube: Kube, namespace: str) -> None:
    first = await kube.apply(CONFIG_MAPS, config_map(namespace, a="1"), field_manager="one")
    second = await kube.apply(CONFIG_MAPS, config_map(namespace, a="2"), field_manager="one")
    assert (first.created, second.created) == (True, False)
    assert second.object["data"] == {"a": "2"}


async def test_a_conflict_names_the_other_manager_and_the_field(kube: Kube, namespace: str) -> None:
    await kube.apply(CONFIG_MAPS, config_map(namespace, a="1", b="1"), field_manager="one")
    with pytest.raises(Conflict) as caught:
        await kube.apply(CONFIG_MAPS, config_map(namespace, a="2"), field_manager="two")
    (conflict,) = caught.value.conflicts
    assert (conflict.manager, conflict.field) == ("one", ".data.a")
    forced = await kube.apply(CONFIG_MAPS, config_map(namespace, a="2"), field_manager="two", force=True)
    assert forced.object["data"] == {"a": "2", "b": "1"}


async def test_an_apply_of_an_old_version_is_a_conflict_without_fields(kube: Kube, namespace: str) -> None:
    old = (await kube.apply(CONFIG_MAPS, config_map(namespace, a="1"), field_manager="one")).object
    await kube.apply(CONFIG_MAPS, config_map(namespace, a="2"), field_manager="one")
    mine = owned(old, "one")
    mine["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"]
    mine["data"]["a"] = "3"
    with pytest.raises(Conflict) as caught:
        await kube.apply(CONFIG_MAPS, mine, field_manager="one")
    assert caught.value.conflicts == []


async def test_what_is_owned_can_be_applied_again_with_a_change(kube: Kube, namespace: str) -> None:
    labelled = config_map(namespace, a="1", b="1", c="1")
    labelled["metadata"]["labels"] = {"mine": "yes"}
    await kube.apply(CONFIG_MAPS, labelled, field_manager="one")
    others = config_map(namespace, theirs="1")
    await kube.apply(CONFIG_MAPS, others, field_manager="two")

    mine = owned(await kube.get(CONFIG_MAPS, "one", namespace), "one")
    assert mine == {**labelled, "apiVersion": "v1", "kind": "ConfigMap"}
    mine["data"]["a"] = "2"
    del mine["data"]["b"]
    after = (await kube.apply(CONFIG_MAPS, mine, field_manager="one")).object

    assert after["data"] == {"a": "2", "c": "1", "theirs": "1"}
    assert after["metadata"]["labels"] == {"mine": "yes"}
    unchanged = await kube.apply(CONFIG_MAPS, owned(after, "one"), field_manager="one")
    assert unchanged.object["metadata"]["resourceVersion"] == after["metadata"]["resourceVersion"]


async def test_an_empty_map_that_others_filled_is_not_taken_over(kube: Kube, namespace: str) -> None:
    empty = {"metadata": {"name": "one", "namespace": namespace, "annotations": {}, "labels": {}}}
    await kube.apply(CONFIG_MAPS, empty, field_manager="one")
    labelled = {"metadata": {"labels": {"theirs": "yes"}}}
    await kube.patch(CONFIG_MAPS, "one", namespace, labelled, field_manager="two")
    mine = owned(await kube.get(CONFIG_MAPS, "one", namespace), "one")
    assert mine["metadata"].get("labels", {}) == {}


async def test_a_misspelt_field_is_refused(kube: Kube, namespace: str) -> None:
    with pytest.raises(Invalid) as caught:
        await kube.apply(CONFIG_MAPS, {**config_map(namespace), "dat": {}}, field_manager="one")
    assert [cause["field"] for cause in caught.value.causes] == ["dat"]
    with pytest.raises(Invalid):
        await kube.create(CONFIG_MAPS, {**config_map(namespace), "dat": {}})
    await kube.create(CONFIG_MAPS, {**config_map(namespace), "dat": {}}, field_validation="Ignore")


async def test_errors_about_secrets_hold_no_values(kube: Kube, namespace: str) -> None:
    wrong = {"metadata": {"name": "one", "namespace": namespace}, "data": {"token": "hunter2 is no base64"}}
    not_a_key = {"metadata": {"name": "hunter2", "namespace": namespace}, "stringData": {"hunter2!": "x"}}
    for secret, word in ((wrong, "hunter2 is"), (not_a_key, 'x"')):
        with pytest.raises(Invalid) as caught:
            await kube.apply(SECRETS, secret, field_manager="one")
        assert word not in f"{caught.value} {caught.value.causes} {caught.value.message}"


async def test_deleting_by_uid_spares_a_successor(kube: Kube, namespace: str) -> None:
    first = await kube.create(CONFIG_MAPS, config_map(namespace))
    await kube.delete(CONFIG_MAPS, "one", namespace)
    await kube.create(CONFIG_MAPS, config_map(namespace))
    with pytest.raises(Conflict):
        await kube.delete(CONFIG_MAPS, "one", namespace, uid=first["metadata"]["uid"])
    with pytest.raises(NotFound):
        await kube.delete(CONFIG_MAPS, "two", namespace)


async def test_both_kinds_of_patches_and_replace(kube: Kube, namespace: str) -> None:
    await kube.create(CONFIG_MAPS, config_map(namespace, a="1", b="1"))
    await kube.patch(CONFIG_MAPS, "one", namespace, {"data": {"b": None}})
    operations = [{"op": "add", "path": "/data/c", "value": "1"}]
    patched = await kube.patch(CONFIG_MAPS, "one", namespace, operations, kind="json")
    assert patched["data"] == {"a": "1", "c": "1"}
    replaced = await kube.replace(CONFIG_MAPS, {**patched, "data": {"d": "1"}})
    assert replaced["data"] == {"d": "1"}
    with pytest.raises(Conflict):
        await kube.replace(CONFIG_MAPS, {**patched, "data": {"e": "1"}})


async def test_a_list_of_many_pages_is_complete_and_of_one_version(
    kube: Kube, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tieline_core.kube.client.PAGE", 7)
    names = {f"cm-{number}" for number in range(20)}
    await asyncio.gather(*(kube.create(CONFIG_MAPS, config_map(namespace, name)) for name in names))
    found, version = await kube.list_with_version(CONFIG_MAPS, namespace)
    assert names <= {obj["metadata"]["name"] for obj in found}
    assert all(int(obj["metadata"]["resourceVersion"]) <= int(version) for obj in found)
    assert {(obj["apiVersion"], obj["kind"]) for obj in found} == {("v1", "ConfigMap")}


async def test_a_watch_brings_large_objects_whole(kube: Kube, namespace: str) -> None:
    _, version = await kube.list_with_version(CONFIG_MAPS, namespace)
    large = {f"key-{number}": "x" * (_MIB // 4) for number in range(3)}
    await kube.create(CONFIG_MAPS, config_map(namespace, "large", **large))
    async with asyncio.timeout(10):
        async with aclosing(kube.watch(CONFIG_MAPS, namespace, resource_version=version)) as events:
            async for event in events:
                if event.object["metadata"].get("name") == "large":
                    assert event.type == "ADDED"
                    assert event.object["data"] == large
                    break


async def test_a_cache_reads_its_own_writes_and_follows_those_of_others(kube: Kube, namespace: str) -> None:
    seen: list[Change] = []
    cache = Cache(
        kube,
        CONFIG_MAPS,
        namespace=namespace,
        indexes={"a": lambda obj: [obj["data"]["a"]] if obj.get("data", {}).get("a") else []},
    )
    cache.subscribe(seen.append)
    await cache.start()
    await cache.synced()
    try:
        applied = await kube.apply(CONFIG_MAPS, config_map(namespace, a="1"), field_manager="one")
        cache.observe(applied.object)
        found = cache.get(namespace, "one")
        assert found is not None
        assert "managedFields" not in found["metadata"]
        assert "managedFields" in applied.object["metadata"]
        assert cache.by_index("a", "1") == [found]

        changed = await kube.apply(CONFIG_MAPS, config_map(namespace, a="2"), field_manager="one")
        assert await cache.reached(changed.object["metadata"]["resourceVersion"])
        assert (cache.by_index("a", "1"), len(cache.by_index("a", "2"))) == ([], 1)

        await kube.delete(CONFIG_MAPS, "one", namespace, uid=changed.object["metadata"]["uid"])
        cache.forget(changed.object)
        assert cache.get(namespace, "one") is None
        marker = await kube.create(CONFIG_MAPS, config_map(namespace, "marker"))
        assert await cache.reached(marker["metadata"]["resourceVersion"])
        assert cache.get(namespace, "one") is None
        assert [change.new is None for change in seen if change.object["metadata"]["name"] == "one"] == [
            False,
            False,
            True,
        ]
    finally:
        await cache.stop()


async def test_a_cache_of_metadata_holds_no_contents(kube: Kube, namespace: str) -> None:
    await kube.create(CONFIG_MAPS, config_map(namespace, "listed", a="1"))
    cache = Cache(kube, CONFIG_MAPS, namespace=namespace, metadata_only=True)
    await cache.start()
    await cache.synced()
    try:
        watched = await kube.create(CONFIG_MAPS, config_map(namespace, "watched", a="1"))
        assert await cache.reached(watched["metadata"]["resourceVersion"])
        cache.observe(await kube.create(CONFIG_MAPS, config_map(namespace, "observed", a="1")))
        names = {obj["metadata"]["name"] for obj in cache.list(namespace)}
        assert {"listed", "watched", "observed"} <= names
        for obj in cache.list():
            assert set(obj) == {"apiVersion", "kind", "metadata"}
            assert (obj["apiVersion"], obj["kind"]) == ("v1", "ConfigMap")
    finally:
        await cache.stop()


async def test_an_object_that_is_selected_no_more_leaves_the_cache(kube: Kube, namespace: str) -> None:
    cache = Cache(kube, CONFIG_MAPS, namespace=namespace, label_selector="colour in (red, blue)")
    await cache.start()
    await cache.synced()
    try:
        red = config_map(namespace)
        red["metadata"]["labels"] = {"colour": "red"}
        cache.observe(await kube.create(CONFIG_MAPS, red))
        cache.observe(await kube.create(CONFIG_MAPS, config_map(namespace, "grey")))
        assert [obj["metadata"]["name"] for obj in cache.list()] == ["one"]
        green = {"metadata": {"labels": {"colour": "green"}}}
        changed = await kube.patch(CONFIG_MAPS, "one", namespace, green)
        assert await cache.reached(changed["metadata"]["resourceVersion"])
        assert cache.list() == []
    finally:
        await cache.stop()


async def test_requests_are_counted_by_verb_and_resource(kube: Kube, namespace: str) -> None:
    await kube.get(NAMESPACES, namespace)
    await kube.list(CONFIG_MAPS, namespace)
    assert (kube.requests["get", "namespaces"], kube.requests["list", "configmaps"]) == (1, 1)


async def test_reads_are_quick(kube: Kube, namespace: str) -> None:
    """No benchmark: notices when each call opens a connection, or anything else costs milliseconds."""
    await kube.get(NAMESPACES, namespace)
    began = time.perf_counter()
    await asyncio.gather(*(kube.get(NAMESPACES, namespace) for _ in range(200)))
    assert time.perf_counter() - began < 5
