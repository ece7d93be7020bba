"""Objects of nearly a mebibyte, empty maps that others fill, and an apply that changes nothing."""

import asyncio
from contextlib import aclosing
from typing import Any

import pytest

from tieline_core.kubernetes import Kube, owned
from tieline_core.kubernetes.resources import CONFIG_MAPS

pytestmark = pytest.mark.cluster

Object = dict[str, Any]
_MIB = 1024 * 1024


def config_map(namespace: str, name: str = "one", **data: str) -> Object:
    return {"metadata": {"name": name, "namespace": namespace}, "data": data}


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
