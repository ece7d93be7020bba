"""Signals: a run gets what was sent to it by its id, before or after it waits, each once, and nobody else's."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from tieline.execution.ulids import new_ulid
from tieline.testing import Project
from tieline_protocol.signals import SIGNAL_TASK, InvalidSignalError, SentSignal, signal_event

pytestmark = pytest.mark.fast

CODE = """
from datetime import timedelta
from tieline import Context, Event, Integration, Retry, SyncContext

integration = Integration()
done = []
errors = []


@integration.event("asks", retry=Retry(attempts=3, first=60))
async def asks(ctx: Context, event: Event) -> None:
    found = await ctx.wait_for_signal("address", timeout=timedelta(days=2))
    if event.payload == "fails" and event.attempt == 1:
        raise RuntimeError("away")
    done.append(found and (found.name, found.payload, found.by))


@integration.event("plain", key="customer")
def plain(ctx: SyncContext, event: Event) -> None:
    found = ctx.wait_for_signal("address", timeout=60)
    done.append(found and found.payload)


@integration.event("late")
async def late(ctx: Context, event: Event) -> None:
    await ctx.sleep("for long", timedelta(days=20))
    done.append((await ctx.wait_for_signal("address", timeout=60)).payload)


@integration.event("twice")
async def twice(ctx: Context, event: Event) -> None:
    for _ in range(2):
        found = await ctx.wait_for_signal("next", timeout=600)
        done.append(found and found.payload)


@integration.event("both")
async def both(ctx: Context, event: Event) -> None:
    found = await ctx.gather(*(ctx.wait_for_signal("next", timeout=600) for _ in range(2)))
    done.append([one and one.payload for one in found])


@integration.event("looks")
async def looks(ctx: Context, event: Event) -> None:
    done.append(await ctx.wait_for_signal("stop", timeout=0))
    await ctx.sleep("a while", 60)
    found = await ctx.wait_for_signal("stop", timeout=0)
    done.append(found and found.payload)


@integration.event("parent")
async def parent(ctx: Context, event: Event) -> None:
    done.append(await ctx.run("child", {}))


@integration.event("child")
async def child(ctx: Context, event: Event) -> str:
    return (await ctx.wait_for_signal("address", timeout=600)).payload


@integration.event("wrong")
async def wrong(ctx: Context, event: Event) -> None:
    for name, timeout in (("a b", 1), ("", 1), (None, 1), ("x" * 101, 1), ("x", -1), ("x", timedelta(days=31))):
        try:
            await ctx.wait_for_signal(name, timeout=timeout)
        except ValueError as error:
            errors.append(str(error))


@integration.webhook("direct")
async def direct(ctx: Context) -> str:
    try:
        await ctx.wait_for_signal("x", timeout=1)
    except Exception as error:
        return str(error)
"""


@pytest.fixture
def project(load_project: Callable[[str, str], Project]) -> Project:
    return load_project(CODE, "connections: {}\n")


def begun(project: Project, task: str, payload: Any = None) -> str:
    run = project.publish(task, payload)
    assert run is not None
    project.run_events()
    return run


def test_a_run_that_waits_goes_on_with_the_signal(project: Project) -> None:
    run = begun(project, "asks")
    assert (project.module.done, project.waiting_events) == ([], 1)
    project.signal(run, "address", {"city": "Bonn"}, by="ann")
    (ended,) = project.run_events()
    assert (ended.run_id, ended.status, ended.steps) == (run, "succeeded", ())
    assert project.module.done == [("address", {"city": "Bonn"}, "ann")]
    assert project.waiting_events == 0


def test_a_signal_that_comes_before_the_wait_is_found_weeks_later(project: Project) -> None:
    run = begun(project, "late")
    project.signal(run, "address", "Bonn")
    project.advance(timedelta(days=20))
    assert project.module.done == ["Bonn"]


def test_without_a_signal_the_wait_times_out_and_a_late_one_changes_nothing(project: Project) -> None:
    run = begun(project, "asks", "fails")
    (failed,) = project.advance(timedelta(days=2))
    assert failed.error == "away"
    project.signal(run, "address", "late")
    project.advance(timedelta(hours=1))
    assert project.module.done == [None]


def test_a_retry_gets_the_same_signal(project: Project) -> None:
    run = begun(project, "asks", "fails")
    project.signal(run, "address", 1)
    project.signal(run, "address", 2)
    project.advance(timedelta(hours=1))
    assert project.module.done == [("address", 1, "test")]


@pytest.mark.parametrize("together", [True, False])
def test_each_signal_ends_one_wait_and_the_oldest_comes_first(project: Project, together: bool) -> None:
    run = begun(project, "twice")
    project.signal(run, "next", "a")
    if not together:
        project.run_events()
    project.signal(run, "next", "b")
    project.run_events()
    assert project.module.done[-2:] == ["a", "b"]
    assert project.waiting_events == 0


def test_waits_side_by_side_get_a_signal_each(project: Project) -> None:
    run = begun(project, "both")
    project.signal(run, "next", "a")
    project.run_events()
    assert project.module.done == []
    project.signal(run, "next", "b")
    project.run_events()
    assert project.module.done == [["a", "b"]]


def test_a_run_can_look_for_a_signal_without_waiting(project: Project) -> None:
    run = begun(project, "looks")
    assert project.module.done == [None]
    project.signal(run, "stop", "enough")
    project.advance(60)
    assert project.module.done == [None, None, "enough"]


def test_signals_of_another_run_or_name_wake_nobody(project: Project) -> None:
    run, other = begun(project, "asks"), begun(project, "asks")
    project.signal(other, "Address", 1)
    project.signal(other, "address", "mine")
    project.run_events()
    assert project.module.done == [("address", "mine", "test")]
    assert project.waiting_events == 1
    project.signal(run, "address", None)
    project.run_events()
    assert project.module.done[-1] == ("address", None, "test")


def test_a_run_that_begins_at_a_step_of_another_recognises_the_wait(project: Project) -> None:
    begun(project, "asks")
    begun(project, "asks")
    kept = [step for steps in project._queue.runs._steps.values() for step in steps.values()]
    assert [step.name for step in kept] == ["signal: address"] * 2
    assert kept[0].work == kept[1].work
    assert kept[0].result != kept[1].result


def test_a_plain_function_with_a_key_waits_for_signals(project: Project) -> None:
    run = begun(project, "plain", {"customer": "c"})
    project.signal(run, "address", [1])
    project.run_events()
    assert project.module.done == [[1]]


def test_a_child_gets_a_signal_and_its_parent_the_result(project: Project) -> None:
    begun(project, "parent")
    child = next(one.id for one in project._queue.history if one.task == "child")
    project.signal(child, "address", "Bonn")
    project.run_events()
    assert project.module.done == ["Bonn"]


def test_a_signal_to_a_run_that_has_ended_or_is_not_known_is_refused(project: Project) -> None:
    run = begun(project, "asks")
    project.signal(run, "address", 1)
    project.run_events()
    for gone in (run, new_ulid()):
        with pytest.raises(ValueError, match=f"No run {gone} is here, or it has ended"):
            project.signal(gone, "address", 2)
    assert project.run_events() == []
    assert len(project.module.done) == 1
    assert project.dead_letters == []


def test_what_cannot_be_waited_for_is_said_in_a_sentence(project: Project) -> None:
    begun(project, "wrong")
    names, times = project.module.errors[:4], project.module.errors[4:]
    assert all(one.startswith("The name of a signal has letters, digits") for one in names)
    assert times == [
        "The timeout of a signal is from 0 to 2,592,000 seconds (30 days), not -1",
        "The timeout of a signal is from 0 to 2,592,000 seconds (30 days), not 2,678,400",
    ]
    assert project.post("/direct").text.startswith("Steps, sleep and waits are for runs that are retried")
    waiting = begun(project, "asks")
    with pytest.raises(ValueError, match="cannot have the name"):
        project.signal(waiting, "a/b")
    with pytest.raises(ValueError, match="at most 16,384 bytes"):
        project.signal(waiting, "a", "x" * 17_000)


@pytest.mark.parametrize(
    "changed",
    [
        {"run": "x"}, {"run": 7}, {"name": "a b"}, {"name": None}, {"payload": "{"}, {"payload": 7}, {"by": None},
        {"by": "x" * 300}, {"at": True}, {"at": -1}, {"at": "now"}, {"payload": '"' + "x" * 70_000 + '"'},
    ],
    ids=lambda changed: str(changed)[:30],
)  # fmt: skip
def test_what_code_stores_as_a_signal_is_read_defensively(project: Project, changed: dict[str, Any]) -> None:
    import orjson

    good = SentSignal(run=new_ulid(), name="a", payload="1", by="ann", at=1.0)
    assert SentSignal.decode(good.encode()) == good
    content = orjson.dumps({**vars(good), **changed})
    with pytest.raises(InvalidSignalError):
        SentSignal.decode(content)
    project._wait(project._queue.publish(signal_event(new_ulid(), 1.0), content))
    assert project.run_events() == []
    assert (project.dead_letters, project.waiting_events) == ([], 0)


def test_no_task_can_have_the_name_of_signals(project: Project) -> None:
    with pytest.raises(Exception, match="There is no task"):
        project.publish(SIGNAL_TASK, {})
