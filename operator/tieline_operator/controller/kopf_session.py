"""kopf's HTTP session, which passes on only the metadata of our kinds: its handlers use nothing else.

Python's parser, which kopf reads responses with, fails on JSON that nests 1,000 levels deep, and Kubernetes stores
such JSON: one object would stop the operator for everybody.
"""

from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import kopf
import orjson

from tieline_core.kubernetes import safe_json

_OURS = "tieline.dev/"
_KEPT = ("apiVersion", "kind")
_LEFT_OUT = frozenset({"managedFields", "annotations"})


def session_of(info: kopf.ConnectionInfo) -> kopf.AiohttpSession:
    """A session with kopf's connection settings. Call it inside a running event loop."""
    session = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, ssl=info.as_ssl_context()),
        headers=info.as_http_headers(),
        auth=info.as_aiohttp_basic_auth(),
        proxy=info.proxy_url,
        trust_env=info.trust_env,
        response_class=_Response,
    )
    return kopf.AiohttpSession(
        server=info.server,
        default_namespace=info.default_namespace,
        priority=info.priority,
        expiration=info.expiration,
        aiohttp_session=session,
    )


class _Response(aiohttp.ClientResponse):
    """A response whose documents contain what kopf needs."""

    async def start(self, connection: Any) -> "_Response":
        await super().start(connection)
        self.content = _Lines(self.content)  # type: ignore[assignment]
        return self

    async def json(self, **_: Any) -> Any:
        text = await self.read()
        return without_contents(safe_json.loads(text)) if text.strip() else None


class _Lines:
    """A stream of watch events, each with the metadata of its object only."""

    def __init__(self, content: aiohttp.StreamReader) -> None:
        self._content = content

    def __getattr__(self, name: str) -> Any:
        return getattr(self._content, name)

    async def iter_chunked(self, size: int) -> AsyncIterator[bytes]:
        """The events as lines. kopf reports a line that is no event."""
        pending: list[bytes] = []
        async for chunk in self._content.iter_chunked(size):
            *complete, rest = chunk.split(b"\n")
            for part in complete:
                yield _event(b"".join((*pending, part)))
                pending = []
            pending.append(rest)
        if last := b"".join(pending):
            yield _event(last)


def _event(line: bytes) -> bytes:
    try:
        event = safe_json.loads(line)
    except orjson.JSONDecodeError:
        return line + b"\n"
    if isinstance(event, dict) and isinstance(found := event.get("object"), dict) and _is_ours(found):
        event["object"] = _metadata(found)
        line = orjson.dumps(event)
    return line + b"\n"


def without_contents(document: Any) -> Any:
    """A list of our objects with their metadata only; any other document unchanged."""
    if isinstance(document, dict) and _is_ours(document) and isinstance(document.get("items"), list):
        return {**document, "items": [_metadata(item) for item in document["items"]]}
    return document


def _is_ours(document: dict[str, Any]) -> bool:
    return str(document.get("apiVersion", "")).startswith(_OURS)


def _metadata(obj: dict[str, Any]) -> dict[str, Any]:
    metadata = {key: value for key, value in obj["metadata"].items() if key not in _LEFT_OUT}
    return {**{key: obj[key] for key in _KEPT if key in obj}, "metadata": metadata}
