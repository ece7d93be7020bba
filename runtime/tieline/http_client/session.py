"""Requests through a connection: base URL and credentials are applied to each, and nowhere else."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import aiohttp
from aiohttp import ClientResponse
from aiohttp.client import _RequestContextManager
from yarl import URL

from tieline.auth.schemes import check
from tieline.auth.urls import join
from tieline.configuration.api_tokens import AccessTokens
from tieline.configuration.request_gates import RequestGate, RequestOutcomes
from tieline.configuration.snapshot import Connection
from tieline.errors import RequestTimeoutError
from tieline.http_client.auth_middleware import AuthMiddleware
from tieline.http_client.responses import Response
from tieline.http_client.retries import RETRIES, limit_signal, send_again
from tieline.telemetry.client_spans import shown
from tieline.telemetry.redaction import Redactor
from tieline.telemetry.spans import Tracer
from tieline_protocol.answer_paths import MISSING
from tieline_protocol.egress import Egress
from tieline_protocol.limit_answers import LimitSignal

TIMEOUT = aiohttp.ClientTimeout(total=30, connect=10)
"""What a request may take when its author says nothing else, in seconds."""

# Bodies in which limits are looked for: where the System says so, and by what is usual.
_LONGEST_BODY = 1024 * 1024
_LONGEST_UNASKED = 64 * 1024

ConnectionLookup = Callable[[], Connection]


def new_client(egress: Egress | None = None) -> aiohttp.ClientSession:
    """The connection pool that all runs share. It keeps no cookies: runs must not see each other's.

    With ``egress`` each address is checked when its socket is made, that of every redirect as well.
    """
    connector = egress.connector() if egress is not None else None
    return aiohttp.ClientSession(
        timeout=TIMEOUT, cookie_jar=aiohttp.DummyCookieJar(), connector=connector, response_class=Response
    )


class Session:
    """Like an aiohttp.ClientSession for one connection template: ``session.get("/orders")``.

    Every method takes aiohttp's own options and returns what aiohttp returns, to be awaited or used with
    ``async with``. The template's connection is looked up for each request, so a session that lives long
    sees new credentials. What is safe to repeat is sent again up to ``retries`` times (2 unless given) until an
    answer begins; what happens while its body is read is not repeated.

    >>> async def export(ctx: Context) -> list[str]:
    ...     ids: list[str] = []
    ...     async with ctx.session("shop") as shop:
    ...         for page in ("1", "2"):
    ...             async with shop.get("/orders", params={"page": page}) as response:
    ...                 ids += [order["id"] for order in (await response.json())["orders"]]
    ...     return ids
    >>> run(export)
    ['A-1', 'A-2', 'A-1', 'A-2']
    """

    __slots__ = ("_client", "_gate", "_look_up", "_outcomes", "_redact", "_tokens", "_tracer")

    def __init__(
        self,
        client: aiohttp.ClientSession,
        look_up: ConnectionLookup,
        tracer: Tracer | None = None,
        tokens: AccessTokens | None = None,
        redact: Redactor | None = None,
        gate: RequestGate | None = None,
        outcomes: RequestOutcomes | None = None,
    ) -> None:
        self._client = client
        self._look_up = look_up
        self._tracer = tracer
        self._tokens = tokens
        self._redact = redact or Redactor()
        self._gate = gate
        self._outcomes = outcomes

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
        connection = self._look_up()
        check(connection)
        if options.get("raise_for_status") is True:
            options["raise_for_status"] = _raise_with_body

        async def send() -> ClientResponse:
            with self._timed(method, url, options):
                return await self._once(method, url, options)

        return _RequestContextManager(
            send_again(
                send,
                method=method,
                options=options,
                retries=retries,
                answers=connection.limit_answers,
                is_held=self._waits(connection),
            )
        )

    async def _once(self, method: str, url: str | URL, options: Mapping[str, Any]) -> ClientResponse:
        """The same, sent a single time, once the connection's limits allow it."""
        connection = self._look_up()
        check(connection)
        target = join(base=connection.base_url, path=url, template=connection.template)
        applying = AuthMiddleware(
            connection, target, self._tracer, self._tokens, self._redact, outcomes=self._outcomes
        )
        middlewares = (*(options.get("middlewares") or ()), applying)
        options = {**options, "middlewares": middlewares}
        gate = self._gate
        if gate is None or connection.limits is None:
            return await self._client.request(method, target, **options)
        applying.gate = gate
        # Here, and not in a middleware: the time-out of the request does not count the waiting.
        ended = await gate.enter(connection)
        try:
            response = await self._client.request(method, target, **options)
        except BaseException as error:
            ended()
            if isinstance(error, aiohttp.ClientResponseError):
                self._heed(connection, limit_signal(error, connection.limit_answers))
            raise
        self._heed(connection, limit_signal(response, connection.limit_answers))
        if response.connection is None:
            ended()
        else:
            response.connection.add_callback(ended)
        return response

    def _waits(self, connection: Connection) -> bool:
        """Whether requests wait for limits, and so for pauses that the system asks for."""
        return self._gate is not None and connection.limits is not None

    def _heed(self, connection: Connection, signal: LimitSignal | None) -> None:
        """Have all pods wait where the system asks for it."""
        if self._gate is not None and signal is not None and signal.seconds:
            self._gate.pause(connection, signal.seconds)

    def _heed_body(self, response: ClientResponse, body: bytes | None = None) -> None:
        """The same by a body that is read: errors in a 200, and the cost of GraphQL."""
        if not isinstance(response, Response) or (
            response.limit is not None and response.limit.seconds is not None
        ):
            return
        connection = self._look_up()
        answers = connection.limit_answers
        longest = _LONGEST_BODY if answers.read_bodies else _LONGEST_UNASKED
        content = response.small_json(longest, is_of_interest=answers.may_be_in, body=body)
        if content is MISSING:
            return
        response.limit = answers.read(response.status, response.headers, content, now=time.time())
        self._heed(connection, response.limit)

    @contextmanager
    def _timed(self, method: str, url: str | URL, options: Mapping[str, Any]) -> Iterator[None]:
        """Tell which request it was that took too long; aiohttp's error for that has no text."""
        try:
            yield
        except TimeoutError as error:
            if str(error):
                raise
            connection = self._look_up()
            target = join(base=connection.base_url, path=url, template=connection.template)
            limit = options.get("timeout", TIMEOUT)
            raise RequestTimeoutError(
                template=connection.template,
                method=method,
                url=shown(target),
                seconds=limit.total if isinstance(limit, aiohttp.ClientTimeout) else limit,
            ) from error

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


async def _raise_with_body(response: ClientResponse) -> None:
    if isinstance(response, Response):
        await response.raise_with_body()
    response.raise_for_status()


def heed_body(session: Session, response: ClientResponse, body: bytes) -> None:
    """Has requests wait as a body says that the caller has read from the response's content."""
    session._heed_body(response, body)


async def fetch(
    session: Session,
    url: str | URL,
    *,
    method: str,
    retries: int = RETRIES,
    is_safe: bool = False,
    **options: Any,
) -> ClientResponse:
    """A request whose answer is read as a whole, so that its connection is free again at once.

    What is safe to repeat is sent again after failures that pass; see tieline.http_client.retries. With ``is_safe``,
    the request is safe to repeat, whatever its method.
    """

    raising = options.pop("raise_for_status", None)
    if raising not in (None, False, True):
        options["raise_for_status"] = raising  # a function of the author's own

    async def send() -> ClientResponse:
        with session._timed(method, url, options):
            response = await session._once(method, url, options)
            try:
                await response.read()
            except BaseException:
                response.close()
                raise
            session._heed_body(response)
        if raising is True:
            response.raise_for_status()
        # Its connection went back to the pool at the body's end; a released response could not be read again.
        return response

    connection = session._look_up()
    return await send_again(
        send,
        method="GET" if is_safe else method,
        options=options,
        retries=retries,
        answers=connection.limit_answers,
        is_held=session._waits(connection),
    )
