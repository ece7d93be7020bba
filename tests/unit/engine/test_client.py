"""What pods store is never read as a message of the engine itself."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nats.aio.msg import Msg

from tieline_engine.client import answer_status, delivery_status, parsed_headers

pytestmark = pytest.mark.fast

PIECES = st.sampled_from(
    [b"NATS/1.0", b" ", b"503", b"\r\n", b":", b"Status", b"\xff", b"Nats-Sequence", b"7", b"\n", b"\t", b""]
)
BLOCKS = st.binary(max_size=60) | st.lists(PIECES, max_size=20).map(b"".join)


def message(headers: dict[str, str] | None, *, reply: str = "") -> Msg:
    nobody: Any = None
    return Msg(_client=nobody, subject="s", reply=reply, headers=headers)


@given(BLOCKS)
def test_any_headers_can_be_read(block: bytes) -> None:
    parsed_headers(block)


@given(BLOCKS)
def test_the_number_that_the_engine_adds_is_found_behind_any_headers(block: bytes) -> None:
    # As nats-server does: it cuts two bytes, and appends its own lines.
    start = block[:-2] if len(block) > 2 else b"NATS/1.0\r\n"
    found = parsed_headers(start + b"Nats-Stream: s\r\nNats-Sequence: 41\r\nNats-Time-Stamp: t\r\n\r\n") or {}
    assert found["Nats-Sequence"] == "41"
    assert answer_status(message(found)) is None


@given(BLOCKS)
def test_no_headers_make_a_delivered_message_a_status(block: bytes) -> None:
    assert delivery_status(message(parsed_headers(block), reply="$JS.ACK.ev.pods.1.2.3.4.5")) is None


@pytest.mark.parametrize(
    ("block", "status", "description"),
    [
        (b"NATS/1.0 503\r\n\r\n", "503", None),
        (b"NATS/1.0 404 No Messages\r\n\r\n", "404", "No Messages"),
        (b"NATS/1.0 409 Consumer Deleted\r\n\r\n", "409", "Consumer Deleted"),
        (b"NATS/1.0 100 Idle Heartbeat\r\nNats-Last-Consumer: 3\r\n\r\n", "100", "Idle Heartbeat"),
        (b"NATS/1.0 204 EOB\r\nNats-Num-Pending: 0\r\n\r\n", "204", "EOB"),
    ],
)
def test_a_status_of_the_engine_is_one(block: bytes, status: str, description: str | None) -> None:
    found = message(parsed_headers(block))
    assert answer_status(found) == delivery_status(found) == status
    assert (found.headers or {}).get("Description") == description


def test_what_is_neither_a_message_nor_a_status_is_no_message() -> None:
    assert (answer_status(message(None)), delivery_status(message(None))) == ("", "")
