"""Runs that wait for events: each event ends the waits that it matches, whichever of the two comes first."""

from __future__ import annotations

import asyncio
import gc
import re
from collections.abc import Callable
from datetime import timedelta

import pytest

from tieline.events.queue import EventsUnavailableError, EventTooLargeError
from tieline.events.side_by_side import side_by_side
from tieline.execution.ulids import new_ulid
from tieline.testing import Project
from tieline_protocol.events import EventMetadata

pytestmark = pytest.mark.fast

HEAD = """
from datetime import timedelta
from tieline import Context, Event, Integration, Reject, Request, Retry, SyncContext

integration = Integration()
integration.waits_for("payment.confirmed", match=["orderId"])
integration.waits_for("payment.confirmed", match=["orderId", "shop.name"])
integration.waits_for("market.opened", shared=True, keep=timedelta(minutes=10))
done = []

@integration.event("order.created", retry=Retry(attempts=3, first=60))
async def order_created(ctx: Context, event: Event) -> None:
    await ctx.step("reserve", done.append, "reserved")
    paid = await ctx.wait_for("payment.confirmed", match={"orderId": event.payload["id"]}, timeout=timedelta(days=2))
    if event.payload.get("fails") and event.attempt == 1:
        raise RuntimeError("the ERP is away")
    done.append(paid.payload["by"] if paid else "timed out")
"""
Loaded = Callable[..., Project]


CONNECTIONS = "connections: {}\nusers:\n  ann: {user: {externalId: ann}}\n  bob: {user: {externalId: bob}}\n"


@pytest.fixture
def loaded(load_project: Callable[[str, str], Project]) -> Loaded:
    return lambda code="": load_project(HEAD + code, CONNECTIONS)


def test_a_run_goes_on_with_the_event_that_it_waits_for(loaded: Loaded) -> None:
    project = loaded()
    project.publish("order.created", {"id": 7})
    (waits,) = project.run_events()
    assert (waits.status, waits.steps) == ("waiting", ("reserve", "wait: payment.confirmed"))
    project.advance(timedelta(hours=30))
    project.publish("payment.confirmed", {"orderId": "8", "by": "bob"})
    project.run_events()
    assert project.module.done == ["reserved"]
    project.publish("payment.confirmed", {"orderId": "7", "by": "ann"})
    event, run = project.run_events()
    assert (event.task, event.status, event.steps) == (
        "payment.confirmed",
        "succeeded",
        (f"woke {run.run_id}",),
    )
    assert (run.run_id, run.status) == (waits.run_id, "succeeded")
    assert project.module.done == ["reserved", "ann"]
    assert project.waiting_events == 0


def test_a_wait_whose_time_is_over_stays_so(loaded: Loaded) -> None:
    project = loaded()
    project.publish("order.created", {"id": 7, "fails": True})
    attempts = project.advance(timedelta(days=2, seconds=5))
    assert [one.status for one in attempts] == ["waiting", "waiting"]
    project.publish("payment.confirmed", {"orderId": 7, "by": "ann"})
    project.advance(timedelta(minutes=2))
    assert project.module.done == ["reserved", "timed out"]


def test_an_event_from_before_the_wait_is_found_for_an_hour(loaded: Loaded) -> None:
    project = loaded()
    for order, age in ((1, 50), (2, 70)):
        project.publish("payment.confirmed", {"orderId": order, "by": f"payer {order}"})
        project.run_events()
        project.advance(timedelta(minutes=age))
        project.publish("order.created", {"id": order})
        project.run_events()
    assert project.module.done == ["reserved", "payer 1", "reserved"]


def test_an_event_that_waited_in_the_queue_counts_from_when_it_came(loaded: Loaded) -> None:
    project = loaded()
    project.publish("payment.confirmed", {"orderId": 7, "by": "ann"}, delay=timedelta(hours=2))
    project.advance(timedelta(hours=2, minutes=1))
    project.publish("order.created", {"id": 7})
    project.run_events()
    assert project.module.done == ["reserved", "ann"]


def test_two_waits_for_one_event_both_go_on(loaded: Loaded) -> None:
    project = loaded()
    project.publish("order.created", {"id": 7})
    project.publish("order.created", {"id": 7})
    project.run_events()
    project.publish("payment.confirmed", {"orderId": 7, "by": "ann"})
    project.run_events()
    assert project.module.done == ["reserved", "reserved", "ann", "ann"]


def test_a_retry_gets_the_event_that_ended_the_wait(loaded: Loaded) -> None:
    project = loaded()
    project.publish("order.created", {"id": 7, "fails": True})
    project.run_events()
    project.publish("payment.confirmed", {"orderId": 7, "by": "ann"})
    project.run_events()
    project.publish("payment.confirmed", {"orderId": 7, "by": "bob"})
    project.advance(timedelta(minutes=2))
    assert project.module.done == ["reserved", "ann"]


def test_an_event_of_another_user_ends_no_wait(loaded: Loaded) -> None:
    project = loaded()
    project.publish("order.created", {"id": 7}, user="ann")
    project.run_events()
    for user in ("bob", None):
        project.publish("payment.confirmed", {"orderId": 7, "by": f"{user}"}, user=user)
        project.run_events()
    assert project.module.done == ["reserved"]
    project.publish("payment.confirmed", {"orderId": 7, "by": "ann"}, user="ann")
    project.run_events()
    assert project.module.done == ["reserved", "ann"]


TWICE = """
@integration.event("watch")
async def watch(ctx: Context, event: Event) -> None:
    for _ in range(2):
        opened = await ctx.wait_for("market.opened", timeout=60)
        done.append(opened.payload if opened else None)
"""


def test_an_event_ends_one_wait_of_a_run(loaded: Loaded) -> None:
    project = loaded(TWICE)
    project.publish("market.opened", "early", user="bob")
    project.run_events()
    project.publish("watch", {})
    project.run_events()
    assert project.module.done == ["early"]
    project.publish("market.opened", "late")
    project.run_events()
    assert project.module.done == ["early", "early", "late"]


PLAIN = """
@integration.event("plain")
def plain(ctx: SyncContext, event: Event) -> None:
    where = {"orderId": True, "shop.name": 1.0}
    paid = ctx.wait_for("payment.confirmed", match=where, timeout=60)
    done.append(paid.payload["orderId"] if paid else None)
"""


def test_a_plain_function_waits_by_several_fields(loaded: Loaded) -> None:
    project = loaded(PLAIN)
    project.publish("plain", {})
    project.run_events()
    project.publish("payment.confirmed", {"orderId": "true", "shop": {"name": "2"}})
    project.publish("payment.confirmed", {"orderId": "true"})
    project.run_events()
    assert project.module.done == []
    project.publish("payment.confirmed", {"orderId": True, "shop": {"name": "1"}})
    project.run_events()
    assert project.module.done == [True]


KEYED = """
@integration.event("booked", key="customer", retry=Retry(attempts=2, first=60))
async def booked(ctx: Context, event: Event) -> None:
    paid = await ctx.wait_for("payment.confirmed", match={"orderId": event.payload["id"]}, timeout=3600)
    done.append((event.payload["id"], paid is not None))
"""


def test_a_run_with_a_key_waits_in_its_order(loaded: Loaded) -> None:
    project = loaded(KEYED)
    for order in (1, 2):
        project.publish("booked", {"customer": "ann", "id": order})
    project.run_events()
    project.publish("payment.confirmed", {"orderId": 2})
    project.run_events()
    assert project.module.done == []
    project.publish("payment.confirmed", {"orderId": 1})
    project.run_events()
    assert project.module.done == [(1, True), (2, True)]


BOTH = """
@integration.event("payment.confirmed")
async def payment_confirmed(ctx: Context, event: Event) -> None:
    done.append("booked")
"""


def test_an_event_with_a_task_ends_waits_too(loaded: Loaded) -> None:
    project = loaded(BOTH)
    project.publish("order.created", {"id": 7})
    project.run_events()
    project.publish("payment.confirmed", {"orderId": 7, "by": "ann"})
    project.run_events()
    assert sorted(project.module.done) == ["ann", "booked", "reserved"]


def test_an_event_runs_after_an_interruption_of_the_engine(
    loaded: Loaded, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = loaded()
    asked: list[str] = []

    async def may_have_rules(name: str) -> bool:
        asked.append(name)
        if len(asked) == 1:
            raise EventsUnavailableError("away")
        return False

    monkeypatch.setattr(project._queue.waits, "may_have_rules", may_have_rules)
    project.publish("order.created", {"id": 7})
    (attempt,) = project.run_events()
    assert (attempt.status, asked) == ("waiting", ["order.created"] * 2)


SHARED_KEY = """
@integration.event("payment.confirmed", key="orderId", shared_key=True)
async def payment_confirmed(ctx: Context, event: Event) -> None:
    done.append("booked")
"""


def test_an_event_that_moves_behind_its_key_ends_waits_too(loaded: Loaded) -> None:
    project = loaded(SHARED_KEY)
    project.publish("order.created", {"id": 7})
    project.run_events()
    # REST does not know that the task's keys are shared.
    event = EventMetadata(
        run=new_ulid(), kind="event", task="payment.confirmed", queued_at=project.now(), key="7"
    )
    project._wait(project._queue.publish(event, b'{"orderId": 7, "by": "ann"}'))
    project.run_events()
    assert sorted(project.module.done) == ["ann", "booked", "reserved"]


SIDE_BY_SIDE = """
@integration.event("both", retry=Retry(attempts=2, first=60))
async def both(ctx: Context, event: Event) -> None:
    async def book(what):
        done.append(what)
        if what == "hotel" and event.attempt == 1:
            raise RuntimeError("the hotel is away")
        return what

    booked = await ctx.gather(*(ctx.step("book", book, what) for what in ("flight", "hotel", "car")))
    first, second, _ = await ctx.gather(
        ctx.wait_for("payment.confirmed", match={"orderId": 1}, timeout=7200),
        ctx.wait_for("payment.confirmed", match={"orderId": 2}, timeout=60),
        ctx.sleep("cool off", 600),
    )
    done.append([booked, first and first.payload["by"], second and second.payload["by"]])
"""


def test_steps_and_waits_go_on_side_by_side(loaded: Loaded) -> None:
    project = loaded(SIDE_BY_SIDE)
    project.publish("both", {})
    (failed,) = project.run_events()
    assert failed.error is not None
    assert "the hotel is away" in failed.error
    assert project.module.done == ["flight", "hotel", "car"]
    project.advance(timedelta(seconds=90))
    assert project.module.done == ["flight", "hotel", "car", "hotel"]
    project.advance(timedelta(minutes=5))
    project.publish("payment.confirmed", {"orderId": 2, "by": "too late"})
    project.publish("payment.confirmed", {"orderId": 1, "by": "ann"})
    project.advance(timedelta(minutes=20))
    assert project.module.done[4:] == [[["flight", "hotel", "car"], "ann", None]]


async def test_errors_side_by_side_are_all_seen() -> None:
    async def fail(text: str) -> None:
        raise RuntimeError(text)

    unseen: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unseen.append(context))
    with pytest.raises(RuntimeError, match="first"):
        await side_by_side([fail("first"), fail("second")])
    gc.collect()
    await asyncio.sleep(0)
    assert unseen == []


RACE = """
import asyncio

@integration.event("race")
async def race(ctx: Context, event: Event) -> None:
    waits = [
        asyncio.ensure_future(ctx.wait_for("payment.confirmed", match={"orderId": order}, timeout=7200))
        for order in (1, 2)
    ]
    await asyncio.wait(waits)
    errors = [one.exception() for one in waits]
    if all(errors):
        raise errors[0]
    done.append("the first")
"""


FOUR_EYES = """
@integration.event("four.eyes")
async def four_eyes(ctx: Context, event: Event) -> None:
    approvals = await ctx.gather(
        *(ctx.wait_for("payment.confirmed", match={"orderId": 1}, timeout=7200) for _ in range(2))
    )
    done.append([one and one.payload["by"] for one in approvals])
"""


@pytest.mark.parametrize("early", [0, 1, 2])
def test_one_event_is_not_two_of_those_that_a_run_waits_for(loaded: Loaded, early: int) -> None:
    project = loaded(FOUR_EYES)
    people = ["ann", "bob"]
    for person in people[:early]:
        project.publish("payment.confirmed", {"orderId": 1, "by": person})
        project.advance(timedelta(seconds=1))
    project.publish("four.eyes", {})
    project.run_events()
    for person in people[early:]:
        assert project.module.done == []
        project.publish("payment.confirmed", {"orderId": 1, "by": person})
        project.run_events()
    assert project.module.done == [["ann", "bob"]]


def test_a_run_that_ends_gives_up_its_other_waits(loaded: Loaded) -> None:
    project = loaded(RACE)
    project.publish("race", {})
    project.run_events()
    project.publish("payment.confirmed", {"orderId": 2})
    project.run_events()
    assert project.module.done == ["the first"]
    project.publish("payment.confirmed", {"orderId": 1})
    (late,) = project.run_events()
    assert late.steps == ()


def test_no_more_go_on_side_by_side_than_a_run_has_steps(loaded: Loaded) -> None:
    project = loaded(
        "async def nothing(): pass\n"
        '@integration.event("many")\n'
        "async def many(ctx: Context) -> None:\n"
        "    await ctx.gather(*(nothing() for _ in range(1001)))\n"
    )
    project.publish("many", {})
    (attempt,) = project.run_events()
    assert attempt.error == "At most 1,000 go on side by side, not 1,001"


UNDECLARED = """
@integration.event("asks")
async def asks(ctx: Context, event: Event) -> None:
    await ctx.wait_for(event.payload["name"], match=event.payload["match"], timeout=event.payload["timeout"])
"""


@pytest.mark.parametrize(
    ("name", "match", "timeout", "error"),
    [
        ("payment.refused", {"id": 1}, 60, r"integration\.waits_for\('payment.refused', match=\['id'\]\)"),
        ("payment.confirmed", {}, 60, r"integration\.waits_for\('payment.confirmed'\)"),
        ("payment.confirmed", {"orderId": None}, 60, "'orderId' is compared with a text"),
        ("payment.confirmed", {"orderId": 1}, 0, "from 0 to 30 days"),
        ("payment.confirmed", {"orderId": 1}, 31 * 86400, "from 0 to 30 days"),
    ],
)
def test_a_wait_that_cannot_be_says_what_to_write(
    loaded: Loaded, name: str, match: object, timeout: float, error: str
) -> None:
    project = loaded(UNDECLARED)
    project.publish("asks", {"name": name, "match": match, "timeout": timeout})
    (attempt,) = project.run_events()
    assert attempt.error is not None
    assert re.search(error, attempt.error), attempt.error


def test_a_payload_that_is_too_large_to_end_waits_is_refused(loaded: Loaded) -> None:
    project = loaded()
    with pytest.raises(EventTooLargeError, match="that runs wait for has at most 131,072"):
        project.publish("payment.confirmed", {"orderId": 1, "scan": "x" * 131_072})
