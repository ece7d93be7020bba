"""Traces and authenticates each request of a connection as it is sent, and once more with another token after a 401."""

import time
from asyncio import wait_for
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass

from aiohttp import ClientError, ClientHandlerType, ClientRequest, ClientResponse
from aiohttp.payload import BytesPayload
from yarl import URL

from tieline.auth.prepared_request import InvalidCredentialError, PreparedRequest
from tieline.auth.schemes import authenticate
from tieline.auth.urls import origin, shown
from tieline.configuration.api_tokens import AccessTokens
from tieline.configuration.request_gates import RequestGate, RequestOutcomes
from tieline.configuration.snapshot import Connection
from tieline.errors import ForeignRedirectError
from tieline.http_client.responses import Response
from tieline.telemetry.client_spans import answered, sending
from tieline.telemetry.redaction import Redactor
from tieline.telemetry.spans import Tracer

REFUSALS = frozenset({401, 403})
EXPIRED, REVOKED = "expired", "revoked"
_REFUSED = 401
"""Status that is reported for an answer that rejects the token."""
_SHORT_BODY = 4096
_BODY_SECONDS = 1.0
_LONGEST_SAID = 500


@dataclass(eq=False, slots=True)
class AuthMiddleware:
    """The client middleware of one request to the connection's origin, and of its redirects.

    aiohttp calls it for the request and again for each redirect, each of which has a span of its own. It is
    the innermost one, so what it signs is what is sent. A redirect that keeps the body (307, 308) brings it as
    the last hop sent it: it is put back to what the author gave before anything else happens.

    After an answer that means an expired token (401 unless the auth scheme says otherwise), the request is sent once
    more when ``tokens`` has another access token and its body is still there: a request that was not let in has done
    nothing.
    """

    connection: Connection
    target: URL
    tracer: Tracer | None
    tokens: AccessTokens | None
    redact: Redactor
    gate: RequestGate | None = None
    """Where each further request of it waits; the first has waited already."""
    outcomes: RequestOutcomes | None = None
    """Told the statuses that stand."""
    _sent: bool = False
    _given: BytesPayload | None = None
    _repeated: bool = False
    _judged: tuple[ClientResponse, str] | None = None
    """The last answer, and what it says of the access token: bodies are read for it once."""
    _is_unclear: bool = False
    """Whether the last answer is a 401 that another access token could have changed."""

    async def __call__(self, request: ClientRequest, send: ClientHandlerType) -> ClientResponse:
        response = await self._traced(request, send)
        limit = self.connection.limit_answers.read(response.status, response.headers, now=time.time())
        if isinstance(response, Response):
            connection = self.connection
            response.describe(template=connection.template, redact=self.redact, system=connection.system)
            response.limit = limit
        is_limited = limit is not None and limit.refused
        if self.outcomes is not None and not self._is_unclear and not is_limited:
            verdict = await self._verdict(response)
            said = await _said(response) if verdict or response.status in REFUSALS else ""
            self.outcomes.answered(self.connection, _REFUSED if verdict else response.status, said)
        return response

    async def _traced(self, request: ClientRequest, send: ClientHandlerType) -> ClientResponse:
        if self.tracer is None:
            return await self._let_in(request, send)
        connection = self.connection
        with sending(self.tracer, request, template=connection.template, connection_id=connection.id) as span:
            response = await self._let_in(request, send)
            answered(span, response.status)
            return response

    async def _let_in(self, request: ClientRequest, send: ClientHandlerType) -> ClientResponse:
        # The first hop goes to the very URL that was joined; only redirects need a closer look.
        if request.url is not self.target and origin(request.url) != origin(self.target):
            raise ForeignRedirectError(
                template=self.connection.template,
                origin=shown(request.url),
                base_origin=shown(self.target),
            )
        if self._sent:
            await self._wait()
        self._sent = True
        if self.tokens is None:
            await self._apply(request, self.connection)
            return await send(request)
        return await self._let_in_by_token(request, send, self.tokens)

    async def _let_in_by_token(
        self, request: ClientRequest, send: ClientHandlerType, tokens: AccessTokens
    ) -> ClientResponse:
        connection = await tokens.ready(self.connection)
        url, headers = request.url, request.headers.copy()
        await self._apply(request, connection)
        response = await send(request)
        if self._repeated or await self._verdict(response) != EXPIRED:
            return response
        if not _is_there_again(request):
            self._is_unclear = any(one.scheme == "oauth2" for one in connection.credentials)
            return response
        other = await tokens.instead_of(connection)
        if other is None:
            return response
        self._repeated = True
        response.release()
        request.url = url
        request.headers.clear()
        request.headers.extend(headers)
        await self._wait()
        await self._apply(request, other)
        return await send(request)

    async def _verdict(self, response: ClientResponse) -> str:
        """What an answer says of the access token, by the auth schemes: ``EXPIRED``, ``REVOKED`` or nothing."""
        if self._judged is None or self._judged[0] is not response:
            self._judged = response, await self._judge(response)
        return self._judged[1]

    async def _judge(self, response: ClientResponse) -> str:
        found = ""
        for credential in self.connection.credentials:
            if (rejections := credential.rejections) is None:
                continue
            document = None
            if isinstance(response, Response) and {None, response.status} & rejections.reads_bodies_of:
                document = await response.arrived_json(seconds=_BODY_SECONDS)
            if any(one.holds(response.status, document) for one in rejections.revoked):
                return REVOKED
            if any(one.holds(response.status, document) for one in rejections.expired):
                found = EXPIRED
        return found

    async def _wait(self) -> None:
        """Wait until the connection's limits allow a further request; the permit of the first one is its, too."""
        if self.gate is not None:
            await self.gate.enter(self.connection, is_hop=True)

    async def _apply(self, request: ClientRequest, connection: Connection) -> None:
        if self._given is not None and request.body:
            await request.update_body(self._given)
        before = request.body
        prepared = PreparedRequest(
            method=request.method, url=request.url, headers=request.headers, read=_body_of(request)
        )
        await authenticate(prepared, connection)
        request.url = prepared.url
        if prepared.tls is not None:
            # Part of the pool's key, so this connection is never used for another certificate.
            request._ssl = prepared.tls
        if prepared.replaced and before:
            self._given = _payload(request, await prepared.read())
        if prepared.content and (prepared.replaced or not isinstance(before, BytesPayload)):
            await request.update_body(_payload(request, prepared.content))


async def _said(response: ClientResponse) -> str:
    """The beginning of a refusal's body, which can still be read."""
    if not isinstance(response, Response):
        return ""
    if response.content_length is not None and 0 < response.content_length <= _SHORT_BODY:
        with suppress(TimeoutError, ClientError):
            await wait_for(response.content.wait_eof(), _BODY_SECONDS)
    return response.excerpt(longest=_LONGEST_SAID)


def _is_there_again(request: ClientRequest) -> bool:
    """Whether the body can be sent a second time; files and generators have ended."""
    return not request.body or isinstance(request.body, BytesPayload)


def _payload(request: ClientRequest, content: bytes) -> BytesPayload:
    return BytesPayload(content, content_type=request.headers.get("Content-Type", "application/octet-stream"))


def _body_of(request: ClientRequest) -> Callable[[], Awaitable[bytes]]:
    """Reads the body once; aiohttp's payloads may be files or generators, which end."""
    payload = request.body
    content: bytes | None = payload if isinstance(payload, bytes) else None

    async def body() -> bytes:
        nonlocal content
        if request.compress:
            raise InvalidCredentialError(
                "the request's body cannot be signed while aiohttp compresses it; pass compressed bytes as data"
            )
        if content is None:
            content = payload if isinstance(payload, bytes) else await payload.as_bytes()
        return content

    return body
