"""Sends requests through connections, and reads the answers."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

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
from tieline.http_client.responses import Response
from tieline.http_client.session import Session, heed_body
from tieline.run_deadline import begin_deadline
from tieline.telemetry.redaction import Redactor
from tieline_api import errors
from tieline_api.connection_requests.limits import PlatformLimits
from tieline_api.connection_requests.tokens import FreshToken, PlatformTokens
from tieline_api.engine.limit_states import LimitStates
from tieline_api.inflated_bodies import DEFLATE, GZIP, Inflated, encodings_of
from tieline_core.identity.ids import new_id
from tieline_core.objects import Json
from tieline_protocol.egress import Egress, EgressRefusedError

MAX_ANSWER = 4 * 1024 * 1024
"""Bytes of an answer's body."""
MOST = 32
"""Requests under way at a replica."""
MOST_EACH = 8
"""Of one organisation."""
MOST_OF_END_USERS = 4
"""Of all end users of an organisation together: the organisation's own requests keep the rest."""
MOST_OF_END_USER = 2
"""Of one end user, so that a slow system does not block the other users."""
_END_USERS = "end users"
_CONNECT_SECONDS = 10.0
_RETRY_SECONDS = 5.0
_MAX_REDIRECTS = 5
_NO_BODY = frozenset({204, 304})
_SIGNS_TOKENS = "jwt-bearer"
_UNAUTHORISED, _TOO_MANY = 401, 429


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
    reads: bool = True
    """Whether a body that cannot be read is an error; otherwise it counts as empty."""


@dataclass(frozen=True, kw_only=True)
class SystemAnswer:
    """The answer of a system."""

    status: int
    headers: CIMultiDictProxy[str]
    body: bytes
    """Without its Content-Encoding, and with secrets in it."""
    redact: Redactor
    """Masks what the request was authenticated with."""
    limited: bool = False
    """Whether the system says that it gets too many requests, with any status."""
    rejected: bool = False
    """Whether it refuses the credentials, with 401 or what the auth scheme has in its place."""

    @property
    def meant(self) -> int:
        """The status, or the one that the answer should have had."""
        if self.limited:
            return _TOO_MANY
        return _UNAUTHORISED if self.rejected else self.status


class ConnectionRequests:
    """Sends them. Call it where an event loop runs."""

    def __init__(self, egress: Egress, limits: LimitStates) -> None:
        # As project pods have it, but for bodies: they are passed on as they are.
        self._client = aiohttp.ClientSession(
            connector=egress.connector(),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            response_class=Response,
        )
        self._limits = PlatformLimits(limits)
        self._gate = LimitGate(self._limits, pod=f"api-{new_id()}")
        self._under_way: Counter[tuple[str, ...]] = Counter()

    async def close(self) -> None:
        """Ends the connections."""
        await self._client.close()

    async def send(
        self,
        organisation: str,
        connection: Json,
        request: SystemRequest,
        *,
        fresh: FreshToken,
        end_user: str = "",
    ) -> SystemAnswer:
        """The system's answer, whatever its status. ``connection`` is what a pod gets of it.

        ``end_user``: the id of the user who asks; empty for callers of the organisation.

        Raises ApiError: 409 (the connection cannot be used as it is), 429 (its limits, or too many under way), 502
        (the system cannot be reached, or its answer cannot be passed on), 504 (no answer in time).
        """
        name = str(connection["name"])
        with self._turn(organisation, end_user), _as_answers(name, request.seconds):
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
        heard = _Heard()
        session = Session(self._client, lambda: connection, tokens=used, gate=self._gate, outcomes=heard)
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
            body = await _body_if(response, request)
            heed_body(session, response, body)
            limit = response.limit if isinstance(response, Response) else None
            return SystemAnswer(
                status=response.status,
                headers=response.headers,
                body=body,
                redact=used.redact,
                limited=limit is not None and limit.refused,
                rejected=heard.status == _UNAUTHORISED,
            )

    @contextmanager
    def _turn(self, organisation: str, end_user: str) -> Iterator[None]:
        limits: dict[tuple[str, ...], int] = {(): MOST, (organisation,): MOST_EACH}
        if end_user:
            limits[_END_USERS,] = MOST // 2
            limits[organisation, _END_USERS] = MOST_OF_END_USERS
            limits[organisation, _END_USERS, end_user] = MOST_OF_END_USER
        if any(self._under_way[key] >= most for key, most in limits.items()):
            raise errors.too_many_requests(
                "Too many requests through connections are under way: try again in a moment",
                retry_after=_RETRY_SECONDS,
            )
        self._under_way.update(limits.keys())
        try:
            yield
        finally:
            for key in limits:
                self._under_way[key] -= 1
                if not self._under_way[key]:
                    del self._under_way[key]


class _Heard:
    """See RequestOutcomes: as what the last answer of one request counts."""

    status = 0

    def answered(self, connection: Connection, status: int, said: str = "") -> None:
        self.status = status


class _Used:
    """The tokens of one request; knows every secret that it has used."""

    def __init__(self, tokens: PlatformTokens, connection: Connection) -> None:
        self._tokens = tokens
        # A token that is signed for the request is known by its form; other systems' tokens may be what is asked for.
        signs = any(credential.scheme == _SIGNS_TOKENS for credential in connection.credentials)
        self.redact = Redactor(jwts=signs)
        self.redact.learn(connection.secrets())

    def newest(self, connection: Connection) -> Connection:
        return self._tokens.newest(connection)

    async def ready(self, connection: Connection) -> Connection:
        found = await self._tokens.ready(connection)
        self.redact.learn(found.secrets())
        return found

    async def instead_of(self, connection: Connection) -> Connection | None:
        found = await self._tokens.instead_of(connection)
        if found is not None:
            self.redact.learn(found.secrets())
        return found


def redactor_of(connection: Json) -> Redactor:
    """Masks the secrets of a connection (as pods get it)."""
    name = str(connection["name"])
    redact = Redactor()
    redact.learn(parse({"connections": {name: connection}}).connections[name].secrets())
    return redact


async def _body_if(response: aiohttp.ClientResponse, request: SystemRequest) -> bytes:
    try:
        return await _body(response, request.method)
    except errors.ApiError:
        if request.reads:
            raise
        return b""


async def _body(response: aiohttp.ClientResponse, method: str) -> bytes:
    """The body without its Content-Encoding: nothing is passed on that cannot be searched for secrets.

    Systems may compress although they are asked not to. ApiError 502 for what cannot be read, or is too large.
    """
    if method == "HEAD" or response.status in _NO_BODY:
        return b""
    if unread := set(encodings_of(response.headers.getall("Transfer-Encoding", ()))) - {"chunked"}:
        raise _unreadable(f"has the Transfer-Encoding {min(unread)[:32]}")
    content: aiohttp.StreamReader | Inflated = response.content
    encodings = encodings_of(response.headers.getall("Content-Encoding", ()))
    if encodings and (len(encodings) > 1 or encodings[0] not in (*GZIP, DEFLATE)):
        raise _unreadable(f"has the Content-Encoding {', '.join(encodings)[:64]}")
    if encodings:
        content = Inflated(
            response.content,
            gzip=encodings[0] in GZIP,
            broken=lambda _: _unreadable(
                f"is not {encodings[0]}, as its Content-Encoding says, or is cut off"
            ),
        )
    body = bytearray()
    async for chunk in content.iter_any():
        body += chunk
        if len(body) > MAX_ANSWER:
            raise errors.ApiError(
                502, "answer_too_large", f"The system's answer has more than {MAX_ANSWER >> 20} MiB"
            )
    return bytes(body)


def _unreadable(why: str) -> errors.ApiError:
    return errors.ApiError(
        502,
        "answer_unreadable",
        f"The system's answer {why}, so it cannot be searched for the connection's secrets. The request asked for an "
        "answer without compression",
    )


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
