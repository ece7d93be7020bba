"""Lists, watches, caches and leases on a real API server."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.harness.session.waiting import until
from tieline_core.kubernetes import Change, Informer, Kube, NotFound, client
from tieline_core.kubernetes.leader_election import Lease, lead
from tieline_core.kubernetes.resources import CONFIG_MAPS, LEASES, SYSTEMS, Resource

pytestmark = pytest.mark.cluster

MINE = "test=mine"


def config_map(
    namespace: str, name: str, labels: dict[str, str] | None = None, **data: str
) -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace, "labels": {"test": "mine", **(labels or {})}}
    return {"metadata": metadata, "data": data}


@asynccontextmanager
async def following(kube: Kube, resource: Resource = CONFIG_MAPS, **options: Any) -> AsyncIterator[Informer]:
    mirror = Informer(kube, resource, **options)
    await mirror.start()
    try:
        await asyncio.wait_for(mirror.synced(), 20)
        yield mirror
    finally:
        await mirror.stop()


def names(mirror: Informer) -> set[str]:
    return {obj["metadata"]["name"] for obj in mirror.list()}


async def test_a_list_of_many_pages_is_whole(
    kube: Kube, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "PAGE", 7)
    wanted = {f"n{number}" for number in range(30)}
    await asyncio.gather(*(kube.create(CONFIG_MAPS, config_map(namespace, name)) for name in wanted))
    found = await kube.list(CONFIG_MAPS, namespace, label_selector=MINE)
    assert sorted(obj["metadata"]["name"] for obj in found) == sorted(wanted)
    assert {(obj["apiVersion"], obj["kind"]) for obj in found} == {("v1", "ConfigMap")}
    assert kube.requests["list", "configmaps"] == 5
    (one,) = await kube.list(CONFIG_MAPS, namespace, field_selector="metadata.name=n3")
    assert one["metadata"]["name"] == "n3"


async def test_a_cache_sees_what_comes_changes_and_goes(kube: Kube, namespace: str) -> None:
    await kube.create(CONFIG_MAPS, config_map(namespace, "before"))
    async with following(kube, namespace=namespace, label_selector=MINE) as mirror:
        changes: list[Change] = []
        mirror.subscribe(changes.append)
        assert names(mirror) == {"before"}
        made = await kube.create(CONFIG_MAPS, config_map(namespace, "later", a="1"))
        assert await mirror.reached(made["metadata"]["resourceVersion"])
        assert names(mirror) == {"before", "later"}
        await kube.patch(CONFIG_MAPS, "later", namespace, {"data": {"a": "2"}})
        await kube.delete(CONFIG_MAPS, "before", namespace)
        await until(lambda: names(mirror) == {"later"})
        found = mirror.get(namespace, "later")
        assert found is not None
        assert (found["apiVersion"], found["kind"], found["data"]) == ("v1", "ConfigMap", {"a": "2"})
        assert "managedFields" not in found["metadata"]
        assert [(bool(change.old), bool(change.new)) for change in changes] == [
            (False, True),
            (True, True),
            (True, False),
        ]


async def test_what_no_longer_matches_the_selector_leaves_the_cache_and_may_return(
    kube: Kube, namespace: str
) -> None:
    await kube.create(CONFIG_MAPS, config_map(namespace, "one"))
    async with following(kube, namespace=namespace, label_selector=MINE) as mirror:
        await kube.patch(CONFIG_MAPS, "one", namespace, {"metadata": {"labels": {"test": "other"}}})
        await until(lambda: not len(mirror))
        await kube.patch(CONFIG_MAPS, "one", namespace, {"metadata": {"labels": {"test": "mine"}}})
        await until(lambda: len(mirror))


async def test_own_writes_are_told_once(kube: Kube, namespace: str) -> None:
    async with following(kube, namespace=namespace, label_selector=MINE) as mirror:
        changes: list[Change] = []
        mirror.subscribe(changes.append)
        mirror.observe(await kube.create(CONFIG_MAPS, config_map(namespace, "one", a="1")))
        assert names(mirror) == {"one"}
        applied = await kube.apply(
            CONFIG_MAPS, config_map(namespace, "one", b="2"), field_manager="test", force=True
        )
        mirror.observe(applied.object)
        await kube.delete(CONFIG_MAPS, "one", namespace)
        mirror.forget(applied.object)
        assert names(mirror) == set()
        last = await kube.create(CONFIG_MAPS, config_map(namespace, "last"))
        assert await mirror.reached(last["metadata"]["resourceVersion"])
        assert [change.object["metadata"]["name"] for change in changes] == ["one", "one", "one", "last"]


async def test_a_cache_of_metadata_has_no_content(kube: Kube, namespace: str) -> None:
    await kube.create(CONFIG_MAPS, config_map(namespace, "before", secret="1"))
    async with following(kube, namespace=namespace, label_selector=MINE, metadata_only=True) as mirror:
        await kube.create(CONFIG_MAPS, config_map(namespace, "later", secret="2"))
        await until(lambda: names(mirror) == {"before", "later"})
        mirror.observe(await kube.patch(CONFIG_MAPS, "later", namespace, {"data": {"secret": "3"}}))
        for obj in mirror.list():
            assert set(obj) == {"apiVersion", "kind", "metadata"}
            assert obj["kind"] == "ConfigMap"
            assert obj["metadata"]["labels"] == {"test": "mine"}


async def test_own_kinds_are_followed_in_all_namespaces(kube: Kube, namespace: str) -> None:
    async with following(kube, SYSTEMS) as mirror:
        system = {
            "metadata": {"name": "shop", "namespace": namespace},
            "spec": {"name": "Shop", "domain": "shop.example", "templateBaseUrl": "https://shop.example"},
        }
        await kube.apply(SYSTEMS, system, field_manager="test")
        await until(lambda: mirror.get(namespace, "shop"))


async def test_a_resource_without_definition_is_not_found(kube: Kube, namespace: str) -> None:
    absent = Resource("tieline.dev", "v1alpha1", "teapots", "Teapot")
    with pytest.raises(NotFound):
        await kube.list(absent, namespace)


async def test_a_released_lease_is_taken_at_once(kube: Kube, namespace: str) -> None:
    leaders: list[str] = []

    def work(identity: str) -> Callable[[], Any]:
        async def note() -> None:
            leaders.append(identity)
            live = await kube.get(LEASES, "operator", namespace)
            assert live["spec"]["holderIdentity"] == identity

        return note

    for identity in ("a", "b"):
        lease = Lease(kube, name="operator", namespace=namespace, identity=identity)
        await asyncio.wait_for(lead(lease, work(identity)), 5)
    assert leaders == ["a", "b"]
    live = await kube.get(LEASES, "operator", namespace)
    assert not live["spec"].get("holderIdentity")
    assert live["spec"]["leaseTransitions"] == 1
