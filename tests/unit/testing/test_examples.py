"""Examples of answers that follow the description: of its own examples, or made, also for regular expressions."""

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.testing.test_alternatives import described
from tieline.testing.described import AnswerNotDescribedError, answer_of
from tieline.testing.pattern_text import text_matching


def answered(schema: dict[str, Any]) -> Any:
    return answer_of(described(schema), "pay", None, {}, check=True).json()


PATTERNS = [
    r"^[A-Z]{3}$", r"^cus_[0-9a-zA-Z]{14,}$", r"^(\d{1,3}\.){3}\d{1,3}$", r"^[^@\s]+@[^@\s]+\.[a-z]{2,}$",
    r"^\+?[1-9]\d{1,14}$", r"^(?:open|paid)$",
    r"^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$", r"[A-Za-z0-9_-]+",
    r"^https?://[\w.-]+(/[\w./-]*)?$", r"^-?\d+(\.\d{1,2})?$", r"^#[0-9A-Fa-f]{6}$",
    r"^arn:aws:[a-z]+:[^:]*:\d{12}:.+$", r"^[\w\-\.]+$", r"^\d{4}-(0[1-9]|1[0-2])-\d\d$", r"^(?P<a>x)y*z+?$",
    r"^$", r"^.{5}$", r"^\x41\u0042$", r"^[^\d]$", r"^]$",
]  # fmt: skip


@pytest.mark.parametrize("pattern", PATTERNS)
def test_an_example_matches_the_pattern(pattern: str) -> None:
    value = answered(
        {"type": "object", "required": ["id"], "properties": {"id": {"type": "string", "pattern": pattern}}}
    )
    assert re.search(pattern, value["id"])


def test_an_example_matches_pattern_and_length() -> None:
    schema = {"type": "string", "pattern": "^cus_[a-z]+$", "minLength": 9, "maxLength": 9}
    assert answered(schema) == "cus_aaaaa"


@settings(max_examples=500)
@given(st.one_of(st.text(max_size=30), st.text(alphabet="ab01()[]{}|*+?^$\\.-,:<>PdwsuxpL", max_size=30)))
def test_no_pattern_breaks_it(pattern: str) -> None:
    text = text_matching(pattern, shortest=3, longest=50)
    assert text is None or len(text) <= 1_000


def test_patterns_that_ask_for_very_long_texts_take_no_time() -> None:
    assert text_matching("((((a{1000}){1000}){1000}){1000}){1000}") is None
    assert text_matching("(" * 5_000) is None
    assert text_matching("^a+$", shortest=10**9) is not None


def test_an_example_of_the_description_that_does_not_follow_it_is_not_used() -> None:
    schema = {
        "type": "object",
        "required": ["id"],
        "properties": {
            "id": {"type": "string", "pattern": "^[0-9]{4}$", "example": "<the id>"},
            "note": {"type": "integer", "example": "seven"},
        },
        "example": {"id": 7},
    }
    assert answered(schema) == {"id": "0000"}


def test_what_cannot_be_made_is_said_with_what_is_there() -> None:
    schema = {
        "type": "object",
        "required": ["id", "even"],
        "properties": {"id": {"type": "string"}, "even": {"type": "integer", "minimum": 1, "multipleOf": 2}},
    }
    with pytest.raises(AnswerNotDescribedError) as caught:
        answered(schema)
    text = str(caught.value)
    assert "answer.even: " in text
    assert 'give one by json=. Change {"id":"text","even":1} so that it does' in text
