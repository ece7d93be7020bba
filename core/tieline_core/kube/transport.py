"""How a call gets to the API server and its answer back: time-outs, repetition, errors, streams."""

import asyncio
import logging
import random
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Self

import aiohttp
import orjson

from tieline_core.kube import errors
from tieline_core.kube.connection import Connection
from tieline_core.kube.resources import SECRETS, Resource

logger = logging.getLogger(__name__)

TIMEOUT = 10.0
# The server sends a bookmark about each minute, so a silence of WATCH_SILENCE seconds means that the
# connection is dead.
WATCH_SILENCE = 100.0
_MAX_LINE = 32 * 1024 * 1024
_TRIES = 4
_LONGEST_WAIT = 5.0
_IDEMPOTENT = frozenset({"get", "list", "apply", "delete", "create-review"})


class Transport:
    """A connection pool to one API server."""

    def __init__(self, reached_by: Connection, *, limit: int, user_agent: str) -> None:
        self._connection = reached_by
        self._limit = limit
        self._user_agent = user_agent
        self._session: aiohttp.ClientSession | None = None
        self.requests: Counter[tuple[str, str]] = Counter()

    async def close(self) -> None:
        """Close the pool; calls that are under way fail."""
        if self._session is not None:
            await self._session.close()

    async def call(
        self,
        verb: str,
        resource: Resource,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        raw: bool = False,
    ) -> tuple[int, Any]:
        """One call, tried again while that is safe and TIMEOUT seconds have not passed."""
        call = _Call(
            doing=f"{verb} {path}",
            method=method,
            path=path,
            params=params,
            data=orjson.dumps(body) if body is not None else None,
            headers=headers or {},
            raw=raw,
            sensitive=resource == SECRETS,
        )
        wait = 0.1
        async with _deadline(call.doing) as deadline:
            for attempt in range(1, _TRIES + 1):
                self.requests[verb, resource.plural] += 1
                try:
                    return await self._once(call)
                except (errors.TooManyRequests, errors.Unavailable) as error:
                    answered = error.status in (429, 503) and error.retry_after is not None
                    if attempt == _TRIES or not (answered or verb in _IDEMPOTENT):
                        raise
                    pause = min(error.retry_after or wait, _LONGEST_WAIT)
                    pause *= random.uniform(0.75, 1.25)  # noqa: S311  (jitter)
                    if pause >= deadline.left():
                        raise  # The answer says more than that time ran out.
                    await asyncio.sleep(pause)
                    wait *= 3
        raise AssertionError("the last try returns or raises")

    async def lines(
        self,
        resource: Resource,
        path: str,
        *,
        doing: str,
        params: Mapping[str, str],
        headers: Mapping[str, str],
    ) -> AsyncGenerator[bytes, None]:
        """The lines of an answer that goes on until the server ends it.

        Raises Unavailable when the connection breaks or falls silent.
        """
        self.requests["watch", resource.plural] += 1
        try:
            async with self._opened().get(
                self._connection.url + path,
                params=params,
                headers={**await self._headers(), **headers},
                timeout=aiohttp.ClientTimeout(total=None, connect=TIMEOUT, sock_read=WATCH_SILENCE),
                proxy=self._connection.proxy,
            ) as response:
                if response.status != 200:
                    raise await _refusal(response, doing=doing, sensitive=resource == SECRETS)
                async for line in _lines(response.content):
                    yield line
        except (aiohttp.ClientError, OSError) as error:
            raise errors.Unavailable(f"{doing}: {str(error) or type(error).__name__}") from error

    async def _once(self, call: "_Call") -> tuple[int, Any]:
        sent = {**await self._headers(), **call.headers}
        if call.data is not None:
            sent.setdefault("Content-Type", "application/json")
        doing = call.doing
        try:
            async with self._opened().request(
                call.method,
                self._connection.url + call.path,
                params=call.params,
                data=call.data,
                headers=sent,
                proxy=self._connection.proxy,
            ) as response:
                if response.status >= 300:
                    raise await _refusal(response, doing=doing, sensitive=call.sensitive)
                for warning in response.headers.getall("Warning", ()) if not call.sensitive else ():
                    logger.info("The API server warns about %s: %s", doing, warning)
                if call.raw:
                    return response.status, await response.text(errors="replace")
                return response.status, orjson.loads(await response.read())
        except orjson.JSONDecodeError as error:
            raise errors.Unavailable(f"{doing}: the answer is no JSON") from error
        except (aiohttp.ClientError, OSError) as error:
            raise errors.Unavailable(f"{doing}: {str(error) or type(error).__name__}") from error

    async def _headers(self) -> dict[str, str]:
        headers = {"Accept": "application/json", "User-Agent": self._user_agent}
        authorization = await self._connection.authorization()
        if authorization:
            headers["Authorization"] = authorization
        return headers

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is not None and self._session.closed:
            raise errors.Unavailable("The connections to the API server were closed")
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(ssl=self._connection.tls, limit=self._limit),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=TIMEOUT),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=True,
            )
        return self._session


@dataclass(frozen=True, kw_only=True)
class _Call:
    """One HTTP request, as it is sent each time it is tried."""

    doing: str
    method: str
    path: str
    params: Mapping[str, str] | None
    data: bytes | None
    headers: Mapping[str, str]
    raw: bool
    sensitive: bool


class _deadline:  # noqa: N801  (used like asyncio.timeout)
    """asyncio.timeout whose expiry is Unavailable."""

    def __init__(self, doing: str) -> None:
        self._doing = doing
        self._timeout = asyncio.timeout(TIMEOUT)

    async def __aenter__(self) -> Self:
        await self._timeout.__aenter__()
        return self

    def left(self) -> float:
        """Seconds until it expires."""
        return (self._timeout.when() or 0.0) - asyncio.get_running_loop().time()

    async def __aexit__(self, kind: Any, error: Any, traceback: Any) -> None:
        try:
            await self._timeout.__aexit__(kind, error, traceback)
        except TimeoutError:
            raise errors.Unavailable(f"{self._doing}: no answer within {TIMEOUT:g} s") from None


async def _refusal(response: aiohttp.ClientResponse, *, doing: str, sensitive: bool) -> errors.KubeError:
    body: Any = None
    with suppress(orjson.JSONDecodeError, aiohttp.ClientError):
        body = orjson.loads(await response.read())
    return errors.from_status(
        response.status,
        body,
        doing=doing,
        sensitive=sensitive,
        retry_after=response.headers.get("Retry-After"),
    )


async def _lines(stream: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    """Lines of any length: aiohttp's own readline refuses what exceeds its buffer."""
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
            if line:
                yield line
