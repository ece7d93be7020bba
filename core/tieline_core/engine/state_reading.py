"""Reads streams of state with a client that has all rights in the platform's account."""

from collections.abc import Mapping
from typing import Any

import orjson
from nats.aio.client import Client

from tieline_core.engine.state_streams import StatePlace
from tieline_core.engine.system_requests import EngineAnswerError
from tieline_engine.client import answer_status

_REQUEST_SECONDS = 20.0
_MAX_PAGES = 100
_NOT_FOUND = 404


async def subjects_of(client: Client, stream: str, subjects: str = ">") -> list[str]:
    """The subjects of all messages of a stream; none where there is no such stream.

    Raises EngineAnswerError and the errors of nats-py.
    """
    found: list[str] = []
    for _ in range(_MAX_PAGES):
        wanted = {"subjects_filter": subjects, "offset": len(found)}
        answer = await _ask(client, f"STREAM.INFO.{stream}", wanted) or {}
        more = list((answer.get("state") or {}).get("subjects") or {})
        found += more
        if not more or len(found) >= int(answer.get("total") or 0):
            break
    return found


async def purge(client: Client, stream: str, subjects: str) -> int:
    """Deletes all messages at subjects; how many there were. Raises as ``subjects_of``."""
    answer = await _ask(client, f"STREAM.PURGE.{stream}", {"filter": subjects}) or {}
    return int(answer.get("purged") or 0)


async def values_at(client: Client, place: StatePlace, *, limit: int) -> dict[str, bytes]:
    """The values at a place by their keys, as JSON; at most ``limit``. Raises as ``subjects_of``."""
    found = {}
    for subject in (await subjects_of(client, place.stream, place.subjects))[:limit]:
        key = place.key(subject)
        answer = await client.request(
            f"$JS.API.DIRECT.GET.{place.stream}.{subject}", b"", timeout=_REQUEST_SECONDS
        )
        if key is not None and answer_status(answer) is None:
            found[key] = answer.data
    return found


async def _ask(client: Client, operation: str, content: Mapping[str, Any]) -> dict[str, Any] | None:
    """The answer; None where there is no such stream."""
    answer = await client.request(f"$JS.API.{operation}", orjson.dumps(content), timeout=_REQUEST_SECONDS)
    found: dict[str, Any] = orjson.loads(answer.data)
    if error := found.get("error"):
        if error.get("code") == _NOT_FOUND:
            return None
        raise EngineAnswerError(str(error.get("description") or "the engine refuses"))
    return found
