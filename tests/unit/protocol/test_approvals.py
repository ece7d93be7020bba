"""Approvals and answers as messages: what was written is read, and nothing else is taken for one."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tieline_protocol.approvals import (
    MAX_APPROVERS,
    Answer,
    Approval,
    InvalidApprovalError,
    is_deeper,
    refusal,
)

pytestmark = pytest.mark.fast

ID, RUN = "01JD3YGT2MZX9KQW8T2V4N6P0K", "01JD3YEKHBZX9KQW8T2V4N6P0J"
APPROVAL = Approval(
    id=ID, run=RUN, task="refund.requested", title="Refund?", asked_at=1e9, until=2e9, details={"a": [1, None]},
    by=("user:ann", "group:finance"), form={"type": "object"}, other_than="bob", user="eve",
)  # fmt: skip
ANSWER = Answer(approval=ID, approved=False, by="ann", at=1.5e9, name="Ann", comment="no", values={"x": 1})


def nested(levels: int) -> Any:
    value: Any = []
    for _ in range(levels - 1):
        value = [value]
    return value


def test_what_was_written_is_read() -> None:
    assert Approval.decode(APPROVAL.encode()) == APPROVAL
    assert Answer.decode(ANSWER.encode()) == ANSWER
    bare = Approval(id=ID, run=RUN, task="t", title="?", asked_at=1, until=2)
    assert Approval.decode(bare.encode()) == bare


@pytest.mark.parametrize(
    "change",
    [
        {"id": "x"}, {"id": 7}, {"run": "../.."}, {"run": None}, {"task": "x" * 300}, {"title": "x" * 151},
        {"title": None}, {"asked_at": "1"}, {"asked_at": True}, {"until": -1}, {"until": 1e300},
        {"by": 7}, {"by": [7]}, {"by": ["x" * 300]}, {"form": []}, {"other_than": 7}, {"user": {}},
        {"details": nested(51)}, {"form": {"a": nested(50)}},
    ],
    ids=lambda change: str(change)[:30],
)  # fmt: skip
def test_what_is_no_approval_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(InvalidApprovalError):
        Approval.decode(json.dumps(json.loads(APPROVAL.encode()) | change).encode())


@pytest.mark.parametrize(
    "change",
    [
        {"approval": "x"}, {"approved": 1}, {"approved": None}, {"by": None}, {"by": "x" * 300}, {"at": "x"},
        {"comment": "x" * 1001}, {"comment": 7}, {"values": []}, {"values": {"a": nested(50)}}, {"name": 7},
    ],
    ids=lambda change: str(change)[:30],
)  # fmt: skip
def test_what_is_no_answer_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(InvalidApprovalError):
        Answer.decode(json.dumps(json.loads(ANSWER.encode()) | change).encode())


@pytest.mark.parametrize(
    "content",
    [b"", b"7", b"null", b"[]", b"\xff", b"{", b'{"id": "\\ud800"}', b"[" * 100_000, b" " * 200_000],
)
def test_garbage_is_refused(content: bytes) -> None:
    for kind in (Approval, Answer):
        with pytest.raises(InvalidApprovalError):
            kind.decode(content)


def test_fifty_levels_are_read_and_names_are_bounded() -> None:
    content = json.loads(APPROVAL.encode()) | {"details": nested(50), "by": ["user:x"] * 100}
    found = Approval.decode(json.dumps(content).encode())
    assert (found.details, len(found.by)) == (nested(50), MAX_APPROVERS)
    assert is_deeper(nested(51))
    assert not is_deeper(nested(50))


def test_who_is_not_named_is_told_who_is() -> None:
    said = refusal(APPROVAL, user="zoe", groups=("sales",), roles=("tieline-admin",))
    assert said == "You may not answer this approval: it is for user:ann, group:finance"
    assert refusal(APPROVAL, user="ann", groups=(), roles=()) is None
    # Who asked may not, also if a group names them.
    assert "Somebody else" in str(refusal(APPROVAL, user="bob", groups=("finance",), roles=()))
