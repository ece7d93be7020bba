"""The SDK for plain ``def`` webhooks, which run in a thread: the same calls without ``await``."""

import asyncio
import json
from collections.abc import Coroutine, Mapping
from contextlib import AbstractContextManager
from typing import Any, Generic, TypeVar

import aiohttp
from aiohttp import web
from multidict import CIMultiDictProxy, MultiMapping
from yarl import URL

from tieline.configuration.snapshot import Activation
from tieline.context import Context, Named, V
from tieline.logs import Log
from tieline.tracing.spans import Span, Value

T = TypeVar("T")


class SyncResponse:
    """An external system's answer, read as a whole."""

    __slots__ = ("_response", "content")

    def __init__(self, response: aiohttp.ClientResponse, content: bytes) -> None:
        self._response = response
        self.content = content
        """The body's bytes."""

    @property
    def status(self) -> int:
        """The HTTP status."""
        return self._response.status

    @property
    def ok(self) -> bool:
        """Whether the status is below 400."""
        return self._response.ok

    @property
    def headers(self) -> CIMultiDictProxy[str]:
        """The answer's headers."""
        return self._response.headers

    @property
    def url(self) -> URL:
        """The URL that answered, after redirects."""
        return self._response.url

    def text(self) -> str:
        """The body in the encoding that the answer declares."""
        return self.content.decode(self._response.get_encoding())

    def json(self) -> Any:
        """The body as JSON; raises json.JSONDecodeError."""
        return json.loads(self.content)

    def raise_for_status(self) -> None:
        """Raise aiohttp.ClientResponseError for a status of 400 and above."""
        self._response.raise_for_status()


class SyncRequest:
    """The webhook's request, read as a whole."""

    __slots__ = ("_request", "content")

    def __init__(self, request: web.Request, content: bytes) -> None:
        self._request = request
        self.content = content
        """The body's exact bytes."""

    @property
    def method(self) -> str:
        """The HTTP method, in upper case."""
        return self._request.method

    @property
    def headers(self) -> Mapping[str, str]:
        """The request's headers."""
        return self._request.headers

    @property
    def query(self) -> MultiMapping[str]:
        """The decoded query parameters."""
        return self._request.query

    @property
    def url(self) -> URL:
        """The request's URL."""
        return self._request.url

    @property
    def cookies(self) -> Mapping[str, str]:
        """The request's cookies."""
        return self._request.cookies

    def text(self) -> str:
        """The body as text, in the charset that the request declares (else UTF-8)."""
        return self.content.decode(self._request.charset or "utf-8")

    def json(self) -> Any:
        """The body as JSON; raises json.JSONDecodeError."""
        return json.loads(self.content)


class SyncContext(Generic[V]):
    """One run's view of its environment, for code that runs in a thread. See Context."""

    __slots__ = ("_context", "_loop")

    def __init__(self, context: Context[V], loop: asyncio.AbstractEventLoop) -> None:
        self._context = context
        self._loop = loop

    @property
    def execution_id(self) -> str:
        """The run's id."""
        return self._context.execution_id

    @property
    def log(self) -> Log:
        """Writes log lines of this run."""
        return self._context.log

    @property
    def variables(self) -> V:
        """The activation's variables with the defaults of the project's schema; the run's own copy."""
        return self._context.variables

    @property
    def activation(self) -> Activation:
        """Whom the run is for."""
        return self._context.activation

    @property
    def organisation_id(self) -> str:
        """The organisation's id."""
        return self._context.organisation_id

    @property
    def project(self) -> Named:
        """The project's id and name."""
        return self._context.project

    @property
    def environment(self) -> Named:
        """The environment's id and name."""
        return self._context.environment

    @property
    def version(self) -> str:
        """The name of the ProjectVersion that runs."""
        return self._context.version

    @property
    def public_url(self) -> str:
        """Where the environment's webhooks are reached from outside."""
        return self._context.public_url

    def trace(self, name: str, **attributes: Value) -> AbstractContextManager[Span]:
        """A span of one's own in the run's trace; see Context.trace."""
        return self._context.trace(name, **attributes)

    def fetch(
        self, template: str, url: str | URL = "", *, method: str = "GET", **options: Any
    ) -> SyncResponse:
        """One request through a connection template; see Context.fetch for arguments and errors."""
        return self._wait(self._fetch(template, url, method, options))

    async def _fetch(
        self, template: str, url: str | URL, method: str, options: dict[str, Any]
    ) -> SyncResponse:
        response = await self._context.fetch(template, url, method=method, **options)
        return SyncResponse(response, await response.read())

    def _wait(self, call: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(call, self._loop).result()
