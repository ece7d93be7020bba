"""Each organisation has the authorities that its pods trust, whatever happens to the ConfigMap."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from tests.harness.session.waiting import eventually_async
from tieline_core.kubernetes import Applied, Change, Resource
from tieline_core.kubernetes import resources as r
from tieline_operator.tls.distribution import Distribution

ORGANISATION = {"tieline.dev/organisation": "01BX5ZZKBKACTAV9WEVGEMMVRZ"}


class Cluster:
    """Namespaces, and what is written into them."""

    def __init__(self) -> None:
        self.namespaces: dict[str, dict[str, Any]] = {}
        self.written: list[tuple[str, str]] = []
        self.trusted = "PEM 1"
        self.distribution = Distribution(self, self, lambda: self.trusted)

    def __getitem__(self, _resource: Resource) -> Cluster:
        return self

    def get(self, _namespace: str | None, name: str) -> Any:
        return self.namespaces.get(name)

    def list(self, _namespace: str | None = None) -> list[Any]:
        return list(self.namespaces.values())

    def by_index(self, _index: str, _key: str) -> list[Any]:
        raise AssertionError

    async def create(self, *_: Any, **__: Any) -> Any:
        raise AssertionError

    async def delete(self, *_: Any, **__: Any) -> Any:
        raise AssertionError

    async def apply(self, resource: Resource, obj: Mapping[str, Any], **_: Any) -> Applied:
        assert resource == r.CONFIG_MAPS
        assert obj["metadata"]["name"] == "tieline-ca"
        self.written.append((obj["metadata"]["namespace"], obj["data"]["ca.crt"]))
        return Applied(object=config_map(obj["metadata"]["namespace"], "written"), created=True)

    def make(self, name: str, **labels: str) -> Change:
        made = {"metadata": {"name": name, "labels": labels}}
        change = Change(self.namespaces.get(name), made)
        self.namespaces[name] = made
        return change

    async def until_idle(self) -> list[tuple[str, str]]:
        async def idle() -> bool:
            return self.distribution.queue.idle

        await eventually_async("nothing to write", idle)
        return self.written


def config_map(namespace: str, version: str) -> dict[str, Any]:
    return {"metadata": {"name": "tieline-ca", "namespace": namespace, "resourceVersion": version}}


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    made = Cluster()
    made.distribution.queue.start()
    yield made
    await made.distribution.queue.stop()


async def test_a_namespace_gets_them_once_it_is_an_organisation(cluster: Cluster) -> None:
    cluster.distribution.namespace_changed(cluster.make("acme"))
    assert await cluster.until_idle() == []
    change = cluster.make("acme", **ORGANISATION)
    cluster.distribution.namespace_changed(change)
    assert await cluster.until_idle() == [("acme", "PEM 1")]
    cluster.distribution.namespace_changed(Change(change.new, change.new))
    assert await cluster.until_idle() == [("acme", "PEM 1")]


async def test_all_organisations_get_others_and_no_other_namespace_does(cluster: Cluster) -> None:
    cluster.make("acme", **ORGANISATION)
    cluster.make("kube-system")
    cluster.distribution.all_changed()
    await cluster.until_idle()
    cluster.trusted = "PEM 2"
    cluster.distribution.all_changed()
    assert await cluster.until_idle() == [("acme", "PEM 1"), ("acme", "PEM 2")]


async def test_what_somebody_changes_or_deletes_is_written_again_and_our_own_write_is_not(
    cluster: Cluster,
) -> None:
    cluster.make("acme", **ORGANISATION)
    cluster.distribution.all_changed()
    await cluster.until_idle()
    for number, version in enumerate(("written", "changed"), start=1):
        cluster.distribution.config_map_changed(Change(None, config_map("acme", version)))

        async def written(number: int = number) -> bool:
            return len(await cluster.until_idle()) >= number

        await eventually_async("written", written)
    cluster.distribution.config_map_changed(Change(config_map("acme", "written"), None))

    async def thrice() -> bool:
        return len(await cluster.until_idle()) == 3

    await eventually_async("written again", thrice)


async def test_nothing_is_written_before_the_authorities_are_known(cluster: Cluster) -> None:
    cluster.make("acme", **ORGANISATION)
    cluster.trusted = ""
    cluster.distribution.all_changed()
    assert await cluster.until_idle() == []
