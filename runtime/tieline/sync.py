"""The SDK for plain ``def`` webhooks, which run in a thread: the same calls without ``await``."""

import asyncio
import json
import sys
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from datetime import datetime, timedelta
from threading import get_ident
from typing import Any, Generic, TypeVar

import aiohttp
from aiohttp import web
from multidict import MultiDictProxy
from yarl import URL

from tieline.context import Context, V
from tieline.credentials import AccessToken, Credentials
from tieline.events.event import Event
from tieline.events.publish_many import NewEvent
from tieline.events.run_approvals import ApprovalAnswer, Question
from tieline.events.run_signals import Signal
from tieline.events.run_waits import Place
from tieline.events.steps import StepsNotAvailableError, work_of
from tieline.execution.background import Work
from tieline.execution.tags import TagValue
from tieline.patterns.bulk import BulkResult
from tieline.patterns.incremental import IncrementalSync
from tieline.patterns.list_pages import Pages
from tieline.patterns.pagination import MAX_PAGES
from tieline.state.activation_state import State, StateEntry
from tieline.state.documents import ANY_VERSION, Expected
from tieline.telemetry.spans import Span, Value

T = TypeVar("T")

run_thread: ContextVar[int | None] = ContextVar("tieline_run_thread", default=None)
"""The thread in which the plain function of a run is called. Threads that it starts have none."""


class _Forwarded(property, Generic[T]):
    """A property that an asynchronous object has without ``await`` already."""

    def __init__(self, read: Callable[[Any], T], doc: str) -> None:
        super().__init__(read, doc=doc)

    def __get__(self, instance: Any, owner: type | None = None, /) -> T:  # type: ignore[override]
        value: T = super().__get__(instance, owner)
        return value


def _of_response(read: Callable[[aiohttp.ClientResponse], T], doc: str) -> _Forwarded[T]:
    return _Forwarded(lambda own: read(own._response), doc)


def _of_request(read: Callable[[web.Request], T], doc: str) -> _Forwarded[T]:
    return _Forwarded(lambda own: read(own._request), doc)


def _of_context(read: Callable[[Context[Any]], T], doc: str) -> _Forwarded[T]:
    return _Forwarded(lambda own: read(own._context), doc)


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

    status = _of_response(lambda response: response.status, "The HTTP status.")
    ok = _of_response(lambda response: response.ok, "Whether the status is below 400.")
    headers = _of_response(lambda response: response.headers, "The answer's headers.")
    url = _of_response(lambda response: response.url, "The URL that answered, after redirects.")
    reason = _of_response(lambda response: response.reason, "The words beside the status.")
    content_type = _of_response(
        lambda response: response.content_type, "The body's content type, without parameters."
    )
    charset = _of_response(lambda response: response.charset, "The charset that the content type declares.")
    cookies = _of_response(lambda response: response.cookies, "The cookies that the system has set.")

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

    method = _of_request(lambda request: request.method, "The HTTP method, in upper case.")
    headers = _of_request(lambda request: request.headers, "The request's headers.")
    path = _of_request(lambda request: request.path, "The URL's path, decoded.")
    raw_path = _of_request(lambda request: request.raw_path, "Path and query as they were sent.")
    path_qs = _of_request(lambda request: request.path_qs, "Path and query.")
    rel_url = _of_request(lambda request: request.rel_url, "The URL without scheme and host.")
    scheme = _of_request(lambda request: request.scheme, "``http`` or ``https``, as the pod is asked.")
    secure = _of_request(lambda request: request.secure, "Whether the scheme is https.")
    host = _of_request(lambda request: request.host, "The host that was asked, with its port.")
    remote = _of_request(
        lambda request: request.remote,
        "The address that the request came from; a proxy's, where there is one.",
    )
    match_info = _of_request(
        lambda request: request.match_info,
        "Parts of the path: ``external_id`` where the webhook was called for a user.",
    )
    query_string = _of_request(lambda request: request.query_string, "The query, decoded.")
    content_type = _of_request(
        lambda request: request.content_type, "The body's content type, without parameters."
    )
    charset = _of_request(lambda request: request.charset, "The charset that the content type declares.")
    content_length = _of_request(lambda request: request.content_length, "The body's size that was declared.")
    body_exists = _of_request(lambda request: request.body_exists, "Whether there is a body.")
    query = _of_request(lambda request: request.query, "The decoded query parameters.")
    url = _of_request(lambda request: request.url, "The request's URL.")
    cookies = _of_request(lambda request: request.cookies, "The request's cookies.")

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
        return json.loads(self.content) if loads is json.loads else loads(self.text().removeprefix("\ufeff"))


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

    def set(
        self,
        key: str,
        value: Any,
        *,
        version: Expected = ANY_VERSION,
        expires: float | timedelta | None = None,
    ) -> str:
        """Keep ``value``; see State.set."""
        return _wait(self._state.set(key, value, version=version, expires=expires), self._loop)

    def keys(self, prefix: str = "") -> list[str]:
        """The keys that begin with ``prefix``, in order; see State.keys."""
        return _wait(self._state.keys(prefix), self._loop)

    def count(self, prefix: str = "") -> int:
        """How many values there are; see State.count."""
        return _wait(self._state.count(prefix), self._loop)

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

    execution_id = _of_context(lambda context: context.execution_id, "The run's id.")
    log = _of_context(lambda context: context.log, "Writes log lines of this run.")

    @property
    def variables(self) -> V:
        """The activation's variables with the defaults of the project's schema; the run's own copy."""
        return self._context.variables

    activation = _of_context(lambda context: context.activation, "Whom the run is for.")
    delivery = _of_context(
        lambda context: context.delivery,
        "The sender's id of a webhook's request, and whether a request with it was accepted before.",
    )
    organisation_id = _of_context(lambda context: context.organisation_id, "The organisation's id.")
    project = _of_context(lambda context: context.project, "The project's id and name.")
    environment = _of_context(lambda context: context.environment, "The environment's id and name.")
    version = _of_context(lambda context: context.version, "The name of the ProjectVersion that runs.")
    public_url = _of_context(
        lambda context: context.public_url, "Where the environment's webhooks are reached from outside."
    )

    @property
    def state(self) -> SyncState:
        """What the integration remembers for this activation."""
        return SyncState(self._context.state, self._loop)

    def tag(self, name: str, value: TagValue) -> None:
        """Mark the run with a business id; see Context.tag."""
        self._context.tag(name, value)

    def progress(self, text: str, fraction: float | None = None) -> None:
        """Say how far the run is; see Context.progress."""
        self._context.progress(text, fraction)

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
    ) -> str | None:
        """Have ``@integration.event(task)`` run with ``payload``; see Context.publish."""
        call = self._context.publish(task, payload, key=key, id=id, delay=delay, at=at, user=user)
        return _wait(call, self._loop)

    def publish_many(self, events: Iterable[NewEvent]) -> list[str | None]:
        """Publish up to 1,000 events in one call; see Context.publish_many."""
        return _wait(self._context.publish_many(events), self._loop)

    def step(self, name: str, work: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """The result of ``work(*args, **kwargs)``, which a retry does not do again; see Context.step."""
        return self._step(name, work, args, kwargs, in_order=get_ident() == run_thread.get())

    def _step(
        self,
        name: str,
        work: Callable[..., Any],
        args: Any,
        kwargs: Any,
        *,
        in_order: bool,
        compared: bool = True,
    ) -> Any:
        steps = self._context.steps
        recognised = work_of(work, args, kwargs) if compared else ""
        begun = steps.begin(
            name, work=recognised, in_order=in_order, handles_error=sys.exception() is not None
        )
        step = _wait(begun, self._loop)
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
        seconds = duration.total_seconds() if isinstance(duration, timedelta) else float(duration)
        in_order = get_ident() == run_thread.get()
        asleep = self._context.steps.sleep(
            name, seconds, in_order=in_order, handles_error=sys.exception() is not None
        )
        _wait(asleep, self._loop)

    def wait_for(
        self, name: str, *, match: Mapping[str, Any] | None = None, timeout: float | timedelta
    ) -> Event | None:
        """Suspend the run until an event of this name comes, and return the event; see Context.wait_for."""
        waiting = self._context._events.wait_for(
            name,
            match,
            timeout,
            in_order=get_ident() == run_thread.get(),
            handles_error=sys.exception() is not None,
        )
        return _wait(waiting, self._loop)

    def wait_for_signal(self, name: str, *, timeout: float | timedelta) -> Signal | None:
        """Suspend the run until somebody sends it a signal of this name; see Context.wait_for_signal."""
        place = Place(in_order=get_ident() == run_thread.get(), handles_error=sys.exception() is not None)
        return _wait(self._context._events.wait_for_signal(name, timeout, place), self._loop)

    def approve(
        self,
        title: str,
        *,
        details: Any = None,
        by: Iterable[str] | None = None,
        timeout: float | timedelta,
        form: Mapping[str, Any] | None = None,
        other_than: str | None = None,
    ) -> ApprovalAnswer:
        """Suspend the run until somebody approves or rejects, and return the answer; see Context.approve."""
        question = Question.of(
            title, details=details, by=by, timeout=timeout, form=form, other_than=other_than
        )
        place = Place(in_order=get_ident() == run_thread.get(), handles_error=sys.exception() is not None)
        return _wait(self._context._events.approve(question, place), self._loop)

    def patched(self, name: str) -> bool:
        """Whether this run takes changed code; see Context.patched."""
        return _wait(self._context.steps.patched(name), self._loop)

    def run(
        self,
        task: str,
        payload: Any,
        *,
        key: str | None = None,
        user: str | None = None,
        timeout: float | timedelta = timedelta(days=30),
    ) -> Any:
        """Start a run of ``@integration.event(task)``, and return what its code returned; see Context.run."""
        place = Place(in_order=get_ident() == run_thread.get(), handles_error=sys.exception() is not None)
        child = self._context._events.run(task, payload, key=key, user=user, timeout=timeout, place=place)
        return _wait(child, self._loop)

    @property
    def idempotency_key(self) -> str:
        """A text that is the same in all attempts; see Context.idempotency_key."""
        return self._context.idempotency_key

    def credentials(self, template: str, *, rejected: AccessToken | None = None) -> Credentials:
        """The credentials of a connection; see Context.credentials."""
        return _wait(self._context.credentials(template, rejected=rejected), self._loop)

    def trace(self, name: str, **attributes: Value) -> AbstractContextManager[Span]:
        """A custom span in the run's trace; see Context.trace."""
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

    def paginate(
        self,
        template: str,
        url: str = "",
        *,
        pages: Pages | None = None,
        items: str | None = None,
        max_pages: int = MAX_PAGES,
        **options: Any,
    ) -> Iterator[Any]:
        """The items of a list that comes in pages; see Context.paginate."""
        pager = self._context._list(
            template, url, pages=pages, items=items, max_pages=max_pages, options=options
        )
        while (found := _wait(pager.next_page(), self._loop)) is not None:
            yield from found

    def graphql(
        self, template: str, query: str, variables: Mapping[str, Any] | None = None, **options: Any
    ) -> Any:
        """The data that a system answers to a GraphQL request; see Context.graphql."""
        return _wait(self._context.graphql(template, query, variables, **options), self._loop)

    def graphql_pages(
        self,
        template: str,
        query: str,
        variables: Mapping[str, Any] | None = None,
        *,
        items: str | None = None,
        url: str | None = None,
        max_pages: int = MAX_PAGES,
        **options: Any,
    ) -> Iterator[Any]:
        """The items of a connection of GraphQL, of all pages; see Context.graphql_pages."""
        pager = self._context._connection(
            template, query, variables, items=items, url=url, max_pages=max_pages, options=options
        )
        while (found := _wait(pager.next_page(), self._loop)) is not None:
            yield from found

    def call(self, template: str, operation: str, **given: Any) -> Any:
        """Call an operation of an imported description; see Context.call."""
        return _wait(self._context.call(template, operation, **given), self._loop)

    def call_pages(
        self,
        template: str,
        operation: str,
        *,
        body: Any = None,
        path: Mapping[str, Any] | None = None,
        query: Mapping[str, Any] | None = None,
        headers: Mapping[str, Any] | None = None,
        connector: str | None = None,
        pages: Pages | None = None,
        items: str | None = None,
        max_pages: int = MAX_PAGES,
        **options: Any,
    ) -> Iterator[Any]:
        """The items of a list that an operation gives in pages; see Context.call_pages."""
        pager = self._context._pager(
            template,
            operation,
            connector=connector,
            body=body,
            path=path,
            query=query,
            headers=headers,
            pages=pages,
            items=items,
            max_pages=max_pages,
            options=options,
        )
        while (found := _wait(pager.next_page(), self._loop)) is not None:
            yield from found

    @contextmanager
    def incremental(self, name: str, *, start: Any = None) -> Iterator[IncrementalSync]:
        """Read only what is new; see Context.incremental. Of its ``checkpoint``, use ``checkpoint`` of the context."""
        sync = self._context.incremental(name, start=start)
        _wait(sync.__aenter__(), self._loop)
        try:
            yield sync
        except BaseException as error:
            _wait(sync.__aexit__(type(error), error, error.__traceback__), self._loop)
            raise
        _wait(sync.__aexit__(None, None, None), self._loop)

    def checkpoint(self, sync: IncrementalSync) -> None:
        """Keep the cursor of an incremental sync now; see IncrementalSync.checkpoint."""
        _wait(sync.checkpoint(), self._loop)

    def bulk(
        self, name: str, items: Iterable[Any], work: Callable[[Any], T], *, key: Callable[[Any], object]
    ) -> BulkResult[T]:
        """Call ``work(item)`` for each item, one after the other; see Context.bulk."""
        result: BulkResult[T] = BulkResult()
        for item in items:
            identity = str(key(item))
            if identity in result.results or identity in result.failures:
                raise ValueError(f"Two items of {name!r} have the key {identity!r}: keys must be unique")
            try:
                result.results[identity] = self._step_or_call(f"{name}/{identity}", work, item)
            except Exception as error:
                result.failures[identity] = error
        return result

    def _step_or_call(self, name: str, work: Callable[[Any], T], item: Any) -> T:
        try:
            _ = self._context.steps
        except StepsNotAvailableError:
            return work(item)
        # Items may come in another order, be others, or have changed in the next attempt: their names tell them apart.
        done: T = self._step(name, work, (item,), {}, in_order=False, compared=False)
        return done


def _wait(call: Coroutine[Any, Any, T], loop: asyncio.AbstractEventLoop) -> T:
    return asyncio.run_coroutine_threadsafe(call, loop).result()
