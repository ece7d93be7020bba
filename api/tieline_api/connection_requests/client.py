"""Sends requests through connections, and reads the answers."""

import asyncio
import base64
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import quote

import aiohttp
from multidict import CIMultiDict, CIMultiDictProxy

from tieline.configuration.snapshot import Connection, parse
from tieline.errors import (
    ForeignRedirectError,
    LimitReachedError,
    RequestTimeoutError,
    TielineError,
)
from tieline.http_client.request_gate import LimitGate
from tieline.http_client.session import Session
from tieline.run_deadline import begin_deadline
from tieline_api import errors
from tieline_api.connection_requests.limits import PlatformLimits
from tieline_api.connection_requests.tokens import FreshToken, PlatformTokens
from tieline_api.engine.limit_states import LimitStates
from tieline_core.identity.ids import new_id
from tieline_core.objects import Json
from tieline_protocol.egress import Egress, EgressRefusedError

MAX_ANSWER = 4 * 1024 * 1024
"""Bytes of an answer's body."""
MOST = 32
"""Requests under way at a replica."""
MOST_EACH = 8
"""Of one organisation."""
_CONNECT_SECONDS = 10.0
_RETRY_SECONDS = 5.0
_MAX_REDIRECTS = 5


@dataclass(frozen=True, kw_only=True)
class SystemRequest:
    """A request to the system of a connection."""

    method: str
    path: str
    """Below the connection's base URL, with its query, as it is sent."""
    headers: CIMultiDict[str]
    body: bytes = b""
    seconds: float
    """For everything: waiting for limits, tokens, the request and its answer."""
    follows: bool = False
    """Whether redirects within the system's origin are followed."""


@dataclass(frozen=True, kw_only=True)
class SystemAnswer:
    """The answer of a system."""

    status: int
    headers: CIMultiDictProxy[str]
    body: bytes
    secrets: tuple[bytes, ...]
    """What the request was authenticated with: never to be shown."""


class ConnectionRequests:
    """Sends them. Call it where an event loop runs."""

    def __init__(self, egress: Egress, limits: LimitStates) -> None:
        # As project pods have it, but for bodies: they are passed on as they are.
        self._client = aiohttp.ClientSession(
            connector=egress.connector(), cookie_jar=aiohttp.DummyCookieJar(), auto_decompress=False
        )
        self._limits = PlatformLimits(limits)
        self._gate = LimitGate(self._limits, pod=f"api-{new_id()}")
        self._under_way: Counter[str] = Counter()

    async def close(self) -> None:
        """Ends the connections."""
        await self._client.close()

    async def send(
        self, organisation: str, connection: Json, request: SystemRequest, *, fresh: FreshToken
    ) -> SystemAnswer:
        """The system's answer, whatever its status. ``connection`` is what a pod would be told of it.

        Raises ApiError: 409 (the connection cannot be used as it is), 429 (its limits, or too many under way), 502
        (the system cannot be reached, or its answer cannot be passed on), 504 (no answer in time).
        """
        name = str(connection["name"])
        with self._turn(organisation), _as_answers(name, request.seconds):
            found = parse({"connections": {name: connection}}).connections[name]
            self._limits.remember(found.id, organisation)
            async with asyncio.timeout(request.seconds):
                # A task of its own has a deadline of its own.
                return await asyncio.create_task(self._answer(found, request, PlatformTokens(fresh)))

    async def _answer(
        self, connection: Connection, request: SystemRequest, tokens: PlatformTokens
    ) -> SystemAnswer:
        begin_deadline(asyncio.get_running_loop().time(), request.seconds)
        used = _Used(tokens, connection)
        session = Session(self._client, lambda: connection, tokens=used, gate=self._gate)
        async with session.request(
            request.method,
            request.path,
            retries=0,
            headers=request.headers,
            data=request.body or None,
            skip_auto_headers=("Content-Type", "User-Agent"),
            allow_redirects=request.follows,
            max_redirects=_MAX_REDIRECTS,
            timeout=aiohttp.ClientTimeout(total=request.seconds, connect=_CONNECT_SECONDS),
        ) as response:
            if response.status < 200:
                raise _unreachable("it wants to speak another protocol")
            body = bytearray()
            async for chunk in response.content.iter_any():
                body += chunk
                if len(body) > MAX_ANSWER:
                    raise errors.ApiError(
                        502, "answer_too_large", f"The system's answer has more than {MAX_ANSWER >> 20} MiB"
                    )
            return SystemAnswer(
                status=response.status,
                headers=response.headers,
                body=bytes(body),
                secrets=tuple(_shapes(used.secrets)),
            )

    @contextmanager
    def _turn(self, organisation: str) -> Iterator[None]:
        if self._under_way[organisation] >= MOST_EACH or self._under_way.total() >= MOST:
            raise errors.too_many_requests(
                "Too many requests through connections are under way: try again in a moment",
                retry_after=_RETRY_SECONDS,
            )
        self._under_way[organisation] += 1
        try:
            yield
        finally:
            self._under_way[organisation] -= 1
            if not self._under_way[organisation]:
                del self._under_way[organisation]


class _Used:
    """The tokens of one request; knows every secret that it has used."""

    def __init__(self, tokens: PlatformTokens, connection: Connection) -> None:
        self._tokens = tokens
        self.secrets = set(connection.secrets())

    def newest(self, connection: Connection) -> Connection:
        return self._tokens.newest(connection)

    async def ready(self, connection: Connection) -> Connection:
        found = await self._tokens.ready(connection)
        self.secrets.update(found.secrets())
        return found

    async def instead_of(self, connection: Connection) -> Connection | None:
        found = await self._tokens.instead_of(connection)
        if found is not None:
            self.secrets.update(found.secrets())
        return found


def _shapes(secrets: Iterable[str | bytes]) -> Iterator[bytes]:
    """The secrets as systems may send them back: as they are, in Base64, and as a part of a URL."""
    for secret in secrets:
        content = secret.encode() if isinstance(secret, str) else secret
        yield from dict.fromkeys((content, base64.b64encode(content), quote(content, safe="").encode()))


@contextmanager
def _as_answers(name: str, seconds: float) -> Iterator[None]:
    """What goes wrong, as ApiError."""
    try:
        yield
    except (RequestTimeoutError, TimeoutError):
        raise errors.ApiError(
            504,
            "system_timeout",
            f"The system did not answer in {seconds:g} s. It may still act on the request",
        ) from None
    except LimitReachedError as error:
        raise errors.too_many_requests(_named(error, name), retry_after=error.retry_after) from None
    except ForeignRedirectError as error:
        raise errors.ApiError(502, "foreign_redirect", _named(error, name).partition(";")[0]) from None
    except TielineError as error:
        raise errors.ApiError(409, "connection_unusable", _named(error, name)) from None
    except aiohttp.ClientConnectorError as error:
        refused = isinstance(error.os_error, EgressRefusedError)
        raise _unreachable(str(error.os_error) if refused else _reason(error.os_error)) from None
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise _unreachable(type(error).__name__) from None


def _reason(error: OSError) -> str:
    return error.strerror or type(error).__name__


def _unreachable(why: str) -> errors.ApiError:
    return errors.ApiError(502, "system_unreachable", f"The system cannot be reached: {why}")


def _named(error: TielineError, name: str) -> str:
    """The runtime's message: it speaks of the template that the connection is reached by."""
    text = str(error).replace(f"connection of template {name!r}", f"connection {name!r}")
    return text.replace(f"template {name!r}", f"connection {name!r}")
