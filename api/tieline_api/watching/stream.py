"""The answer to a watcher: server-sent events until the session, the permission or the process ends."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Literal

import orjson
from aiohttp import web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.payload import Payload

from tieline_api.cluster.organisations import Organisation
from tieline_api.errors import ApiError
from tieline_api.watching.feed import Batch, Change, ChangeFeed, Watcher
from tieline_common.backoff import jitter
from tieline_core.kubernetes import KubeError

HEARTBEAT_SECONDS = 15.0
"""Proxies close connections on which nothing was sent for a minute."""
LONGEST_SECONDS = 900.0
"""A stream ends then, so that connections spread over replicas, and the client comes back with its current session."""
_WRITE_SECONDS = 20.0
_RETRY_MS = 2000
_HEADERS = {
    "Cache-Control": "no-store",
    # Turns off buffering in NGINX and proxies that follow it.
    "X-Accel-Buffering": "no",
}

Reason = Literal["session", "forbidden", "unavailable", "stopping", "renew"]


@dataclass(frozen=True, kw_only=True)
class Standing:
    """Whether a caller may still watch."""

    check: Callable[[], Awaitable[None]]
    """Raises ApiError where the credentials or the permission were revoked; KubeError as Kubernetes does."""
    may_see: Callable[[str], Awaitable[bool]]
    """Whether the caller may see changes of a kind. Raises ApiError and KubeError where that is unknown."""
    check_seconds: float
    seconds: float = LONGEST_SECONDS
    """How long the caller's session lasts at most."""


def response(
    feed: ChangeFeed,
    organisation: Organisation,
    caller: Hashable,
    standing: Standing,
    stopping: asyncio.Event,
    *,
    heartbeat: float = HEARTBEAT_SECONDS,
) -> web.Response:
    """The answer. Raises ApiError 429 where there is no room."""
    feed.require_room(organisation, caller)
    body = _Stream(feed, organisation, caller, standing, stopping, heartbeat)
    return web.Response(body=body, content_type="text/event-stream", charset="utf-8", headers=_HEADERS)


class _Stream(Payload):
    """The body, written for as long as the caller watches."""

    def __init__(
        self,
        feed: ChangeFeed,
        organisation: Organisation,
        caller: Hashable,
        standing: Standing,
        stopping: asyncio.Event,
        heartbeat: float,
    ) -> None:
        super().__init__(None)
        self._feed = feed
        self._organisation = organisation
        self._caller = caller
        self._standing = standing
        self._stopping = stopping
        self._heartbeat = heartbeat

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        """It has no text before it is written."""
        raise TypeError("A stream cannot be decoded")

    async def write(self, writer: AbstractStreamWriter) -> None:
        """Sends events until something ends them. Raises ConnectionError where the client is away."""
        with self._feed.watch(self._organisation, self._caller) as watcher:
            # Changes before may have been missed: the client reads again what it shows.
            await _send(writer, f"retry: {_RETRY_MS}\n".encode() + _event({"type": "begin"}))
            reason = await self._events(writer, watcher)
        # Those of a replica that stops come back one after the other.
        retry = round(jitter(_RETRY_MS, 0.25, 2.5)) if reason == "stopping" else _RETRY_MS
        await _send(writer, f"retry: {retry}\n".encode() + _event({"type": "end", "reason": reason}))

    async def _events(self, writer: AbstractStreamWriter, watcher: Watcher) -> Reason:
        loop = asyncio.get_running_loop()
        began = loop.time()
        renewed = jitter(LONGEST_SECONDS, 0.8, 1.0)
        ends = began + min(self._standing.seconds, renewed)
        checked = sent = began
        while not self._stopping.is_set():
            until = min(ends, checked + self._standing.check_seconds, sent + self._heartbeat)
            await watcher.wait(max(until - loop.time(), 0))
            if self._stopping.is_set():
                break
            now = loop.time()
            if now >= ends:
                return "session" if self._standing.seconds <= renewed else "renew"
            # Before anything is sent: a revoked permission shows nothing more.
            if now >= checked + self._standing.check_seconds:
                if refused := await self._refused():
                    return refused
                checked = now
            batches, missed = watcher.take()
            try:
                message = _event({"type": "reset"}) if missed else await self._changes(batches)
            except (ApiError, KubeError):
                return "unavailable"
            if not message and now >= sent + self._heartbeat:
                message = b": heartbeat\n\n"
            if message:
                await _send(writer, message)
                sent = now
        return "stopping"

    async def _refused(self) -> Reason | None:
        try:
            await self._standing.check()
        except ApiError as error:
            reasons: dict[int, Reason] = {401: "session", 403: "forbidden", 404: "forbidden"}
            return reasons.get(error.status, "unavailable")
        except KubeError:
            return "unavailable"
        return None

    async def _changes(self, batches: Iterable[Batch]) -> bytes:
        changes = list(dict.fromkeys(change for batch in batches for change in batch))
        seen = {kind: await self._standing.may_see(kind) for kind in {change.kind for change in changes}}
        shown = [_shown(change) for change in changes if seen[change.kind]]
        return _event({"type": "changes", "changes": shown}) if shown else b""


def _shown(change: Change) -> dict[str, str]:
    return {"kind": change.kind, **({"id": change.id} if change.id else {}), "what": change.what}


def _event(data: dict[str, object]) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (str(data["type"]).encode(), orjson.dumps(data))


async def _send(writer: AbstractStreamWriter, content: bytes) -> None:
    try:
        async with asyncio.timeout(_WRITE_SECONDS):
            await writer.write(content)
    except TimeoutError:
        raise ConnectionResetError("The client does not read") from None
