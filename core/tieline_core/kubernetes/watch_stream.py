"""From the bytes of a watch to its events."""

from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass
from typing import Any

import aiohttp
import orjson

from tieline_core.kubernetes import errors, safe_json
from tieline_core.kubernetes.resources import Resource

_MAX_LINE = 32 * 1024 * 1024


@dataclass(frozen=True)
class WatchEvent:
    """One event of a watch: ADDED, MODIFIED, DELETED or BOOKMARK."""

    type: str
    object: dict[str, Any]


async def events(
    stream: aiohttp.StreamReader, resource: Resource, *, doing: str, sensitive: bool
) -> AsyncGenerator[WatchEvent, None]:
    """The events in a watch's answer. Objects get apiVersion and kind of ``resource``.

    Raises the error that the server sends in the stream (Gone, mostly).
    """
    async for line in lines(stream):
        event = _parsed(line, doing)
        found = event["object"]
        if event["type"] == "ERROR":
            raise errors.from_status(found.get("code") or 500, found, doing=doing, sensitive=sensitive)
        found.update(apiVersion=resource.api_version, kind=resource.kind)
        yield WatchEvent(type=event["type"], object=found)


async def lines(stream: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    """Whole lines of (nearly) any length: aiohttp's own readline refuses what exceeds its buffer.

    A last line without an end was cut off with the connection, and is left out.
    """
    pending = bytearray()
    async for chunk in stream.iter_any():
        pending += chunk
        if b"\n" not in chunk:
            if len(pending) > _MAX_LINE:
                raise errors.Unavailable(f"A watch event has more than {_MAX_LINE} bytes")
            continue
        *complete, rest = bytes(pending).split(b"\n")
        pending = bytearray(rest)
        for line in complete:
            if line.strip():
                yield line


def _parsed(line: bytes, doing: str) -> dict[str, Any]:
    # The parser's error holds the whole text, which may be a Secret: it goes no further.
    try:
        event = safe_json.loads(line)
    except orjson.JSONDecodeError:
        event = None
    if not isinstance(event, dict) or not isinstance(event.get("object"), dict) or "type" not in event:
        raise errors.Unavailable(f"{doing}: the server sent a line that is no event")
    return event
