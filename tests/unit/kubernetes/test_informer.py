"""A cache follows the server through all that can happen to its connection."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.harness.session.waiting import until
from tests.unit.kubernetes.fake_api_server import FakeApiServer, hang_up, line, refuse, status_object, stream
from tieline_core.kubernetes import Change, Informer, Kube, informer
from tieline_core.kubernetes.resources import CONFIG_MAPS


@asynccontextmanager
async def following(kube: Kube, **options: Any) -> AsyncIterator[Informer]:
    """A cache that has its first list."""
    mirror = Informer(kube, CONFIG_MAPS, **options)
    await mirror.start()
    try:
        await asyncio.wait_for(mirror.synced(), 3)
        yield mirror
    finally:
        await mirror.stop()


def names(mirror: Informer, namespace: str | None = None) -> set[str]:
    return {obj["metadata"]["name"] for obj in mirror.list(namespace)}


def _name(obj: dict[str, Any] | None) -> str | None:
    return None if obj is None else str(obj["metadata"]["name"])


def told(mirror: Informer) -> list[tuple[str | None, str | None]]:
    """The changes from now on: names of the old and the new object."""
    changes: list[tuple[str | None, str | None]] = []

    def subscriber(change: Change) -> None:
        changes.append((_name(change.old), _name(change.new)))

    mirror.subscribe(subscriber)
    return changes


async def test_it_holds_what_is_there_and_follows_changes(server: FakeApiServer, kube: Kube) -> None:
    server.put("one")
    server.put("two", "other")
    async with following(kube) as mirror:
        assert names(mirror) == {"one", "two"}
        assert names(mirror, "other") == {"two"}
        changes = told(mirror)
        server.put("three")
        server.put("one", data={"a": "b"})
        server.remove("two", "other")
        await until(lambda: len(changes) == 3)
        assert changes == [(None, "three"), ("one", "one"), ("two", None)]
        assert names(mirror) == {"one", "three"}
        found = mirror.get("acme", "one")
        assert found is not None
        assert found["data"] == {"a": "b"}
        assert (found["apiVersion"], found["kind"]) == ("v1", "ConfigMap")


async def test_subscribers_of_a_cache_that_starts_hear_of_all_objects(
    server: FakeApiServer, kube: Kube
) -> None:
    server.put("one")
    mirror = Informer(kube, CONFIG_MAPS)
    changes = told(mirror)
    await mirror.start()
    await mirror.synced()
    assert changes == [(None, "one")]
    await mirror.stop()


async def test_a_gap_in_the_watch_reports_what_vanished_meanwhile(server: FakeApiServer, kube: Kube) -> None:
    server.put("stays")
    server.put("changes")
    server.put("vanishes")
    async with following(kube) as mirror:
        await until(lambda: server.watches)
        changes = told(mirror)
        # All in one step of the loop: the watch sees nothing of it but that its version is too old.
        server.remove("vanishes")
        server.put("changes", data={})
        server.put("comes")
        server.compact()
        server.revision += 1
        await until(lambda: server.count("list") == 2 and len(changes) == 3)
        assert sorted(changes, key=str) == [("changes", "changes"), ("vanishes", None), (None, "comes")]
        assert names(mirror) == {"stays", "changes", "comes"}


async def test_a_gap_that_shows_when_the_watch_begins_is_closed(server: FakeApiServer, kube: Kube) -> None:
    server.put("one")
    server.watch_answers.append(refuse(410, "Expired"))
    async with following(kube) as mirror:
        await until(lambda: server.watches)
        assert server.count("list") == 2
        assert names(mirror) == {"one"}


async def test_a_server_that_always_says_gone_is_not_asked_without_pause(
    server: FakeApiServer, kube: Kube
) -> None:
    server.watch_answers.extend([refuse(410, "Expired")] * 1000)
    async with following(kube):
        await asyncio.sleep(0.3)  # without pauses it would ask hundreds of times
        assert server.count("list") < 40


async def test_after_a_broken_connection_it_goes_on_where_it_was(server: FakeApiServer, kube: Kube) -> None:
    async with following(kube) as mirror:
        server.put("one")
        await until(lambda: names(mirror) == {"one"})
        at = server.revision
        server.break_watches()
        server.put("two")
        await until(lambda: names(mirror) == {"one", "two"})
        assert server.count("list") == 1
        assert [seen.query["resourceVersion"] for seen in server.seen if seen.verb == "watch"][1] == str(at)


async def test_a_bookmark_moves_the_place_to_go_on_from(server: FakeApiServer, kube: Kube) -> None:
    async with following(kube) as mirror:
        await until(lambda: server.watches)
        server.bookmark()
        at = str(server.revision)
        assert await mirror.reached(at, timeout=3)
        server.end_watches()
        await until(lambda: server.count("watch") == 2)
        assert server.seen[-1].query["resourceVersion"] == at


async def test_a_silent_watch_is_replaced(server: FakeApiServer) -> None:
    async with server.client(watch_silence=0.05) as kube, following(kube) as mirror:
        await until(lambda: server.watches)
        server.silent = True
        server.put("one")
        await until(lambda: server.count("watch") > 1)
        assert not names(mirror)
        server.silent = False
        await until(lambda: names(mirror) == {"one"})
        assert server.count("list") == 1


async def test_an_absent_server_is_waited_for(server: FakeApiServer, kube: Kube) -> None:
    server.put("one")
    server.answers.extend([hang_up] * 12)
    async with following(kube) as mirror:
        assert names(mirror) == {"one"}


async def test_a_resource_that_is_not_served_yet_is_waited_for(
    server: FakeApiServer, kube: Kube, caplog: pytest.LogCaptureFixture
) -> None:
    server.served = False
    mirror = Informer(kube, CONFIG_MAPS)
    await mirror.start()
    await until(lambda: server.count("list") >= 2)
    assert not mirror.is_synced
    assert not mirror.healthy()
    assert "is its definition installed?" in caplog.text
    server.put("one")
    server.served = True
    await asyncio.wait_for(mirror.synced(), 3)
    assert names(mirror) == {"one"}
    await mirror.stop()


async def test_a_resource_that_is_served_no_more_and_then_again_is_listed_anew(
    server: FakeApiServer, kube: Kube
) -> None:
    server.put("one")
    async with following(kube) as mirror:
        await until(lambda: server.watches)
        server.served = False
        server.end_watches()
        await until(lambda: server.count("watch") >= 2)
        server.objects.clear()
        server.put("two")
        server.served = True
        await until(lambda: names(mirror) == {"two"})


async def test_a_server_that_ends_each_watch_at_once_is_not_asked_without_pause(
    server: FakeApiServer, kube: Kube
) -> None:
    server.watch_answers.extend([stream()] * 1000)
    async with following(kube):
        await asyncio.sleep(0.3)  # without pauses it would ask hundreds of times
        assert server.count("watch") < 40
        assert server.count("list") == 1


async def test_a_server_that_breaks_each_watch_after_some_news_is_followed_without_growing_pauses(
    server: FakeApiServer, kube: Kube, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(informer, "_FIRST_BACKOFF", 0.01)
    monkeypatch.setattr(informer, "_LONGEST_BACKOFF", 15.0)
    monkeypatch.setattr(informer, "_STEADY", 0.0)
    async with following(kube) as mirror:
        for number in range(12):
            await until(lambda: server.watches)
            server.put(f"n{number}")
            await until(lambda: len(mirror) == number + 1)  # noqa: B023  (runs at once)
            server.break_watches()
        assert server.count("list") == 1


async def test_an_error_in_the_watch_does_not_end_the_following(server: FakeApiServer, kube: Kube) -> None:
    broken = stream(line("ERROR", status_object(500, "InternalError", "etcd has no leader")))
    server.watch_answers.extend([broken, stream(b"garbage\n")])
    async with following(kube) as mirror:
        server.put("one")
        await until(lambda: names(mirror) == {"one"})


async def test_a_version_that_the_server_does_not_know_yet_makes_it_list_again(
    server: FakeApiServer, kube: Kube
) -> None:
    causes = [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]
    server.watch_answers.append(refuse(504, "Timeout", "Too large resource version", causes=causes))
    async with following(kube):
        await until(lambda: server.watches)
        assert server.count("list") == 2


async def test_a_server_that_was_restored_from_a_backup_is_believed(
    server: FakeApiServer, kube: Kube
) -> None:
    server.put("kept")
    server.put("lost")
    server.revision = 1000
    server.put("kept", data={"new": ""})
    async with following(kube) as mirror:
        await until(lambda: server.watches)
        server.objects.clear()
        server.history.clear()
        server.revision = 100
        server.put("kept", data={"old": ""})
        server.watch_answers.append(refuse(410, "Expired"))
        server.end_watches()
        await until(lambda: names(mirror) == {"kept"})
        found = mirror.get("acme", "kept")
        assert found is not None
        assert found["data"] == {"old": ""}
        server.put("more")
        await until(lambda: names(mirror) == {"kept", "more"})


async def test_a_subscriber_that_fails_disturbs_neither_others_nor_the_cache(
    server: FakeApiServer, kube: Kube, caplog: pytest.LogCaptureFixture
) -> None:
    def failing(change: Change) -> None:
        raise ZeroDivisionError(change.object["metadata"]["name"])

    async with following(kube) as mirror:
        mirror.subscribe(failing)
        changes = told(mirror)
        server.put("one")
        server.put("two")
        await until(lambda: changes == [(None, "one"), (None, "two")])
        assert "A subscriber failed" in caplog.text
        assert server.count("list") == 1


async def test_objects_are_found_by_index_as_they_change(server: FakeApiServer, kube: Kube) -> None:
    def colours(obj: dict[str, Any]) -> list[str]:
        return list(obj["data"]["colours"])

    server.put("one", data={"colours": ["red", "blue"]})
    server.put("odd")
    async with following(kube, indexes={"colour": colours}) as mirror:

        def coloured(colour: str) -> set[str]:
            return {obj["metadata"]["name"] for obj in mirror.by_index("colour", colour)}

        assert (coloured("red"), coloured("blue"), coloured("green")) == ({"one"}, {"one"}, set())
        server.put("one", data={"colours": ["blue", "green"]})
        server.put("two", data={"colours": ["green"]})
        await until(lambda: coloured("green") == {"one", "two"})
        assert (coloured("red"), coloured("blue")) == (set(), {"one"})
        server.remove("one")
        await until(lambda: coloured("green") == {"two"})
        assert coloured("blue") == set()
        # An object that the index cannot read is there all the same.
        assert names(mirror) == {"odd", "two"}


async def test_objects_come_without_what_only_the_server_needs(server: FakeApiServer, kube: Kube) -> None:
    annotations = {"kubectl.kubernetes.io/last-applied-configuration": "{}", "kept": "yes"}
    server.put("one", metadata={"managedFields": [{"manager": "test"}], "annotations": annotations})
    async with following(kube) as mirror:
        found = mirror.get("acme", "one")
        assert found is not None
        assert "managedFields" not in found["metadata"]
        assert found["metadata"]["annotations"] == {"kept": "yes"}


async def test_a_transform_shrinks_what_is_kept(server: FakeApiServer, kube: Kube) -> None:
    def without_data(obj: dict[str, Any]) -> dict[str, Any]:
        obj.pop("data", None)
        return obj

    server.put("one", data={"big": "…"})
    async with following(kube, transform=without_data) as mirror:
        server.put("two", data={"big": "…"})
        await until(lambda: names(mirror) == {"one", "two"})
        assert all("data" not in obj for obj in mirror.list())


@pytest.mark.parametrize(
    ("state", "healthy"),
    [
        (lambda mirror: None, True),
        (lambda mirror: setattr(mirror, "_heard", mirror._heard - 200), False),
    ],
    ids=["heard lately", "silent for long"],
)
async def test_it_is_healthy_while_it_hears_of_the_server(
    state: Callable[[Informer], None], healthy: bool, kube: Kube
) -> None:
    async with following(kube) as mirror:
        assert mirror.age < 3
        state(mirror)
        assert mirror.healthy() is healthy
    assert not mirror.healthy()


async def test_a_watch_that_ends_by_itself_is_told_from_one_that_is_silent_or_stopped(kube: Kube) -> None:
    async with following(kube) as mirror:
        mirror._heard -= 200
        assert not mirror.has_ended
        assert mirror._task is not None
        mirror._task.cancel()
        await asyncio.wait([mirror._task])
        assert mirror.has_ended
        assert not mirror.healthy()
    assert not mirror.has_ended


async def test_a_bookmark_is_a_sign_of_life(server: FakeApiServer, kube: Kube) -> None:
    async with following(kube) as mirror:
        await until(lambda: server.watches)
        mirror._heard -= 200
        server.bookmark()
        await until(mirror.healthy)


async def test_a_version_that_does_not_come_is_not_waited_for_without_end(
    server: FakeApiServer, kube: Kube
) -> None:
    async with following(kube) as mirror:
        assert await mirror.reached(str(server.revision))
        assert not await mirror.reached("999999", timeout=0.02)


async def test_after_a_stop_it_is_readable_and_can_start_again(
    server: FakeApiServer, kube: Kube, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    server.put("one")
    async with following(kube) as mirror:
        pass
    assert names(mirror) == {"one"}
    server.put("two")
    await mirror.start()
    await mirror.start()
    await until(lambda: names(mirror) == {"one", "two"})
    await mirror.stop()
    await mirror.stop()
    assert not caplog.records
