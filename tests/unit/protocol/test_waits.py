"""Waits and events find each other exactly where their values are the same."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tieline_protocol.waits import (
    MAX_FIELDS,
    MAX_KEEP_SECONDS,
    MAX_VALUE,
    InvalidRuleError,
    WaitRule,
    matched_text,
)

SCALARS = st.one_of(
    st.text(max_size=40), st.integers(), st.booleans(), st.floats(allow_nan=False, allow_infinity=False)
)
FIELDS = st.lists(st.from_regex(r"[a-z]{1,4}", fullmatch=True), max_size=MAX_FIELDS, unique=True)
USERS = st.one_of(st.none(), st.text(max_size=10))


@given(FIELDS, st.data(), USERS, st.booleans())
def test_an_event_with_the_values_of_a_wait_has_its_index(
    fields: list[str], data: st.DataObject, user: str | None, shared: bool
) -> None:
    payload = {field: data.draw(SCALARS) for field in fields}
    rule = WaitRule(name="paid", fields=tuple(sorted(fields)), shared=shared)
    values = {field: str(matched_text(value)) for field, value in payload.items()}
    index = rule.index(values, user)
    stored = json.loads(json.dumps(payload))
    assert rule.index_of(stored, user) == index
    assert (rule.index_of(stored, "somebody else, surely") == index) is shared
    for field in fields:
        assert rule.index_of({**stored, field: f"{values[field]}x"}, user) != index
        assert rule.index_of({**stored, field: None}, user) is None


@given(st.text(max_size=20), st.text(max_size=20), st.text(max_size=20), st.text(max_size=20))
def test_values_do_not_run_into_each_other(first: str, second: str, third: str, fourth: str) -> None:
    rule = WaitRule(name="paid", fields=("a", "b"))
    same = rule.index({"a": first, "b": second}, None) == rule.index({"a": third, "b": fourth}, None)
    assert same is ((first, second) == (third, fourth))


@pytest.mark.parametrize("value", [None, [], {}, "x" * (MAX_VALUE + 1), 10**MAX_VALUE])
def test_what_cannot_be_compared_matches_nothing(value: Any) -> None:
    assert matched_text(value) is None
    assert WaitRule(name="paid", fields=("a.b",)).index_of({"a": {"b": value}}, None) is None


def test_a_rule_without_fields_takes_any_payload() -> None:
    rule = WaitRule(name="paid")
    assert rule.index_of([1, "anything"], "ann") == rule.index({}, "ann")


@given(FIELDS, st.booleans(), st.floats(0, 7 * 86400))
def test_a_rule_is_read_as_it_was_written(fields: list[str], shared: bool, keep: float) -> None:
    rule = WaitRule(name="paid", fields=tuple(sorted(fields)), shared=shared, keep=keep)
    assert WaitRule.decode(rule.encode()) == rule


@given(
    st.one_of(
        st.binary(max_size=60), st.recursive(SCALARS, st.lists).map(lambda one: json.dumps(one).encode())
    )
)
def test_another_message_is_no_rule(content: bytes) -> None:
    with pytest.raises(InvalidRuleError):
        WaitRule.decode(content)


@pytest.mark.parametrize("field", ["name", "fields", "keep"])
@pytest.mark.parametrize("value", [None, 7.5, float("nan"), float("inf"), [], [[]], {"a": 1}])
def test_a_hostile_rule_is_refused_or_bounded(field: str, value: Any) -> None:
    content = json.loads(WaitRule(name="paid", fields=("a",)).encode())
    try:
        rule = WaitRule.decode(json.dumps({**content, field: value}).encode())
    except InvalidRuleError:
        return
    assert isinstance(rule.name, str)
    assert 0 <= rule.keep <= MAX_KEEP_SECONDS
    assert len(rule.fields) <= MAX_FIELDS
    assert all(isinstance(one, str) for one in rule.fields)
