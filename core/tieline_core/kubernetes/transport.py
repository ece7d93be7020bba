"""HTTP to the API server: one connection pool, time-outs, and trying again where that is safe."""

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import orjson

from tieline_common.backoff import exponential, jitter
from tieline_core.kubernetes import errors
from tieline_core.kubernetes.kubeconfig import ClusterConnection
from tieline_core.kubernetes.resources import ENGINE_SECRETS, SECRETS, TOKEN_REVIEWS, Resource

logger = logging.getLogger(__name__)

_TRIES = 4
_TRIES_UNANSWERED = 3
_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 1.0
_WARNINGS = 1000
# Errors about these never repeat the API server's words, which may quote what was sent.
_SENSITIVE = frozenset({SECRETS, ENGINE_SECRETS, TOKEN_REVIEWS})
_READS = frozenset({"get", "list"})


@dataclass(frozen=True, kw_only=True)
class Call:
    """One HTTP request, as it is sent each time it is tried."""

    verb: str
    resource: Resource
    method: str
    path: str
    params: Mapping[str, str] = field(default_factory=dict)
    data: bytes | None = field(default=None, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict)
    idempotent: bool = False
    """Whether it may be sent again when nobody knows whether it arrived."""

    @property
    def doing(self) -> str:
        """What is tried, for messages."""
        return f"{self.verb} {self.path}"

    @property
    def sensitive(self) -> bool:
        """Whether the API server's messages may quote secrets."""
        return self.resource in _SENSITIVE


class Transport:
    """A connection pool to one API server."""

    def __init__(self, connection: ClusterConnection, *, limit: int, user_agent: str, timeout: float) -> None:
        self.requests: Counter[tuple[str, str]] = Counter()
        self._connection = connection
        self._limit = limit
        self._user_agent = user_agent
        self._timeout = timeout
        self._session: aiohttp.ClientSession | None = None
        self._watches: aiohttp.ClientSession | None = None
        """Watches have connections of their own: their number is that of caches, and calls must not wait for them."""
        self._warned: set[tuple[str, str]] = set()

    def open(self) -> aiohttp.ClientSession:
        """The pool, made on first use. Raises Unavailable when it has been closed."""
        if self._session is None:
            self._session = self._new_session(self._limit)
        if self._session.closed:
            raise errors.Unavailable("The connection to the API server has been closed")
        return self._session

    def _open_watches(self) -> aiohttp.ClientSession:
        self.open()
        if self._watches is None:
            self._watches = self._new_session(0)
        return self._watches

    def _new_session(self, limit: int) -> aiohttp.ClientSession:
        session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=self._connection.tls, limit=limit),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=self._timeout),
            cookie_jar=aiohttp.DummyCookieJar(),
        )
        # aiohttp sends PUT and DELETE again by itself when a connection breaks; whether that may be is
        # decided in pause_before_retry. There is no public switch.
        session._retry_connection = False
        return session

    async def close(self) -> None:
        """Close the pools; calls that are under way fail."""
        for session in (self._session, self._watches):
            if session is not None:
                await session.close()

    async def send(self, call: Call) -> tuple[int, bytes]:
        """Status and body of a successful answer; a KubeError otherwise.

        Tried again while that is safe and there is time (``pause_before_retry``), and once with fresh
        credentials where they were refused.
        """
        deadline = asyncio.get_running_loop().time() + self._timeout
        attempt, renewed = 0, False
        async with _unavailable_after(self._timeout, call.doing):
            while True:
                attempt += 1
                authorization = await self._connection.authorization()
                try:
                    async with self._answered(call, authorization) as response:
                        return response.status, await response.read()
                except errors.Unauthorized:
                    if renewed or not await self._connection.renew(authorization):
                        raise
                    renewed = True
                except (errors.TooManyRequests, errors.Unavailable) as error:
                    pause = pause_before_retry(call, error, attempt)
                    if pause is None or asyncio.get_running_loop().time() + pause >= deadline:
                        raise
                    await asyncio.sleep(pause)

    @asynccontextmanager
    async def stream(self, call: Call, *, silence: float) -> AsyncIterator[aiohttp.StreamReader]:
        """The body of a long answer. Unavailable when nothing comes for ``silence`` seconds.

        Refused credentials are read again, for the next try.
        """
        timeout = aiohttp.ClientTimeout(
            total=None, connect=self._timeout, sock_connect=self._timeout, sock_read=silence
        )
        authorization = await self._connection.authorization()
        try:
            session = self._open_watches()
            async with self._answered(call, authorization, session=session, timeout=timeout) as response:
                yield response.content
        except errors.Unauthorized:
            await self._connection.renew(authorization)
            raise

    @asynccontextmanager
    async def _answered(
        self,
        call: Call,
        authorization: str | None,
        *,
        session: aiohttp.ClientSession | None = None,
        **options: Any,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        headers = {"Accept": "application/json", "User-Agent": self._user_agent, **call.headers}
        if call.data is not None:
            headers.setdefault("Content-Type", "application/json")
        if authorization:
            headers["Authorization"] = authorization
        self.requests[call.verb, call.resource.plural] += 1
        try:
            async with (session or self.open()).request(
                call.method,
                self._connection.url + call.path,
                params=call.params,
                data=call.data,
                headers=headers,
                allow_redirects=False,  # the API server sends none; a token must not follow one
                proxy=self._connection.proxy,
                server_hostname=self._connection.server_hostname,
                **options,
            ) as response:
                if response.status >= 300:
                    raise await _refusal(response, call)
                self._log_warnings(response, call)
                yield response
        except (aiohttp.ClientError, OSError) as error:
            unavailable = errors.Unavailable(f"{call.doing}: {str(error) or type(error).__name__}")
            unavailable.sent = not isinstance(
                error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError
            )
            raise unavailable from error

    def _log_warnings(self, response: aiohttp.ClientResponse, call: Call) -> None:
        """Each of the API server's warnings once a resource: they come with every single write."""
        for value in response.headers.getall("Warning", ()):
            text = value.partition('"')[2].removesuffix('"').replace('\\"', '"') or value
            known = (call.resource.plural, text)
            if known not in self._warned and len(self._warned) < _WARNINGS:
                self._warned.add(known)
                logger.warning("The API server warns about %s: %s", call.resource.plural, text)


def pause_before_retry(call: Call, error: errors.KubeError, attempt: int) -> float | None:
    """Seconds after which a failed call may be tried again; None when it may not.

    - Asked to come back (429 or 503 with Retry-After): any call, as it was not carried out.
    - It never got there: any call. It got there and no answer came: what may be done twice.
    - The server failed: reads alone.
    """
    own = exponential(attempt, first=_FIRST_PAUSE, cap=_LONGEST_PAUSE, factor=3.0)
    asked: float | None = getattr(error, "retry_after", None)
    if attempt >= _TRIES:
        return None
    if error.status in (429, 503) and asked is not None:
        pause = max(asked, own)
    elif error.status == 0:
        sent = getattr(error, "sent", True)
        if attempt >= _TRIES_UNANSWERED or (sent and not call.idempotent):
            return None
        pause = own
    elif call.verb in _READS:
        pause = own
    else:
        return None
    return jitter(pause, 1.0, 1.25)  # never before the time asked for


async def _refusal(response: aiohttp.ClientResponse, call: Call) -> errors.KubeError:
    body: Any = None
    with suppress(orjson.JSONDecodeError, aiohttp.ClientError):
        body = orjson.loads(await response.read())
    return errors.from_status(
        response.status,
        body,
        doing=call.doing,
        sensitive=call.sensitive,
        retry_after=response.headers.get("Retry-After"),
    )


@asynccontextmanager
async def _unavailable_after(seconds: float, doing: str) -> AsyncIterator[None]:
    """asyncio.timeout, whose expiry is Unavailable."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError:
        raise errors.Unavailable(f"{doing}: no answer within {seconds:g} s") from None
