"""The leader binds the rights to Secrets in organisations, and nowhere else."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.harness.session.waiting import until
from tests.unit.operator.fake_cluster import FakeCluster
from tieline_core.identity.ids import ORGANISATION_LABEL, new_id
from tieline_core.kubernetes import Change, Invalid
from tieline_core.kubernetes import resources as r
from tieline_operator.controller.secret_rights import SecretRights, secret_rights

HOME = "tieline-system"


def namespace(name: str, identifier: str | None) -> dict[str, Any]:
    labels = {ORGANISATION_LABEL: identifier} if identifier else {}
    metadata = {"name": name, "labels": labels, "creationTimestamp": "2026-01-01T00:00:00Z", "uid": name}
    return {"metadata": metadata}


class Secrets:
    """What is followed."""

    def __init__(self) -> None:
        self.followed: set[str] = set()

    def follow(self, namespaces: set[str]) -> None:
        self.followed = namespaces

    def follows(self, name: str) -> bool:
        return name in self.followed


class Writes:
    """Writes into a cluster in memory, and refuses to change a role."""

    def __init__(self, cluster: FakeCluster) -> None:
        self.cluster = cluster
        self.log: list[str] = []

    async def apply(self, resource: Any, obj: dict[str, Any], **_options: Any) -> Any:
        metadata = obj["metadata"]
        before = self.cluster[resource].get(metadata["namespace"], metadata["name"])
        self.log.append(f"apply {metadata['namespace']}")
        if before is not None and before["roleRef"] != obj["roleRef"]:
            raise Invalid("cannot change roleRef", status=422)
        self.cluster.put(resource, {**obj, "metadata": {**metadata, "uid": "u"}})
        return type("Applied", (), {"object": obj})

    async def delete(self, resource: Any, name: str, where: str, **_options: Any) -> None:
        self.log.append(f"delete {where}")
        self.cluster.remove(resource, name, where)


@pytest.fixture
def cluster() -> FakeCluster:
    there = FakeCluster()
    there.objects[r.SECRET_RIGHTS] = {}
    there.put(r.NAMESPACES, namespace("acme", new_id()), namespace("default", None))
    return there


async def looked(cluster: FakeCluster, secrets: Secrets, *log: str) -> None:
    """Has the rights looked at after a change, and waits for these writes."""
    writes: Any = Writes(cluster)
    rights = SecretRights(cluster, secrets, writes, cluster, HOME)  # type: ignore[arg-type]
    rights.queue.start()
    rights.changed(Change(old=None, new=namespace("acme", None)))
    await asyncio.sleep(0)
    await until(lambda: len(writes.log) >= len(log) and rights.queue.idle)
    assert tuple(writes.log) == log
    rights.changed(Change(old=None, new=namespace("acme", None)))
    await asyncio.sleep(0)
    await rights.queue.stop()


def bound(cluster: FakeCluster) -> dict[str, Any]:
    return {one["metadata"]["namespace"]: one for one in cluster[r.SECRET_RIGHTS].list()}


async def test_an_organisation_gets_rights_and_is_followed_from_then_on(cluster: FakeCluster) -> None:
    secrets = Secrets()
    await looked(cluster, secrets, "apply acme")
    assert bound(cluster).keys() == {"acme"}
    assert secrets.followed == {"acme"}
    await looked(cluster, secrets)


async def test_what_is_no_organisation_any_more_loses_rights_and_is_forgotten(cluster: FakeCluster) -> None:
    secrets = Secrets()
    await looked(cluster, secrets, "apply acme")
    cluster.put(r.NAMESPACES, namespace("acme", None))
    await looked(cluster, secrets, "delete acme")
    assert bound(cluster) == {}
    assert secrets.followed == set()


async def test_rights_that_somebody_deletes_come_back_and_what_is_known_stays(cluster: FakeCluster) -> None:
    secrets = Secrets()
    secrets.followed = {"acme"}
    await looked(cluster, secrets, "apply acme")
    assert secrets.followed == {"acme"}


async def test_a_binding_of_the_name_to_another_role_is_replaced(cluster: FakeCluster) -> None:
    theirs = secret_rights("acme", HOME)
    theirs["roleRef"]["name"] = "view"
    theirs["metadata"]["uid"] = "theirs"
    cluster.put(r.SECRET_RIGHTS, theirs)
    await looked(cluster, Secrets(), "apply acme", "delete acme", "apply acme")
    assert bound(cluster)["acme"]["roleRef"]["name"] == "tieline-secrets"


async def test_somebody_elses_binding_where_no_organisation_is_stays(cluster: FakeCluster) -> None:
    theirs = secret_rights("default", HOME)
    theirs["roleRef"]["name"] = "view"
    cluster.put(r.SECRET_RIGHTS, theirs)
    await looked(cluster, Secrets(), "apply acme")
    assert bound(cluster).keys() == {"acme", "default"}


async def test_who_carries_the_id_of_another_organisation_gets_no_rights(cluster: FakeCluster) -> None:
    (first,) = (one for one in cluster[r.NAMESPACES].list() if one["metadata"]["labels"])
    copy = namespace("copy", first["metadata"]["labels"][ORGANISATION_LABEL])
    copy["metadata"]["creationTimestamp"] = "2026-02-01T00:00:00Z"
    cluster.put(r.NAMESPACES, copy)
    await looked(cluster, Secrets(), "apply acme")
    assert bound(cluster).keys() == {"acme"}
