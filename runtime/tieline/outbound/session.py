"""Requests through a connection: base URL and credentials are applied to each, and nowhere else."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import aiohttp
from aiohttp import ClientHandlerType, ClientMiddlewareType, ClientRequest, ClientResponse
from aiohttp.client import _RequestContextManager
from aiohttp.payload import BytesPayload
from yarl import URL

from tieline.configuration.snapshot import Connection
from tieline.errors import ForeignRedirectError
from tieline.outbound.prepared import PreparedRequest, UnusableValueError
from tieline.outbound.retries import RETRIES, send_again
from tieline.outbound.schemes import authenticate, check
from tieline.outbound.urls import join, origin, shown
from tieline.tracing.outbound import traced
from tieline.tracing.spans import Tracer
from tieline_rules.egress import Egress

TIMEOUT = aiohttp.ClientTimeout(total=30, connect=10)
"""What a request may take when its author says nothing else, in seconds."""

LookUp = Callable[[], Connection]


def new_client(egress: Egress | None = None) -> aiohttp.ClientSession:
    """The connection pool that all runs share. It keeps no cookies: runs must not see each other's.

    With ``egress`` each address is checked when its socket is made, that of every redirect as well.
    """
    connector = egress.connector() if egress is not None else None
    return aiohttp.ClientSession(timeout=TIMEOUT, cookie_jar=aiohttp.DummyCookieJar(), connector=connector)


class Session:
    """Like an aiohttp.ClientSession for one connection template: ``session.get("/orders")``.

    Every method takes aiohttp's own options and returns what aiohttp returns, to be awaited or used with
    ``async with``. The template's connection is looked up for each request, so a session that lives long
    sees new credentials. What is safe to repeat is sent again up to ``retries`` times (2 unless given) until an
    answer begins; what happens while its body is read is not repeated.
    """

    __slots__ = ("_client", "_look_up", "_tracer")

    def __init__(self, client: aiohttp.ClientSession, look_up: LookUp, tracer: Tracer | None = None) -> None:
        self._client = client
        self._look_up = look_up
        self._tracer = tracer

    async def __aenter__(self) -> "Session":
        return self

    async def __aexit__(self, *_exception: object) -> None:
        """Nothing to close: the connection pool is shared by all runs."""

    def request(
        self, method: str, url: str | URL = "", *, retries: int = RETRIES, **options: Any
    ) -> _RequestContextManager:
        """A request to a path under the connection's base URL, or to a URL of the same origin.

        Raises the errors of tieline.errors about templates, credentials and URLs, and aiohttp's.
        """
        check(self._look_up())

        async def send() -> ClientResponse:
            return await self._once(method, url, options)

        return _RequestContextManager(send_again(send, method=method, options=options, retries=retries))

    def _once(self, method: str, url: str | URL, options: Mapping[str, Any]) -> _RequestContextManager:
        connection = self._look_up()
        target = join(base=connection.base_url, path=url, template=connection.template)
        # Outside of what authenticates: the span sees no credential, and its context is signed with the rest.
        tracing = (
            (traced(self._tracer, template=connection.template, connection_id=connection.id),)
            if self._tracer
            else ()
        )
        middlewares = (*(options.get("middlewares") or ()), *tracing, _applying(connection, target))
        return self._client.request(method, target, **{**options, "middlewares": middlewares})

    def get(self, url: str | URL = "", **options: Any) -> _RequestContextManager:
        """GET."""
        return self.request("GET", url, **options)

    def post(self, url: str | URL = "", **options: Any) -> _RequestContextManager:
        """POST."""
        return self.request("POST", url, **options)

    def put(self, url: str | URL = "", **options: Any) -> _RequestContextManager:
        """PUT."""
        return self.request("PUT", url, **options)

    def patch(self, url: str | URL = "", **options: Any) -> _RequestContextManager:
        """PATCH."""
        return self.request("PATCH", url, **options)

    def delete(self, url: str | URL = "", **options: Any) -> _RequestContextManager:
        """DELETE."""
        return self.request("DELETE", url, **options)

    def head(self, url: str | URL = "", **options: Any) -> _RequestContextManager:
        """HEAD; redirects are followed only when asked for, as in aiohttp."""
        return self.request("HEAD", url, **{"allow_redirects": False, **options})

    def options(self, url: str | URL = "", **options: Any) -> _RequestContextManager:
        """OPTIONS."""
        return self.request("OPTIONS", url, **options)


async def fetch(
    session: Session, url: str | URL, *, method: str, retries: int = RETRIES, **options: Any
) -> ClientResponse:
    """A request whose answer is read as a whole, so that its connection is free again at once.

    What is safe to repeat is sent again after failures that pass; see tieline.outbound.retries.
    """

    async def send() -> ClientResponse:
        response = await session.request(method, url, retries=0, **options)
        try:
            await response.read()
        except BaseException:
            response.close()
            raise
        # Its connection went back to the pool at the body's end; a released response could not be read again.
        return response

    return await send_again(send, method=method, options=options, retries=retries)


def _applying(connection: Connection, target: URL) -> ClientMiddlewareType:
    """A client middleware that authenticates requests to the connection's origin.

    aiohttp calls it for the request and again for each redirect. It is the innermost one, so what it
    signs is what is sent. A redirect that keeps the body (307, 308) brings it as the last hop sent it: it
    is put back to what the author gave before anything else happens.
    """
    home = origin(target)
    given: BytesPayload | None = None

    async def apply(request: ClientRequest, send: ClientHandlerType) -> ClientResponse:
        nonlocal given
        if given is not None and request.body:
            await request.update_body(given)
        # The first hop goes to the very URL that was joined; only redirects need a closer look.
        if request.url is not target and origin(request.url) != home:
            raise ForeignRedirectError(
                template=connection.template, origin=shown(request.url), base_origin=shown(target)
            )
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
            given = _payload(request, await prepared.read())
        if prepared.content and (prepared.replaced or not isinstance(before, BytesPayload)):
            await request.update_body(_payload(request, prepared.content))
        return await send(request)

    return apply


def _payload(request: ClientRequest, content: bytes) -> BytesPayload:
    return BytesPayload(content, content_type=request.headers.get("Content-Type", "application/octet-stream"))


def _body_of(request: ClientRequest) -> Callable[[], Awaitable[bytes]]:
    """Reads the body once; aiohttp's payloads may be files or generators, which end."""
    payload = request.body
    content: bytes | None = payload if isinstance(payload, bytes) else None

    async def body() -> bytes:
        nonlocal content
        if request.compress:
            raise UnusableValueError(
                "the request's body cannot be signed while aiohttp compresses it; pass compressed bytes as data"
            )
        if content is None:
            content = payload if isinstance(payload, bytes) else await payload.as_bytes()
        return content

    return body
