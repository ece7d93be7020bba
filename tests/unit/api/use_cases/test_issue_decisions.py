"""What people may decide about an issue, and what follows."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from tieline_api.engine.errors import EngineUnavailableError
from tieline_api.errors import ApiError, conflict
from tieline_api.runs.issues import Decision, Issue
from tieline_api.schemas.issues import IssueUpdate
from tieline_api.state.documents import Document, DocumentKey
from tieline_api.use_cases.issue_decisions import decide, new_decision, newest_version
from tieline_core.identity.ids import new_id

NOW = 1_764_000_000 * 10**9
FUTURE, PAST = "2026-11-24T00:00:00Z", "2020-01-01T00:00:00Z"
ORGANISATION = new_id()
ISSUE = Issue(
    id="5f0c1e9a7d3b24680ace", environment=new_id(), kind="event", task="t", type="E", system="", status=None,
    message="m", runs=1, first=1, last=2, first_version="v1", last_version="v2", users=0, keys=0,
    versions=("v1", "v2"),
)  # fmt: skip


def after(before: Decision | None = None, **body: Any) -> Decision:
    return new_decision(
        before or Decision(), IssueUpdate.model_validate(body), newest="v2", newest_at=7, by="ann", now=NOW
    )


def test_each_state_is_set_with_who_and_when() -> None:
    assert after(state="resolved") == Decision(state="resolved", at=NOW, by="ann")
    assert after(state="resolved", nextVersion=True) == Decision(
        state="resolved", at=NOW, by="ann", next_version=True, version="v2", version_at=7
    )
    muted = after(state="muted", reason=" known ", mutedUntil=FUTURE)
    assert (muted.state, muted.reason, muted.until) == ("muted", "known", 1_795_478_400 * 10**9)
    assert after(muted, state="open") == Decision(at=NOW, by="ann")


def test_an_assignee_stays_until_another_one_is_set() -> None:
    mine = after(assignee="ann")
    assert mine == Decision(assignee="ann"), "nobody has decided about the state"
    assert after(mine, state="resolved").assignee == "ann"
    assert after(after(mine, state="resolved"), assignee="ben") == Decision(
        state="resolved", at=NOW, by="ann", assignee="ben"
    )
    assert after(mine, assignee="").assignee == ""


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, ""),
        ({"assignee": None}, ""),
        ({"nextVersion": True, "assignee": "a"}, "nextVersion"),
        ({"state": "muted", "nextVersion": True, "reason": "r"}, "nextVersion"),
        ({"state": "muted"}, "reason"),
        ({"state": "muted", "reason": "  "}, "reason"),
        ({"state": "muted", "reason": "r", "mutedUntil": PAST}, "mutedUntil"),
        ({"state": "resolved", "reason": "r"}, "reason"),
        ({"state": "open", "mutedUntil": FUTURE}, "mutedUntil"),
    ],
)
def test_what_does_not_go_together_is_refused(body: dict[str, Any], field: str) -> None:
    with pytest.raises(ApiError) as refused:
        after(**body)
    assert (refused.value.status, [one.field for one in refused.value.fields]) == (422, [field])


@pytest.mark.parametrize(
    "body",
    [{"state": "regressed"}, {"assignee": "x" * 257}, {"reason": "x" * 501}, {"nextVersion": "yes"}],
)
def test_what_is_out_of_bounds_is_refused(body: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        IssueUpdate.model_validate(body)


def test_the_newest_version_is_that_which_serves_or_failed_last() -> None:
    ages = {"v1": 1, "v2": 2, "v3": 3}
    assert newest_version(ISSUE, "v3", ages.get) == ("v3", 3)
    assert newest_version(ISSUE, "v1", ages.get) == ("v2", 2)
    assert newest_version(ISSUE, "", {}.get) == ("v2", 0)


class FakeDocuments:
    """One document, which others may change first."""

    def __init__(self, others: int = 0, text: bytes | None = None) -> None:
        self.document = Document(text=text, version="1") if text is not None else None
        self.others = others
        self.expected: list[str | None] = []

    async def get(self, _ref: DocumentKey) -> Document | None:
        return self.document

    async def put(self, ref: DocumentKey, value: Any, *, anyway: bool, expected: str | None) -> str:
        assert not anyway
        assert ref.key == ISSUE.id
        self.expected.append(expected)
        if self.others:
            self.others -= 1
            self.document = Document(text=b'{"assignee": "ben"}', version=f"{self.others + 10:x}")
            raise conflict("It has another version")
        return "ff"


class FakePlatform:
    """What decisions need."""

    def __init__(self, documents: FakeDocuments) -> None:
        self.documents = documents
        self.runs = self
        self.seen: list[int] = []

    async def decided(self, _organisation: str, sequence: int) -> None:
        self.seen.append(sequence)


async def test_who_decides_at_the_same_time_loses_nothing() -> None:
    platform: Any = FakePlatform(FakeDocuments(others=2))
    found, sequence = await decide(
        platform, ORGANISATION, ISSUE, lambda before: after(before, state="resolved")
    )
    assert sequence == 255
    assert (found.state, found.assignee) == ("resolved", "ben")
    assert platform.seen == [255]
    platform = FakePlatform(FakeDocuments(others=99))
    with pytest.raises(ApiError) as refused:
        await decide(platform, ORGANISATION, ISSUE, lambda before: before)
    assert refused.value.status == 409


async def test_a_decision_that_cannot_be_read_is_replaced() -> None:
    documents = FakeDocuments(text=b"{")
    platform: Any = FakePlatform(documents)
    await decide(platform, ORGANISATION, ISSUE, lambda before: after(before, assignee="ann"))
    assert documents.expected == ["1"]


async def test_an_engine_that_is_away_is_said() -> None:
    class Away(FakeDocuments):
        async def get(self, _ref: DocumentKey) -> Document | None:
            raise EngineUnavailableError

    platform: Any = FakePlatform(Away())
    with pytest.raises(EngineUnavailableError):
        await decide(platform, ORGANISATION, ISSUE, lambda before: before)


async def test_a_decision_that_follows_another_one_than_was_seen_is_refused() -> None:
    platform: Any = FakePlatform(FakeDocuments())
    none = f'"{0:020x}-digest"'
    await decide(platform, ORGANISATION, ISSUE, lambda before: before, if_match=none)
    platform = FakePlatform(FakeDocuments(text=b"{}"))
    for condition in (none, '"2"'):
        with pytest.raises(ApiError) as refused:
            await decide(platform, ORGANISATION, ISSUE, lambda before: before, if_match=condition)
        assert refused.value.status == 412
    await decide(platform, ORGANISATION, ISSUE, lambda before: before, if_match='"1-other"')
    platform = FakePlatform(FakeDocuments(others=1))
    with pytest.raises(ApiError) as refused:
        await decide(platform, ORGANISATION, ISSUE, lambda before: before, if_match=none)
    assert refused.value.status == 412
