"""A stranded message that is no event, as pods may write, keeps none of the others from being handed out again."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from nats.aio.client import Client
from nats.js.api import RawStreamMsg
from nats.js.errors import NotFoundError

from tieline_core.engine.trust import AccountSigner, EngineTrust
from tieline_core.identity.ids import new_id
from tieline_operator.engine.keys import EngineKeys
from tieline_operator.engine.stranded_events import StrandedEvents
from tieline_protocol.event_streams import EventStreams
from tieline_protocol.events import HEADER, EventMetadata

NOW = datetime.now(UTC)
OLD = NOW - timedelta(hours=1)
STREAMS = EventStreams(new_id(), new_id())
KEYS = EngineKeys(trust=EngineTrust(), encryption_key="", release="ours", created=NOW)


class Queue:
    """The part of JetStream that is asked, for a queue whose messages are all stranded."""

    def __init__(self, *messages: RawStreamMsg) -> None:
        self.messages = {int(message.seq or 0): message for message in messages}
        self.published: list[str] = []

    def jetstream(self, **_: Any) -> Queue:
        return self

    async def consumer_info(self, _stream: str, _consumer: str) -> Any:
        return SimpleNamespace(ack_floor=SimpleNamespace(stream_seq=1000))

    async def get_msg(self, _stream: str, seq: int = 0, **options: Any) -> RawStreamMsg:
        for number in sorted(self.messages):
            if options.get("next") and number >= seq:
                return self.messages[number]
        raise NotFoundError

    async def stream_info(self, _stream: str, **_: Any) -> Any:
        return SimpleNamespace(state=SimpleNamespace(subjects=None))

    async def delete_msg(self, _stream: str, sequence: int) -> None:
        del self.messages[sequence]

    async def publish(self, subject: str, *_: Any, **__: Any) -> Any:
        self.published.append(subject)
        return SimpleNamespace(stream="", seq=1, duplicate=False)


def stored(sequence: int, subject: str, headers: dict[str, str] | None = None) -> RawStreamMsg:
    return RawStreamMsg(subject=subject, seq=sequence, data=b"", headers=headers, time=OLD)


@pytest.mark.parametrize(
    ("subject", "headers", "deleted"),
    [
        (f"ev.{STREAMS.organisation}.{STREAMS.environment}.orders", None, True),
        (f"ev.{STREAMS.organisation}.{STREAMS.environment}.orders.run.more", None, True),
        (f"ev.{STREAMS.organisation}.{STREAMS.environment}.~key", None, True),
        (STREAMS.event("orders", "run"), {HEADER: "[" * 60_000}, True),
        (
            STREAMS.event("orders", "run"),
            {HEADER: '{"run":"r","kind":"event","task":" ","queued_at":1}'},
            False,
        ),
    ],
)
async def test_a_message_that_is_no_event_leaves_the_others_theirs(
    monkeypatch: pytest.MonkeyPatch, subject: str, headers: dict[str, str] | None, deleted: bool
) -> None:
    metadata = EventMetadata(run=new_id(), kind="event", task="orders", queued_at=1)
    queue = Queue(
        stored(1, subject, headers),
        stored(2, STREAMS.event("orders", metadata.run), {HEADER: metadata.header()}),
    )

    @asynccontextmanager
    async def opened(_signer: AccountSigner) -> AsyncIterator[Client]:
        yield queue  # type: ignore[misc]

    stranded = StrandedEvents(lambda: [STREAMS], keys=lambda: KEYS, open_account=opened, now=lambda: NOW)

    async def not_ended(*_: Any) -> bool:
        return False

    monkeypatch.setattr(stranded, "_has_ended", not_ended)
    await stranded.look()
    await stranded.look()
    assert queue.published == [STREAMS.waiting(metadata.run)]
    assert set(queue.messages) == (set() if deleted else {1})
