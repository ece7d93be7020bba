"""Runs are found by their tags and by the ids that people know, from indexes, whatever order records come in."""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.api.runs.run_records import NOW, life, record
from tieline_api.runs.direct import direct_records
from tieline_api.runs.index import RunIndex
from tieline_api.runs.model import PageRequest, Run, RunFilter
from tieline_api.runs.queries import lists
from tieline_api.runs.records import read_records
from tieline_api.runs.writing import IndexedMessage
from tieline_core.identity.ids import new_id
from tieline_protocol.run_records import RunRecord, encode
from tieline_protocol.run_tags import MAX_TAGS

ORGANISATION = new_id()
HERE, THERE = new_id(), new_id()
EVERYWHERE = RunFilter(organisation=ORGANISATION)
ONLY_HERE = replace(EVERYWHERE, environments=(HERE,))


@pytest.fixture
def index(tmp_path: Path) -> Iterator[RunIndex]:
    with made(tmp_path) as found:
        yield found


def made(folder: Path, max_bytes: int = 64 << 20) -> Any:
    index = RunIndex(folder / "runs.db", max_bytes=max_bytes)
    index.begin(ORGANISATION, "then")
    return closing(index)


def take(index: RunIndex, *messages: Sequence[RunRecord], environment: str = HERE, first: int = 1) -> None:
    found = [
        IndexedMessage(number, environment, read_records(encode(list(records)))[0])
        for number, records in enumerate(messages, first)
    ]
    index.apply(ORGANISATION, found, position=first + len(messages) - 1)


def listed(index: RunIndex, wanted: RunFilter, first: int = 1000, **page: Any) -> list[Run]:
    return index.page(wanted, PageRequest(first=first, **page), first)


def ids(index: RunIndex, wanted: RunFilter) -> set[str]:
    found = [run.id for run in listed(index, wanted)]
    assert index.count(wanted, 1000) == len(found) == len(set(found))
    return set(found)


def tagged(**tags: str) -> RunFilter:
    return replace(EVERYWHERE, tags=tuple(tags.items()))


def found_by(text: str) -> RunFilter:
    return replace(EVERYWHERE, find=text)


def test_a_run_has_the_tags_of_all_its_attempts_and_the_latest_value_of_a_name(index: RunIndex) -> None:
    run = new_id()
    first = record(run, "waiting", 1, tags={"order": "N-1", "state": "new", "first": "yes"})
    second = record(run, "succeeded", 2, tags={"order": "N-1", "state": "booked"})
    take(index, [second], [first], [record(run, "running", 1)])
    (shown,) = listed(index, EVERYWHERE)
    assert shown.tags == {"first": "yes", "order": "N-1", "state": "booked"}
    assert ids(index, tagged(order="N-1")) == ids(index, tagged(order="N-1", first="yes")) == {run}
    assert ids(index, tagged(state="new")) == ids(index, tagged(order="N-1", first="no")) == set()


@given(data=st.data())
@settings(max_examples=30, deadline=None)
def test_tags_do_not_depend_on_the_order_of_records_and_are_bounded(data: st.DataObject) -> None:
    run = new_id()
    names = st.sampled_from([f"t{number}" for number in range(16)])
    some = st.dictionaries(names, st.sampled_from(["a", "b"]), max_size=MAX_TAGS)
    records = [
        record(run, "waiting", attempt, tags=data.draw(some))
        for attempt in range(1, data.draw(st.integers(2, 5)))
    ]
    orders = [records, data.draw(st.permutations([*records, *records[:1]]))]
    answers = []
    for order in orders:
        with tempfile.TemporaryDirectory() as folder, made(Path(folder)) as index:
            cut = data.draw(st.integers(0, len(order)))
            take(index, order[:cut], *([one] for one in order[cut:]))
            (shown,) = listed(index, EVERYWHERE)
            answers.append(shown.tags)
    assert answers[0] == answers[1]
    assert len(answers[0]) <= MAX_TAGS
    union: dict[str, str] = {}
    for one in records:
        union |= one.tags
    assert answers[0].items() <= union.items()
    if len(union) <= MAX_TAGS:
        assert answers[0] == union
    assert records[-1].tags.items() <= answers[0].items()


def test_a_run_is_found_by_each_id_that_people_know(index: RunIndex) -> None:
    text = "N-1101"
    by_event, by_key, by_user = record(event_id=text), record(key=text), record(user=text)
    by_tag = record(tags={"order": text, "reference": text})
    by_all = record(event_id=text, key=text, user=text, tags={"order": text})
    elsewhere, copied = record(tags={"order": text}), record(by_key.id, key=text)
    take(
        index, [by_event, by_key, by_user], [by_tag, by_all, record(key="N-110"), record(tags={"order": "N"})]
    )
    take(index, [elsewhere, copied], environment=THERE, first=10)
    of_here = {one.id for one in (by_event, by_key, by_user, by_tag, by_all)}
    assert ids(index, replace(ONLY_HERE, find=text)) == of_here
    assert {run.id for run in listed(index, found_by(text))} == of_here | {elsewhere.id}
    assert len(listed(index, found_by(text))) == index.count(found_by(text), 1000) == 7
    assert index.count(found_by(text), 3) == 3
    assert ids(index, replace(ONLY_HERE, find=by_key.id.lower())) == {by_key.id}
    assert ids(index, found_by("n-1101")) == ids(index, found_by("nothing")) == set()
    assert ids(index, replace(found_by(text), environments=())) == set()
    assert ids(index, replace(ONLY_HERE, find=text, tags=(("reference", text),))) == {by_tag.id}


def test_tags_are_one_filter_among_others(index: RunIndex) -> None:
    tags = {"order": "N-1", "customer": "acme"}
    dead = record(status="dead", attempt=1, tags=tags, user="ann", queued_at=NOW - 50)
    good = record(status="succeeded", attempt=1, tags=tags)
    take(index, [dead, good, record(tags={"customer": "acme"})])
    take(index, [record(tags=tags)], environment=THERE, first=10)
    here = replace(tagged(customer="acme", order="N-1"), environments=(HERE,))
    assert ids(index, here) == {dead.id, good.id}
    assert ids(index, replace(here, failed=True)) == ids(index, replace(here, user="ann")) == {dead.id}
    assert ids(index, replace(here, end=int((NOW - 10) * 1e9))) == {dead.id}
    assert ids(index, replace(here, find="ann")) == {dead.id}
    assert index.count(tagged(customer="acme"), 1000) == 4
    assert ids(index, replace(tagged(order="N-1"), environments=())) == set()


@given(data=st.data())
@settings(max_examples=20, deadline=None)
def test_pages_of_what_is_found_have_each_run_once_and_in_order(data: st.DataObject) -> None:
    texts = st.sampled_from(["x", "y", None])
    with tempfile.TemporaryDirectory() as folder, made(Path(folder)) as index:
        for number, environment in enumerate((HERE, THERE)):
            records = [
                record(
                    queued_at=NOW - data.draw(st.integers(0, 5)), key=data.draw(texts), user=data.draw(texts),
                    event_id=data.draw(texts),
                    tags={
                        name: value for name in ("a", "b") if (value := data.draw(texts)) is not None
                    },
                )
                for _ in range(data.draw(st.integers(0, 12)))
            ]  # fmt: skip
            take(index, records, environment=environment, first=10 * number + 1)
        everything = listed(index, EVERYWHERE)
        for wanted, fits in (
            (found_by("x"), lambda run: "x" in (run.key, run.user, run.event_id, *run.tags.values())),
            (tagged(a="x"), lambda run: run.tags.get("a") == "x"),
        ):
            expected = [run for run in everything if fits(run)]
            assert index.count(wanted, 1000) == len(expected)
            pages: list[Run] = []
            while page := listed(index, wanted, first=3, after=pages[-1].position if pages else None):
                pages += page
            assert pages == expected
            if expected:
                back = listed(index, wanted, before=expected[-1].position)
                assert back[::-1] == expected[:-1]


@pytest.mark.parametrize(
    "wanted",
    [
        tagged(order="N-1"),
        replace(tagged(order="N-1", customer="acme"), environments=(HERE, THERE)),
        replace(tagged(order="N-1"), failed=True, start=1),
        found_by("N-1"),
        replace(ONLY_HERE, find="N-1"),
        found_by(new_id()),
        replace(ONLY_HERE, ids=(new_id(), new_id()), failed=True, actionable=True),
    ],
)
def test_what_is_found_is_looked_up_and_not_searched_for(
    index: RunIndex, tmp_path: Path, wanted: RunFilter
) -> None:
    take(index, *(life(new_id(), tags={"order": "N-1"}) for _ in range(5)))
    asked: list[str] = []
    with closing(sqlite3.connect(tmp_path / "runs.db")) as connection:
        connection.set_trace_callback(asked.append)
        page = PageRequest(first=2, after=(1, new_id(), HERE))
        lists.page(connection, wanted, page, 3)
        lists.count(connection, wanted, 10)
        connection.set_trace_callback(None)
        plans = [
            (step[3], sql)
            for sql in asked
            for step in connection.execute(f"explain query plan {sql}").fetchall()
        ]
    read = [(step, sql) for step, sql in plans if step.startswith(("SCAN", "USE TEMP"))]
    # Other than tables of runs and tags: the list of environments, and what counts what was looked up.
    assert [
        (step, sql) for step, sql in read if not step.startswith(("SCAN json_each", "SCAN (subquery"))
    ] == []
    name = "PRIMARY KEY" if wanted.ids else "runs_by_value" if wanted.find else "runs_by_tag"
    assert any(name in step for step, _ in plans)


def test_tags_go_with_their_run_and_count_as_what_it_takes(index: RunIndex, tmp_path: Path) -> None:
    def bytes_and_tags() -> tuple[int, int]:
        with closing(sqlite3.connect(tmp_path / "runs.db")) as connection:
            size = connection.execute("select total(bytes) from usage").fetchone()[0]
            return int(size), int(connection.execute("select count(*) from tags").fetchone()[0])

    run = new_id()
    take(index, [record(run)])
    before, _ = bytes_and_tags()
    take(index, [record(run, "waiting", 1, tags={"order": "N-1", "note": "x" * 200})], first=2)
    after, count = bytes_and_tags()
    assert (count, after - before >= 2 * 200) == (2, True)
    index.sweep(ORGANISATION, first=3)
    assert bytes_and_tags() == (0, 0)
    take(index, [record(tags={"order": "N-2"})], first=4)
    index.forget(ORGANISATION)
    assert bytes_and_tags() == (0, 0)


def test_a_hostile_record_loses_its_bad_tags_alone() -> None:
    bad = {"Order": "x", "order": "N-1", "line": "a\nb", "number": 7, "long": "x" * 201, "empty": ""}
    many = {f"t{number}": "x" for number in range(50)}
    content = encode([record(tags=bad), record(tags=many), replace(record(), tags=["order"])])  # type: ignore[arg-type]
    found, malformed = read_records(content)
    assert (len(found), malformed) == (3, 0)
    assert [dict(one.record.tags) for one in found][::2] == [{"order": "N-1"}, {}]
    assert len(found[1].record.tags) == MAX_TAGS


def test_direct_runs_keep_their_tags() -> None:
    ended = record(
        status="failed", attempt=1, kind="webhook", started_at=NOW, ended_at=NOW, tags={"order": "N-1"}
    )
    (kept,), _ = direct_records(encode([ended]), now=NOW, with_inputs=False)
    assert kept.tags == {"order": "N-1"}
