"""``cancel_on``: an event cancels runs of a task that were published before it, wherever they are."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from tieline import CancelOn, Integration
from tieline.testing import EventAttempt, Project

pytestmark = pytest.mark.fast

HEAD = """
from datetime import timedelta
from tieline import CancelOn, ChildRunError, Context, Event, Integration, Retry, SyncContext

integration = Integration()
integration.waits_for("paid", match=["orderId"])
ORDER_CANCELLED = CancelOn("order.cancelled", match=["orderId"])
done = []


@integration.event("sleeps", cancel_on=ORDER_CANCELLED, retry=Retry(attempts=3, first=60))
async def sleeps(ctx: Context, event: Event) -> None:
    await ctx.step("begin", done.append, "began")
    if event.payload.get("fails"):
        raise RuntimeError("the ERP is away")
    await ctx.sleep("a while", timedelta(days=1))
    done.append("slept")


@integration.event("keyed", key="orderId", cancel_on="order.cancelled")
async def keyed(ctx: Context, event: Event) -> None:
    await ctx.wait_for("paid", match={"orderId": event.payload["orderId"]}, timeout=timedelta(days=2))
    done.append(f"paid {event.payload['number']}")

"""
CONNECTIONS = "connections: {}\nusers:\n  ann: {user: {externalId: ann}}\n  bob: {user: {externalId: bob}}\n"
Loaded = Callable[..., Project]


@pytest.fixture
def loaded(load_project: Callable[[str, str], Project]) -> Loaded:
    return lambda code="": load_project(HEAD + code, CONNECTIONS)


def statuses(attempts: list[EventAttempt]) -> list[tuple[str, str]]:
    return [(one.task, one.status) for one in attempts]


def test_a_sleeping_run_is_cancelled_and_names_the_event(loaded: Loaded) -> None:
    project = loaded()
    project.publish("sleeps", {"orderId": 7})
    project.publish("sleeps", {"orderId": 8})
    project.run_events()
    by = project.publish("order.cancelled", {"orderId": "7"})
    event, run = project.run_events()
    assert (event.task, event.steps) == ("order.cancelled", (f"cancels {run.run_id}",))
    assert (run.status, run.error) == ("cancelled", f"Cancelled by the event order.cancelled (run {by})")
    assert statuses(project.advance(timedelta(days=2))) == [("sleeps", "succeeded")], (
        "the other order sleeps on"
    )
    assert project.module.done == ["began", "began", "slept"]
    assert project.waiting_events == 0


def test_a_cancelled_child_ends_the_wait_of_its_parent(loaded: Loaded) -> None:
    project = loaded("""
@integration.event("parent")
async def parent(ctx: Context, event: Event) -> None:
    try:
        await ctx.run("sleeps", {"orderId": event.payload["orderId"]})
    except ChildRunError as error:
        done.append(error.status)
""")
    project.publish("parent", {"orderId": 7})
    project.run_events()
    by = project.publish("order.cancelled", {"orderId": 7})
    attempts = project.run_events()
    assert statuses(attempts) == [
        ("order.cancelled", "succeeded"),
        ("sleeps", "cancelled"),
        ("parent", "succeeded"),
    ]
    assert attempts[1].error == f"Cancelled by the event order.cancelled (run {by})"
    assert project.module.done == ["began", "cancelled"]
    assert project.waiting_events == 0


def test_a_run_between_attempts_is_cancelled(loaded: Loaded) -> None:
    project = loaded()
    project.publish("sleeps", {"orderId": 7, "fails": True})
    project.run_events()
    project.publish("order.cancelled", {"orderId": 7})
    assert statuses(project.run_events()) == [("order.cancelled", "succeeded"), ("sleeps", "cancelled")]
    assert project.advance(timedelta(days=1)) == []
    assert project.dead_letters == []


def test_queued_runs_are_cancelled_when_their_turn_comes(loaded: Loaded) -> None:
    project = loaded()
    for number in (1, 2):
        project.publish("keyed", {"orderId": 7, "number": number})
    project.run_events()
    project.publish("order.cancelled", {"orderId": 7})
    attempts = project.run_events()
    assert sorted(statuses(attempts)) == [
        ("keyed", "cancelled"),
        ("keyed", "cancelled"),
        ("order.cancelled", "succeeded"),
    ]
    assert project.waiting_events == 0


def test_a_delayed_run_is_cancelled_when_it_is_due(loaded: Loaded) -> None:
    project = loaded()
    project.publish("sleeps", {"orderId": 7}, delay=timedelta(days=2))
    project.publish("order.cancelled", {"orderId": 7})
    project.run_events()
    assert statuses(project.advance(timedelta(days=3))) == [("sleeps", "cancelled")]
    assert project.module.done == []


def test_runs_from_after_the_event_are_not_cancelled(loaded: Loaded) -> None:
    project = loaded()
    project.publish("order.cancelled", {"orderId": 7})
    project.advance(timedelta(seconds=1))
    project.publish("sleeps", {"orderId": 7})
    assert statuses(project.advance(timedelta(days=2))) == [("sleeps", "waiting"), ("sleeps", "succeeded")]


def test_an_event_that_was_late_cancels_no_later_run(loaded: Loaded) -> None:
    project = loaded()
    project.publish("order.cancelled", {"orderId": 7}, delay=timedelta(hours=1))
    project.advance(timedelta(seconds=1))
    project.publish("sleeps", {"orderId": 7})
    assert ("sleeps", "cancelled") not in statuses(project.advance(timedelta(days=2)))
    assert project.module.done == ["began", "slept"]


def test_an_event_of_another_user_cancels_nothing(loaded: Loaded) -> None:
    project = loaded()
    project.publish("sleeps", {"orderId": 7}, user="ann")
    project.run_events()
    project.publish("order.cancelled", {"orderId": 7}, user="bob")
    project.publish("order.cancelled", {"orderId": 7})
    project.run_events()
    assert project.module.done == ["began"]
    project.publish("order.cancelled", {"orderId": 7}, user="ann")
    assert ("sleeps", "cancelled") in statuses(project.run_events())


def test_a_run_without_the_field_is_not_cancelled(loaded: Loaded) -> None:
    project = loaded()
    project.publish("sleeps", {})
    project.run_events()
    project.publish("order.cancelled", {})
    project.run_events()
    assert statuses(project.advance(timedelta(days=1))) == [("sleeps", "succeeded")]


RUNNING = """
import asyncio
import threading

begun, taken = threading.Event(), threading.Event()


@integration.event("customer.calls")
async def customer_calls(ctx: Context) -> None:
    await asyncio.to_thread(begun.wait, 30)
    await ctx.publish("order.cancelled", {"orderId": 7})


@integration.event("order.cancelled")
async def order_cancelled(ctx: Context) -> None:
    taken.set()


def first():
    begun.set()
    assert taken.wait(30)
    done.append("first")


@integration.event("steps", cancel_on=ORDER_CANCELLED)
async def steps(ctx: Context) -> None:
    await ctx.step("first", asyncio.to_thread, first)
    try:
        await ctx.step("second", done.append, "second")
    except Exception:
        done.append("caught")


@integration.event("plain", cancel_on=ORDER_CANCELLED)
def plain(ctx: SyncContext) -> None:
    ctx.step("first", first)
    ctx.step("second", done.append, "second")


@integration.event("gathers", cancel_on=ORDER_CANCELLED)
async def gathers(ctx: Context) -> None:
    await ctx.step("first", asyncio.to_thread, first)
    try:
        await ctx.gather(ctx.step("second", done.append, "second"), ctx.sleep("long", 60))
    except BaseException:
        pass


@integration.event("fails", cancel_on=ORDER_CANCELLED)
async def fails(ctx: Context) -> None:
    await ctx.step("first", asyncio.to_thread, first)
    raise RuntimeError("the ERP is away")


@integration.event("ends", cancel_on=ORDER_CANCELLED)
async def ends(ctx: Context) -> None:
    await ctx.step("first", asyncio.to_thread, first)
"""


def cancelled_in_the_first_step(project: Project, task: str) -> list[str]:
    """How the attempts of a run end that is cancelled while it is in its first step."""
    project.publish(task, {"orderId": 7})
    project.publish("customer.calls", {})
    return [one.status for one in project.run_events() if one.task == task]


@pytest.mark.parametrize("task", ["steps", "plain", "gathers"])
def test_a_running_attempt_ends_at_its_next_step(loaded: Loaded, task: str) -> None:
    project = loaded(RUNNING)
    assert cancelled_in_the_first_step(project, task) == ["cancelled"]
    assert project.module.done == ["first"]
    assert project.waiting_events == 0


def test_a_running_attempt_that_fails_is_not_retried(loaded: Loaded) -> None:
    project = loaded(RUNNING)
    assert cancelled_in_the_first_step(project, "fails") == ["waiting", "cancelled"]
    assert project.module.done == ["first"]


def test_a_running_attempt_without_further_steps_succeeds(loaded: Loaded) -> None:
    project = loaded(RUNNING)
    assert cancelled_in_the_first_step(project, "ends") == ["succeeded"]


def test_an_ended_run_leaves_no_wait(loaded: Loaded) -> None:
    project = loaded()
    project.publish("sleeps", {"orderId": 7})
    project.advance(timedelta(days=1))
    project.advance(timedelta(seconds=1))
    project.publish("order.cancelled", {"orderId": 7})
    (event,) = project.run_events()
    assert event.steps == (), "the run has ended, so the event cancels none"


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"cancel_on": "order.cancelled"}, "give the task a key, or write cancel_on=CancelOn"),
        ({"cancel_on": "order.created", "key": "id"}, "name another event"),
        ({"cancel_on": "no name!", "key": "id"}, "The event name 'no name!' must be"),
        ({"cancel_on": CancelOn("x", match=["a..b"])}, "match names fields of the payload"),
        ({"cancel_on": CancelOn("x", match=list("abcdef"))}, "at most 5 fields"),
    ],
)
def test_what_cannot_cancel_is_refused(given: dict[str, object], error: str) -> None:
    with pytest.raises(ValueError, match=error):
        Integration().event("order.created", **given)  # type: ignore[arg-type]


def test_what_is_no_event_is_refused() -> None:
    with pytest.raises(TypeError, match="name an event, as in cancel_on="):
        Integration().event("order.created", cancel_on=["order.cancelled"])  # type: ignore[arg-type]


def test_two_integrations_are_cancelled_by_one_event(load_project: Callable[[str, str], Project]) -> None:
    other = """
other = Integration()
other.waits_for("order.cancelled", match=["orderId"])


@other.event("invoiced", cancel_on=ORDER_CANCELLED)
async def invoiced(ctx: Context, event: Event) -> None:
    await ctx.sleep("a while", timedelta(days=1))
"""
    project = load_project(HEAD + other, CONNECTIONS)
    for task in ("sleeps", "invoiced"):
        project.publish(task, {"orderId": 7})
    project.run_events()
    project.publish("order.cancelled", {"orderId": 7})
    cancelled = [one.task for one in project.run_events() if one.status == "cancelled"]
    assert sorted(cancelled) == ["invoiced", "sleeps"]
