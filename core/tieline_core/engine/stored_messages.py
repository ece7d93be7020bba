"""Messages of a stream, read by number with DIRECT.GET: no consumer is made, and an answer has a bound of bytes."""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import NoRespondersError

from tieline_engine.client import answer_status, stored_sequence
from tieline_protocol.event_streams import MAX_MESSAGE_BYTES

_NOT_FOUND, _END = "404", "204"
_TIME = "Nats-Time-Stamp"


class EngineReadError(Exception):
    """The engine refuses to read a stream."""


@dataclass(frozen=True)
class StoredMessage:
    """A message of a stream."""

    sequence: int
    subject: str
    headers: Mapping[str, str]
    data: bytes
    stored_at: float | None = None
    """Seconds since 1970, by the engine's clock."""


@dataclass(frozen=True, kw_only=True)
class ReadLimits:
    """What ``read_subject`` takes at most."""

    messages: int
    bytes: int
    """Beyond it no further request is made; an answer has at most one message of MAX_MESSAGE_BYTES more."""
    batch: int = 256
    seconds: float = 5.0
    """For each answer of the engine."""


def stored_message(answer: Msg) -> StoredMessage:
    """The message of a stream in an answer of which ``answer_status`` is None."""
    headers = answer.headers or {}
    return StoredMessage(
        stored_sequence(answer),
        headers.get("Nats-Subject", ""),
        headers,
        answer.data,
        _seconds(headers.get(_TIME, "")),
    )


async def read_page(
    client: Client, stream: str, wanted: Mapping[str, Any], *, seconds: float
) -> Sequence[StoredMessage]:
    """The messages of one request of a batch.

    Raises NoRespondersError where there is no such stream, EngineReadError, and the other errors of nats-py.
    """
    found: list[StoredMessage] = []
    inbox = client.new_inbox()
    answers = await client.subscribe(inbox)
    try:
        await client.publish(f"$JS.API.DIRECT.GET.{stream}", orjson.dumps(wanted), reply=inbox)
        while (status := answer_status(answer := await answers.next_msg(timeout=seconds))) is None:
            found.append(stored_message(answer))
    finally:
        await answers.unsubscribe()
    if status == "503":
        raise NoRespondersError
    if status not in (_NOT_FOUND, _END):
        raise EngineReadError(f"The engine refuses to read {stream} (status {status or 'unknown'})")
    return found


async def read_subject(
    client: Client, stream: str, subject: str, *, start: int | datetime, limits: ReadLimits
) -> AsyncIterator[Sequence[StoredMessage]]:
    """Messages at a subject from a number or a time on, oldest first, until there are no more or a limit is met.

    Raises as ``read_page``.
    """
    since: dict[str, Any] = {"seq": start} if isinstance(start, int) else {"start_time": start.isoformat()}
    messages, size = limits.messages, limits.bytes
    while messages > 0 and size > 0:
        wanted = {
            **since,
            "next_by_subj": subject,
            "batch": min(limits.batch, messages),
            "max_bytes": min(size, MAX_MESSAGE_BYTES),
        }
        page = await read_page(client, stream, wanted, seconds=limits.seconds)
        if not page:
            return
        messages -= len(page)
        size -= sum(len(message.data) for message in page)
        yield page
        since = {"seq": page[-1].sequence + 1}


def _seconds(text: str) -> float | None:
    """A time in RFC 3339 with nanoseconds, of which microseconds are kept."""
    seconds, _, fraction = text.removesuffix("Z").partition(".")
    try:
        moment = datetime.fromisoformat(f"{seconds}+00:00").timestamp()
        return moment + (float(f"0.{fraction[:6]}") if fraction else 0.0)
    except ValueError:
        return None
