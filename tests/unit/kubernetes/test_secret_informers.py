"""Caches of Secrets follow the organisations that there are, and the rights to their Secrets."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.harness.session.waiting import until
from tests.unit.kubernetes.fake_api_server import FakeApiServer, refuse
from tieline_core.kubernetes import Change, SecretInformers, SecretKind
from tieline_core.kubernetes.resources import SECRETS

OURS, OTHER = "tieline.dev/credential", "tieline.dev/api-key"


@pytest.fixture
async def server() -> AsyncIterator[FakeApiServer]:
    async with FakeApiServer.running(SECRETS) as running:
        yield running


@asynccontextmanager
async def following(server: FakeApiServer, *namespaces: str) -> AsyncIterator[SecretInformers]:
    async with server.client() as kube:
        by_account = SecretKind(OURS, indexes={"all": lambda obj: [f"{obj['metadata']['namespace']}/a", "a"]})
        secrets = SecretInformers(kube, (by_account, SecretKind(OTHER)), without=("tieline.dev/unread",))
        secrets.follow(namespaces)
        secrets.start()
        try:
            yield secrets
        finally:
            await secrets.stop()


async def test_each_type_is_read_by_itself(server: FakeApiServer) -> None:
    server.put("one", type=OURS, data={"a": "b"})
    server.put("key", type=OTHER)
    server.put("theirs", type="example.com/foreign", data={"a": "b"})
    server.put("elsewhere", "globex", type=OURS)
    async with following(server, "acme", "globex") as secrets:
        await secrets.settle()
        ours = secrets.of_type(OURS)
        assert [one["metadata"]["name"] for one in ours.list("acme")] == ["one"]
        assert {one["metadata"]["name"] for one in ours.list()} == {"one", "elsewhere"}
        assert (ours.get("acme", "key"), ours.get("acme", "theirs")) == (None, None)
        assert len(ours.by_index("all", "acme/a")) == 1
        assert len(ours.by_index("all", "a")) == 2
        watch = secrets.informer("acme")
        assert watch is not None
        foreign = watch.get("acme", "theirs")
        assert foreign is not None
        assert "data" not in foreign
        assert all("type!=tieline.dev/unread" in one.query["fieldSelector"] for one in server.seen)


async def test_a_name_that_changes_its_type_goes_from_one_cache_to_the_other(server: FakeApiServer) -> None:
    server.put("one", type=OURS)
    async with following(server, "acme") as secrets:
        await secrets.settle()
        changes: list[tuple[str, Change]] = []
        secrets.of_type(OURS).subscribe(lambda change: changes.append((OURS, change)))
        secrets.of_type(OTHER).subscribe(lambda change: changes.append((OTHER, change)))
        server.put("one", type=OTHER)
        await until(lambda: len(changes) == 2)
        (_, gone), (_, new) = sorted(changes, key=lambda item: item[0] == OTHER)
        assert (gone.new, new.old) == (None, None)


async def test_a_right_that_comes_later_is_no_failure(
    server: FakeApiServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.put("one", type=OURS)
    server.answers.extend(refuse(403, "Forbidden") for _ in range(4))
    with caplog.at_level(logging.WARNING):
        async with following(server, "acme") as secrets:
            assert not secrets.knows("acme")
            await secrets.settle()
            assert secrets.knows("acme")
            assert secrets.of_type(OURS).get("acme", "one")
    assert caplog.messages == []


async def test_an_organisation_without_rights_delays_no_other_for_ever(server: FakeApiServer) -> None:
    server.put("one", type=OURS)
    server.answers.extend(refuse(403, "Forbidden") for _ in range(200))
    async with following(server, "acme") as secrets:
        await secrets.settle()
        assert not secrets.knows("acme")
        assert secrets.lost == 0
        server.answers.clear()
        await until(lambda: secrets.knows("acme"))


async def test_secrets_of_what_is_no_organisation_any_more_are_forgotten(server: FakeApiServer) -> None:
    server.put("one", type=OURS)
    synced: list[str] = []
    async with following(server, "acme") as secrets:
        await secrets.settle()
        secrets.when_synced(synced.append)
        await until(lambda: server.watches == 1)
        secrets.follow(["globex"])
        await until(lambda: synced == ["globex"])
        assert secrets.of_type(OURS).list() == []
        assert not secrets.follows("acme")
        secrets.follow(["acme"])
        await until(lambda: synced == ["globex", "acme"])
        assert secrets.of_type(OURS).get("acme", "one")


async def test_watches_take_no_connection_from_calls(server: FakeApiServer) -> None:
    async with server.client(limit=1) as kube:
        secrets = SecretInformers(kube, (SecretKind(OURS),))
        secrets.follow(["a", "b", "c"])
        secrets.start()
        await secrets.settle()
        await until(lambda: server.watches == 3)
        assert await kube.list(SECRETS, "a") == []
        await secrets.stop()
