"""``ctx.progress``: the latest state is shown, bounded and masked, and costs next to nothing."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from tieline.execution.progress import RunProgress
from tieline.testing import Project
from tieline_protocol.run_progress import MAX_TEXT, Progress, valid_progress
from tieline_protocol.run_records import RunRecord, decode, encode

pytestmark = pytest.mark.fast

CODE = """
from datetime import timedelta
from tieline import Context, Event, Integration, Request, Retry, SyncContext

integration = Integration()
fails = [True]
errors = []

@integration.event("copy", retry=Retry(first=60))
async def copy(ctx: Context, event: Event) -> None:
    for number in range(10):
        ctx.progress(f"{number + 1} of 10", (number + 1) / 10)
        if number == 6 and fails and fails.pop():
            raise RuntimeError("away")
    async def later() -> None:
        ctx.progress("from the background")
    ctx.background(later)

@integration.event("plain")
def plain(ctx: SyncContext, event: Event) -> None:
    ctx.progress("of a thread", 1)

@integration.event("sleeps")
async def sleeps(ctx: Context, event: Event) -> None:
    ctx.progress("waits for the carrier", 0.5)
    await ctx.sleep("a day", timedelta(days=1))

@integration.event("secret")
async def secret(ctx: Context, event: Event) -> None:
    ctx.progress("key-\\n" + "x" * 190 + event.payload)

@integration.event("quiet")
async def quiet(ctx: Context, event: Event) -> None: ...

@integration.event("wrong")
async def wrong(ctx: Context, event: Event) -> None:
    for given in ((7,), ("x", 1.1), ("x", -0.1), ("x", float("nan")), ("x" * 10_001,), ("x", "half")):
        try:
            ctx.progress(*given)
        except (TypeError, ValueError) as error:
            errors.append(str(error))

@integration.webhook("direct")
async def direct(ctx: Context) -> None:
    ctx.progress("half way", 0.5)
"""
SECRET = "s3cr3t-of-the-shop"


@pytest.fixture
def project(load_project: Callable[[str, str], Project]) -> Project:
    return load_project(CODE, "connections: {}\n")


def test_each_attempt_reports_how_far_it_came(project: Project) -> None:
    project.publish("copy", {})
    (failed,) = project.run_events()
    assert failed.progress == "7 of 10"
    (ended,) = project.advance(timedelta(minutes=5))
    assert (ended.status, ended.progress) == ("succeeded", "10 of 10")
    said = [one.progress for one in project._queue.history if one.progress is not None]
    assert [(one.text, one.fraction, one.attempt) for one in said] == [
        ("7 of 10", 0.7, 1),
        ("10 of 10", 1.0, 2),
    ]


def test_plain_functions_and_runs_that_sleep_have_progress(project: Project) -> None:
    project.publish("plain", {})
    project.publish("sleeps", {})
    found = {one.task: (one.status, one.progress) for one in project.run_events()}
    assert found == {"plain": ("succeeded", "of a thread"), "sleeps": ("waiting", "waits for the carrier")}


def test_runs_without_progress_have_the_records_that_they_had(project: Project) -> None:
    project.publish("quiet", {})
    project.run_events()
    assert all(b"progress" not in encode([one]) for one in project._queue.history)


def test_a_direct_run_has_its_progress_once_it_has_ended(project: Project) -> None:
    project.post("/direct")
    (record,) = project._direct.records
    assert record.progress is not None
    assert (record.progress.text, record.progress.fraction) == ("half way", 0.5)


def test_what_does_not_fit_is_said_in_a_sentence(project: Project) -> None:
    project.publish("wrong", {})
    project.run_events()
    assert [one.partition(",")[0] for one in project.module.errors[:4]] == [
        "progress takes a text",
        "The fraction of progress is from 0 to 1",
        "The fraction of progress is from 0 to 1",
        "The fraction of progress is from 0 to 1",
    ]
    assert len(project.module.errors) == 6


def test_a_secret_is_masked_before_the_text_is_cut() -> None:
    progress = RunProgress()
    progress.set("x" * (MAX_TEXT - 4) + SECRET, None)
    found = progress.record(1, lambda text: text.replace(SECRET, "***"))
    assert found is not None
    assert found.text == "x" * (MAX_TEXT - 4) + "***"
    assert len(found.text) <= MAX_TEXT


class Loop:
    """A loop whose time the test turns."""

    def __init__(self) -> None:
        self.now = 0.0
        self.timers: list[tuple[float, Callable[[], None]]] = []

    def time(self) -> float:
        return self.now

    def call_soon_threadsafe(self, call: Callable[[], None]) -> None:
        call()

    def call_later(self, delay: float, call: Callable[[], None]) -> None:
        self.timers.append((self.now + delay, call))

    def advance(self, seconds: float) -> None:
        self.now += seconds
        due = [call for at, call in self.timers if at <= self.now]
        self.timers = [one for one in self.timers if one[0] > self.now]
        for call in due:
            call()


def test_reports_come_ever_more_rarely_and_the_last_state_is_among_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loop = Loop()
    monkeypatch.setattr("asyncio.get_running_loop", lambda: loop)
    progress, reported = RunProgress(), list[Any]()
    progress.follow(lambda: reported.append((loop.now, progress.record(1, str))))
    for number in range(36_000):
        progress.set(str(number), None)
        assert len(loop.timers) <= 1
        loop.advance(0.1)
    assert 100 < len(reported) < 150
    assert reported[0][0] >= 1
    progress.set("the end", None)
    loop.advance(3600)
    assert reported[-1][1].text == "the end"
    progress.set("not shown", None)
    progress.stop()
    loop.advance(3600)
    assert reported[-1][1].text == "the end"


@pytest.mark.parametrize(
    "found",
    [
        None, [], "x", {"text": "x"}, {"text": "x", "at": "1", "attempt": 1}, {"text": "x", "at": True, "attempt": 1},
        {"text": "x", "at": 1, "attempt": -1}, {"text": "x", "at": 1, "attempt": 1.5},
        {"text": "x", "at": float("inf"), "attempt": 1}, {"text": ["x"], "at": 1, "attempt": 1},
    ],
)  # fmt: skip
def test_what_pods_write_as_progress_is_read_defensively(found: Any) -> None:
    assert valid_progress(found) is None


def test_a_record_keeps_its_progress_and_a_hostile_one_its_text_alone() -> None:
    said = Progress(text="3 of 10", fraction=0.3, at=7.0, attempt=2)
    record = RunRecord(
        id="r", kind="event", task="t", status="running", attempt=2, queued_at=1, at=2, progress=said
    )
    assert decode(encode([record]))[0].progress == said
    hostile = {"text": "a\x00\u2028\ud800" + "x" * 1000, "fraction": 7, "at": 1, "attempt": 1, "more": 1}
    assert valid_progress(hostile) == Progress(text="a   " + "x" * 196, fraction=None, at=1.0, attempt=1)
