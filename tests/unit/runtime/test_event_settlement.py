"""An attempt ends in one way, which history, queue and dead letters agree on, whenever somebody cancels it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tieline.events.memory_runs import MemoryRuns
from tieline.testing import Project
from tieline_protocol import run_records
from tieline_protocol.run_records import ENDED, RunRecord

pytestmark = pytest.mark.fast

CODE = """
import asyncio
from tieline import Context, Event, Integration, Reject, Retry

integration = Integration()
done = []
hooks = []


@integration.event("task", retry=Retry(attempts=2, first=1))
async def task(ctx: Context, event: Event) -> None:
    await ctx.step("book", lambda: done.append("booked"))
    if event.payload == "reject":
        raise Reject("nobody wants it")
    if event.payload == "naps":
        await ctx.sleep("nap", 60)
    if event.payload in ("swallows", "fails"):
        asyncio.get_running_loop().call_soon(lambda: [hook(event.run_id) for hook in hooks])
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            if event.payload == "fails":
                raise RuntimeError("stopped in the middle")
    done.append("done")
"""


@contextmanager
def _loaded(folder: Path) -> Iterator[Project]:
    (folder / "main.py").write_text(CODE)
    (folder / "connections.yaml").write_text("connections: {}\n")
    with Project(folder) as project:
        yield project


@pytest.mark.parametrize(
    ("payload", "ended"), [("succeeds", "succeeded"), ("reject", "dead"), ("naps", "waiting")]
)
@pytest.mark.parametrize("moment", ["record", "settlement"])
def test_who_cancels_a_run_as_it_ends_is_too_late(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, payload: str, ended: str, moment: str
) -> None:
    with _loaded(tmp_path) as project:
        runs, history, queue = project._event_runs, project._events.history, project._queue
        cancelled: list[str] = []

        def cancel_once(run: str) -> None:
            if run not in cancelled:
                cancelled.append(run)
                runs.cancel(run)

        def cancel_at_end(record: RunRecord) -> None:
            if _of_end(record):
                cancel_once(record.id)

        if moment == "record":
            _before(monkeypatch, history, "write", cancel_at_end)
            _before(monkeypatch, history, "add", cancel_at_end)
        else:
            _before(monkeypatch, MemoryRuns, "forget_steps", lambda _runs, run: cancel_once(run))
            _before(monkeypatch, queue, "_wait", lambda stored, _until: cancel_once(stored.metadata.run))
        run = project.publish("task", payload)
        (attempt,) = project.run_events()
        assert cancelled == [run]
        assert attempt.status == ended
        assert [record.status for record in queue.history if _of_end(record)] == [ended]
        assert len(project.dead_letters) == (ended == "dead")
        assert project.waiting_events == (ended == "waiting")
        assert project.module.done == (["booked", "done"] if ended == "succeeded" else ["booked"])


@pytest.mark.parametrize(("payload", "ended"), [("fails", "cancelled"), ("swallows", "succeeded")])
def test_code_that_does_not_let_itself_be_cancelled_has_one_end(
    tmp_path: Path, payload: str, ended: str
) -> None:
    with _loaded(tmp_path) as project:
        project.module.hooks.append(project._event_runs.cancel)
        project.publish("task", payload)
        attempts = project.advance(3600)
        assert [attempt.status for attempt in attempts] == [ended]
        assert project.waiting_events == 0
        assert not project.dead_letters


@pytest.mark.parametrize("found", ["claim_end", "end_of"])
def test_the_end_of_a_pod_that_died_before_it_wrote_it_is_written_by_who_finds_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, found: str
) -> None:
    with _loaded(tmp_path) as project:

        async def claimed(_runs: MemoryRuns, run: str, *_content: bytes) -> bytes:
            first = RunRecord(
                id=run, kind="event", task="task", status="succeeded", attempt=1, queued_at=1.0, at=2.0
            )
            return run_records.encode([first])

        monkeypatch.setattr(MemoryRuns, found, claimed)
        run = project.publish("task", "reject")
        project.run_events()
        (end,) = [record for record in project._queue.history if record.status in ENDED]
        assert (end.id, end.status, end.at, end.input) == (run, "succeeded", 2.0, b'"reject"')
        assert project.waiting_events == 0


def _of_end(record: RunRecord) -> bool:
    return record.status not in ("queued", "running")


def _before(monkeypatch: pytest.MonkeyPatch, owner: object, name: str, act: Callable[..., object]) -> None:
    """Do something at the beginning of a method."""
    method = getattr(owner, name)

    def call(*arguments: object) -> object:
        act(*arguments)
        return method(*arguments)

    monkeypatch.setattr(owner, name, call)
