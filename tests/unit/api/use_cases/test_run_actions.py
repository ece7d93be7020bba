"""Dead letters are discarded, and what has none is left alone."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tieline_api.dependencies import Dependencies
from tieline_api.errors import ApiError
from tieline_api.runs.history import RunInput
from tieline_api.runs.model import Attempt, AttemptPage, Run, RunFilter
from tieline_api.use_cases import bulk_run_actions, run_actions
from tieline_core.identity.ids import new_id
from tieline_protocol.event_streams import EventStreams
from tieline_protocol.events import EventMetadata
from tieline_protocol.run_records import RunError, RunRecord, StepRecord

ORGANISATION, ENVIRONMENT = new_id(), new_id()
STREAMS = EventStreams(ORGANISATION, ENVIRONMENT)
NOW = 1_764_000_000
STEP = StepRecord(name="fetch", occurrence=1, started_at=NOW, ended_at=NOW + 1)


def run_of(status: Any = "dead", **fields: Any) -> Run:
    content: dict[str, Any] = {
        "kind": "event",
        "task": "order.created",
        "attempt": 3,
        "queued_at": NOW * 10**9,
        "started_at": NOW * 10**9,
        "ended_at": (NOW + 1) * 10**9,
        "user": "ann",
        "key": "ann/1",
        "version": "v1",
        "error": RunError(type="E", message="m"),
        **fields,
    }
    return Run(id=new_id(), environment=ENVIRONMENT, status=status, **content)


@dataclass
class Engine:
    """An engine that says what was purged of it."""

    purged: list[tuple[str, str]] = field(default_factory=list)

    async def purge(self, stream: str, subject: str) -> int:
        self.purged.append((stream, subject))
        return 1


@dataclass
class History:
    """The runs that there are, and what was written of them."""

    runs: list[Run] = field(default_factory=list)
    given: RunInput | None = None
    written: list[RunRecord] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.bulk = asyncio.Semaphore(1)

    async def actionable(self, wanted: RunFilter, limit: int, *, oldest_first: bool = False) -> list[Run]:
        return sorted(self.runs, key=lambda run: run.position, reverse=not oldest_first)[:limit]

    async def attempts(self, organisation: str, run: Run, **_most: int) -> AttemptPage:
        return AttemptPage([Attempt(number=3, status=run.status, steps=[STEP])])

    async def replayed_input(self, organisation: str, run: Run) -> RunInput | None:
        return self.given

    async def write(self, streams: EventStreams, record: RunRecord) -> None:
        assert streams == STREAMS
        self.written.append(record)


def platform_of(history: History) -> tuple[Dependencies, Engine]:
    engine = Engine()
    environments = SimpleNamespace(of=lambda streams: engine if streams == STREAMS else None)
    return cast(Dependencies, SimpleNamespace(environments=environments, runs=history)), engine


async def test_a_dead_letter_is_removed_and_the_run_stays_dead_with_a_mark() -> None:
    run, history = run_of(), History()
    platform, engine = platform_of(history)
    await run_actions.discard(platform, ORGANISATION, run)
    assert engine.purged == [(STREAMS.dead_letters, STREAMS.dead(run.id))]
    (written,) = history.written
    assert (written.id, written.status, written.attempt, written.input) == (run.id, "dead", 3, None)
    assert (written.error, written.steps, written.version) == (run.error, (STEP,), "v1")
    assert (written.user, written.key, written.ended_at) == ("ann", "ann/1", NOW + 1)
    assert written.discarded_at == written.at > NOW


async def test_discarding_again_removes_what_may_be_left_and_marks_nothing() -> None:
    run, history = run_of(discarded_at=NOW * 10**9), History()
    platform, engine = platform_of(history)
    await run_actions.discard(platform, ORGANISATION, run)
    assert (len(engine.purged), history.written) == (1, [])


@pytest.mark.parametrize(("payload", "is_batch"), [(None, True), (b'{"~batch":[]}', False)])
async def test_a_batch_is_run_again_with_its_own_events_alone(
    monkeypatch: pytest.MonkeyPatch, payload: bytes | None, is_batch: bool
) -> None:
    run = run_of("failed", batch=True)
    platform, _ = platform_of(History(given=RunInput(b"{}", None, recorded=True)))
    published: list[EventMetadata] = []

    async def publish(
        _platform: object, _streams: object, metadata: EventMetadata, _payload: bytes, **_more: object
    ) -> tuple[Any, None]:
        published.append(metadata)
        return SimpleNamespace(duplicate=False), None

    monkeypatch.setattr(run_actions, "publish", publish)
    await run_actions.replay(platform, ORGANISATION, run, payload)
    assert [(one.batch, one.replay_of) for one in published] == [(is_batch, run.id)]


@pytest.mark.parametrize("status", ["queued", "running", "waiting", "succeeded", "failed", "cancelled"])
async def test_a_run_that_is_not_dead_has_no_dead_letter(status: str) -> None:
    platform, engine = platform_of(History())
    with pytest.raises(ApiError) as refused:
        await run_actions.discard(platform, ORGANISATION, run_of(status))
    assert (refused.value.status, engine.purged) == (409, [])
    assert status in refused.value.message


async def test_of_many_runs_those_are_discarded_that_are_dead_and_were_not_yet() -> None:
    dead = [run_of() for _ in range(3)]
    history = History([*dead, run_of(discarded_at=1), run_of("failed"), run_of("queued")])
    platform, engine = platform_of(history)
    wanted = RunFilter(organisation=ORGANISATION)
    counted = await bulk_run_actions.discard_all(platform, wanted, dry_run=True)
    assert (counted, engine.purged) == (bulk_run_actions.Affected(3, 3, more=False), [])
    assert await bulk_run_actions.discard_all(platform, wanted, dry_run=False) == counted
    assert {run.id for run in dead} == {record.id for record in history.written}


async def test_many_are_replayed_in_the_order_in_which_they_were_stored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    runs = [run_of(key=key, queued_at=number) for number in range(20) for key in ("ann", "ben", None)]
    platform, _ = platform_of(History(runs[::-1]))
    replayed: list[Run] = []

    async def replay(_platform: object, _organisation: str, run: Run, *, once: bool) -> None:
        for _ in range(run.queued_at % 3):  # later ones may take less time
            await asyncio.sleep(0)
        replayed.append(run)

    monkeypatch.setattr(bulk_run_actions, "replay", replay)
    await bulk_run_actions.replay_all(platform, RunFilter(organisation=ORGANISATION), dry_run=False)
    for key in ("ann", "ben"):
        assert [run for run in replayed if run.key == key] == [run for run in runs if run.key == key]
    assert len(replayed) == len(runs)


async def test_replaying_many_leaves_out_what_was_discarded() -> None:
    history = History([run_of(), run_of(discarded_at=1)])
    platform, _ = platform_of(history)
    counted = await bulk_run_actions.replay_all(platform, RunFilter(organisation=ORGANISATION), dry_run=True)
    assert (counted.count, counted.skipped) == (1, 1)


async def test_a_discarded_run_without_input_says_why_it_cannot_be_run_again() -> None:
    platform, _ = platform_of(History())
    with pytest.raises(ApiError) as refused:
        await run_actions.replay(platform, ORGANISATION, run_of(discarded_at=1))
    assert refused.value.status == 409
    assert "discarded" in refused.value.message
    assert "payload" in refused.value.message


async def test_a_run_that_is_written_again_stays_discarded() -> None:
    run, history = run_of(discarded_at=(NOW + 5) * 10**9), History()
    platform, _ = platform_of(history)
    record = await run_actions._ended(platform, ORGANISATION, replace(run), "dead", None)
    assert record.discarded_at == NOW + 5
