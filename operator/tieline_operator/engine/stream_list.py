"""Lists the streams of the event engine with what is in them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import orjson
from nats.aio.client import Client

from tieline_core.engine.streams import StreamOwner
from tieline_protocol.event_streams import EventStreams

REQUEST_SECONDS = 10.0
_MAX_PAGES = 1000
# Beyond any number of subjects: the engine answers with their number alone.
_BEYOND = 1 << 40


class EngineAnswerError(Exception):
    """The engine refuses a request."""


@dataclass(frozen=True, kw_only=True)
class StreamFacts:
    """A stream as the engine lists it."""

    name: str
    owner: StreamOwner | None
    messages: int
    last_sequence: int
    consumers: int
    oldest: datetime | None
    """When the first message that it still has was stored."""

    @property
    def revision(self) -> tuple[int, int]:
        """Differs once there are other messages in it."""
        return self.last_sequence, self.messages


async def list_streams(client: Client) -> Sequence[StreamFacts]:
    """All streams of the account, read in pages. Raises EngineAnswerError and the errors of nats-py."""
    found: list[StreamFacts] = []
    for _ in range(_MAX_PAGES):
        page = await _request(client, "STREAM.LIST", {"offset": len(found)})
        streams = page.get("streams") or []
        found.extend(_facts(one) for one in streams)
        if not streams or len(found) >= page["total"]:
            break
    return found


async def count_dead_letters(client: Client, streams: EventStreams) -> int:
    """How many dead letters an environment has. Raises EngineAnswerError and the errors of nats-py."""
    body = {"subjects_filter": streams.dead(">"), "offset": _BEYOND}
    answer = await _request(client, f"STREAM.INFO.{streams.runs}", body)
    return int(answer.get("total", 0))


async def _request(client: Client, subject: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
    answer = await client.request(f"$JS.API.{subject}", orjson.dumps(body), timeout=REQUEST_SECONDS)
    content: Mapping[str, Any] = orjson.loads(answer.data)
    if error := content.get("error"):
        raise EngineAnswerError(str(error.get("description", "the engine refuses")))
    return content


def _facts(stream: Mapping[str, Any]) -> StreamFacts:
    config, state = stream["config"], stream["state"]
    messages = int(state["messages"])
    return StreamFacts(
        name=config["name"],
        owner=StreamOwner.of(config.get("metadata")),
        messages=messages,
        last_sequence=int(state["last_seq"]),
        consumers=int(state.get("consumer_count", 0)),
        oldest=_time(state["first_ts"]) if messages else None,
    )


def _time(text: str) -> datetime:
    """RFC 3339 with nanoseconds, which are cut."""
    return datetime.fromisoformat(f"{text[:19]}+00:00").astimezone(UTC)
