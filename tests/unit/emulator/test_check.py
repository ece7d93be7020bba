"""``make catalogue-check`` finds what is wrong with the block ``emulator`` of an entry."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.emulator.providers import entry
from tieline.emulator.check import findings


@pytest.mark.parametrize(
    ("block", "said"),
    [
        ({"tokenAnswr": {}}, "emulator.tokenAnswr: Extra inputs are not permitted"),
        ({"expiresIn": "never"}, "emulator.expiresIn"),
        ({"list": {"path": "/rows"}}, "a list at /rows, which system.lists does not describe"),
    ],
)
def test_a_wrong_block_is_found(block: dict[str, Any], said: str) -> None:
    found = findings(entry("acme", {}, emulator=block))
    assert found
    assert said in found[0]


def test_an_answer_to_no_check_is_found() -> None:
    without = entry("acme", {}, emulator={"check": {"id": 1}}, system={"check": None})
    assert findings(without) == ["emulator has an answer to a check request, but system has no check"]
    assert findings(entry("acme", {}, emulator={"check": {"id": 1}})) == []
