"""``integration.waits_for``: which declarations there can be, and how many."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tieline import Integration

pytestmark = pytest.mark.fast


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"match": ["a", "a"]}, "each once"),
        ({"match": list("abcdef")}, "at most 5 fields"),
        ({"match": ["a..b"]}, "names fields of the payload"),
        ({"keep": timedelta(days=8)}, "keep must be from 0 to 604800"),
    ],
)
def test_a_declaration_that_cannot_be_is_refused(options: dict[str, object], error: str) -> None:
    with pytest.raises(ValueError, match=error):
        Integration().waits_for("paid", **options)  # type: ignore[arg-type]


def test_declarations_are_bounded() -> None:
    integration = Integration()
    for number in range(8):
        integration.waits_for("paid", match=[f"field{number}"])
    with pytest.raises(ValueError, match="at most 8 sets of fields"):
        integration.waits_for("paid")
    with pytest.raises(ValueError, match="declared already"):
        integration.waits_for("paid", match=["field1"], shared=True)
    for number in range(99):
        integration.waits_for(f"paid.{number}")
    with pytest.raises(ValueError, match="at most 100 names"):
        integration.waits_for("one.more")
