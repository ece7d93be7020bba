"""Direct runs are found by their root spans, in files of earlier releases too."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.unit.api.traces.otlp_requests import NOW, OWNER, SECOND, make
from tieline_api.runs.roots import run_of_root
from tieline_api.traces.query import RunQuery
from tieline_api.traces.root_runs import RootQuery
from tieline_api.traces.spans import Owner, Span
from tieline_api.traces.store import Limits, TraceStore
from tieline_core.identity.ids import new_id
from tieline_protocol.run_records import UpstreamAnswer

ALL = RootQuery(organisation=OWNER.organisation, environments=None, limit=100)
_REMOTE = 0x300


@pytest.fixture
def store(tmp_path: Path) -> Iterator[TraceStore]:
    made = TraceStore(tmp_path / "traces.db", Limits())
    made.start()
    yield made
    made.stop()


def root(number: int, run: str = "", *, trigger: str = "http", **fields: Any) -> Span:
    names = {"http": ("http.request.method", "POST"), "timer": ("faas.trigger", "timer"), "none": ("a", "b")}
    attributes = [("executionId", run or new_id()), ("task", "orders"), names[trigger]]
    attributes += fields.pop("attributes", [])
    start = NOW + number * SECOND
    return make(number, start=start, end=start + SECOND, attributes=attributes, **fields)


def keep(store: TraceStore, *spans: Span, owner: Owner = OWNER) -> None:
    assert store.offer(owner, spans)
    assert store.flush()


def ids(store: TraceStore, wanted: RootQuery = ALL) -> list[str]:
    found = [one.span.run_id for one in store.roots(wanted)]
    counted = [run for _, run in store.root_ids(wanted)]
    assert len(counted) == len(found)
    assert wanted.limit < 100 or sorted(counted) == sorted(found)
    return found


def test_roots_are_runs_and_what_is_in_them_is_not(store: TraceStore) -> None:
    webhook, schedule, remote = new_id(), new_id(), new_id()
    within = root(4, webhook, parent_id=b"12345678", kind=2)
    keep(
        store,
        root(1, webhook),
        root(2, schedule, trigger="timer"),
        root(3, remote, parent_id=b"12345678", flags=_REMOTE),
        within,
        root(5, trigger="none"),
        root(6, "no id"),
        root(7, attributes=[("messaging.operation.type", "send")]),
    )
    assert ids(store) == [remote, schedule, webhook]
    assert [one.kind for one in store.roots(ALL)] == ["webhook", "schedule", "webhook"]


def test_background_work_is_a_run_in_the_trace_of_the_run_that_it_began_in(store: TraceStore) -> None:
    webhook, work, failed = new_id(), new_id(), new_id()

    def background(number: int, run: str, **fields: Any) -> Span:
        attributes = [("run.kind", "background"), ("run.id", run), ("run.task", "forward")]
        parent = {"kind": 1, "parent_id": b"12345678", "trace_id": root(1).trace_id}
        return root(number, webhook, trigger="none", attributes=attributes, **parent, **fields)

    told = background(2, work)
    keep(store, root(1, webhook), told, background(3, failed, status=2), background(4, "no id"))
    assert ids(store) == [failed, work, webhook]
    assert ids(store, replace(ALL, kind="background")) == [failed, work]
    assert ids(store, replace(ALL, task="forward", failed=False)) == [work]
    (found,) = store.roots(replace(ALL, id=work))
    run = run_of_root(found)
    assert (run.id, run.kind, run.task, run.status) == (work, "background", "forward", "succeeded")
    assert run.trace_id == root(1).trace_id.hex()
    assert ids(store, replace(ALL, newer_than=found.position, newest_first=False)) == [failed]
    page = store.runs(OWNER, RunQuery(first=10))
    assert [span.execution_id for span in page.entries] == [webhook], "it is no trace of its own"


def test_a_call_of_an_agent_is_a_run_of_its_own_kind(store: TraceStore) -> None:
    call, within = new_id(), new_id()
    told = [("run.kind", "call"), ("task", "createOrder"), ("upstream.status_code", "404")]
    keep(
        store,
        root(1, call, attributes=told, status=2),
        root(2, within, attributes=told, parent_id=b"12345678"),
    )
    assert ids(store) == ids(store, replace(ALL, kind="call")) == [call], "a span within a run is none"
    assert ids(store, replace(ALL, kind="webhook")) == []
    run = run_of_root(store.roots(ALL)[0])
    assert (run.kind, run.status, run.error and run.error.upstream) == (
        "call",
        "failed",
        UpstreamAnswer(status=404, body=""),
    )


def test_filters_and_positions(store: TraceStore) -> None:
    one, two, three = (new_id() for _ in range(3))
    other = replace(OWNER, environment=new_id())
    keep(store, root(1, one), root(2, two, status=2, message="Straße", attributes=[("user", "ann")]))
    keep(store, root(3, three, trigger="timer"), owner=other)
    assert ids(store, replace(ALL, environments=(other.environment,))) == [three]
    assert ids(store, replace(ALL, organisation=new_id())) == []
    assert ids(store, replace(ALL, failed=True)) == [two]
    assert ids(store, replace(ALL, failed=False)) == [three, one]
    assert ids(store, replace(ALL, kind="schedule")) == [three]
    assert ids(store, replace(ALL, user="ann")) == [two]
    assert ids(store, replace(ALL, search="STRASSE")) == [two]
    assert ids(store, replace(ALL, task="other")) == []
    assert ids(store, replace(ALL, start=NOW + 2 * SECOND, end=NOW + 3 * SECOND)) == [two]
    assert ids(store, replace(ALL, limit=2)) == [three, two]
    middle = store.roots(replace(ALL, id=two))[0].position
    assert ids(store, replace(ALL, older_than=middle)) == [one]
    assert ids(store, replace(ALL, newer_than=middle, newest_first=False)) == [three]


def test_of_several_roots_of_a_run_the_last_counts(store: TraceStore) -> None:
    run = new_id()
    keep(store, root(1, run, status=2), root(2, run))
    assert [one.span.status for one in store.roots(ALL)] == ["UNSET"]


@pytest.mark.parametrize("release", [1, 2])
def test_the_file_of_an_earlier_release_is_brought_up_to_date(tmp_path: Path, release: int) -> None:
    path = tmp_path / "traces.db"
    before = TraceStore(path, Limits())
    before.start()
    webhook, schedule = new_id(), new_id()
    keep(before, root(1, webhook), root(2, schedule, trigger="timer"), root(3, trigger="none"))
    before.stop()
    with sqlite3.connect(path) as connection:
        connection.execute("drop index runs_by_time")
        connection.execute("drop index runs_by_id")
        connection.execute("alter table spans drop column run_id")
        if release == 1:
            connection.execute("drop table streams")
            connection.execute("alter table spans drop column run")
        else:
            connection.execute(
                "create index runs_by_time on spans (owner, start, execution_id) where run <> ''"
            )
        connection.execute(f"pragma user_version = {release}")
    connection.close()
    after = TraceStore(path, Limits())
    assert after.roots(ALL) == []
    after.start()
    keep(after, root(4, late := new_id()))
    assert ids(after) == [late, schedule, webhook]
    assert len(after.trace(OWNER.organisation, OWNER.project, root(1).trace_id)) == 1
    after.stop()


def test_how_far_a_stream_was_read_is_kept_with_its_spans(tmp_path: Path) -> None:
    store = TraceStore(tmp_path / "traces.db", Limits())
    store.start()
    assert store.begin(OWNER.organisation, "then") == 0
    store.put(OWNER, [root(1)], seconds=1)
    store.reached(OWNER.organisation, 7)
    store.reached(OWNER.organisation, 9)
    store.stop()
    again = TraceStore(tmp_path / "traces.db", Limits())
    assert again.begin(OWNER.organisation, "then") == 9
    assert again.begin(OWNER.organisation, "made anew") == 0


def test_who_reads_a_stream_waits_for_room(tmp_path: Path) -> None:
    store = TraceStore(tmp_path / "traces.db", Limits(max_queued=10))
    store.put(OWNER, [root(number) for number in range(1, 9)], seconds=0.1)
    with pytest.raises(OSError, match="takes no spans"):
        store.put(OWNER, [root(20), root(21), root(22)], seconds=0.1)
    store.start()
    store.put(OWNER, [root(20), root(21), root(22)], seconds=5)
    assert store.flush()
    assert store.written == 11
    assert not store.dropped
    store.stop()
