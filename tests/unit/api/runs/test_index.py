"""The index of runs gives the same answers whatever the order in which records come, and bounds what it takes."""

from __future__ import annotations

import random
import sqlite3
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.api.runs.run_records import NOW, life, record
from tieline_api.runs.index import RunIndex
from tieline_api.runs.model import Attempt, PageRequest, Run, RunFilter
from tieline_api.runs.queries import counts
from tieline_api.runs.records import read_records
from tieline_api.runs.tables import VERSION
from tieline_api.runs.writing import IndexedMessage
from tieline_api.views.run_lookup import waits_for
from tieline_core.identity.ids import new_id
from tieline_protocol.run_records import POD_DIED, RunError, RunRecord, StepApproval, StepRecord, encode

ORGANISATION, OTHER = new_id(), new_id()
ENVIRONMENTS = (new_id(), new_id())
ALL = RunFilter(organisation=ORGANISATION, environments=ENVIRONMENTS)
EVERYWHERE = RunFilter(organisation=ORGANISATION)


@pytest.fixture
def index(tmp_path: Path) -> Iterator[RunIndex]:
    made = RunIndex(tmp_path / "runs.db", max_bytes=64 << 20)
    made.begin(ORGANISATION, "then")
    yield made
    made.close()


def take(
    index: RunIndex, *messages: Sequence[RunRecord], environment: str = ENVIRONMENTS[0], first: int = 1
) -> None:
    """Each argument is a message of the stream."""
    found = [
        IndexedMessage(number, environment, read_records(encode(list(records)))[0])
        for number, records in enumerate(messages, first)
    ]
    index.apply(ORGANISATION, found, position=first + len(messages) - 1)


def attempts(index: RunIndex, run: Run) -> list[Attempt]:
    return index.attempts(ORGANISATION, run, most=100, most_steps=1000).attempts


def listed(index: RunIndex, wanted: RunFilter = ALL, **page: Any) -> list[Run]:
    return index.page(wanted, PageRequest(first=1000, **page), 1000)


@given(data=st.data())
@settings(max_examples=40)
def test_records_that_come_twice_and_in_any_order_give_the_same_answers(data: st.DataObject) -> None:
    runs = [new_id() for _ in range(3)]
    records = [one for run in runs for one in life(run)]
    extra = data.draw(st.lists(st.sampled_from(records), max_size=10))
    shuffled = data.draw(st.permutations([*records, *extra]))
    answers = []
    for order in (records, shuffled):
        with tempfile.TemporaryDirectory() as folder:
            index = RunIndex(Path(folder) / "runs.db", max_bytes=64 << 20)
            index.begin(ORGANISATION, "then")
            take(index, *([one] for one in order))
            found = [replace(run, input_at=bool(run.input_at)) for run in listed(index)]
            answers.append((found, [attempts(index, run) for run in found]))
            index.close()
    assert answers[0] == answers[1]
    assert {run.status for run in answers[0][0]} == {"succeeded"}


def test_a_queued_run_names_the_one_that_it_waits_behind(index: RunIndex) -> None:
    def queued(after: float, *, task: str = "t", user: str | None = "ann", **more: Any) -> RunRecord:
        return record(
            new_id(), status="queued", attempt=0, task=task, user=user, key="k", queued_at=NOW + after, **more
        )

    ended, head, second, third = queued(0), queued(1), queued(2), queued(3)
    other_user, other_task = queued(4, user="ben"), queued(5, task="u")
    shared, also_shared = queued(6, shared_key=True), queued(7, task="u", user=None, shared_key=True)
    records = [ended, head, second, third, other_user, other_task, shared, also_shared]
    ends = [replace(ended, status="succeeded", attempt=1), replace(head, status="waiting", attempt=1)]
    take(index, records, ends)
    runs = {run.id: run for run in listed(index)}
    expected = [None, None, head, head, None, None, None, shared]
    found = index.ahead_of(ORGANISATION, list(runs.values()))
    assert found == {
        (ENVIRONMENTS[0], one.id): ahead.id for one, ahead in zip(records, expected, strict=True) if ahead
    }


def test_a_run_says_what_it_waits_for_until_its_time_has_come(index: RunIndex) -> None:
    throttled = record(status="queued", attempt=0, next_attempt_at=NOW + 60, waits_for="throttle")
    asks = record(status="waiting", next_attempt_at=NOW + 60, waits_for="approval")
    queued, running = record(status="queued", attempt=0), record(status="running")
    take(index, [throttled, asks, queued, running])
    runs = {run.id: run for run in listed(index)}

    def shown(one: RunRecord, after: float, *, is_behind: bool = False) -> str | None:
        return waits_for(runs[one.id], is_behind=is_behind, now=round((NOW + after) * 1e9))

    assert [shown(one, 0) for one in (throttled, asks, queued, running)] == [
        "throttle",
        "approval",
        "slot",
        None,
    ]
    assert [shown(one, 61) for one in (throttled, asks, queued, running)] == ["slot", "slot", "slot", None]
    assert shown(queued, 0, is_behind=True) == "key"


def test_a_run_says_whether_it_is_of_a_batch(index: RunIndex) -> None:
    batch, event = record(batch=True), record()
    take(index, [batch, event])
    assert {one.id: one.batch for one in listed(index)} == {batch.id: True, event.id: False}


def test_a_run_names_the_newest_run_that_runs_it_again(index: RunIndex) -> None:
    run, other, *replays = sorted(new_id() for _ in range(4))
    take(index, life(run), life(other), *([record(one, replay_of=run)] for one in replays))
    take(index, [record(replay_of=other)], environment=ENVIRONMENTS[1], first=10)
    found = {one.id: one.replayed_by for one in listed(index)}
    assert (found[run], found[other], found[replays[0]]) == (replays[1], None, None)
    shown = index.get(ORGANISATION, ENVIRONMENTS, run)
    assert shown is not None
    assert shown.replayed_by == replays[1]


def test_runs_are_found_by_key_by_event_and_by_the_trace_of_any_attempt(index: RunIndex) -> None:
    run, keyed, sent = new_id(), record(key="ann/1"), record(event_id="order-1")
    take(index, life(run), [keyed, sent])
    take(index, [record(key="ann/1")], environment=ENVIRONMENTS[1], first=10)
    here = replace(ALL, environments=ENVIRONMENTS[:1])
    for wanted, expected in (
        (replace(here, key="ann/1"), keyed.id),
        (replace(here, event_id="order-1"), sent.id),
        (replace(here, trace_id="a" * 32), run),
        (replace(here, trace_id="b" * 32), run),
    ):
        assert [one.id for one in listed(index, wanted)] == [expected]
        assert index.count(wanted, 10) == 1
    assert len(listed(index, replace(EVERYWHERE, key="ann/1"))) == 2
    assert listed(index, replace(ALL, trace_id="c" * 32)) == []


def test_a_run_shows_what_became_of_each_of_its_attempts(index: RunIndex) -> None:
    run = new_id()
    take(index, life(run))
    found = index.get(ORGANISATION, ENVIRONMENTS, run)
    assert found is not None
    assert (found.status, found.attempt, found.attempts, found.user, found.version) == (
        "succeeded", 2, 10, "ann", "v1",
    )  # fmt: skip
    assert (found.queued_at, found.input_at) == (int(NOW) * 10**9, 1)
    first, second = attempts(index, found)
    assert (first.status, first.number, first.trace_id) == ("failed", 1, "a" * 32)
    assert first.error is not None
    assert first.error.upstream is not None
    assert first.error.upstream.status == 503
    assert [step.name for step in first.steps] == ["fetch"]
    assert (second.status, second.error, second.ended_at) == ("succeeded", None, int(NOW + 10) * 10**9)


def test_an_attempt_whose_pod_died_has_failed(index: RunIndex) -> None:
    run = new_id()
    blocked = RunError(type="PodDiedError", message="it blocked at main.py:3")
    take(
        index,
        [record(run, "running", 1, started_at=NOW)],
        [record(run, "waiting", 1, error=blocked), record(run, "running", 2, started_at=NOW + 9)],
    )

    def shown() -> list[tuple[int, str, RunError | None]]:
        (found,) = listed(index)
        return [(one.number, one.status, one.error) for one in attempts(index, found)]

    assert shown() == [(1, "failed", blocked), (2, "running", None)]
    take(index, [record(run, "running", 3, started_at=NOW + 20)], first=3)
    assert shown() == [(1, "failed", blocked), (2, "failed", POD_DIED), (3, "running", None)]
    take(index, [record(run, "waiting", 3, next_attempt_at=NOW + 900)], first=4)
    assert shown()[-1] == (3, "waiting", None), "it waits in its middle"
    take(index, [record(run, "cancelled", 4)], first=5)
    assert shown()[2:] == [(3, "failed", POD_DIED), (4, "cancelled", None)]


@given(data=st.data())
@settings(max_examples=25)
def test_a_run_that_has_ended_stays_so_whatever_a_pod_that_began_it_again_reports(
    data: st.DataObject,
) -> None:
    run = new_id()
    ended, *late = (
        RunRecord(
            id=run, kind="event", task="order", status=status, attempt=attempt, queued_at=NOW, at=NOW + at
        )
        for status, attempt, at in (
            ("succeeded", 1, 5),
            ("running", 2, 4),
            ("waiting", 2, 6),
            ("running", 3, 7),
        )
    )
    parts = data.draw(st.permutations([ended, *late]))
    cut = data.draw(st.integers(0, len(parts)))
    with tempfile.TemporaryDirectory() as folder:
        index = RunIndex(Path(folder) / "runs.db", max_bytes=64 << 20)
        index.begin(ORGANISATION, "then")
        take(index, *(part for part in (parts[:cut], parts[cut:]) if part))
        (found,) = listed(index)
        assert (found.status, found.attempt) == ("succeeded", 1)
        assert [one.number for one in attempts(index, found)] == [1, 2, 3]
        index.close()


@given(data=st.data())
@settings(max_examples=25)
def test_pages_in_either_direction_have_each_run_once_while_others_come(data: st.DataObject) -> None:
    times = data.draw(st.lists(st.integers(0, 3), min_size=1, max_size=30))
    first = data.draw(st.integers(1, 7))
    with tempfile.TemporaryDirectory() as folder:
        index = RunIndex(Path(folder) / "runs.db", max_bytes=64 << 20)
        index.begin(ORGANISATION, "then")
        for number, time in enumerate(times):
            one = record(new_id(), queued_at=NOW + time)
            take(index, [one], environment=ENVIRONMENTS[number % 2], first=number + 1)
        for wanted in (ALL, EVERYWHERE):
            expected = listed(index, wanted)
            assert expected == sorted(expected, key=lambda run: run.position, reverse=True)
            forwards: list[Run] = []
            while page := index.page(
                wanted, PageRequest(first=first, after=forwards[-1].position if forwards else None), first
            ):
                forwards += page
                # Newer ones do not move what is read.
                take(index, [record(new_id(), queued_at=NOW + 100)], first=len(times) + 1)
                if len(forwards) >= len(expected):
                    break
            assert forwards == expected
        expected = listed(index)
        backwards: list[Run] = []
        while page := index.page(
            ALL,
            PageRequest(first=first, before=backwards[-1].position if backwards else expected[-1].position),
            first,
        ):
            backwards += page
        assert backwards[::-1] == expected[:-1]
        index.close()


def test_filters_choose_by_what_a_run_is(index: RunIndex) -> None:
    failed = RunError(type="ValueError", message="Straße is unknown")
    runs = {
        "dead": record(status="dead", attempt=3, error=failed, version="v2", user="ben"),
        "webhook": record(kind="webhook", task="orders", status="succeeded", attempt=1),
        "old": record(queued_at=NOW - 1000),
        "later": record(queued_at=NOW + 1000, status="waiting"),
    }
    take(index, list(runs.values()))
    names = {one.id: name for name, one in runs.items()}

    def chosen(**wanted: Any) -> set[str]:
        found = replace(ALL, **wanted)
        assert index.count(found, 100) == len(listed(index, found))
        return {names[run.id] for run in listed(index, found)}

    assert chosen(statuses=("dead",)) == {"dead"}
    assert chosen(kind="webhook") == {"webhook"}
    assert chosen(task="order.created") == {"dead", "old", "later"}
    assert chosen(user="ben") == {"dead"}
    assert chosen(versions=("v1", "v2")) == {"dead"}
    assert chosen(start=int(NOW) * 10**9) == {"dead", "webhook", "later"}
    assert chosen(end=int(NOW) * 10**9) == {"old"}
    assert chosen(ids=(runs["old"].id, runs["webhook"].id, new_id())) == {"old", "webhook"}
    assert chosen(ids=(runs["old"].id,), kind="webhook") == set()
    assert chosen(search="STRASSE") == {"dead"}
    assert chosen(environments=(ENVIRONMENTS[1],)) == set()
    assert chosen(organisation=OTHER) == set()


def test_a_restart_goes_on_where_the_stream_was_read_to(tmp_path: Path) -> None:
    index = RunIndex(tmp_path / "runs.db", max_bytes=64 << 20)
    assert index.begin(ORGANISATION, "then") == 0
    take(index, [record()], [record()])
    index.close()
    again = RunIndex(tmp_path / "runs.db", max_bytes=64 << 20)
    assert again.begin(ORGANISATION, "then") == 2
    assert len(listed(again)) == 2
    again.close()


def test_a_stream_that_was_made_anew_leaves_nothing_of_the_one_before(index: RunIndex) -> None:
    take(index, [record()])
    assert index.begin(ORGANISATION, "now") == 0
    assert listed(index) == []


def test_what_the_stream_has_dropped_is_dropped(index: RunIndex) -> None:
    old, touched, new = new_id(), new_id(), new_id()
    take(index, life(old), life(touched)[:1], [record(new)], life(touched)[1:])
    index.sweep(ORGANISATION, first=3)
    assert {run.id for run in listed(index)} == {touched, new}
    assert attempts(index, replace(listed(index)[0], id=old)) == []


def test_the_file_stays_within_its_bound_and_keeps_the_newest(tmp_path: Path) -> None:
    # Hundreds of runs go at once: the bound is to be larger than these.
    index = RunIndex(tmp_path / "runs.db", max_bytes=3 << 20)
    index.begin(ORGANISATION, "then")
    error = RunError(type="E", message="x" * 1000)
    newest = ""
    for number in range(30):
        records = [record(status="dead", attempt=1, error=error, queued_at=NOW + number) for _ in range(100)]
        newest = records[-1].id
        take(index, records, first=number + 1)
        index.bound()
    assert (tmp_path / "runs.db").stat().st_size < 4 << 20
    assert newest in {run.id for run in listed(index)}
    index.close()


def test_a_damaged_file_is_set_aside_and_the_stream_read_again(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    path.write_bytes(b"no database at all" * 1000)
    index = RunIndex(path, max_bytes=64 << 20)
    with pytest.raises(Exception, match="not a database"):
        index.begin(ORGANISATION, "then")
    assert index.begin(ORGANISATION, "then") == 0
    index.close()


HOSTILE: list[Any] = [
    {"id": "not an id"},
    {"id": 7},
    {"kind": "virus"},
    {"status": "excellent"},
    {"attempt": -1},
    {"attempt": True},
    {"attempt": 10**15},
    {"attempt": "1"},
    {"queued_at": "now"},
    {"queued_at": -5},
    {"queued_at": 1e300},
    {"at": None},
    {"task": ["x"]},
    {"steps": "none"},
    {"steps": [{"name": "x"}]},
    {"error": "text"},
    {"error": {"type": 1, "message": 2}},
    {"error": {"type": "E", "message": "m", "upstream": {"status": "x", "body": "y"}}},
    {"user": {"a": 1}},
    {"version": None},
    {"replay_of": 5},
    {"parent": 5},
    {"parent": ["x"]},
    {"steps": [{"name": "s", "occurrence": 1, "started_at": 1, "ended_at": 1, "child": 5}]},
    {"request": 5},
    {"input": 5},
    {"trace_id": 5},
]


@pytest.mark.parametrize("changed", HOSTILE, ids=lambda one: str(one)[:40])
def test_a_record_that_makes_no_sense_is_left_out_and_others_of_its_message_stay(
    changed: dict[str, Any],
) -> None:
    good = record()
    base: dict[str, Any] = orjson.loads(encode([record()]))[0]
    found, malformed = read_records(orjson.dumps([{**base, **changed}, orjson.loads(encode([good]))[0]]))
    assert [one.record.id for one in found] == [good.id]
    assert malformed == 1


@pytest.mark.parametrize(
    "content", [b"", b"[", b"7", b'"text"', b"{}", b"null", b"[[[]]]", b"\xff\xfe", b"[7]"]
)
def test_a_message_without_records_has_none(content: bytes) -> None:
    found, malformed = read_records(content)
    assert found == []
    assert malformed == (0 if content == b"{}" else 1)


def test_what_is_too_long_is_cut() -> None:
    long = "x" * 100_000
    error = RunError(type=long, message=long)
    one = record(status="dead", attempt=1, task=long, user=long, version=long, key=long, error=error)
    ((checked,), malformed) = read_records(encode([one]))
    assert malformed == 0
    assert len(orjson.dumps(replace(checked.record, input=None))) < 8_000


def test_unknown_fields_of_a_newer_release_are_ignored() -> None:
    base: dict[str, Any] = orjson.loads(encode([record()]))[0]
    found, malformed = read_records(orjson.dumps([{**base, "environment": ENVIRONMENTS[1], "new": {"a": 1}}]))
    assert (len(found), malformed) == (1, 0)


def test_a_thousand_runs_are_paged_in_the_order_of_their_time(index: RunIndex) -> None:
    records = [record(queued_at=NOW + number) for number in range(1000)]
    random.Random(7).shuffle(records)
    take(index, *(records[start : start + 100] for start in range(0, 1000, 100)))
    page = index.page(EVERYWHERE, PageRequest(first=20), 20)
    assert [run.queued_at for run in page] == [int(NOW + number) * 10**9 for number in range(999, 979, -1)]


LONG = RunError(type="E", message="x" * 1000)


def fill(
    index: RunIndex,
    environment: str,
    first: int,
    number: int,
    organisation: str = ORGANISATION,
    **fields: Any,
) -> list[str]:
    """Runs of an environment, in messages of 100; their ids."""
    ids = []
    for start in range(0, number, 100):
        records = [
            record(**{"status": "dead", "attempt": 1, "error": LONG, **fields})
            for _ in range(min(100, number - start))
        ]
        found, _ = read_records(encode(records))
        sequence = first + start // 100
        index.apply(organisation, [IndexedMessage(sequence, environment, found)], position=sequence)
        ids += [one.id for one in records]
    return ids


@pytest.fixture
def small(tmp_path: Path) -> Iterator[RunIndex]:
    """An index with room for some hundred runs."""
    made = RunIndex(tmp_path / "small.db", max_bytes=4 << 20)
    for organisation in (ORGANISATION, OTHER):
        made.begin(organisation, "then")
    yield made
    made.close()


@pytest.mark.parametrize("claimed", [0.0, NOW + 10**6], ids=["early", "late"])
def test_an_organisation_with_many_runs_displaces_its_own_alone(small: RunIndex, claimed: float) -> None:
    quiet = fill(small, ENVIRONMENTS[0], 1, 100)
    # Those of others are reported later, and claim what they like.
    noisy = fill(small, ENVIRONMENTS[1], 1, 6000, OTHER, queued_at=claimed)
    small.bound()
    assert {run.id for run in listed(small, EVERYWHERE)} == set(quiet)
    kept = {run.id for run in listed(small, RunFilter(organisation=OTHER))}
    assert noisy[-1] in kept
    assert noisy[0] not in kept


def test_an_environment_with_large_records_displaces_its_own_alone(small: RunIndex) -> None:
    quiet = fill(small, ENVIRONMENTS[0], 1, 300, error=None)
    steps = [StepRecord(name="n" * 200, occurrence=n, started_at=NOW, ended_at=NOW) for n in range(200)]
    noisy = fill(small, ENVIRONMENTS[1], 10, 300, steps=steps)
    small.bound()
    kept = {run.id for run in listed(small, EVERYWHERE)}
    assert kept >= set(quiet)
    assert noisy[-1] in kept
    assert len(kept & set(noisy)) < len(noisy)


def test_what_is_oldest_the_stream_says_and_not_the_record(small: RunIndex) -> None:
    first = fill(small, ENVIRONMENTS[0], 1, 100, error=None, queued_at=NOW + 10**6)
    last = fill(small, ENVIRONMENTS[0], 2, 8000, error=None, queued_at=NOW - 10**6)
    small.bound()
    kept = {run.id for run in small.page(EVERYWHERE, PageRequest(first=9000), 9000)}
    assert (kept.isdisjoint(first), last[-1] in kept) == (True, True)


def test_a_message_that_says_more_than_there_is_room_for_is_taken_in_parts(small: RunIndex) -> None:
    steps = [StepRecord(name="n" * 200, occurrence=n, started_at=NOW, ended_at=NOW) for n in range(200)]
    records = [record(status="dead", attempt=1, steps=steps) for _ in range(150)]
    take(small, records)
    assert small.begin(ORGANISATION, "then") == 1
    assert records[-1].id in {run.id for run in listed(small)}


def test_a_message_of_more_records_than_pods_write_is_cut() -> None:
    found, malformed = read_records(encode([record() for _ in range(2100)]))
    assert (len(found), malformed) == (2000, 100)


@pytest.mark.parametrize(
    ("claimed", "shown"),
    [(NOW + 10**6, NOW + 60), (NOW + 30, NOW + 30), (NOW - 86400, NOW - 86400), (0.0, NOW - 2 * 366 * 86400)],
    ids=["later", "by a clock that is ahead", "delayed", "never"],
)
def test_a_run_was_queued_when_it_can_have_been(claimed: float, shown: float) -> None:
    ((one,), _) = read_records(encode([record(queued_at=claimed)]), stored_at=NOW)
    assert one.record.queued_at == shown


def test_a_run_that_is_reported_again_stays_where_it_is_in_lists(index: RunIndex) -> None:
    run, newer = new_id(), new_id()
    take(index, [record(run)], [record(newer, queued_at=NOW + 1)])
    take(index, [record(run, "running", 1, queued_at=NOW + 50)], first=3)
    assert [(one.id, one.attempt) for one in listed(index)] == [(newer, 0), (run, 1)]


@pytest.mark.parametrize("claimed", [0.0, NOW + 10**6], ids=["early", "late"])
def test_a_run_that_another_environment_has_copied_stays_the_one_that_is_meant(
    index: RunIndex, claimed: float
) -> None:
    run, (forger, victim) = new_id(), sorted(ENVIRONMENTS)
    take(index, life(run)[:2], environment=victim)
    before = index.get(ORGANISATION, ENVIRONMENTS, run)
    take(
        index,
        [record(run, "succeeded", 9, queued_at=claimed, discarded_at=NOW), record(replay_of=run)],
        environment=forger,
        first=2,
    )
    assert index.get(ORGANISATION, ENVIRONMENTS, run) == before
    assert [one.environment for one in index.find(ORGANISATION, ENVIRONMENTS, run)] == [victim, forger]
    # It goes on: what the forger has reported changes nothing of it.
    take(index, life(run)[2:], environment=victim, first=3)
    found = index.get(ORGANISATION, ENVIRONMENTS, run)
    assert found is not None
    assert (found.environment, found.status, found.attempt) == (victim, "succeeded", 2)
    assert [one.number for one in attempts(index, found)] == [1, 2]
    (other,) = index.find(ORGANISATION, [forger], run)
    assert (other.environment, other.attempt) == (forger, 9)


def test_of_many_attempts_and_steps_the_newest_are_read(index: RunIndex) -> None:
    run = new_id()
    steps = [StepRecord(name=f"s{n}", occurrence=1, started_at=NOW, ended_at=NOW) for n in range(7)]
    take(index, *([record(run, "waiting", attempt, steps=steps)] for attempt in range(1, 11)))
    (found,) = listed(index)
    page = index.attempts(ORGANISATION, found, most=3, most_steps=10)
    assert ([one.number for one in page.attempts], page.left_out) == ([8, 9, 10], 7)
    assert [(len(one.steps), one.steps_left_out) for one in page.attempts] == [(0, 7), (3, 4), (7, 0)]
    assert [step.name for step in page.attempts[1].steps] == ["s4", "s5", "s6"]
    assert index.attempts(ORGANISATION, found, most=10, most_steps=100).left_out == 0


def test_runs_that_were_run_again_can_be_left_out(index: RunIndex) -> None:
    run, again, other = new_id(), new_id(), new_id()
    take(
        index, [record(run, "dead", 1), record(other, "dead", 1)], [record(again, "queued", 1, replay_of=run)]
    )
    assert [one.id for one in listed(index, replace(ALL, replayed=True))] == [run]
    assert {one.id for one in listed(index, replace(ALL, replayed=False))} == {again, other}


def test_what_was_discarded_stays_so_whatever_comes_after_it(index: RunIndex) -> None:
    run, other = new_id(), new_id()
    dead, mark = record(run, "dead", 3), record(run, "dead", 3, at=NOW - 100, discarded_at=NOW)
    take(index, [record(other, "dead", 1)], [mark], [dead])
    assert {one.id: one.discarded_at for one in listed(index)} == {run: int(NOW) * 10**9, other: None}
    assert [one.id for one in listed(index, replace(ALL, discarded=True))] == [run]
    assert [one.id for one in listed(index, replace(ALL, discarded=False))] == [other]
    ((checked,), _) = read_records(encode([record(run, "succeeded", 3, discarded_at=NOW)]))
    assert checked.record.discarded_at is None


def test_what_waits_is_counted_by_task_key_and_status_the_oldest_first(index: RunIndex) -> None:
    def run(status: str, ago: float, **fields: Any) -> RunRecord:
        return record("", status, 1, queued_at=NOW - ago, at=NOW, **fields)

    again = run("dead", 60, task="order")
    take(
        index,
        [again, run("succeeded", 40, task="order", replay_of=again.id)],
        [run("queued", 50, task="order", key="ann"), run("queued", 90, task="order", key="ann")],
        [run("dead", 70, task="order", key="ann"), run("dead", 5, task="order", discarded_at=NOW)],
        [
            run("queued", 80, task="order"),
            run("succeeded", 99, task="order"),
            run("waiting", 10, task="mail"),
        ],
    )
    found = index.backlog(ORGANISATION, 10)
    assert [(one.task, one.key, one.status, one.count) for one in found] == [
        ("order", "ann", "queued", 2),
        ("order", None, "queued", 1),
        ("order", "ann", "dead", 1),
        ("mail", None, "waiting", 1),
    ]
    assert found[0].oldest == min(one.oldest for one in found)
    assert len(index.backlog(ORGANISATION, 2)) == 2
    assert index.backlog(OTHER, 10) == []


def test_events_that_have_not_ended_are_counted_without_reading_the_others(
    index: RunIndex, tmp_path: Path
) -> None:
    take(
        index,
        [record(task="order"), record(task="order", status="waiting", attempt=1), record(task="mail")],
        [record(task="order", status="succeeded", attempt=1), record(task="nightly", kind="schedule")],
    )
    asked: list[str] = []
    with closing(sqlite3.connect(tmp_path / "runs.db")) as connection:
        connection.set_trace_callback(asked.append)
        found = counts.waiting_tasks(connection, ORGANISATION, ENVIRONMENTS[0], 10)
        plan = connection.execute(f"explain query plan {asked[0]}").fetchall()
    assert found == {"mail": 1, "order": 2}
    assert "events_not_ended" in plan[0][3]


def test_a_file_with_the_tables_of_another_release_is_built_anew(tmp_path: Path) -> None:
    file = tmp_path / "runs.db"
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("create table streams (organisation text)")
        connection.execute("create table left_over (organisation text)")
        connection.execute("pragma user_version = 9")
    index = RunIndex(file, max_bytes=64 << 20)
    assert index.begin(ORGANISATION, "then") == 0
    index.close()
    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute("select name from sqlite_schema where name = 'left_over'").fetchall() == []
        assert connection.execute("pragma user_version").fetchall() == [(VERSION,)]


def test_the_version_of_the_tables_is_one_that_sqlite_keeps() -> None:
    """SQLite keeps 31 bits, and has 0 in a new file."""
    assert 0 < VERSION < 2**31


def test_a_step_says_who_has_answered_its_approval(index: RunIndex) -> None:
    given = StepApproval(id=new_id(), state="approved", by="ann", at=NOW, comment="x" * 5000)
    step = StepRecord(name="approve: Refund?", occurrence=1, started_at=NOW, ended_at=NOW, approval=given)
    take(index, [record(status="succeeded", attempt=1, steps=[step])])
    (run,) = listed(index)
    ((found,),) = [one.steps for one in attempts(index, run)]
    assert found.approval is not None
    assert replace(found.approval, comment="") == replace(given, comment="")
    assert 900 < len(found.approval.comment) <= 1001


def test_a_run_names_its_parent_and_its_step_the_child(index: RunIndex) -> None:
    parent, child = new_id(), new_id()
    step = StepRecord(name="run: invoice", occurrence=1, started_at=NOW, ended_at=NOW, child=child)
    take(index, [record(status="succeeded", attempt=1, steps=[step], parent=parent, result="1")])
    (run,) = listed(index)
    assert run.parent == parent
    ((found,),) = [one.steps for one in attempts(index, run)]
    assert found.child == child


def test_what_is_no_id_of_a_parent_or_child_is_left_out(index: RunIndex) -> None:
    step = StepRecord(name="run: invoice", occurrence=1, started_at=NOW, ended_at=NOW, child="../x")
    take(index, [record(status="succeeded", attempt=1, steps=[step], parent="<b>")])
    (run,) = listed(index)
    assert run.parent is None
    assert [one.child for some in attempts(index, run) for one in some.steps] == [None]


@pytest.mark.parametrize("approval", [7, [1], {"id": 7, "state": "open"}, {"id": "a"}, {"x": 1}])
def test_a_record_with_what_is_no_approval_is_left_out(approval: Any) -> None:
    content = orjson.loads(encode([record(status="dead", attempt=1)]))
    content[0]["steps"] = [
        {"name": "s", "occurrence": 1, "started_at": NOW, "ended_at": NOW, "approval": approval}
    ]
    assert read_records(orjson.dumps(content))[0] == []


def test_environments_with_events_are_those_whose_runs_the_engine_ran(index: RunIndex) -> None:
    take(index, [record()])
    assert index.environments_with_events(ORGANISATION, ENVIRONMENTS) == [ENVIRONMENTS[0]]
    assert index.environments_with_events(OTHER, ENVIRONMENTS) == []
