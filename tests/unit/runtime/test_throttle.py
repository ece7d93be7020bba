"""``throttle``: runs of a task start at most so often, and the others wait for their turn."""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Callable, Coroutine
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tieline import Integration, Throttle
from tieline.events.event import EventTask
from tieline.events.event_file import EventFile
from tieline.events.memory import MemoryQueue
from tieline.events.retry import Retry
from tieline.events.throttle import Line, LineTooLongError, ThrottleRule, Turn
from tieline.server.event_attempt import Attempt
from tieline.server.throttled_events import ThrottledEvents
from tieline.testing import EventAttempt, Project
from tieline_protocol.events import EventMetadata

pytestmark = pytest.mark.fast

HEAD = """
from tieline import CancelOn, Context, Debounce, Event, Integration, Retry, RetryLater, Throttle

integration = Integration()
done = []


@integration.event("sync", throttle=Throttle(2, per=60), retry=Retry(attempts=3, first=1))
async def sync(ctx: Context, event: Event) -> None:
    done.append(event.payload["number"])
    if event.payload.get("fails") and event.attempt == 1:
        raise RuntimeError("the shop is away")


@integration.event("other")
async def other(ctx: Context, event: Event) -> None:
    done.append("other")

"""
CONNECTIONS = "connections: {}\nusers:\n  ann: {user: {externalId: ann}}\n  bob: {user: {externalId: bob}}\n"
Loaded = Callable[..., Project]


@pytest.fixture
def loaded(load_project: Callable[[str, str], Project]) -> Loaded:
    return lambda code="": load_project(HEAD + code, CONNECTIONS)


def statuses(attempts: list[EventAttempt]) -> list[str]:
    return [one.status for one in attempts]


def publish(project: Project, count: int, task: str = "sync", **payload: Any) -> None:
    for number in range(count):
        project.publish(task, {"number": number, **payload})


def test_runs_start_at_most_so_often_in_their_order_and_all_run(loaded: Loaded) -> None:
    project = loaded()
    publish(project, 5)
    project.run_events()
    assert project.module.done == [0, 1]
    project.advance(59)
    assert project.module.done == [0, 1]
    project.advance(1)
    assert project.module.done == [0, 1, 2, 3]
    project.advance(60)
    assert project.module.done == [0, 1, 2, 3, 4]
    assert project.waiting_events == 0
    assert project.dead_letters == []


def test_an_event_wakes_once_for_its_turn(loaded: Loaded) -> None:
    project = loaded()
    publish(project, 40)
    for _ in range(30):
        project.advance(60)
    assert project.module.done == list(range(40))
    outcomes = [one.fields["outcome"] for one in project.logs if one.message == "Ran event sync"]
    assert (outcomes.count("waiting"), outcomes.count("succeeded")) == (38, 40)


def test_events_that_wait_hold_up_no_other_task(loaded: Loaded) -> None:
    project = loaded()
    publish(project, 200)
    project.publish("other", {})
    project.run_events()
    assert project.module.done == [0, 1, "other"]


def test_a_wait_uses_up_no_attempt_and_a_retry_needs_no_turn(loaded: Loaded) -> None:
    project = loaded()
    publish(project, 3, fails=True)
    project.run_events()
    project.advance(5)
    assert sorted(project.module.done) == [0, 0, 1, 1]
    attempts = project.advance(60)
    assert project.module.done[4:] == [2, 2]
    assert [(one.attempt, one.status) for one in attempts] == [(1, "waiting"), (2, "succeeded")]


def test_a_run_that_has_started_continues_without_another_turn(loaded: Loaded) -> None:
    project = loaded("""
@integration.event("slow", throttle=Throttle(1, per=1000))
async def slow(ctx: Context, event: Event) -> None:
    await ctx.sleep("a while", 10)
    done.append("on")
    if len(done) == 1:
        raise RetryLater(after=10)
""")
    project.publish("slow", {})
    project.publish("slow", {})
    project.run_events()
    project.advance(25)
    assert project.module.done == ["on", "on"]
    assert project.waiting_events == 1


def test_each_value_of_the_key_has_a_limit_of_its_own_for_all_users(loaded: Loaded) -> None:
    project = loaded("""
@integration.event("call", throttle=Throttle(1, per=60, key="customer.id"))
async def call(ctx: Context, event: Event) -> None:
    done.append(event.payload["number"])
""")
    for user in ("ann", "bob"):
        for customer in (1, 2, None):
            project.publish("call", {"number": f"{user} {customer}", "customer": {"id": customer}}, user=user)
    project.run_events()
    assert project.module.done == ["ann 1", "ann 2", "ann None"]
    project.advance(60)
    assert project.module.done[3:] == ["bob 1", "bob 2", "bob None"]


def test_events_of_a_key_keep_their_order(loaded: Loaded) -> None:
    project = loaded("""
@integration.event("ordered", key="customer", throttle=Throttle(1, per=10))
async def ordered(ctx: Context, event: Event) -> None:
    done.append((event.payload["customer"], event.payload["number"]))
""")
    for number in range(3):
        for customer in ("a", "b"):
            project.publish("ordered", {"customer": customer, "number": number})
    project.advance(100)
    assert sorted(project.module.done) == [(one, number) for one in "ab" for number in range(3)]
    for customer in "ab":
        assert [number for one, number in project.module.done if one == customer] == [0, 1, 2]


def test_what_a_burst_has_left_waits_for_its_turn(loaded: Loaded) -> None:
    project = loaded("""
@integration.event("changed", debounce=Debounce(5, key="id"), throttle=Throttle(1, per=60))
async def changed(ctx: Context, event: Event) -> None:
    done.append((event.payload["id"], event.payload["version"]))
""")
    for product in ("mug", "cup"):
        for version in range(3):
            project.publish("changed", {"id": product, "version": version})
    project.advance(6)
    assert len(project.module.done) == 1
    project.advance(60)
    assert sorted(project.module.done) == [("cup", 2), ("mug", 2)]


def test_an_event_cancels_a_run_that_waits_for_its_turn(loaded: Loaded) -> None:
    project = loaded("""
@integration.event("remind", throttle=Throttle(1, per=60), cancel_on=CancelOn("paid", match=["id"]))
async def remind(ctx: Context, event: Event) -> None:
    done.append(event.payload["id"])
""")
    for number in (1, 2):
        project.publish("remind", {"id": number})
    project.run_events()
    project.publish("paid", {"id": 2})
    assert ("remind", "cancelled") in [(one.task, one.status) for one in project.run_events()]
    project.advance(120)
    assert project.module.done == [1]
    assert project.waiting_events == 0


@pytest.mark.parametrize(
    ("metadata", "waits"),
    [
        ({}, True),
        ({"replay_of": "01M8DEYCRJWCNN04VG9B6J510F", "has_steps": True}, True),
        ({"attempt": 2}, False),
        ({"throttled": "started"}, False),
        ({"throttled": "1800000000000", "attempt": 2}, True),
        ({"throttled": "what is this"}, True),
    ],
    ids=["first", "replay", "retry", "continued", "died while it waited", "unreadable place"],
)
async def test_which_deliveries_need_a_turn(metadata: dict[str, Any], waits: bool) -> None:
    waiting: list[float] = []

    async def settled(work: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        return await work()

    async def throttle(attempt: Attempt, until: float, place: str) -> str:
        waiting.append(until)
        return "waiting"

    queue = MemoryQueue(clock=lambda: 1_800_000_000.0)
    rule = ThrottleRule(limit=1, per=60, key=None)
    task = EventTask(name="sync", handler=print, is_async=False, arguments=0, throttle=rule)
    settlement = cast(Any, SimpleNamespace(settled=settled, throttle=throttle))
    events = ThrottledEvents(queue, settlement, clock=lambda: 1_800_000_000.0)

    async def take(**more: Any) -> str | None:
        given = EventMetadata(run="run", kind="event", task="sync", queued_at=0, **more)
        delivery = cast(Any, SimpleNamespace(payload=b"not JSON"))
        attempt = Attempt(metadata=given, delivery=delivery, number=1, retry=Retry(), started_at=0)
        return await events.settle(attempt, task)

    assert await take() is None
    assert await take(**metadata) == ("waiting" if waits else None)
    assert waiting == ([1_800_000_060.0] if waits else [])


async def test_a_line_is_known_in_the_next_process(tmp_path: Path) -> None:
    for number in range(2):
        queue = MemoryQueue(clock=lambda: 1000.0, file=EventFile(tmp_path / "events.db"))
        queue.waits.read()
        kept = await queue.waits.line("index")
        assert kept.content == (b"first" if number else b"")
        assert not await queue.waits.keep_line("index", b"other", 60, expected=kept.number + 1)
        assert await queue.waits.keep_line("index", b"first", 60, expected=kept.number)
        queue.close()


def test_an_event_whose_turn_is_more_than_a_year_away_is_a_dead_letter(loaded: Loaded) -> None:
    project = loaded("""
@integration.event("rare", throttle=Throttle(1, per=7 * 86400))
async def rare(ctx: Context, event: Event) -> None:
    done.append(event.payload["number"])
""")
    publish(project, 55, "rare")
    project.run_events()
    # At once, and 52 weeks.
    assert (project.waiting_events, len(project.dead_letters)) == (52, 2)
    assert "more than a year" in project.dead_letters[0].error
    # The others keep their turns, and there is room again.
    project.advance(timedelta(days=7))
    publish(project, 1, "rare")
    project.run_events()
    assert (project.module.done, project.waiting_events) == ([0, 1], 52)


@pytest.mark.parametrize(
    "line",
    [Line(places=(9 * 10**15,)), Line(starts=(9 * 10**15,)), Line(delay=9 * 10**15, places=(10**12,))],
)
def test_a_line_beyond_the_times_of_the_engine_gives_no_turn(line: Line) -> None:
    rule = ThrottleRule(limit=1, per=60, key=None)
    with pytest.raises(LineTooLongError):
        line.ask(rule, 1_800_000_000_000, None)
    assert line.seconds(rule, 1_800_000_000_000) < 2 * 366 * 86400


RULE = ThrottleRule(limit=3, per=60, key=None)


def most_in_a_period(starts: list[int], rule: ThrottleRule) -> int:
    starts = sorted(starts)
    return max(bisect_right(starts, one + rule.period - 1) - at for at, one in enumerate(starts))


class Pods:
    """Runs of one line, with pods that come late by any time."""

    def __init__(self, rule: ThrottleRule) -> None:
        self.rule = rule
        self.line = Line()
        self.waiting: dict[int, Turn] = {}
        self.started: list[tuple[int, int]] = []
        self.questions = 0

    def ask(self, run: int, now: int) -> None:
        before = self.waiting.pop(run, None)
        self.questions += 1
        line, turn = self.line.ask(self.rule, now, before.place if before else None)
        self.line = Line.decode(line.encode())
        if turn.until is None:
            self.started.append((now, run))
        else:
            assert turn.until > now
            self.waiting[run] = turn

    def next(self) -> tuple[int, int]:
        return min((turn.until or 0, run) for run, turn in self.waiting.items())


@pytest.mark.parametrize("seed", range(20))
def test_no_period_has_more_starts_however_late_pods_are(seed: int) -> None:
    chance = random.Random(seed)
    rule = ThrottleRule(limit=chance.choice([1, 3, 20]), per=chance.choice([1.0, 60.0]), key=None)
    pods, now = Pods(rule), 1_800_000_000_000
    for run in range(200):
        pods.ask(run, now)
        now += chance.choice([0, 1, 500, rule.period // rule.limit])
    while pods.waiting:
        until, run = pods.next()
        now = max(now, until) + chance.choice([0, 0, 0, 0, 50, 3000, 10 * rule.period])
        pods.ask(run, now)
    assert len(pods.started) == 200
    # A start counts as up to this much earlier.
    times = [at for at, _ in pods.started]
    slowed = ThrottleRule(limit=rule.limit, per=rule.per - 2 * rule.slack / 1000, key=None)
    assert most_in_a_period(times, slowed) <= rule.limit
    assert pods.questions <= 200 * 8


def test_runs_keep_their_order_after_no_pod_has_run_for_an_hour() -> None:
    pods, now = Pods(RULE), 1_800_000_000_000
    for run in range(30):
        pods.ask(run, now)
    now += 3_600_000
    while pods.waiting:
        until, run = pods.next()
        now = max(now, until)
        pods.ask(run, now)
    assert [run for _, run in pods.started] == list(range(30))
    assert pods.questions <= 30 * 3


def test_one_that_has_missed_its_turn_does_not_stop_the_others() -> None:
    pods, now = Pods(RULE), 1_800_000_000_000
    for run in range(30):
        pods.ask(run, now)
    late = pods.waiting.pop(4)
    while pods.waiting:
        if len(pods.started) == 15 and 4 not in pods.waiting:
            pods.waiting[4] = late
            pods.ask(4, now)
        until, run = pods.next()
        now = max(now, until)
        pods.ask(run, now)
    assert sorted(run for _, run in pods.started) == list(range(30))
    assert now <= 1_800_000_000_000 + 11 * RULE.period


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b'[0, ["x"], []]', b"[0, 5, 5]", b"[1e400, [], []]"])
def test_a_line_that_cannot_be_read_is_a_new_one(content: bytes) -> None:
    assert Line.decode(content) == Line()


@pytest.mark.parametrize(
    ("throttle", "problem"),
    [
        (Throttle(0, per=60), "limit must be from 1 to 1000"),
        (Throttle(1001, per=60), "limit must be from 1 to 1000"),
        (Throttle(1, per=0.5), "per \\(seconds\\) must be from 1 to 604800"),
        (Throttle(1, per=timedelta(days=8)), "per \\(seconds\\) must be from 1 to 604800"),
        (Throttle(1, per=60, key="a..b"), "key names a field"),
        (Throttle(1, per=60, key=7), "key names a field"),  # type: ignore[arg-type]
        (Throttle(True, per=60), "limit is a whole number"),
        (Throttle(1.5, per=60), "limit is a whole number"),  # type: ignore[arg-type]
        (Throttle(1, per="1m"), "per is a number of seconds"),  # type: ignore[arg-type]
        (10, "throttle is a Throttle such as"),
    ],
)
def test_what_cannot_be_a_throttle_is_refused(throttle: Any, problem: str) -> None:
    with pytest.raises((TypeError, ValueError), match=problem):
        Integration().event("sync", throttle=throttle)
