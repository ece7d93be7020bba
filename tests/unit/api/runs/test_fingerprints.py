"""Which failed runs are of one issue."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.api.runs.run_records import record
from tieline_api.runs.fingerprints import MAX_WORDS, is_issue_id, issue_of, words
from tieline_core.identity.ids import new_id
from tieline_protocol.run_records import RunError, UpstreamAnswer

HERE, THERE = new_id(), new_id()
WORDS = st.lists(
    st.sampled_from(["order", "of", "customer", "is", "not", "known:", "(see", "above)", "don't"])
)
VARYING = st.one_of(
    st.integers(-(10**12), 10**12).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(str),
    st.uuids().map(str),
    st.uuids().map(lambda one: one.hex + "0"),
    st.builds(new_id),
    st.datetimes().map(lambda one: one.isoformat()),
    st.ip_addresses().map(str).filter(lambda one: any(c.isdigit() for c in one)),
    st.text("abcdefgh ", min_size=1, max_size=20).map(lambda one: f'"{one}"'),
    st.text("abcdefgh", min_size=1, max_size=20).map(lambda one: f"'{one}'"),
    st.text("abcdefgh", min_size=1, max_size=20).map(lambda one: f"{one}@{one}.example"),
    st.text("abcdefgh", min_size=1, max_size=20).map(lambda one: f"https://{one}.example/{one}?q={one}"),
    st.integers(1, 10**6).map(lambda one: f"N-{one}"),
    st.integers(1, 2**48).map(lambda one: f"0x7f{one:x}"),
)


def failed(message: str = "away", *, upstream: UpstreamAnswer | None = None, **fields: Any) -> str:
    environment, kind = fields.pop("environment", HERE), fields.pop("type", "ValueError")
    error = RunError(type=kind, message=message, upstream=upstream)
    found = issue_of(environment, record(**{"status": "failed", "attempt": 1, "error": error, **fields}))
    assert found is not None
    assert is_issue_id(found)
    return found


@given(WORDS, st.data())
def test_the_same_failure_with_other_numbers_is_one_issue(text: list[str], data: st.DataObject) -> None:
    def message() -> str:
        return " ".join(part for one in text for part in (one, data.draw(VARYING)))

    assert failed(message()) == failed(message(), version="v2", status="dead", attempt=7, user="ben", key="k")


@given(st.text(max_size=3000), st.text(max_size=3000))
def test_a_message_of_any_text_has_bounded_words(message: str, more: str) -> None:
    found = words(message + more)
    assert len(found) <= MAX_WORDS
    assert words(message + more) == found
    assert not any(character.isdigit() for character in found)


@pytest.mark.parametrize(
    "text", ["a" * 100_000, '"' * 5000, "@" * 5000, "a@" * 5000, "*," * 5000, "x://" * 999]
)
def test_hostile_messages_are_read_at_once(text: str) -> None:
    assert len(words(text)) <= MAX_WORDS


@pytest.mark.parametrize(
    "fields",
    [
        {"task": "order.deleted"},
        {"kind": "webhook"},
        {"type": "KeyError"},
        {"message": "is late"},
        {"environment": THERE},
        {"upstream": UpstreamAnswer(status=404, body="", system="Shop")},
    ],
    ids=lambda one: next(iter(one)),
)
def test_what_failed_otherwise_is_another_issue(fields: dict[str, Any]) -> None:
    assert failed(**fields) != failed()


@pytest.mark.parametrize("status", [429, 500, 503])
def test_what_a_system_in_trouble_says_does_not_matter(status: int) -> None:
    def answer(body: str, system: str = "Shop", status: int = status) -> str:
        upstream = UpstreamAnswer(status=status, body=body, system=system)
        return failed(f"{system} answered {status}: {body}", upstream=upstream)

    assert answer("<html>closed, ask for abc") == answer("try again")
    assert len({answer(""), answer("", "CRM"), answer("", "Shop", 502)}) == 3


def test_what_a_system_refuses_matters() -> None:
    def refused(words: str) -> str:
        return failed(words, upstream=UpstreamAnswer(status=422, body="", system="Shop"))

    assert refused("no such country") != refused("too many lines")


@pytest.mark.parametrize("status", ["queued", "running", "waiting", "succeeded", "cancelled"])
def test_a_run_that_has_not_failed_is_of_none(status: Any) -> None:
    error = RunError(type="E", message="m")
    assert issue_of(HERE, record(status=status, attempt=1, error=error)) is None


def test_a_failed_run_without_an_error_has_an_issue_too() -> None:
    one, other = (issue_of(HERE, record(status="dead", attempt=1, task=task)) for task in ("a", "b"))
    assert one is not None
    assert one != other
    assert not any(map(is_issue_id, ["", "x" * 20, uuid.uuid4().hex, one + "0"]))


def test_missing_names_of_the_code_are_issues_of_their_own() -> None:
    def missing(name: str, kind: str = "KeyError") -> str:
        return failed(f"{kind}: {name!r}", type=kind)

    assert len({missing("DATABASE_URL"), missing("API_URL"), missing("API_URL", "NameError")}) == 3
    assert missing("N-1101") == missing("N-1102")
