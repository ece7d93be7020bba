"""The events of ``tieline run`` outlive the process that accepted them."""

import asyncio
import time
from pathlib import Path

import pytest

from tieline.events import event_file
from tieline.events.event_file import EventFile
from tieline.events.local_answers import (
    ApprovalRefusedError,
    Given,
    Person,
    kept_in,
    leave_answer,
    leave_signal,
    take_answers,
)
from tieline.events.memory import MemoryQueue
from tieline.events.queue import Delivery, EventsUnavailableError
from tieline.events.run_store import KeptStep
from tieline.events.wait_store import KeptEvent, OpenWait, Outcome, Wait
from tieline.execution.ulids import new_ulid
from tieline_protocol.approvals import ANSWER_TASK, Answer, Approval, approval_index, wait_name
from tieline_protocol.events import EventMetadata
from tieline_protocol.signals import SIGNAL_TASK, SentSignal
from tieline_protocol.waits import WaitRule


class Process:
    """A queue as one process has it, and what it hands out."""

    def __init__(self, folder: Path) -> None:
        self.now = 1000.0
        self.queue = MemoryQueue(clock=lambda: self.now, file=EventFile(folder / "events.db"))
        self.begun: list[Delivery] = []
        self._delivering: asyncio.Task[None] | None = None

    async def publish(self, run: str, *, key: str | None = None, id: str | None = None) -> bool:
        metadata = EventMetadata(run=run, kind="event", task="t", queued_at=self.now, key=key, event_id=id)
        return await self.queue.publish(metadata, run.encode())

    async def start(self) -> None:
        self._delivering = asyncio.create_task(self.queue.run(self._run, capacity=10))
        await self.settled()

    async def settled(self) -> None:
        await asyncio.sleep(0.1)

    async def end(self) -> None:
        """Without a word to what runs."""
        if self._delivering is not None:
            self._delivering.cancel()
            await asyncio.gather(self._delivering, return_exceptions=True)
        self.queue.close()

    async def _run(self, delivery: Delivery) -> None:
        self.begun.append(delivery)
        self.interruptions = await delivery.interruptions()

    def runs(self) -> list[str]:
        return [one.metadata.run for one in self.begun]


async def test_an_answer_that_was_left_wakes_its_run_in_the_process_that_has_it(tmp_path: Path) -> None:
    process = Process(tmp_path)
    process.now = time.time()
    await process.start()
    await process.publish("a")
    await process.settled()
    (delivery,) = process.begun
    approval = Approval(
        id=new_ulid(),
        run=new_ulid(),
        task="t",
        title="Go on?",
        asked_at=process.now,
        until=9e9,
        by=("user:ann",),
    )
    await process.queue.waits.ask(approval)
    wait = OpenWait(
        index=approval_index(approval.id), run="a", name=wait_name(approval.id), until=9e9, since=0
    )
    await delivery.wait(delivery.metadata, 9e9, [wait])
    file = EventFile(tmp_path / "events.db")
    ((asked, outcome),) = kept_in(file).approvals()
    assert (asked, outcome) == (approval, None)
    with pytest.raises(ApprovalRefusedError, match="user:ann"):
        await leave_answer(file, approval.id, Person(name="bob"), Given(approved=True))
    await leave_answer(file, approval.id, Person(name="ann"), Given(approved=True, comment="ok"))
    assert process.queue.file is not None
    taking = asyncio.create_task(take_answers(process.queue, process.queue.file))
    await process.settled()
    taking.cancel()
    await asyncio.gather(taking, return_exceptions=True)
    # The answer is an event, whose handler wakes the run.
    assert [one.metadata.task for one in process.begun] == ["t", ANSWER_TASK]
    given = Answer.decode(process.begun[-1].payload)
    assert (given.by, given.comment) == ("ann", "ok")
    ((_, outcome),) = kept_in(file).approvals()
    assert outcome is not None
    with pytest.raises(ApprovalRefusedError, match="ann has approved it"):
        await leave_answer(file, approval.id, Person(name="ann"), Given(approved=False))
    assert file.take_answers() == []
    await process.end()


async def test_a_signal_that_was_left_comes_to_the_process_that_has_its_run(tmp_path: Path) -> None:
    process, run = Process(tmp_path), new_ulid()
    await process.publish(run)
    await process.start()
    file = EventFile(tmp_path / "events.db")
    leave_signal(file, run, "go", {"n": 1}, by="ann")
    with pytest.raises(ValueError, match="No run"):
        leave_signal(file, new_ulid(), "go", 1, by="ann")
    with pytest.raises(ValueError, match="cannot have the name"):
        leave_signal(file, run, "a b", 1, by="ann")
    assert process.queue.file is not None
    taking = asyncio.create_task(take_answers(process.queue, process.queue.file))
    while len(process.begun) < 2:
        await process.settled()
    taking.cancel()
    sent = SentSignal.decode(process.begun[-1].payload)
    assert (process.begun[-1].metadata.task, sent.run, sent.name) == (SIGNAL_TASK, run, "go")
    assert (sent.payload, sent.by) == ('{"n":1}', "ann")
    await process.end()


async def test_what_was_accepted_runs_in_the_next_process_in_order_by_key(tmp_path: Path) -> None:
    first = Process(tmp_path)
    await first.start()
    for run in ("a1", "a2", "a3"):
        await first.publish(run, key="a")
    await first.publish("b")
    await first.settled()
    assert first.runs() == ["a1", "b"]
    await first.begun[0].done()
    await first.settled()
    await first.begun[2].wait(first.begun[2].metadata, 1060.0)
    await first.begun[1].done()
    await first.end()
    second = Process(tmp_path)
    await second.start()
    assert second.runs() == []
    second.now = 1061.0
    await second.publish("c")
    await second.settled()
    assert set(second.runs()) == {"a2", "c"}
    await next(one for one in second.begun if one.metadata.run == "a2").done()
    await second.settled()
    assert second.runs()[-1] == "a3"
    assert second.begun[-1].payload == b"a3"
    await second.end()


async def test_a_delayed_event_and_the_results_of_steps_are_kept(tmp_path: Path) -> None:
    first = Process(tmp_path)
    await first.start()
    metadata = EventMetadata(run="later", kind="event", task="t", queued_at=1000.0, key="a")
    await first.queue.publish(metadata, b"", until=2000.0)
    for run, result in {"later": b"42", "ended": b"43"}.items():
        claim = await first.queue.runs.claim_steps(run, any_kept=False)
        step = KeptStep(name="fetch", occurrence=1, place=1, work="w", version="1", result=result)
        await first.queue.runs.save_step(run, step, claim=claim)
    await first.queue.runs.forget_steps("ended")
    await first.end()
    second = Process(tmp_path)
    await second.start()
    assert (second.runs(), second.queue.next_due) == ([], 2000.0)
    claims = {run: await second.queue.runs.claim_steps(run, any_kept=True) for run in ("later", "ended")}
    (place,) = claims["later"].recorded
    kept = await second.queue.runs.step_result("later", place, claim=claims["later"])
    assert kept == KeptStep(name="fetch", occurrence=1, place=1, work="w", version="1", result=b"42")
    assert list(claims["ended"].recorded) == []
    await second.end()


async def test_a_wait_and_what_ended_it_outlive_their_process(tmp_path: Path) -> None:
    rule = WaitRule(name="paid")
    index = rule.index({}, None)
    first = Process(tmp_path)
    await first.start()
    await first.queue.waits.declare([rule])
    for run in ("waits", "is woken"):
        await first.publish(run)
    await first.settled()
    waits = {
        one.metadata.run: OpenWait(index=index, run=one.metadata.run, name="w-1", until=9000.0, since=0.0)
        for one in first.begun
    }
    for delivery in first.begun:
        await delivery.wait(delivery.metadata, 9000.0, [waits[delivery.metadata.run]])
    paid = EventMetadata(run="paid", kind="event", task="paid", queued_at=1000.0)
    event = KeptEvent(metadata=paid, payload=b"7")
    kept = await first.queue.waits.keep(index, event, 60)
    assert await first.queue.waits.decide(waits["is woken"], Outcome(event=event)) == Outcome(event=event)
    await first.queue.waits.wake(waits["is woken"])
    await first.queue.waits.close(waits["is woken"])
    await first.end()
    second = Process(tmp_path)
    await second.start()
    assert second.runs() == ["is woken"]
    store = second.queue.waits
    assert await store.rules("paid") == [rule]
    assert await store.outcome(waits["is woken"]) == Outcome(event=event)
    assert await store.outcome(waits["waits"]) is None
    # The event comes again, and ends what it had not ended when its process died.
    again = await store.keep(index, event, 60)
    assert (again, await store.waits(index, before=again)) == (kept, [_plain(waits["waits"])])
    assert await store.find(waits["waits"]) == event
    second.now = 1400.0
    assert await store.find(waits["waits"]) is None
    await second.queue.runs.forget_steps("is woken")
    assert await store.outcome(waits["is woken"]) is None
    await second.end()


def _plain(wait: OpenWait) -> Wait:
    return Wait(index=wait.index, run=wait.run, name=wait.name)


async def test_a_process_that_died_counts_for_its_events(tmp_path: Path) -> None:
    for deaths in range(3):
        process = Process(tmp_path)
        await process.start()
        if deaths == 0:
            await process.publish("poison")
            await process.settled()
        assert (process.runs(), process.interruptions) == (["poison"], deaths)
        await process.end()


async def test_two_processes_accept_and_one_runs(tmp_path: Path) -> None:
    first, second = Process(tmp_path), Process(tmp_path)
    await first.start()
    await second.start()
    assert [await one.publish("a", id="same") for one in (first, second)] == [True, False]
    await second.publish("b")
    await second.settled()
    assert (first.runs(), second.runs()) == (["a"], [])
    await first.begun[0].done()
    await first.end()
    await second.settled()
    assert second.runs() == ["b"]
    await second.end()


async def test_a_second_command_on_the_same_folder_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(event_file, "_WARN_SECONDS", 0.0)
    first, second = Process(tmp_path), Process(tmp_path)
    await first.start()
    await second.start()
    assert "another process runs those of" in caplog.text
    await second.end()
    await first.end()


async def test_a_file_that_cannot_be_used_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "events.db").write_text("no database at all, but long enough to be taken for one" * 20)
    with pytest.raises(EventsUnavailableError, match=r"events\.db cannot be used: .*; remove it"):
        await Process(tmp_path).publish("a")
