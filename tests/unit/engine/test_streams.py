"""How much may wait is what the stream's metadata says; a stream without it has no bound."""

from __future__ import annotations

from typing import Any

import pytest

from tieline_engine.streams import is_waiting_full
from tieline_protocol.event_streams import MAX_BYTES


@pytest.mark.parametrize(
    ("metadata", "size", "full"),
    [
        ({MAX_BYTES: "100"}, 99, False),
        ({MAX_BYTES: "100"}, 100, True),
        ({MAX_BYTES: "many"}, 101, False),
        ({"other": "1"}, 101, False),
        ({}, 101, False),
        (None, 101, False),
    ],
)
def test_a_stream_is_full_at_its_bound(metadata: dict[str, str] | None, size: int, *, full: bool) -> None:
    info: dict[str, Any] = {"config": {"metadata": metadata}, "state": {"bytes": size}}
    assert is_waiting_full(info) is full
