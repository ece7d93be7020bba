"""Runs that start runs and wait for them: each child is started once, and its end reaches the code."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from tieline.events.queue import EventsUnavailableError
from tieline.testing import Project
from tieline_protocol.child_runs import (
    ENDED_TASK,
    MAX_DEPTH,
    ChildEnd,
    InvalidChildEndError,
    child_index,
    ended_event,
)
from tieline_protocol.events import EventMetadata, InvalidEventError, ParentRun

pytestmark = pytest.mark.fast

HEAD = """
from datetime import timedelta
from tieline import ChildRunError, ChildRunRefusedError, Context, Event, Integration, Reject, Retry, SyncContext

integration = Integration()
done = []
made = []
MODE = {"fails": 0}


@integration.event("order.placed", retry=Retry(attempts=3, first=60))
async def order_placed(ctx: Context, event: Event) -> None:
    options = event.payload.get("options", {})
    invoice = await ctx.run("invoice.create", event.payload, timeout=timedelta(days=1), **options)
    if event.payload.get("fails") and event.attempt == 1:
        raise RuntimeError("the shop is away")
    done.append(invoice)


@integration.event("invoice.create", retry=Retry(attempts=2, first=60))
async def invoice_create(ctx: Context, event: Event) -> object:
    made.append((event.payload["id"], ctx.activation.user.external_id if ctx.activation.user else ""))
    if event.payload.get("sleeps"):
        await ctx.sleep("a while", timedelta(days=2))
    if event.payload.get("rejects"):
        raise Reject("no address; the key is s3cr3t-of-bank")
    if event.payload.get("no_json"):
        return object()
    if event.payload.get("large"):
        return "x" * 200_000
    return {"number": f"INV-{event.payload['id']}", "lines": (1, 2)}
"""
CONNECTIONS = """
connections:
  bank:
    baseUrl: https://bank.example
    credentials: [{type: api-key, authScheme: {type: api-key, in: header, name: X}, data: {value: s3cr3t-of-bank}}]
users:
  ann: {user: {externalId: ann}}
"""

Loaded = Callable[..., Project]


@pytest.fixture
def loaded(load_project: Callable[[str, str], Project]) -> Loaded:
    return lambda code="": load_project(HEAD + code, CONNECTIONS)


def test_a_run_goes_on_with_what_its_child_returned(loaded: Loaded) -> None:
    project = loaded()
    parent = project.publish("order.placed", {"id": 7})
    attempts = project.run_events()
    assert [(one.task, one.status) for one in attempts] == [
        ("order.placed", "waiting"),
        ("invoice.create", "succeeded"),
        ("order.placed", "succeeded"),
    ]
    assert project.module.done == [{"number": "INV-7", "lines": [1, 2]}]
    assert project.waiting_events == 0
    records = {record.task: record for record in project._queue.history}
    (step,) = records["order.placed"].steps
    assert step.name == "run: invoice.create"
    assert step.child == records["invoice.create"].id
    assert records["invoice.create"].parent == parent
    assert all(record.result is None for record in project._queue.history)


def test_a_retry_of_the_parent_starts_no_other_child(loaded: Loaded) -> None:
    project = loaded()
    project.publish("order.placed", {"id": 7, "fails": True})
    project.run_events()
    project.advance(timedelta(minutes=5))
    assert (len(project.module.made), len(project.module.done)) == (1, 1)


def test_a_child_is_for_the_user_of_its_parent(loaded: Loaded) -> None:
    project = loaded()
    project.publish("order.placed", {"id": 1}, user="ann")
    project.publish("order.placed", {"id": 2, "options": {"user": "ann"}})
    project.run_events()
    assert sorted(project.module.made) == [(1, "ann"), (2, "ann")]


CATCHES = """
@integration.event("careful")
async def careful(ctx: Context, event: Event) -> None:
    try:
        await ctx.run("invoice.create", event.payload, timeout=timedelta(days=1))
    except ChildRunError as error:
        done.append((error.run_id, error.status, str(error)))
"""


@pytest.mark.parametrize(
    ("payload", "status", "text"),
    [
        ({"rejects": True}, "dead", "is a dead letter: Reject: no address; the key is "),
        ({"no_json": True}, "dead", "no JSON data"),
        ({"large": True}, "dead", "has more than"),
        ({"sleeps": True}, "timed_out", "did not end in time"),
    ],
)
def test_what_becomes_of_a_child_is_an_error_with_its_id(
    loaded: Loaded, payload: dict[str, Any], status: str, text: str
) -> None:
    project = loaded(CATCHES)
    project.publish("careful", {"id": 1, **payload})
    project.advance(timedelta(days=1, minutes=5))
    ((run, given, message),) = project.module.done
    child = next(record for record in project._queue.history if record.task == "invoice.create")
    assert (run, given) == (child.id, status)
    assert child.id in message
    assert text in message
    assert "s3cr3t" not in message
    project.advance(timedelta(days=3))
    assert len(project.module.done) == 1, "a late end woke the parent again"
    assert project.waiting_events == 0


def test_a_parent_that_does_not_catch_it_is_dead_at_once(loaded: Loaded) -> None:
    project = loaded()
    project.publish("order.placed", {"id": 1, "rejects": True})
    project.run_events()
    child, parent = project.dead_letters
    assert (child.task, parent.task) == ("invoice.create", "order.placed")
    assert child.run_id in parent.error
    assert len(project.module.made) == 1


def test_a_child_that_is_tried_again_ends_its_parent_once(loaded: Loaded) -> None:
    project = loaded(
        """
@integration.event("shaky", retry=Retry(attempts=3, first=60))
async def shaky(ctx: Context, event: Event) -> int:
    if event.attempt < 3:
        raise RuntimeError("not yet")
    return event.attempt


@integration.event("asks")
def asks(ctx: SyncContext, event: Event) -> None:
    done.append(ctx.run("shaky", None))
"""
    )
    project.publish("asks", {})
    project.advance(timedelta(hours=1))
    assert project.module.done == [3]


KEYS = """
@integration.event("keyed", key="k")
async def keyed(ctx: Context, event: Event) -> int:
    if event.payload["deep"]:
        return await ctx.run("between", event.payload)
    return await ctx.run("keyed", {"k": 1, "deep": None})


@integration.event("between")
async def between(ctx: Context, event: Event) -> int:
    return await ctx.run("keyed", {"k": event.payload["k"], "deep": None})
"""


@pytest.mark.parametrize("deep", [True, False], ids=["of a grandparent", "its own"])
def test_a_child_behind_a_key_that_waits_for_it_is_refused(loaded: Loaded, deep: bool) -> None:
    project = loaded(KEYS)
    project.publish("keyed", {"k": 1, "deep": deep})
    project.advance(timedelta(hours=1))
    assert any("would never begin" in one.error for one in project.dead_letters)
    assert project.waiting_events == 0


def test_a_child_with_another_key_runs(loaded: Loaded) -> None:
    project = loaded(
        """
@integration.event("first", key="k")
async def first(ctx: Context, event: Event) -> None:
    done.append(await ctx.run("second", event.payload, key="x"))


@integration.event("second", key="k")
async def second(ctx: Context, event: Event) -> str:
    return event.key
"""
    )
    project.publish("first", {"k": "a"})
    project.publish("first", {"k": "a"})
    project.run_events()
    assert project.module.done == ["x", "x"]


def test_recursion_ends_with_an_error(loaded: Loaded) -> None:
    project = loaded(
        """
@integration.event("again")
async def again(ctx: Context, event: Event) -> int:
    done.append(event.run_id)
    return 1 + await ctx.run("again", event.payload)
"""
    )
    project.publish("again", {})
    project.run_events()
    assert len(set(project.module.done)) == MAX_DEPTH + 1
    assert "does 'again' run itself" in project.dead_letters[0].error
    assert len(project.dead_letters) == MAX_DEPTH + 1
    assert all(len(one.error) < 2000 for one in project.dead_letters)


def test_children_side_by_side(loaded: Loaded) -> None:
    project = loaded(
        """
@integration.event("many")
async def many(ctx: Context, event: Event) -> None:
    done.append(await ctx.gather(*(ctx.run("invoice.create", {"id": one}) for one in range(5))))
"""
    )
    project.publish("many", {})
    project.run_events()
    assert [[one["number"] for one in done] for done in project.module.done] == [
        [f"INV-{number}" for number in range(5)]
    ]
    assert len(project.module.made) == 5


@pytest.mark.parametrize(
    ("call", "error"),
    [
        ('ctx.run("nothing", {})', "There is no task 'nothing'"),
        ('ctx.run("invoice.create", {}, timeout=0)', "The timeout of a child run"),
        ('ctx.run("invoice.create", {}, timeout=timedelta(days=31))', "The timeout of a child run"),
        ('ctx.run("invoice.create", {}, timeout=float("nan"))', "The timeout of a child run"),
        ('ctx.run("invoice.create", {}, key="")', "The key of an event"),
        ('ctx.run("invoice.create", {}, user="x" * 501)', "The user of an event"),
        ('ctx.run("invoice.create", "x" * (5 << 20))', "EventTooLargeError"),
    ],
)
def test_what_cannot_be_started_is_an_error(loaded: Loaded, call: str, error: str) -> None:
    project = loaded(
        f"""
@integration.event("asks", retry=Retry(attempts=1))
async def asks(ctx: Context, event: Event) -> None:
    try:
        await {call}
    except Exception as error:
        done.append(f"{{type(error).__name__}}: {{error}}")
"""
    )
    project.publish("asks", {})
    project.run_events()
    (found,) = project.module.done
    assert error in found
    assert not project.module.made


def test_an_end_that_the_platform_reports_wakes_the_parent(loaded: Loaded) -> None:
    project = loaded(CATCHES)
    parent = project.publish("careful", {"id": 1, "sleeps": True})
    project.run_events()
    child = next(record.id for record in project._queue.history if record.task == "invoice.create")
    assert parent is not None
    end = ChildEnd(child=child, status="cancelled")
    its = EventMetadata(run="c", kind="event", task="child", queued_at=0.0, parent=ParentRun(run=parent))
    event = ended_event(its, "01M8DEYCRJWCNN04VG9B6J510F", project.now())
    project._wait(project._queue.publish(event, end.encode()))
    project._wait(project._queue.publish(ended_event(its, "01M8DEYCRJWCNN04VG9B6J510G", 0), b"[]"))
    project.run_events()
    ((run, status, _),) = project.module.done
    assert (run, status) == (child, "cancelled")
    project.advance(timedelta(days=3))
    assert len(project.module.done) == 1, "the end of the child's code counts as well"


@pytest.mark.parametrize(
    "content",
    [
        b"", b"[]", b"{}", b'{"child": 5, "status": "dead"}', b'{"child": "a", "status": "queued"}',
        b'{"child": "a", "status": "dead", "error": 5}', b'{"child": "a", "status": []}',
        b'{"child": "a", "status": "succeeded", "result": {}}', b"[" * 100_000,
        b'{"child": "a", "status": "dead", "error": "' + b"x" * 2000 + b'"}',
    ],
)  # fmt: skip
def test_an_end_that_makes_no_sense_is_refused(content: bytes) -> None:
    with pytest.raises(InvalidChildEndError):
        ChildEnd.decode(content)


@pytest.mark.parametrize(
    "parent",
    [
        5, [5], {"run": "a"}, {"run": "a.b", "depth": 1}, {"run": "a", "depth": "1"}, {"run": "a", "depth": True},
        {"run": "*", "depth": 1}, {"run": "a", "depth": 1, "key_hash": ">"}, {"run": "a", "depth": 1, "keys": [5]},
        {"run": "a", "depth": 1, "keys": 5}, {"run": "x" * 65, "depth": 1},
    ],
)  # fmt: skip
def test_a_parent_that_makes_no_sense_is_refused(parent: object) -> None:
    content = {"run": "a", "kind": "event", "task": "t", "queued_at": 1, "parent": parent}
    with pytest.raises(InvalidEventError):
        EventMetadata.parse({"Tieline-Event": json.dumps(content)})


def test_a_parent_travels_with_its_child() -> None:
    parent = ParentRun(run="P", key_hash="aa", depth=3, keys=("aa", "bb"))
    metadata = EventMetadata(run="R", kind="event", task=ENDED_TASK, queued_at=1.0, parent=parent)
    assert EventMetadata.parse({"Tieline-Event": metadata.header()}) == metadata
    assert child_index("a") != child_index("b")


@pytest.mark.parametrize("sleeps", [True, False], ids=["that waits", "that has ended"])
def test_a_child_whose_start_was_not_recorded_is_not_started_again(
    loaded: Loaded, monkeypatch: pytest.MonkeyPatch, sleeps: bool
) -> None:
    project = loaded()
    save = project._queue.runs.save_step
    failed: list[str] = []

    async def fail_once(run: str, step: Any, *, claim: Any) -> None:
        if step.name == "run: invoice.create" and not failed:
            failed.append(run)
            raise EventsUnavailableError("the engine is away")
        await save(run, step, claim=claim)

    monkeypatch.setattr(project._queue.runs, "save_step", fail_once)
    project.publish("order.placed", {"id": 7, "sleeps": sleeps})
    project.run_events()
    assert failed
    assert len(project.module.made) == 1
    project.advance(timedelta(hours=20))
    assert project.waiting_events == (2 if sleeps else 0)
    assert len(project.module.made) == 1
