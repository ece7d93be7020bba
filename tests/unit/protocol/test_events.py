"""What events and run records are on the wire comes back as it was."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tieline_protocol import run_records
from tieline_protocol.event_streams import EventStreams, hashed, task_token
from tieline_protocol.events import HEADER, EventMetadata, InvalidEventError, WebhookRequest
from tieline_protocol.run_records import (
    InvalidRecordsError,
    RunError,
    RunRecord,
    StepApproval,
    StepRecord,
    TooManyValuesError,
    UpstreamAnswer,
)

pytestmark = pytest.mark.fast

TEXTS = st.text(max_size=30)
METADATA = st.builds(
    EventMetadata,
    run=TEXTS,
    kind=st.sampled_from(["webhook", "event", "background"]),
    task=TEXTS,
    queued_at=st.floats(min_value=1, max_value=2e9),
    attempt=st.integers(1, 100),
    user=st.none() | TEXTS.filter(bool),
    key=st.none() | TEXTS,
    request=st.none()
    | st.builds(
        WebhookRequest, method=TEXTS, path=TEXTS, headers=st.lists(st.tuples(TEXTS, TEXTS), max_size=3)
    ),
    interruptions=st.integers(0, 3),
)


@given(METADATA)
def test_metadata_comes_back_from_a_header_of_printable_ascii(metadata: EventMetadata) -> None:
    header = metadata.header()
    assert header.isascii()
    assert header.isprintable()
    assert EventMetadata.parse({HEADER: header}) == metadata


@pytest.mark.parametrize(
    "header",
    [
        '{"run": 5, "kind": "event", "task": "a", "queued_at": 1}',
        '{"run": "5", "kind": "event", "task": [], "queued_at": 1}',
        '{"run": "5", "kind": "event", "task": "a", "queued_at": "1"}',
        '{"run": "5", "kind": "event", "task": "a", "queued_at": 1, "request": {"method": 5, "path": "/"}}',
        None,
        "",
        "{}",
        "[]",
        "null",
        '"x"',
        '{"run": "1", "request": 3}',
        "{",
    ],
)
def test_a_message_of_somebody_else_is_no_event(header: str | None) -> None:
    with pytest.raises(InvalidEventError):
        EventMetadata.parse(None if header is None else {HEADER: header})


def test_metadata_of_a_newer_release_is_read() -> None:
    known = EventMetadata(run="1", kind="event", task="a", queued_at=1.0)
    newer = known.header()[:-1] + ',"colour":"blue"}'
    assert EventMetadata.parse({HEADER: newer}) == known


def test_records_come_back() -> None:
    record = RunRecord(
        id="1",
        kind="webhook",
        task="orders",
        status="dead",
        attempt=3,
        queued_at=1.5,
        at=9.0,
        error=RunError(type="UpstreamError", message="away", upstream=UpstreamAnswer(status=500, body="no")),
        steps=[
            StepRecord(name="book", occurrence=1, started_at=1.0, ended_at=2.0, error="x"),
            StepRecord(
                name="approve: Refund?",
                occurrence=1,
                started_at=1.0,
                ended_at=2.0,
                approval=StepApproval(id="a", state="rejected", by="ann", at=1.5, comment="no"),
            ),
        ],
        input=b"\x00\xff",
        request=WebhookRequest(method="POST", path="/orders?a=1", headers=[("A", "b")]),
    )
    (found,) = run_records.decode(run_records.encode([record]))
    assert found.steps == tuple(record.steps)
    assert (found.error, found.input, found.request) == (record.error, record.input, record.request)
    assert (found.id, found.status, found.attempt, found.rank) == ("1", "dead", 3, (1, 3, 3))


@pytest.mark.parametrize(
    "content", [b"", b'{"id": 1}', b"[1]", b'[{"id": "1"}]', b'[{"id": "1", "status": "odd"}]', b"\xff"]
)
def test_something_else_is_no_list_of_records(content: bytes) -> None:
    with pytest.raises(InvalidRecordsError):
        run_records.decode(content)


@given(TEXTS)
def test_keys_and_names_are_one_token_of_a_subject(text: str) -> None:
    assert len(hashed(text)) == 32
    assert set(hashed(text)) <= set("0123456789abcdef")


def test_a_tasks_dots_do_not_divide_its_subject() -> None:
    assert task_token("order.created") == "order/created"
    assert EventStreams("O", "E").event("order.created", "R") == "ev.O.E.normal.order/created.R"


@pytest.mark.parametrize(
    "content", [b"[" * 100_000, b'[{"id":[],"kind":"event","task":"t","status":"failed","attempt":1}]']
)
def test_what_cannot_be_compared_is_no_record(content: bytes) -> None:
    with pytest.raises(InvalidRecordsError):
        run_records.decode(content)


def test_a_message_of_very_many_values_is_refused_unread() -> None:
    with pytest.raises(TooManyValuesError):
        run_records.decode(b"[" + b",".join([b"{}"] * run_records.MAX_VALUES) + b"]")


def test_a_shared_key_cannot_pass_for_the_key_of_a_user() -> None:
    own = EventMetadata(run="R", kind="event", task="ship", queued_at=1, user="ann", key="7")
    crafted = EventMetadata(
        run="S", kind="event", task="bill", queued_at=1, key="event\0ship\0ann\x007", shared_key=True
    )
    assert crafted.key_hash != own.key_hash
