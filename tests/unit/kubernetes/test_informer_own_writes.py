"""Who has written something reads it at once, and never an older state afterwards."""

import copy
from typing import Any

import pytest

from tests.harness.session.waiting import until
from tests.unit.kubernetes.fake_api_server import FakeApiServer
from tieline_core.kubernetes import Change, Informer, Kube
from tieline_core.kubernetes.object_store import Store
from tieline_core.kubernetes.resources import CONFIG_MAPS

Object = dict[str, Any]


def state(version: int, *, uid: str = "uid-1", name: str = "one", **content: Any) -> Object:
    metadata = {"name": name, "namespace": "acme", "uid": uid, "resourceVersion": str(version)}
    return {"metadata": metadata, **content}


@pytest.fixture
def mirror(kube: Kube) -> Informer:
    """A cache that no news reach."""
    return Informer(kube, CONFIG_MAPS, indexes={"colour": lambda obj: [obj.get("colour", "none")]})


def test_a_write_is_read_at_once_and_told(mirror: Informer) -> None:
    changes: list[Change] = []
    mirror.subscribe(changes.append)
    mirror.observe(state(5, colour="red"))
    assert mirror.get("acme", "one") == state(5, colour="red")
    assert mirror.by_index("colour", "red") == [state(5, colour="red")]
    assert changes == [Change(old=None, new=state(5, colour="red"))]


def test_an_older_write_never_replaces_a_newer_one(mirror: Informer) -> None:
    mirror.observe(state(5))
    mirror.observe(state(4, colour="old"))
    mirror.observe(state(5, colour="same"))
    assert mirror.list() == [state(5)]


def test_what_is_observed_stays_the_callers_own(mirror: Informer) -> None:
    written = state(5, data={"a": "b"})
    written["metadata"]["managedFields"] = [{"manager": "test"}]
    before = copy.deepcopy(written)
    mirror.observe(written)
    assert written == before
    written["data"]["a"] = "changed later"
    found = mirror.get("acme", "one")
    assert found is not None
    assert found["data"] == {"a": "b"}


def test_what_was_deleted_is_gone_at_once(mirror: Informer) -> None:
    mirror.observe(state(5))
    changes: list[Change] = []
    mirror.subscribe(changes.append)
    mirror.forget(state(5))
    assert mirror.list() == []
    assert mirror.by_index("colour", "none") == []
    assert changes == [Change(old=state(5), new=None)]


def test_a_late_answer_does_not_bring_back_what_was_deleted(mirror: Informer) -> None:
    mirror.observe(state(5))
    mirror.forget(state(6))
    mirror.observe(state(5))
    mirror.observe(state(6))
    assert mirror.list() == []


def test_a_successor_is_not_taken_for_what_was_deleted(mirror: Informer) -> None:
    mirror.observe(state(7, uid="uid-2"))
    mirror.forget(state(6))
    assert mirror.list() == [state(7, uid="uid-2")]
    mirror.forget(state(7, uid="uid-2"))
    mirror.observe(state(9, uid="uid-3"))
    assert mirror.list() == [state(9, uid="uid-3")]


def test_a_cache_of_metadata_keeps_no_more_of_a_write(kube: Kube) -> None:
    mirror = Informer(kube, CONFIG_MAPS, metadata_only=True)
    mirror.observe(state(5, data={"secret": "…"}))
    assert mirror.list() == [state(5)]


@pytest.mark.parametrize(
    ("options", "covered"),
    [
        ({"namespace": "acme"}, True),
        ({"namespace": "other"}, False),
        ({"label_selector": "app=shop"}, True),
        ({"label_selector": "app==shop,tier in (web, api),!old"}, True),
        ({"label_selector": "app!=shop"}, False),
        ({"label_selector": "app notin (shop)"}, False),
        ({"label_selector": "missing"}, False),
        ({"field_selector": "metadata.name=one"}, True),
        ({"field_selector": "metadata.name!=one"}, False),
        ({"field_selector": "type=Opaque"}, True),
        ({"field_selector": "type="}, False),
        ({"field_selector": "immutable="}, True),
    ],
)
def test_a_write_that_the_cache_does_not_select_is_left_out(
    options: dict[str, str], covered: bool, kube: Kube
) -> None:
    mirror = Informer(kube, CONFIG_MAPS, **options)  # type: ignore[arg-type]
    written = state(5, type="Opaque")
    written["metadata"]["labels"] = {"app": "shop", "tier": "web"}
    mirror.observe(written)
    assert len(mirror) == covered


async def test_news_that_come_later_do_not_set_a_write_back(server: FakeApiServer, kube: Kube) -> None:
    mirror = Informer(kube, CONFIG_MAPS)
    await mirror.start()
    await mirror.synced()
    await until(lambda: server.watches)
    server.silent = True
    server.put("one", colour="red")
    newest = server.put("one", colour="blue")
    mirror.observe(newest)
    seen: list[Any] = []
    mirror.subscribe(lambda change: seen.append(change.object.get("colour")))
    server.silent = False
    server.bookmark()
    assert await mirror.reached(str(server.revision))
    assert seen == []
    assert mirror.list()[0]["colour"] == "blue"
    await mirror.stop()


async def test_news_that_come_later_do_not_bring_back_what_was_deleted(
    server: FakeApiServer, kube: Kube
) -> None:
    first = server.put("one")
    mirror = Informer(kube, CONFIG_MAPS)
    await mirror.start()
    await mirror.synced()
    await until(lambda: server.watches)
    server.silent = True
    server.put("one", colour="red")  # by somebody else, in between
    server.remove("one")
    mirror.forget(first)
    seen: list[Change] = []
    mirror.subscribe(seen.append)
    server.silent = False
    server.bookmark()
    assert await mirror.reached(str(server.revision))
    assert [change.new for change in seen if change.new] == []
    assert mirror.list() == []
    await mirror.stop()


async def test_an_answer_that_comes_after_the_news_of_the_deletion_changes_nothing(
    server: FakeApiServer, kube: Kube
) -> None:
    mirror = Informer(kube, CONFIG_MAPS)
    await mirror.start()
    await mirror.synced()
    answer = server.put("one")
    server.remove("one")
    server.compact()  # so that the deletion was never seen
    server.revision += 1
    await until(lambda: server.count("list") == 2)
    await mirror.reached(str(server.revision))
    mirror.observe(answer)
    assert mirror.list() == []
    await mirror.stop()


async def test_an_object_that_waits_for_a_finalizer_comes_back(server: FakeApiServer, kube: Kube) -> None:
    first = server.put("one")
    mirror = Informer(kube, CONFIG_MAPS)
    await mirror.start()
    await mirror.synced()
    mirror.forget(first)
    server.put("one", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    await until(lambda: len(mirror) == 1)
    server.remove("one")
    await until(lambda: len(mirror) == 0)
    await mirror.stop()


def test_graves_are_forgotten_once_nobody_can_bring_news_of_before_them() -> None:
    store = Store()
    for number in range(10):
        mine = state(2 * number, uid=f"uid-{number}")
        store.put(mine)
        store.forget(mine)
        store.delete(state(2 * number + 1, uid=f"uid-{number}"))
        store.advance(str(2 * number + 1))
        assert store.observe(mine) is None
        assert store.forget(mine) is None, "the answer to a deletion may come after the news of it"
    assert len(store) == len(store._tombstones) == len(store._forgotten) == 0


def test_graves_are_bounded() -> None:
    store = Store()
    for number in range(5000):
        store.forget(state(number + 1, uid=f"uid-{number}"))
    assert len(store._tombstones) == len(store._forgotten) == 4096
