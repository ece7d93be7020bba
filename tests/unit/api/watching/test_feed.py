"""The feed of changes: what is collected, what is bounded, and that nothing is kept for nobody."""

from __future__ import annotations

import asyncio
import threading
from contextlib import ExitStack
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tieline_api.cluster.organisations import Organisation
from tieline_api.errors import ApiError
from tieline_api.watching import feed as feed_module
from tieline_api.watching.feed import (
    MOST_BATCHES,
    MOST_IDS,
    MOST_OF_CALLER,
    Change,
    ChangeFeed,
    Watcher,
    _Topic,
)
from tieline_core.kubernetes import Change as ObjectChange

ACME = Organisation(id="01ARZ3NDEKTSV4RRFFQ69G5FAV", namespace="acme")
OTHER = Organisation(id="01ARZ3NDEKTSV4RRFFQ69G5FAW", namespace="other")
ID = "01JD3Y7M5RZX9KQW8T2V4N6P0A"


async def taken(watcher: Watcher) -> list[Change]:
    await watcher.wait(5)
    batches, missed = watcher.take()
    assert not missed
    return [change for batch in batches for change in batch]


async def test_changes_of_one_moment_come_together_and_once() -> None:
    feed = ChangeFeed(spacing=0)
    with feed.watch(ACME, "ann") as watcher:
        for _ in range(3):
            feed.publish(ACME.id, Change("run", "a"))
        feed.publish(ACME.id, Change("run", "b"))
        assert await taken(watcher) == [Change("run", "a"), Change("run", "b")]


async def test_every_watcher_of_the_organisation_hears_and_nobody_else() -> None:
    feed = ChangeFeed(spacing=0)
    with feed.watch(ACME, "ann") as one, feed.watch(ACME, "ben") as two, feed.watch(OTHER, "ann") as other:
        feed.publish(ACME.id, Change("run", "a"))
        assert await taken(one) == await taken(two) == [Change("run", "a")]
        assert other.take() == ([], False)


async def test_many_changed_objects_are_the_kind_alone() -> None:
    feed = ChangeFeed(spacing=0)
    with feed.watch(ACME, "ann") as watcher:
        for number in range(MOST_IDS + 1):
            feed.publish(ACME.id, Change("run", str(number)))
        feed.publish(ACME.id, Change("project", "p"))
        assert await taken(watcher) == [Change("run"), Change("project", "p")]


def test_what_was_added_stays_new_until_it_was_sent() -> None:
    topic = _Topic()
    for what in ("added", "changed"):
        topic.add(Change("run", "a", what))
    assert topic.batch() == (Change("run", "a", "added"),)
    topic.add(Change("run", "a", "added"))
    topic.add(Change("run", "a", "deleted"))
    assert topic.batch() == (Change("run", "a", "deleted"),)
    assert topic.batch() == ()


@given(
    st.lists(
        st.builds(
            Change,
            st.sampled_from(["run", "project"]),
            st.text(max_size=2),
            st.sampled_from(["added", "changed"]),
        ),
        max_size=300,
    )
)
def test_a_batch_is_bounded_and_loses_no_kind(changes: list[Change]) -> None:
    topic = _Topic()
    for change in changes:
        topic.add(change)
    batch = topic.batch()
    assert len(batch) <= 2 * MOST_IDS
    told = {(change.kind, change.id) for change in batch}
    assert all((change.kind, change.id) in told or (change.kind, "") in told for change in changes)


async def test_a_watcher_that_is_too_slow_is_told_so_and_keeps_nothing() -> None:
    watcher = Watcher()
    for number in range(MOST_BATCHES + 5):
        watcher.put((Change("run", str(number)),))
    assert watcher.take() == ([], True)
    watcher.put((Change("run", "x"),))
    assert watcher.take() == ([(Change("run", "x"),)], False)


async def test_nothing_is_kept_where_nobody_watches() -> None:
    feed = ChangeFeed()
    feed.publish(ACME.id, Change("run", "a"))
    with feed.watch(ACME, "ann"):
        feed.publish(ACME.id, Change("run", "a"))
        assert feed.watchers == 1
    assert (feed.watchers, feed._topics, feed._namespaces, dict(feed._of_caller)) == (0, {}, {}, {})


async def test_connections_of_one_caller_and_of_all_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    feed = ChangeFeed()
    with ExitStack() as open_streams:
        for _ in range(MOST_OF_CALLER):
            open_streams.enter_context(feed.watch(ACME, "ann"))
        with pytest.raises(ApiError) as caught:
            feed.require_room(ACME, "ann")
        assert caught.value.status == 429
        assert caught.value.headers["Retry-After"]
        feed.require_room(ACME, "ben")
        monkeypatch.setattr(feed_module, "MOST_WATCHERS", MOST_OF_CALLER)
        with pytest.raises(ApiError) as caught:
            feed.require_room(ACME, "ben")
        assert caught.value.status == 429
    feed.require_room(ACME, "ann")


async def test_an_organisation_leaves_room_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed_module, "MOST_OF_ORGANISATION", 3)
    feed = ChangeFeed()
    with ExitStack() as open_streams:
        for number in range(3):
            open_streams.enter_context(feed.watch(ACME, f"key-{number}"))
        with pytest.raises(ApiError) as caught:
            feed.require_room(ACME, "key-4")
        assert caught.value.status == 429
        feed.require_room(OTHER, "ben")
    feed.require_room(ACME, "key-4")


async def test_runs_come_from_other_threads() -> None:
    feed = ChangeFeed(spacing=0)
    with feed.watch(ACME, "ann") as watcher:
        thread = threading.Thread(target=feed.publish_from_thread, args=(ACME.id, "run", [ID]))
        thread.start()
        await asyncio.to_thread(thread.join)
        assert await taken(watcher) == [Change("run", ID)]


class Cache:
    """A cache that a test changes."""

    def __init__(self) -> None:
        self.subscribers: list[Any] = []

    def subscribe(self, subscriber: Any) -> None:
        self.subscribers.append(subscriber)

    def tell(self, change: ObjectChange) -> None:
        for each in self.subscribers:
            each(change)


class Caches:
    def __init__(self) -> None:
        self.found: dict[str, Cache] = {}

    def __getattr__(self, name: str) -> Cache:
        return self.found.setdefault(name, Cache())


def obj(namespace: str = "acme") -> dict[str, Any]:
    return {"metadata": {"namespace": namespace, "name": "x"}, "status": {"id": ID}}


async def test_changes_of_the_caches_are_published_by_kind_and_id() -> None:
    caches, feed = Caches(), ChangeFeed(spacing=0)
    feed.follow(caches)  # type: ignore[arg-type]
    with feed.watch(ACME, "ann") as watcher:
        caches.projects.tell(ObjectChange(None, obj()))
        caches.connections.tell(ObjectChange(obj(), None))
        caches.systems.tell(ObjectChange(obj(), obj()))
        caches.systems.tell(ObjectChange(obj("elsewhere"), obj("elsewhere")))
        caches.secrets.tell(ObjectChange(obj(), obj()))
        caches.api_keys.tell(ObjectChange(None, obj()))
        assert await taken(watcher) == [
            Change("project", ID, "added"),
            Change("connection"),
            Change("system", ID, "changed"),
            Change("apiKey"),
        ]
