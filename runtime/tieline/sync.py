"""The SDK for plain ``def`` webhooks, which run in a thread: the same calls without ``await``."""

import asyncio
import json
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from http.cookies import SimpleCookie
from typing import Any, Generic, TypeVar

import aiohttp
from aiohttp import web
from multidict import CIMultiDictProxy, MultiDictProxy, MultiMapping
from yarl import URL

from tieline.configuration.snapshot import Activation
from tieline.context import Context, Named, V
from tieline.execution.background import Work
from tieline.state.activation_state import State, StateEntry
from tieline.state.documents import ANY_VERSION, Expected
from tieline.telemetry.logs import Log
from tieline.telemetry.spans import Span, Value

T = TypeVar("T")


class SyncResponse:
    """An external system's answer, read as a whole.

    >>> def orders(ctx: SyncContext) -> list[str]:
    ...     response = ctx.fetch("shop", "/orders")
    ...     response.raise_for_status()
    ...     return [order["id"] for order in response.json()["orders"]]
    >>> run(orders)
    ['A-1', 'A-2']
    """

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

    @property
    def reason(self) -> str | None:
        """The words beside the status."""
        return self._response.reason

    @property
    def content_type(self) -> str:
        """The body's content type, without parameters."""
        return self._response.content_type

    @property
    def charset(self) -> str | None:
        """The charset that the content type declares."""
        return self._response.charset

    @property
    def cookies(self) -> SimpleCookie:
        """The cookies that the system has set."""
        return self._response.cookies

    def read(self) -> bytes:
        """The body's bytes."""
        return self.content

    def text(self, encoding: str | None = None, errors: str = "strict") -> str:
        """The body in the encoding that the answer declares, or in ``encoding``."""
        return self.content.decode(encoding or self._response.get_encoding(), errors)

    def json(self) -> Any:
        """The body as JSON, whatever its content type; raises json.JSONDecodeError."""
        return json.loads(self.content)

    def raise_for_status(self) -> None:
        """Raise an UpstreamError for a status of 400 and above, with the beginning of what the system answered."""
        self._response.raise_for_status()


class SyncRequest:
    """The webhook's request, read as a whole: what Request has, without ``await``.

    >>> def paid(ctx: SyncContext, request: SyncRequest) -> str:
    ...     return f"{request.method} of order {request.json()['number']}"
    >>> run(paid, json={"number": "A-1"})
    'POST of order A-1'
    """

    __slots__ = ("_loop", "_request", "content")

    def __init__(
        self, request: web.Request, content: bytes, loop: asyncio.AbstractEventLoop | None = None
    ) -> None:
        self._request = request
        self._loop = loop
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
    def path(self) -> str:
        """The URL's path, decoded."""
        return self._request.path

    @property
    def raw_path(self) -> str:
        """Path and query as they were sent."""
        return self._request.raw_path

    @property
    def path_qs(self) -> str:
        """Path and query."""
        return self._request.path_qs

    @property
    def rel_url(self) -> URL:
        """The URL without scheme and host."""
        return self._request.rel_url

    @property
    def scheme(self) -> str:
        """``http`` or ``https``, as the pod is asked."""
        return self._request.scheme

    @property
    def secure(self) -> bool:
        """Whether the scheme is https."""
        return self._request.secure

    @property
    def host(self) -> str:
        """The host that was asked, with its port."""
        return self._request.host

    @property
    def remote(self) -> str | None:
        """The address that the request came from; a proxy's, where there is one."""
        return self._request.remote

    @property
    def match_info(self) -> Mapping[str, str]:
        """Parts of the path: ``external_id`` where the webhook was called for a user."""
        return self._request.match_info

    @property
    def query_string(self) -> str:
        """The query, decoded."""
        return self._request.query_string

    @property
    def content_type(self) -> str:
        """The body's content type, without parameters."""
        return self._request.content_type

    @property
    def charset(self) -> str | None:
        """The charset that the content type declares."""
        return self._request.charset

    @property
    def content_length(self) -> int | None:
        """The body's size that was declared."""
        return self._request.content_length

    @property
    def body_exists(self) -> bool:
        """Whether there is a body."""
        return self._request.body_exists

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

    def read(self) -> bytes:
        """The body's exact bytes."""
        return self.content

    def text(self) -> str:
        """The body as text, in the charset that the request declares (else UTF-8)."""
        return self.content.decode(self._request.charset or "utf-8")

    def post(self) -> MultiDictProxy[str | bytes | bytearray | web.FileField]:
        """The fields of a form, also of one with files."""
        if self._loop is None:
            raise RuntimeError("A form can be read within a run only")
        return _wait(self._request.post(), self._loop)

    def json(self, *, loads: Callable[[str], Any] = json.loads) -> Any:
        """The body as JSON; raises json.JSONDecodeError."""
        return json.loads(self.content) if loads is json.loads else loads(self.text())


class SyncState:
    """What the integration remembers for the activation; see State.

    >>> def count(ctx: SyncContext) -> int:
    ...     runs = ctx.state.get("runs", 0) + 1
    ...     ctx.state.set("runs", runs)
    ...     return runs
    >>> run(count), run(count)
    (1, 2)
    """

    __slots__ = ("_loop", "_state")

    def __init__(self, state: State, loop: asyncio.AbstractEventLoop) -> None:
        self._state = state
        self._loop = loop

    def get(self, key: str, default: Any = None) -> Any:
        """The value of ``key``, or ``default``."""
        return _wait(self._state.get(key, default), self._loop)

    def entry(self, key: str) -> StateEntry:
        """The value with its version."""
        return _wait(self._state.entry(key), self._loop)

    def set(self, key: str, value: Any, *, version: Expected = ANY_VERSION) -> str:
        """Keep ``value``; see State.set."""
        return _wait(self._state.set(key, value, version=version), self._loop)

    def delete(self, key: str, *, version: Expected = ANY_VERSION) -> None:
        """Forget the value; see State.delete."""
        _wait(self._state.delete(key, version=version), self._loop)


class SyncContext(Generic[V]):
    """One run's view of its environment, for code that runs in a thread. See Context.

    >>> def where(ctx: SyncContext) -> str:
    ...     ctx.log.info("Asked where this is", region=ctx.variables["region"])
    ...     return f"{ctx.environment.name} of {ctx.project.name}"
    >>> run(where)
    'test of Orders'
    """

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

    @property
    def state(self) -> SyncState:
        """What the integration remembers for this activation."""
        return SyncState(self._context.state, self._loop)

    def background(self, work: Work, *args: Any, **kwargs: Any) -> None:
        """Do ``work`` after the answer, in this pod's memory; see Context.background."""
        _wait(self._start(work, args, kwargs), self._loop)

    async def _start(self, work: Work, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._context.background(work, *args, **kwargs)

    def publish(
        self,
        task: str,
        payload: Any,
        *,
        key: str | None = None,
        id: str | None = None,
        delay: float | timedelta | None = None,
        at: datetime | None = None,
        user: str | None = None,
    ) -> str:
        """Have ``@integration.event(task)`` run with ``payload``; see Context.publish."""
        call = self._context.publish(task, payload, key=key, id=id, delay=delay, at=at, user=user)
        return _wait(call, self._loop)

    def step(self, name: str, work: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """The result of ``work(*args, **kwargs)``, which a retry does not do again; see Context.step."""
        steps = self._context.steps
        step = _wait(steps.begin(name), self._loop)
        value = None
        if step.result is None:
            try:
                with step.current():
                    value = work(*args, **kwargs)
            except Exception as error:
                steps.failed(step, error)
                raise
        return _wait(steps.finish(step, value), self._loop)

    def sleep(self, name: str, duration: float | timedelta) -> None:
        """End the run, and go on here after ``duration``; see Context.sleep."""
        _wait(self._context.sleep(name, duration), self._loop)

    @property
    def idempotency_key(self) -> str:
        """A text that is the same in all attempts; see Context.idempotency_key."""
        return self._context.idempotency_key

    def trace(self, name: str, **attributes: Value) -> AbstractContextManager[Span]:
        """A span of one's own in the run's trace; see Context.trace."""
        return self._context.trace(name, **attributes)

    def fetch(
        self, template: str, url: str | URL = "", *, method: str = "GET", **options: Any
    ) -> SyncResponse:
        """One request through a connection template; see Context.fetch for arguments and errors."""
        return _wait(self._fetch(template, url, method, options), self._loop)

    async def _fetch(
        self, template: str, url: str | URL, method: str, options: dict[str, Any]
    ) -> SyncResponse:
        response = await self._context.fetch(template, url, method=method, **options)
        return SyncResponse(response, await response.read())


def _wait(call: Coroutine[Any, Any, T], loop: asyncio.AbstractEventLoop) -> T:
    return asyncio.run_coroutine_threadsafe(call, loop).result()
