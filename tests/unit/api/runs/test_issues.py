"""Failed runs are counted by issue as they come and go, and what people decide decides the issue's state."""

from __future__ import annotations

import sqlite3
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.api.runs.run_records import NOW, record
from tieline_api.runs.fingerprints import issue_of
from tieline_api.runs.history import RunHistory
from tieline_api.runs.index import RunIndex
from tieline_api.runs.issues import (
    MAX_COUNTED,
    Decision,
    Issue,
    IssueFilter,
    IssuePageRequest,
    StoredDecision,
    state_of,
)
from tieline_api.runs.model import PageRequest, RunFilter
from tieline_api.runs.queries import issues
from tieline_api.runs.records import read_records
from tieline_api.runs.tables import HOUR
from tieline_api.runs.writing import IndexedMessage
from tieline_api.views.issue_lookup import runs_to_replay
from tieline_core.identity.ids import new_id
from tieline_protocol.run_records import RunError, RunRecord, UpstreamAnswer, encode

ORGANISATION, OTHER = new_id(), new_id()
HERE, THERE = new_id(), new_id()
EVERYWHERE = IssueFilter(organisation=ORGANISATION)
NS = 10**9
AT = int(NOW) * NS
AGES = {"v1": AT, "v2": AT + 10 * NS, "v3": AT + 20 * NS}


@pytest.fixture
def index(tmp_path: Path) -> Iterator[RunIndex]:
    with made(tmp_path) as found:
        yield found


def made(folder: Path) -> Any:
    index = RunIndex(folder / "runs.db", max_bytes=256 << 20)
    index.begin(ORGANISATION, "then")
    index.begin_decisions(ORGANISATION, "then")
    return closing(index)


def take(
    index: RunIndex,
    *messages: Sequence[RunRecord],
    environment: str = HERE,
    first: int = 1,
    stored_at: float | None = None,
) -> None:
    found = [
        IndexedMessage(number, environment, read_records(encode(list(records)), stored_at=stored_at)[0])
        for number, records in enumerate(messages, first)
    ]
    index.apply(ORGANISATION, found, position=first + len(messages) - 1)


def dead(message: str = "order 7 is unknown", **fields: Any) -> RunRecord:
    error = RunError(type="ValueError", message=message)
    return record(
        **{"status": "dead", "attempt": 3, "error": error, "version": "v1", "ended_at": NOW, **fields}
    )


def request(first: int = 1000, now: int = AT, **page: Any) -> IssuePageRequest:
    return IssuePageRequest(first=first, now=now, age=AGES.get, **page)


def listed(index: RunIndex, wanted: IssueFilter = EVERYWHERE, **page: Any) -> list[Issue]:
    found = index.issues(wanted, request(**page), 1000)
    if not page:
        assert index.count_issues(wanted, 10_000, age=AGES.get, now=AT) == len(found)
    return found


def decide(index: RunIndex, issue: Issue, sequence: int = 1, **fields: Any) -> None:
    decision = Decision(**fields)
    index.decide(ORGANISATION, [StoredDecision(sequence, issue.id, decision)], position=sequence)


def test_an_issue_says_what_failed_since_when_and_for_whom(index: RunIndex) -> None:
    upstream = UpstreamAnswer(status=503, body="closed", system="Shop")
    error = RunError(type="UpstreamError", message="shop answered GET /orders/7 with 503", upstream=upstream)
    runs = [
        dead(error=error, user=user, key=key, version=version, ended_at=NOW - hours * 3600)
        for hours, user, key, version in (
            (0, "ann", "a", "v2"),
            (1, "ben", "a", "v2"),
            (30, "ann", None, "v1"),
        )
    ]
    take(index, runs[:2], [record(status="succeeded", attempt=1)], runs[2:])
    (found,) = listed(index)
    assert (found.kind, found.task, found.type, found.system, found.status) == (
        "event", "order.created", "UpstreamError", "Shop", 503,
    )  # fmt: skip
    assert (found.runs, found.users, found.keys) == (3, 2, 1)
    assert (found.first, found.last) == (AT - 30 * HOUR, AT)
    assert (found.first_version, found.last_version) == ("v1", "v2")
    assert found.hours == {AT // HOUR: 1, AT // HOUR - 1: 1}
    assert found.message == error.message
    shown = index.page(RunFilter(organisation=ORGANISATION, issue=found.id), PageRequest(first=9), 9)
    assert {run.id for run in shown} == {one.id for one in runs}
    assert {run.issue for run in shown} == {found.id}


def test_one_failing_system_with_ten_thousand_failed_runs_is_one_issue(index: RunIndex) -> None:
    upstream = UpstreamAnswer(status=503, body="", system="Shop")
    for number in range(100):
        records = [
            dead(
                error=RunError(
                    type="UpstreamError",
                    message=f"shop answered GET /orders/{number}-{one} with 503: <p>{'abc'[one % 3]}",
                    upstream=upstream,
                ),
                key=f"{number}-{one}",
                user=f"u{number}",
                version=f"v{number % 3 + 1}",
            )
            for one in range(100)
        ]
        take(index, records, first=number + 1)
    (found,) = listed(index)
    assert (found.runs, found.users, found.keys) == (10_000, 100, MAX_COUNTED)
    index.sweep(ORGANISATION, first=100)
    (left,) = listed(index)
    assert (left.id, left.runs, left.users, left.keys) == (found.id, 100, 1, 100)


@given(data=st.data())
@settings(max_examples=30, deadline=None)
def test_counts_are_those_of_the_runs_that_are_kept_whatever_comes_in_what_order(data: st.DataObject) -> None:
    ids = [new_id() for _ in range(6)]
    some = st.builds(
        lambda run, status, attempt, task, user, key, version, ended: record(
            run, status, attempt, task=task, user=user, key=key, version=version, ended_at=NOW + ended,
            error=RunError(type="E", message="m"),
        ),
        st.sampled_from(ids), st.sampled_from(["waiting", "failed", "dead", "succeeded"]), st.integers(1, 3),
        st.sampled_from(["a", "b"]), st.sampled_from(["ann", "ben", None]), st.sampled_from(["k", None]),
        st.sampled_from(["v1", "v2", ""]), st.integers(0, 9000),
    )  # fmt: skip
    messages = data.draw(st.lists(st.lists(some, min_size=1, max_size=4), min_size=1, max_size=8))
    with tempfile.TemporaryDirectory() as folder, made(Path(folder)) as index:
        take(index, *messages)
        for _ in range(2):
            runs = index.page(RunFilter(organisation=ORGANISATION), PageRequest(first=99), 99)
            failed = [run for run in runs if run.status in ("failed", "dead")]
            assert {run.issue for run in runs if run not in failed} <= {None}
            found = {one.id: one for one in listed(index)}
            assert Counter(run.issue for run in failed) == {one.id: one.runs for one in found.values()}
            for one in found.values():
                mine = [run for run in failed if run.issue == one.id]
                users = Counter(run.user for run in mine if run.user is not None)
                assert one.users == len(users)
                most = sorted(users.items(), key=lambda each: (-each[1], each[0]))[:2]
                assert index.users_of_issue(ORGANISATION, one.id, 2) == most
                assert one.keys == len({run.key for run in mine} - {None})
                assert set(one.versions) == {run.version for run in mine} - {""}
                assert (one.first, one.last) == (
                    min(run.ended_at or 0 for run in mine),
                    max(run.ended_at or 0 for run in mine),
                )
            index.sweep(ORGANISATION, first=data.draw(st.integers(1, 9)))
        index.forget(ORGANISATION)
        assert listed(index) == []
        left = "select count(*) from issue_counts"
        with closing(sqlite3.connect(Path(folder) / "runs.db")) as connection:
            assert connection.execute(left).fetchone() == (0,)


def test_a_run_that_claims_to_end_later_was_seen_when_it_was_reported(index: RunIndex) -> None:
    take(index, [dead(ended_at=NOW + 10**6, queued_at=NOW)], stored_at=NOW)
    assert [one.last for one in listed(index)] == [AT + 60 * NS]


def test_what_was_run_again_or_discarded_makes_room_for_the_next_runs(index: RunIndex) -> None:
    first, second, third, other = dead(), dead(), dead(discarded_at=NOW), dead(task="another")
    take(index, [first, second, third, other], [record(replay_of=first.id)])
    [issue] = [one for one in listed(index) if one.task == first.task]
    assert issue.runs == 3
    found = index.page(runs_to_replay(ORGANISATION, issue), PageRequest(first=9), 9)
    assert [run.id for run in found] == [second.id]


def test_filters_and_pages(index: RunIndex) -> None:
    upstream = UpstreamAnswer(status=404, body="", system="Shop")
    runs = {
        "a": dead(task="a", ended_at=NOW - 5),
        "b": dead(task="b", ended_at=NOW - 4, kind="schedule"),
        "shop": dead(task="c", ended_at=NOW - 3, error=RunError(type="E", message="m", upstream=upstream)),
    }
    take(index, list(runs.values()))
    take(index, [dead(task="there", ended_at=NOW - 2)], environment=THERE, first=2)
    names = {issue_of(HERE, one): name for name, one in runs.items()}

    def chosen(**wanted: Any) -> list[str]:
        return [names.get(one.id, one.task) for one in listed(index, replace(EVERYWHERE, **wanted))]

    assert chosen() == ["there", "shop", "b", "a"]
    assert chosen(environments=(HERE,)) == ["shop", "b", "a"]
    assert chosen(environments=()) == chosen(organisation=OTHER) == chosen(task="x") == []
    assert chosen(task="a") == chosen(id=issue_of(HERE, runs["a"])) == ["a"]
    assert chosen(kind="schedule") == ["b"]
    assert chosen(system="Shop") == ["shop"]
    assert chosen(since=AT - 3 * NS) == ["there", "shop"]
    assert chosen(until=AT - 3 * NS) == ["b", "a"]
    assert chosen(since=AT - 4 * NS, until=AT - 3 * NS) == ["b"]
    everything = listed(index)
    decide(index, everything[1], state="muted", at=AT, assignee="ann")
    assert chosen(states=("open",)) == ["there", "b", "a"]
    assert chosen(states=("muted", "regressed")) == chosen(assignee="ann") == ["shop"]
    forwards: list[Issue] = []
    while page := index.issues(
        EVERYWHERE, request(2, after=(forwards[-1].last, forwards[-1].id) if forwards else None), 2
    ):
        forwards += page
    assert [one.id for one in forwards] == [one.id for one in everything]
    last = forwards[-1]
    before = index.issues(EVERYWHERE, request(2, before=(last.last, last.id)), 2)
    assert [one.id for one in before] == [forwards[2].id, forwards[1].id]


def test_the_latest_decision_counts_and_outlives_the_runs(index: RunIndex) -> None:
    take(index, [dead()])
    (issue,) = listed(index)
    decide(index, issue, 5, state="muted", at=AT, reason="known")
    decide(index, issue, 4, state="resolved", at=AT)
    assert [(one.state, one.decision and one.decision.reason) for one in listed(index)] == [
        ("muted", "known")
    ]
    index.sweep(ORGANISATION, first=2)
    assert listed(index) == []
    take(index, [dead()], first=3)
    assert [one.state for one in listed(index)] == ["muted"]
    index.forget_decisions(ORGANISATION, before=6)
    assert [one.state for one in listed(index)] == ["open"]
    decide(index, issue, 7, state="muted", at=AT)
    assert index.begin_decisions(ORGANISATION, "then") == 7
    assert index.begin_decisions(ORGANISATION, "made anew") == 0
    assert [one.state for one in listed(index)] == ["open"]


@pytest.mark.parametrize(
    ("decision", "last", "versions", "expected"),
    [
        (None, AT, ["v1"], "open"),
        (Decision(at=AT), AT, ["v1"], "open"),
        (Decision(state="resolved", at=AT), AT, ["v1"], "resolved"),
        (Decision(state="resolved", at=AT), AT + 1, ["v1"], "regressed"),
        (Decision(state="muted", at=AT), AT + 1, ["v3"], "muted"),
        (Decision(state="muted", at=AT, until=AT + 60 * NS), AT, [], "muted"),
        (Decision(state="muted", at=AT, until=AT + 59 * NS), AT, [], "open"),
    ],
)
def test_the_state_follows_from_the_decision_and_what_failed_since(
    decision: Decision | None, last: int, versions: list[str], expected: str
) -> None:
    assert state_of(decision, last=last, versions=versions, age=AGES.get, now=AT + 59 * NS) == expected


@given(
    versions=st.lists(st.sampled_from(["v1", "v2", "v3", "gone", ""])),
    resolved=st.sampled_from(["v1", "v2", "v3"]),
    later=st.integers(0, 100),
)
def test_what_the_next_version_resolves_regresses_when_a_newer_one_fails_alone(
    versions: list[str], resolved: str, later: int
) -> None:
    decision = Decision(
        state="resolved", at=AT, next_version=True, version=resolved, version_at=AGES[resolved]
    )
    expected = any(one > resolved for one in versions if one in AGES)
    found = state_of(decision, last=AT + later, versions=versions, age=AGES.get, now=AT)
    assert found == ("regressed" if expected else "resolved")


def test_what_was_resolved_by_a_deploy_and_comes_back_says_so(index: RunIndex) -> None:
    take(index, [dead()])
    (issue,) = listed(index)
    decide(index, issue, state="resolved", at=AT, next_version=True, version="v1", version_at=AGES["v1"])
    take(index, [dead("order 8 is unknown", ended_at=NOW + 5)], first=2)
    assert [one.state for one in listed(index)] == ["resolved"], "pods of the old version still run"
    take(index, [dead("order 9 is unknown", version="v3", ended_at=NOW + 30)], first=3)
    assert [one.state for one in listed(index, replace(EVERYWHERE, states=("regressed",)))] == ["regressed"]
    assert [one.runs for one in listed(index)] == [3]


def test_of_very_many_versions_the_newest_are_looked_at(index: RunIndex) -> None:
    names = [f"v{number:03}" for number in range(150)]
    ages = {name: AT + number * NS for number, name in enumerate(names)}
    take(index, [dead(version=name) for name in names])
    page = replace(request(), age=ages.get)
    (issue,) = index.issues(EVERYWHERE, page, 9)
    assert issue.last_version == names[-1]
    decision = {"state": "resolved", "at": AT, "next_version": True, "version": names[-2]}
    decide(index, issue, version_at=ages[names[-2]], **decision)
    assert [one.state for one in index.issues(EVERYWHERE, page, 9)] == ["regressed"]


@given(
    st.builds(
        Decision,
        state=st.sampled_from(["open", "resolved", "muted"]),
        at=st.integers(0, 2**62),
        by=st.text(max_size=256),
        next_version=st.booleans(),
        version=st.text(max_size=100),
        version_at=st.integers(0, 2**62),
        until=st.none() | st.integers(0, 2**62),
        reason=st.text(max_size=500),
        assignee=st.text(max_size=256),
    )
)
def test_decisions_are_read_as_they_were_written(decision: Decision) -> None:
    try:
        text = orjson.dumps(decision.to_json())
    except TypeError:
        return  # halves of characters: requests with these are refused
    assert Decision.parse(text) == decision


@pytest.mark.parametrize(
    "content", [b"", b"7", b"[]", b'{"state": "x"}', b'{"at": "now"}', b'{"until": true}', b'{"by": 7}']
)
def test_what_is_no_decision_is_refused(content: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        Decision.parse(content)


def test_a_list_reads_its_own_indexes(index: RunIndex) -> None:
    take(index, [dead()])
    asked: list[str] = []

    def ask(connection: sqlite3.Connection) -> list[str]:
        connection.set_trace_callback(asked.append)
        issues.page(connection, EVERYWHERE, request(), 10)
        connection.set_trace_callback(None)
        plan = connection.execute(f"explain query plan {asked[0]}").fetchall()
        return [row[3] for row in plan]

    plan = index._read(ask, empty=[])
    assert not any(" runs" in step for step in plan)
    assert any("issues_of_organisation" in step for step in plan)
    assert not any("TEMP B-TREE" in step for step in plan)


@pytest.mark.parametrize(
    ("connected", "runs", "decisions", "words"),
    [
        (True, False, False, []),
        (True, True, False, ["run history"]),
        (True, False, True, ["Decisions about issues"]),
        (True, True, True, ["run history", "Decisions about issues"]),
        (False, True, True, ["cannot be reached"]),
    ],
)
def test_answers_say_what_of_them_is_behind(
    index: RunIndex, connected: bool, runs: bool, decisions: bool, words: list[str]
) -> None:
    engine: Any = SimpleNamespace(connected=connected)
    followers: Any = SimpleNamespace(is_stalled=lambda _: runs, is_stalled_in_issues=lambda _: decisions)
    environments: Any = SimpleNamespace()
    history = RunHistory(engine, environments, index, followers)
    found = history.issue_warnings(ORGANISATION)
    assert len(found) == len(words)
    assert all(word in warning for word, warning in zip(words, found, strict=True))
    assert not any("Decisions" in warning for warning in history.warnings(ORGANISATION))
