"""``debounce``: a burst of events of a task is run once, with the newest."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from tieline import Debounce, Integration
from tieline.testing import EventAttempt, Project

pytestmark = pytest.mark.fast

HEAD = """
from tieline import CancelOn, ChildRunError, Context, Debounce, Event, Integration, Retry

integration = Integration()
done = []


@integration.event("changed", debounce=Debounce(30, key="id", timeout=100), retry=Retry(attempts=3, first=1))
async def changed(ctx: Context, event: Event) -> None:
    done.append((event.payload.get("id"), event.payload["version"]))
    if event.payload.get("fails") and event.attempt == 1:
        raise RuntimeError("the shop is away")

"""
CONNECTIONS = "connections: {}\nusers:\n  ann: {user: {externalId: ann}}\n  bob: {user: {externalId: bob}}\n"
Loaded = Callable[..., Project]


@pytest.fixture
def loaded(load_project: Callable[[str, str], Project]) -> Loaded:
    return lambda code="": load_project(HEAD + code, CONNECTIONS)


def statuses(attempts: list[EventAttempt]) -> list[str]:
    return [one.status for one in attempts]


def test_a_burst_is_run_once_with_the_newest_event(loaded: Loaded) -> None:
    project = loaded()
    attempts = []
    for version in range(3):
        project.publish("changed", {"id": "mug", "version": version})
        attempts += project.advance(20)
    newest = project.publish("changed", {"id": "mug", "version": 3})
    attempts += project.run_events()
    assert project.module.done == []
    assert statuses(attempts) == ["cancelled"] * 3
    assert attempts[-1].error == f"Superseded by a newer event (run {newest})"
    assert statuses(project.advance(29)) == []
    assert statuses(project.advance(1)) == ["succeeded"]
    assert project.module.done == [("mug", 3)]
    assert project.waiting_events == 0
    assert project.dead_letters == []


def test_events_with_other_values_or_users_are_debounced_apart(loaded: Loaded) -> None:
    project = loaded()
    for user in ("ann", "bob"):
        for product in ("mug", "cup", "mug"):
            project.publish("changed", {"id": product, "version": user}, user=user)
    attempts = project.advance(31)
    assert sorted(statuses(attempts)) == ["cancelled"] * 2 + ["succeeded"] * 4
    assert sorted(project.module.done) == [("cup", "ann"), ("cup", "bob"), ("mug", "ann"), ("mug", "bob")]


def test_a_burst_that_does_not_end_is_run_by_its_timeout(loaded: Loaded) -> None:
    project = loaded()
    for version in range(20):
        project.publish("changed", {"id": "mug", "version": version})
        project.advance(10)
    project.advance(31)
    assert [version for _, version in project.module.done] == [9, 19]


def test_an_event_without_the_field_is_run_at_once(loaded: Loaded) -> None:
    project = loaded()
    for version in range(2):
        project.publish("changed", {"version": version})
    assert statuses(project.run_events()) == ["succeeded", "succeeded"]


def test_a_retry_is_not_debounced_and_newer_events_do_not_end_it(loaded: Loaded) -> None:
    project = loaded()
    project.publish("changed", {"id": "mug", "version": 1, "fails": True})
    assert statuses(project.advance(31)) == ["waiting"]
    project.publish("changed", {"id": "mug", "version": 2})
    assert statuses(project.advance(5)) == ["succeeded"]
    assert statuses(project.advance(31)) == ["succeeded"]
    assert project.module.done == [("mug", 1), ("mug", 1), ("mug", 2)]


def test_an_event_that_was_published_with_a_key_is_debounced_too(loaded: Loaded) -> None:
    project = loaded()
    for version in range(3):
        project.publish("changed", {"id": "mug", "version": version}, key="mug")
    assert statuses(project.advance(31)) == ["cancelled", "cancelled", "succeeded"]
    assert project.module.done == [("mug", 2)]


def test_debounced_events_end_waits_when_they_come(loaded: Loaded) -> None:
    project = loaded("""
integration.waits_for("changed", match=["id"])


@integration.event("waits")
async def waits(ctx: Context, event: Event) -> None:
    found = await ctx.wait_for("changed", match={"id": "mug"}, timeout=1000)
    done.append(found.payload["version"])
""")
    project.publish("waits", {})
    project.run_events()
    project.publish("changed", {"id": "mug", "version": 1})
    project.run_events()
    assert project.module.done == [1]
    project.advance(31)
    assert project.module.done == [1, ("mug", 1)]


def test_the_parent_of_a_superseded_child_goes_on(loaded: Loaded) -> None:
    project = loaded("""
@integration.event("parent")
async def parent(ctx: Context, event: Event) -> None:
    try:
        await ctx.run("changed", {"id": "mug", "version": 1})
    except ChildRunError as error:
        done.append(error.status)
""")
    project.publish("parent", {})
    project.run_events()
    project.publish("changed", {"id": "mug", "version": 2})
    project.advance(31)
    assert project.module.done == ["cancelled", ("mug", 2)]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"debounce": 0.5}, "period"),
        ({"debounce": timedelta(days=8)}, "period"),
        ({"debounce": Debounce(30, timeout=10)}, "timeout"),
        ({"debounce": Debounce(30, key="a..b")}, "key"),
        ({"debounce": 30, "key": "id"}, "Debounce\\(..., key='id'\\)"),
        ({"debounce": "30s"}, "debounce is a number of seconds"),
        ({"debounce": True}, "debounce is a number of seconds"),
    ],
)
def test_what_cannot_be_a_debounce_is_refused(options: dict[str, Any], problem: str) -> None:
    with pytest.raises((TypeError, ValueError), match=problem):
        Integration().event("changed", **options)
