"""The endpoint: a route beside the operations of REST, which goes the same way through the dispatcher."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Protocol

from aiohttp import web

from tieline_api import errors
from tieline_api.agents import calls, catalogue, sign_in, webhooks
from tieline_api.agents.tools import Tool
from tieline_api.auth.issuers import Issuer
from tieline_api.auth.permissions import permission
from tieline_api.http.dispatcher import Dispatcher
from tieline_api.http.operation import Call, Operation, Reply
from tieline_api.use_cases.end_user_checks import itself

TOOLS = (*catalogue.TOOLS, *calls.TOOLS, *webhooks.TOOLS)
MOST = 64
"""Messages under way at a replica."""
MOST_EACH = 16
"""Of one organisation."""
_RETRY_SECONDS = 5.0


class Answer(Protocol):
    """Answers a message with the SDK."""

    def __call__(self, call: Call[None, None], tools: tuple[Tool, ...]) -> Awaitable[web.Response]:
        """The answer to the message that ``call`` brings."""


class Endpoint:
    """Answers messages of the protocol, some at a time."""

    def __init__(self) -> None:
        self._under_way: Counter[str] = Counter()

    async def speak(self, call: Call[None, None]) -> Reply[None]:
        """The answer to a message. ApiError: 403 for pages of other origins, 429 while too many are under way."""
        _check_origin(call)
        with self._turn(call.organisation.id):
            answer = await asyncio.to_thread(_with_the_sdk)
            return Reply(response=await answer(call, TOOLS))

    @contextmanager
    def _turn(self, organisation: str) -> Iterator[None]:
        if self._under_way[organisation] >= MOST_EACH or self._under_way.total() >= MOST:
            raise errors.too_many_requests(
                "Too many messages of agents are under way: try again in a moment", retry_after=_RETRY_SECONDS
            )
        self._under_way[organisation] += 1
        try:
            yield
        finally:
            self._under_way[organisation] -= 1
            if not self._under_way[organisation]:
                del self._under_way[organisation]


def _with_the_sdk() -> Answer:
    """Imports the SDK with the first message: it takes a second, and memory that most installations do not need."""
    from tieline_api.agents.transport import answer  # noqa: PLC0415

    return answer


def _check_origin(call: Call[None, None]) -> None:
    """ApiError 403 for a browser's page that may not call the API: the protocol asks for it (DNS rebinding)."""
    origin = call.request.headers.get("Origin")
    if origin is None:
        return
    settings, scope = call.platform.settings, call.caller.end_user
    allowed = (
        settings.own_origins
        | settings.cors_origins
        | (scope.origins or frozenset() if scope else frozenset())
    )
    if origin.lower() not in allowed:
        raise errors.forbidden("Pages of this origin may not speak with the endpoint for agents")


def mcp_operation(endpoint: Endpoint) -> Operation:
    """Membership alone: each tool asks for what it needs. It is no operation of REST, and not in its document."""
    return Operation(
        endpoint.speak,
        "POST",
        sign_in.PATH,
        id="mcp",
        summary="Speak the Model Context Protocol",
        permissions=permission("list", "projects"),
        end_user=itself,
        own_protocol=True,
        key_as_bearer=True,
    )


def add_agents(
    app: web.Application,
    dispatcher: Dispatcher,
    *,
    issuers: Callable[[], Iterable[Issuer]],
    public_url: str,
) -> None:
    """Adds the routes. A GET, which asks for a stream, gets 405, as the protocol allows."""
    operation = mcp_operation(Endpoint())

    async def handle(request: web.Request) -> web.StreamResponse:
        try:
            return await dispatcher.run(operation, request)
        except errors.ApiError as error:
            raise sign_in.challenge(error, public_url, request.path) from None

    app.router.add_post(operation.path, handle)
    sign_in.add_metadata(app, issuers, public_url)
