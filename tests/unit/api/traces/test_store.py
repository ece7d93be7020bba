"""The embedded store keeps what it is given, shows it in pages, and survives its disk."""

import itertools
import sqlite3
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.unit.api.traces.otlp_requests import NOW, OWNER, make
from tieline_api.sqlite_files import TooSlowError, reading
from tieline_api.traces import query
from tieline_api.traces import store as store_module
from tieline_api.traces.query import RunQuery
from tieline_api.traces.spans import Owner, Span
from tieline_api.traces.store import Limits, TraceStore
from tieline_api.traces.writer import Writer

MakeStore = Callable[..., TraceStore]
_numbers = itertools.count(1)
OTHER = Owner(organisation="other", project=OWNER.project, environment=OWNER.environment)


@pytest.fixture
def make_store(tmp_path: Path) -> Iterator[MakeStore]:
    started: list[TraceStore] = []

    def start(name: str = "traces.db", **options: object) -> TraceStore:
        clock = options.pop("clock", None)
        store = TraceStore(
            tmp_path / name,
            Limits(**options),  # type: ignore[arg-type]
            **({"clock": clock} if clock else {}),  # type: ignore[arg-type]
        )
        store.start()
        started.append(store)
        return store

    yield start
    for store in started:
        store.stop()


def keep(store: TraceStore, *spans: Span, owner: Owner = OWNER) -> None:
    assert store.offer(owner, spans)
    assert store.flush()


def all_pages(store: TraceStore, wanted: RunQuery) -> list[Span]:
    found: list[Span] = []
    while True:
        page = store.runs(OWNER, wanted)
        found += page.entries
        if page.last is None:
            return found
        wanted = replace(wanted, beyond=page.last)


def test_what_is_kept_comes_back_as_it_was(make_store: MakeStore) -> None:
    store = make_store()
    parent = make(1, attributes=[("task", "orders"), ("executionId", "01J"), ("a", 'ü "quoted" \x00')])
    child = make(2, trace_id=parent.trace_id, parent_id=parent.span_id, kind=3, status=2, message="no")
    keep(store, child, parent)
    assert store.trace(OWNER.organisation, OWNER.project, parent.trace_id) == [parent, child]
    assert store.runs(OWNER, RunQuery(first=10)).entries == [parent]
    assert store.written == 2


def test_a_store_that_is_opened_again_has_what_it_had(make_store: MakeStore) -> None:
    store = make_store()
    keep(store, make(1))
    store.stop()
    again = make_store()
    assert len(again.trace(OWNER.organisation, OWNER.project, make(1).trace_id)) == 1


def test_a_span_that_comes_twice_is_kept_once(make_store: MakeStore) -> None:
    store = make_store()
    keep(store, make(1), make(1))
    keep(store, make(1))
    assert len(all_pages(store, RunQuery(first=10))) == 1


def test_nobody_sees_the_spans_of_another_organisation(make_store: MakeStore) -> None:
    store = make_store()
    keep(store, make(1))
    keep(store, make(1), make(2), owner=OTHER)
    assert len(store.trace(OTHER.organisation, OTHER.project, make(1).trace_id)) == 1
    assert store.trace(OWNER.organisation, OWNER.project, make(2).trace_id) == []
    assert len(store.runs(OWNER, RunQuery(first=10)).entries) == 1
    nobody = Owner(organisation="none", project="none", environment="none")
    assert store.runs(nobody, RunQuery(first=10)).entries == []


def test_before_the_first_span_there_is_nothing(make_store: MakeStore) -> None:
    store = make_store()
    assert store.trace("o", "p", b"x" * 16) == []
    assert store.runs(OWNER, RunQuery(first=10)) == query.Page([], None)


@settings(
    max_examples=15,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    starts=st.lists(st.integers(0, 20), min_size=0, max_size=40),
    first=st.integers(1, 15),
)
def test_pages_hold_every_run_exactly_once_whatever_is_written_meanwhile(
    make_store: MakeStore, starts: list[int], first: int
) -> None:
    store = make_store(f"{next(_numbers)}.db")
    spans = [make(number + 1, start=NOW + start) for number, start in enumerate(starts)]
    if spans:
        keep(store, *spans)
    seen: list[bytes] = []
    beyond = None
    number = 1000
    while True:
        page = store.runs(OWNER, RunQuery(first=first, beyond=beyond))
        assert len(page.entries) <= first
        seen += [span.span_id for span in page.entries]
        beyond = page.last
        if beyond is None:
            break
        number += 1
        keep(store, make(number, start=NOW + 21 + number))
    store.stop()
    assert sorted(seen) == sorted(span.span_id for span in spans), "each once, newer ones not in between"
    order = {span.span_id: span.start for span in spans}
    assert [order[span_id] for span_id in seen] == sorted(order.values(), reverse=True)


def test_each_filter_chooses(make_store: MakeStore) -> None:
    store = make_store()
    plain = make(1, attributes=[("task", "orders"), ("executionId", "E1"), ("colour", "red")])
    failed = make(2, status=2, attributes=[("task", "sync"), ("executionId", "E2")])
    inner = make(
        20,
        trace_id=failed.trace_id,
        parent_id=failed.span_id,
        kind=3,
        status=2,
        attributes=[("http.response.status_code", "500"), ('we"ird', 'a "b" \\')],
    )
    coped_with = make(21, trace_id=plain.trace_id, parent_id=plain.span_id, kind=3, status=2)
    keep(store, plain, failed, inner, coped_with)

    def found(**wanted: object) -> list[Span]:
        return all_pages(store, RunQuery(first=1, **wanted))  # type: ignore[arg-type]

    assert found() == [failed, plain]
    assert found(error=True) == [failed], "not the run that has coped with a failed request"
    assert found(error=False) == [plain]
    assert found(task="orders") == [plain]
    assert found(task="none") == []
    assert found(start=NOW + 2) == [failed]
    assert found(end=NOW + 2) == [plain]
    assert found(filter=[("executionId", "E1")]) == [plain]
    assert found(filter=[("task", "sync"), ("http.response.status_code", "500")]) == [failed]
    assert found(filter=[("colour", "red")]) == [plain]
    assert found(filter=[("colour", "re")]) == []
    assert found(filter=[("olour", "red")]) == []
    assert found(filter=[('we"ird', 'a "b" \\')]) == [failed]
    assert found(filter=[("' or 1=1 --", "'")]) == []


def test_a_filter_that_fits_little_goes_on_by_its_token(
    make_store: MakeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(query, "SCANNED", 10)
    store = make_store()
    keep(store, *[make(number, attributes=[("n", str(number))]) for number in range(1, 36)])
    first = store.runs(OWNER, RunQuery(first=5, filter=[("n", "3")]))
    assert first.entries == []
    assert first.last is not None
    assert [span.attributes["n"] for span in all_pages(store, RunQuery(first=5, filter=[("n", "3")]))] == [
        "3"
    ]


def test_what_is_too_old_goes(make_store: MakeStore, tmp_path: Path) -> None:
    now = [1000.0]
    store = make_store(max_age_seconds=60, clock=lambda: now[0])
    keep(store, make(1))
    now[0] += 61
    keep(store, make(2))
    store.stop()
    writer = Writer(tmp_path / "traces.db", max_bytes=2**30, max_age=60, clock=lambda: now[0])
    writer.sweep()
    writer.close()
    assert [span.span_id for span in store.runs(OWNER, RunQuery(first=10)).entries] == [make(2).span_id]


def test_what_is_too_much_goes_oldest_first(make_store: MakeStore, tmp_path: Path) -> None:
    limit = 4 * 1024 * 1024
    store = make_store(max_bytes=limit)
    for number in range(1, 20_000, 1000):
        keep(store, *[make(number + i, attributes=[("filling", "x" * 500)]) for i in range(1000)])
    assert (tmp_path / "traces.db").stat().st_size <= limit * 1.25
    kept = all_pages(store, RunQuery(first=500))
    assert kept[0].span_id == make(20_000).span_id, "the newest is there"
    assert 1000 < len(kept) < 19_000
    assert [span.start for span in kept] == list(range(kept[0].start, kept[0].start - len(kept), -1))
    assert not store.dropped


def test_a_full_disk_costs_spans_but_no_reads_and_heals(
    make_store: MakeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "_RETRY_SECONDS", 0.0)
    store = make_store()
    keep(store, make(1))
    full = threading.Event()
    real = Writer._insert

    def insert(self: Writer, batch: object, positions: object) -> None:
        if not full.is_set():
            real(self, batch, positions)  # type: ignore[arg-type]
            return
        # What SQLite says when the disk has no room left, from SQLite itself.
        connection = self._open()
        pages = connection.execute("pragma page_count").fetchone()[0]
        connection.execute(f"pragma max_page_count = {pages}")
        try:
            real(self, batch, positions)  # type: ignore[arg-type]
        finally:
            connection.execute("pragma max_page_count = 100000")

    monkeypatch.setattr(Writer, "_insert", insert)
    monkeypatch.setattr(Writer, "_remove_oldest", lambda self: 0)
    full.set()
    big = [make(100 + number, attributes=[("filling", "x" * 4000)]) for number in range(100)]
    assert store.offer(OWNER, big)
    assert store.flush()
    assert store.dropped == {"disk_full": 100}
    assert len(store.trace(OWNER.organisation, OWNER.project, make(1).trace_id)) == 1
    full.clear()
    keep(store, *big)
    assert store.dropped == {"disk_full": 100}
    assert store.written == 101


def test_a_queue_that_is_full_takes_nothing_and_counts(tmp_path: Path) -> None:
    store = TraceStore(tmp_path / "traces.db", Limits(max_queued=2, max_queued_bytes=1000))
    assert store.offer(OWNER, [make(1)])
    assert not store.offer(OWNER, [make(2), make(3)])
    assert not store.offer(OWNER, [make(2, attributes=[("a", "x" * 1000)])])
    assert store.dropped == {"queue_full": 3}
    assert store.queued == 1
    store.start()
    assert store.flush()
    assert store.offer(OWNER, [make(2), make(3)])
    store.stop()
    assert store.written == 3, "what waits is written before the end"
    assert not store.offer(OWNER, [make(4)])


def test_a_file_that_cannot_be_read_is_set_aside(make_store: MakeStore, tmp_path: Path) -> None:
    path = tmp_path / "traces.db"
    path.write_bytes(b"no database at all" * 1000)
    store = make_store()
    assert store.offer(OWNER, [make(1)])
    assert store.flush()
    assert store.dropped == {"failed": 1}
    assert (tmp_path / "traces.db.unreadable").exists()
    store._retry_at = 0.0
    keep(store, make(2))
    assert store.written == 1


def test_a_folder_that_is_none_costs_spans_only(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    store = TraceStore(tmp_path / "file" / "traces.db")
    store.start()
    assert store.offer(OWNER, [make(1)])
    assert store.flush()
    assert store.dropped == {"failed": 1}
    assert store.runs(OWNER, RunQuery(first=1)).entries == []
    store.stop()


def test_a_question_that_takes_too_long_ends(make_store: MakeStore, tmp_path: Path) -> None:
    store = make_store()
    keep(store, make(1))
    endless = "with recursive n(x) as (select 1 union all select x + 1 from n) select max(x) from n"
    with pytest.raises(TooSlowError), reading(tmp_path / "traces.db", seconds=0.05) as connection:
        connection.execute(endless).fetchone()


def test_those_who_read_cannot_write(make_store: MakeStore, tmp_path: Path) -> None:
    store = make_store()
    keep(store, make(1))
    with (
        pytest.raises(sqlite3.OperationalError, match="readonly"),
        reading(tmp_path / "traces.db", seconds=1) as connection,
    ):
        connection.execute("delete from spans")


def test_background_work_is_a_part_of_its_runs_trace_and_no_trace_of_its_own(make_store: MakeStore) -> None:
    store = make_store()
    told = [("run.kind", "background"), ("run.task", "forward")]
    keep(store, make(1), make(2, kind=1, parent_id=b"12345678", trace_id=make(1).trace_id, attributes=told))
    page = store.runs(OWNER, RunQuery(first=10))
    assert [span.span_id for span in page.entries] == [make(1).span_id]


def test_how_far_a_stream_was_read_is_kept_with_its_spans(tmp_path: Path) -> None:
    store = TraceStore(tmp_path / "traces.db", Limits())
    store.start()
    assert store.begin(OWNER.organisation, "then") == 0
    store.put(OWNER, [make(1)], seconds=1)
    store.reached(OWNER.organisation, 7)
    store.reached(OWNER.organisation, 9)
    store.stop()
    again = TraceStore(tmp_path / "traces.db", Limits())
    assert again.begin(OWNER.organisation, "then") == 9
    assert again.begin(OWNER.organisation, "made anew") == 0


def test_who_reads_a_stream_waits_for_room(tmp_path: Path) -> None:
    store = TraceStore(tmp_path / "traces.db", Limits(max_queued=10))
    store.put(OWNER, [make(number) for number in range(1, 9)], seconds=0.1)
    with pytest.raises(OSError, match="takes no spans"):
        store.put(OWNER, [make(20), make(21), make(22)], seconds=0.1)
    store.start()
    store.put(OWNER, [make(20), make(21), make(22)], seconds=5)
    assert store.flush()
    assert store.written == 11
    assert not store.dropped
    store.stop()
