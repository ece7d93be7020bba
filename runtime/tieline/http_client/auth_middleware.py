"""Traces and authenticates each request of a connection as it is sent, and once more with another token after a 401."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from aiohttp import ClientHandlerType, ClientRequest, ClientResponse
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


@dataclass(eq=False, slots=True)
class AuthMiddleware:
    """The client middleware of one request to the connection's origin, and of its redirects.

    aiohttp calls it for the request and again for each redirect, each of which has a span of its own. It is
    the innermost one, so what it signs is what is sent. A redirect that keeps the body (307, 308) brings it as
    the last hop sent it: it is put back to what the author gave before anything else happens.

    After a 401 the request is sent once more when ``tokens`` has another access token and its body is still
    there: a request that was not let in has done nothing.
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
    _is_unclear: bool = False
    """Whether the last answer is a 401 that another access token could have changed."""

    async def __call__(self, request: ClientRequest, send: ClientHandlerType) -> ClientResponse:
        response = await self._traced(request, send)
        if self.outcomes is not None and not self._is_unclear:
            self.outcomes.answered(self.connection, response.status)
        if isinstance(response, Response):
            response.describe(template=self.connection.template, redact=self.redact)
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
        if response.status != 401 or self._repeated:
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
