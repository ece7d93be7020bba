"""What a run is given: its log, its variables, and the way to external systems."""

from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Generic, cast

import aiohttp
from typing_extensions import TypeVar
from yarl import URL

from tieline.auth.urls import path_below
from tieline.configuration.current import Configuration
from tieline.configuration.snapshot import Activation
from tieline.connectors.caller import Caller, Connectors
from tieline.credentials import AccessToken, Credentials, exposed
from tieline.events.event import Event
from tieline.events.publish_many import NewEvent
from tieline.events.publisher import Publisher
from tieline.events.queue import NoEvents
from tieline.events.run_approvals import ApprovalAnswer, Question
from tieline.events.run_events import RunEvents
from tieline.events.run_signals import Signal
from tieline.events.side_by_side import side_by_side
from tieline.events.steps import PatchAnswer, RunSteps, StepsNotAvailableError, work_of
from tieline.execution.background import BackgroundWork, Work
from tieline.execution.progress import RunProgress
from tieline.execution.tags import TagValue, add_tag, background_tags
from tieline.http_client.session import Session, fetch
from tieline.patterns.bulk import BulkResult, bulk
from tieline.patterns.graphql import ConnectionPages, checked, is_safe
from tieline.patterns.incremental import IncrementalSync
from tieline.patterns.list_pages import Pages
from tieline.patterns.pagination import MAX_PAGES, NoDialectError, Pager
from tieline.state.activation_state import State
from tieline.state.documents import Documents, MemoryDocuments
from tieline.telemetry.logs import Log
from tieline.telemetry.spans import Span, Tracer, Value
from tieline.variables import Variables, with_defaults

V = TypeVar("V", default=Variables)
"""What describes the variables: a class that `tieline types` writes, or else Variables."""
R = TypeVar("R")


@dataclass(frozen=True, kw_only=True)
class Named:
    """An id (a ULID) with the name that people use."""

    id: str
    name: str


@dataclass(frozen=True, kw_only=True)
class RunMetadata:
    """Where the code runs; the same for every run of a process."""

    organisation_id: str
    project: Named
    environment: Named
    version: str
    public_url: str


@dataclass(frozen=True, kw_only=True)
class WebhookDelivery:
    """Metadata of a webhook's request.

    >>> async def orders(ctx: Context, request: Request) -> str:
    ...     return "known already" if ctx.delivery.is_duplicate else "new"
    >>> run(orders)
    'new'
    """

    id: str | None = None
    """The sender's id of the request; a hash of the signature where the sender has no ids, and signs the time."""
    is_duplicate: bool = False
    """Whether a request with this id was accepted before. A queued webhook does not run for such a request."""


def activation_key(activation: Activation) -> str:
    """Identifies the activation when activations take turns."""
    return activation.user.external_id if activation.user else ""


class Context(Generic[V]):
    """One run's view of its environment.

    >>> async def where(ctx: Context) -> str:
    ...     ctx.log.info("Asked where this is", region=ctx.variables["region"])
    ...     return f"{ctx.environment.name} of {ctx.project.name}"
    >>> run(where)
    'test of Orders'

    ``Context[Variables]`` gives type checkers the types of the variables, as ``tieline types`` writes them.
    """

    __slots__ = (
        "_background",
        "_client",
        "_configuration",
        "_connectors",
        "_documents",
        "_events",
        "_progress",
        "_tags",
        "_tracer",
        "_variables",
        "activation",
        "delivery",
        "execution_id",
        "log",
        "run_metadata",
    )

    def __init__(
        self,
        *,
        execution_id: str,
        configuration: Configuration,
        client: aiohttp.ClientSession,
        run_metadata: RunMetadata,
        activation: Activation | None = None,
        tracer: Tracer | None = None,
        documents: Documents | None = None,
        background: BackgroundWork | None = None,
        events: RunEvents | None = None,
        delivery: WebhookDelivery | None = None,
        connectors: Connectors | None = None,
        tags: dict[str, str] | None = None,
        progress: RunProgress | None = None,
    ) -> None:
        self.execution_id = execution_id
        """The run's id; also in the answer's header X-Tieline-Execution-Id and in every log line."""
        self.log = Log(execution_id)
        """Writes log lines of this run: ``ctx.log.info("Stored the order", order_id=7)``."""
        self.activation: Activation = activation or configuration.current.static
        """Whom the run is for, as it was when the run began: a user's activation, or the static one."""
        self.delivery: WebhookDelivery = delivery or WebhookDelivery()
        """The sender's id of a webhook's request, and whether a request with it was accepted before."""
        self._documents = MemoryDocuments() if documents is None else documents
        self.run_metadata = run_metadata
        self._background = background or BackgroundWork()
        self._events = events or RunEvents(
            Publisher(NoEvents(), {}), run=execution_id, user=activation_key(self.activation) or None
        )
        self._configuration = configuration
        self._client = client
        self._connectors = connectors or Connectors()
        self._tracer = tracer or Tracer(lambda _: None)
        self._tags: dict[str, str] = {} if tags is None else tags
        self._progress = RunProgress() if progress is None else progress
        self._variables: Variables | None = None

    @property
    def variables(self) -> V:
        """The activation's variables with the defaults of the project's schema; the run's own copy.

        >>> async def region(ctx: Context) -> str:
        ...     return ctx.variables["region"]
        >>> run(region), run(region, user="ann")
        ('eu', 'us')
        """
        if self._variables is None:
            schema = self._configuration.current.variables_schema
            self._variables = with_defaults(self.activation.variables, schema)
        return cast(V, self._variables)

    @property
    def state(self) -> State:
        """What the integration remembers for this activation: ``await ctx.state.set("cursor", cursor)``."""
        user = self.activation.user
        return State(self._documents, user.external_id if user else None)

    @property
    def organisation_id(self) -> str:
        """The organisation's id."""
        return self.run_metadata.organisation_id

    @property
    def project(self) -> Named:
        """The project's id and name."""
        return self.run_metadata.project

    @property
    def environment(self) -> Named:
        """The environment's id and name."""
        return self.run_metadata.environment

    @property
    def version(self) -> str:
        """The name of the ProjectVersion that runs."""
        return self.run_metadata.version

    @property
    def public_url(self) -> str:
        """Where the environment's webhooks are reached from outside."""
        return self._configuration.current.public_url or self.run_metadata.public_url

    def session(self, template: str) -> Session:
        """A client for the connection of a connection template, for streaming or for many requests.

        A dynamic template leads to the connection of the run's user.
        Raises UnknownTemplateError, TemplateNotLinkedError, DynamicTemplateError or NoConnectionOfUserError.

        >>> async def export(ctx: Context) -> int:
        ...     async with ctx.session("shop") as shop, shop.get("/orders") as response:
        ...         return sum([len(part) async for part in response.content.iter_chunked(65536)])
        >>> run(export) > 10
        True
        """
        self._configuration.current.connection(template, self.activation)
        return Session(
            self._client,
            lambda: self._configuration.current.connection(template, self.activation),
            self._tracer,
            self._configuration.tokens,
            self._configuration.redactor,
            self._configuration.gate,
            self._configuration.outcomes,
        )

    async def credentials(self, template: str, *, rejected: AccessToken | None = None) -> Credentials:
        """The credentials of a connection, for what does not speak HTTP: a database, mail, a vendor's SDK.

        The template and the connection must both say ``exposeToCode``. Read them where you need them, not once for
        all: passwords are changed and access tokens refreshed while the code runs. After the system has refused an
        access token, pass it as ``rejected`` to get another one.

        Known values are masked in logs, traces and errors. Do not store them, and do not send them to other systems.

        Raises CredentialsNotExposedError, the errors of ``session`` about templates, and on reading a property
        MissingCredentialError or CredentialError.

        >>> async def sign_in(ctx: Context) -> str:
        ...     login = (await ctx.credentials("mail")).login
        ...     return f"{login.username} signs in"
        >>> run(sign_in)
        'orders signs in'
        """
        connection = self._configuration.current.connection(template, self.activation)
        return await exposed(connection, self._configuration.tokens, rejected=rejected)

    def trace(self, name: str, **attributes: Value) -> AbstractContextManager[Span]:
        """A custom span in the run's trace.

        >>> async def rows(ctx: Context, request: Request) -> int:
        ...     with ctx.trace("parse", source="upload") as span:
        ...         found = (await request.text()).splitlines()
        ...         span.set(rows=len(found))
        ...     return len(found)
        >>> run(rows, data="a\\nb")
        2
        """
        return self._tracer.span(name, attributes=attributes)

    def tag(self, name: str, value: TagValue) -> None:
        """Mark the run with a business id, by which people find it: ``tieline runs list --tag order=A-1``.

        The value is a text, an integer or a bool, of at most 200 characters; known secrets in it are masked. A run has
        at most 10 tags. The same name again replaces the value; what an earlier attempt of the run has set stays. Work
        of ``background`` is a run of its own: it begins with the tags that this run has by then.

        Raises ValueError for what does not fit.

        >>> async def order(ctx: Context, request: Request) -> str:
        ...     ctx.tag("order", (await request.json())["number"])
        ...     return "taken"
        >>> run(order, json={"number": "A-3"})
        'taken'
        """
        add_tag(self._current_tags, name, value)

    def progress(self, text: str, fraction: float | None = None) -> None:
        """Say how far the run is: ``ctx.progress("3 of 10", 0.3)``. Its page shows the latest state while it runs.

        The text is cut after 200 characters, and known secrets in it are masked; ``fraction`` is from 0 to 1. Call it
        as often as you like: it is shown after a second, then ever more rarely, and at the end. It stays until another
        attempt of the run says something else. It does nothing in work of ``background``.

        Raises TypeError and ValueError for what does not fit.

        >>> async def order(ctx: Context, request: Request) -> str:
        ...     numbers = (await request.json())["numbers"]
        ...     for done, number in enumerate(numbers):
        ...         ctx.progress(f"{done} of {len(numbers)}", done / len(numbers))
        ...     return "done"
        >>> run(order, json={"numbers": [1, 2, 3]})
        'done'
        """
        if background_tags.get() is None:
            self._progress.set(text, fraction)

    @property
    def _current_tags(self) -> dict[str, str]:
        """Those of the background work that asks, or else of the run."""
        tags = background_tags.get()
        return self._tags if tags is None else tags

    def background(self, work: Work, *args: Any, **kwargs: Any) -> None:
        """Do ``work`` after the answer, in this pod's memory: what must not get lost, publish as an event.

        It is a coroutine, an async function with its arguments, or a plain function with them, which runs in a
        thread. It is part of the run's trace and log, takes turns with the activation's other runs, and has 300
        seconds. When the pod stops, it is waited for as long as for runs (its grace); what a crash of the pod
        interrupts is not repeated. Its errors are logged.

        Raises TooMuchBackgroundWorkError when 1,000 pieces of work are waiting or running in this pod.

        >>> async def order(ctx: Context, request: Request) -> str:
        ...     ctx.background(ctx.fetch("shop", "/orders", method="POST", json=await request.json()))
        ...     return "taken"
        >>> run(order, json={"number": "A-3"})
        'taken'
        >>> sent()
        'POST /orders'
        """
        # It begins with what the run is called by now.
        token = background_tags.set(dict(self._current_tags))
        try:
            self._background.start(activation_key(self.activation), work, *args, **kwargs)
        finally:
            background_tags.reset(token)

    async def publish(
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
        """Have ``@integration.event(task)`` run with ``payload`` (JSON data); returns its run's id, or None.

        When it returns, the event is stored and cannot get lost: it runs, and is tried again, until it succeeds or
        is a dead letter. It runs at least once, and in rare cases twice.

        Events with the same ``key`` run one at a time and in order (the task's ``key=`` names the field that has it).
        ``id`` is what a sender deduplicates by: for two minutes a second event of the task and the user with it is not
        stored, and None is returned. So it is for what an earlier attempt of this run has published already.
        ``delay`` (seconds or a timedelta) or ``at`` let it wait. It is for this run's user, or for ``user``.

        Raises UnknownTaskError, EventTooLargeError (4 MiB), EventsUnavailableError when nothing was stored, and
        TypeError or ValueError for a payload that is no JSON.

        >>> async def order(ctx: Context, request: Request) -> Response:
        ...     order = await request.json()
        ...     await ctx.publish("order.created", order, key=order["id"])
        ...     return Response(status=202)
        >>> run(order, json={"id": "A-1"}).status
        202
        """
        return await self._events.publish(task, payload, key=key, id=id, delay=delay, at=at, user=user)

    async def publish_many(self, events: Iterable[NewEvent]) -> list[str | None]:
        """Publish up to 1,000 events in one call; returns their runs' ids in the order of ``events``.

        Each event has what ``publish`` takes, and None stands for one whose ``id`` is known. All are checked before the
        first is stored. They are stored side by side, those of a key in their order. If some cannot be stored, the
        others are, and an EventsNotStoredError says which.

        Raises what ``publish`` raises, with the number of the event; ValueError for more than 1,000 events, and
        EventTooLargeError for more than 8 MiB of payloads.

        >>> async def order(ctx: Context, request: Request) -> int:
        ...     orders = (await request.json())["orders"]
        ...     runs = await ctx.publish_many(NewEvent("order.created", one, key=one["id"]) for one in orders)
        ...     return len(runs)
        >>> run(order, json={"orders": [{"id": "A-1"}, {"id": "A-2"}]})
        2
        """
        return await self._events.publish_many(events)

    async def step(self, name: str, work: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """The result of ``work(*args, **kwargs)``, which a retry of the run does not do again.

        The result is kept as JSON data, and is what this and every later attempt gets (a tuple comes as a list). Steps
        of the same name are distinguished by their order. A run whose code asks for other steps than those that it has
        recorded becomes a dead letter (StepsChangedError). If the pod dies between what ``work`` does and the record,
        the step is repeated: send ``ctx.idempotency_key`` to the system, which is then the step's.

        Raises what ``work`` raises, StepsNotAvailableError outside of runs that are tried again, TooManyStepsError
        (1,000), EventTooLargeError (1 MiB) and EventsUnavailableError.

        >>> async def order_created(ctx: Context, event: Event) -> None:
        ...     order = await ctx.step("fetch", fetch_order, event.payload["id"])
        ...     await ctx.step("book", book, order)
        """
        return await self._events.step(name, lambda: work(*args, **kwargs), work=work_of(work, args, kwargs))

    async def sleep(self, name: str, duration: float | timedelta) -> None:
        """End the run, and go on here after ``duration`` (seconds, or a timedelta): days are no problem.

        The code before it runs once more then, so put what must not be repeated into steps.
        Raises StepsNotAvailableError outside of runs that are tried again.

        >>> async def order_created(ctx: Context, event: Event) -> None:
        ...     await ctx.sleep("cool off", timedelta(days=1))
        ...     await ctx.step("book", book, event.payload)
        """
        seconds = duration.total_seconds() if isinstance(duration, timedelta) else float(duration)
        await self.steps.sleep(name, seconds)

    async def wait_for(
        self,
        name: str,
        *,
        match: Mapping[str, Any] | None = None,
        timeout: float | timedelta,  # noqa: ASYNC109  (the run ends meanwhile)
    ) -> Event | None:
        """Suspend the run until an event of this name comes, and return the event; None after ``timeout``.

        Declare the event with ``integration.waits_for(name, match=[...])``; ``match`` has the values that its payload
        must have. ``timeout`` is in seconds, or a timedelta of at most 30 days. A waiting run takes no pod. An event
        that came up to an hour before (``keep`` of the declaration) ends the wait at once, unless it ended an earlier
        wait of this run. When the run continues, its code starts again from the beginning, so put what must not be
        repeated into steps. While a run with a key waits, the later events of its key wait behind it.

        Raises UndeclaredWaitError, ValueError, StepsNotAvailableError outside of runs that are tried again,
        TooManyStepsError and EventsUnavailableError.

        >>> async def order_created(ctx: Context, event: Event) -> None:
        ...     order = {"orderId": event.payload["id"]}
        ...     paid = await ctx.wait_for("payment.confirmed", match=order, timeout=timedelta(days=2))
        ...     if paid is None:
        ...         await ctx.step("remind", book, event.payload)
        """
        return await self._events.wait_for(name, match, timeout)

    async def wait_for_signal(
        self,
        name: str,
        *,
        timeout: float | timedelta,  # noqa: ASYNC109  (the run ends meanwhile)
    ) -> Signal | None:
        """Suspend the run until somebody sends it a signal of this name, and return it; None after ``timeout``.

        Signals are sent to the run's id (``execution_id``) by REST, ``tieline runs signal`` or the console. One that
        comes before the wait is kept for 30 days. Each ends one wait of its name, the oldest first. ``timeout`` is in
        seconds, or a timedelta of at most 30 days; with 0 the run is not suspended, and takes what has come already. As
        in ``wait_for``, the code before it runs again.

        Raises ValueError, StepsNotAvailableError outside of runs that are tried again, TooManyStepsError and
        EventsUnavailableError.

        >>> async def order_created(ctx: Context, event: Event) -> None:
        ...     await ctx.step("ask", book, {"run": ctx.execution_id})
        ...     signal = await ctx.wait_for_signal("address", timeout=timedelta(days=2))
        ...     if signal is not None:
        ...         await ctx.step("book", book, signal.payload)
        """
        return await self._events.wait_for_signal(name, timeout)

    async def approve(
        self,
        title: str,
        *,
        details: Any = None,
        by: Iterable[str] | None = None,
        timeout: float | timedelta,  # noqa: ASYNC109  (the run ends meanwhile)
        form: Mapping[str, Any] | None = None,
        other_than: str | None = None,
    ) -> ApprovalAnswer:
        """Suspend the run until somebody approves or rejects, and return the answer, which is true if approved.

        People see ``title`` and ``details`` (JSON data, at most 16 KiB and 50 levels, with known secrets masked) and
        answer by REST or ``tieline approvals``. ``by`` says who may: ``role:tieline-editor``, ``user:NAME`` or
        ``group:NAME``; by default whoever may edit the project. ``other_than`` is a user who may not. ``form`` is a
        JSON Schema of values that the answer must have. After ``timeout`` (seconds, or a timedelta of at most 30 days)
        the answer is ``timed_out``. The first answer counts. As in ``wait_for``, the code before it runs again.

        Raises ValueError, TypeError, StepsNotAvailableError outside of runs that are tried again, TooManyStepsError
        and EventsUnavailableError.

        >>> async def order_created(ctx: Context, event: Event) -> None:
        ...     answer = await ctx.approve("Book the order?", details=event.payload, timeout=timedelta(days=1))
        ...     if answer.approved:
        ...         await ctx.step("book", book, event.payload)
        """
        question = Question.of(
            title, details=details, by=by, timeout=timeout, form=form, other_than=other_than
        )
        return await self._events.approve(question)

    async def run(
        self,
        task: str,
        payload: Any,
        *,
        key: str | None = None,
        user: str | None = None,
        timeout: float | timedelta = timedelta(days=30),  # noqa: ASYNC109  (the run ends meanwhile)
    ) -> Any:
        """Start a run of ``@integration.event(task)``, suspend this run, and return what its code returned.

        The result is JSON data of at most 120 KiB. ``key`` and ``user`` are those of ``publish``; ``timeout`` is in
        seconds, or a timedelta of at most 30 days. The child is started once, in whichever attempt. As in ``wait_for``,
        the code before it runs again. A child of this run's own key would wait for its parent, and is refused, as is
        the 17th run in a chain of children.

        Raises ChildRunError with the child's id where it is a dead letter, was cancelled or did not end in time;
        ChildRunRefusedError, UnknownTaskError, ValueError, StepsNotAvailableError outside of runs that are tried again,
        TooManyStepsError, EventTooLargeError and EventsUnavailableError.

        >>> async def order_placed(ctx: Context, event: Event) -> None:
        ...     invoice = await ctx.run("order.created", event.payload, timeout=timedelta(hours=1))
        ...     await ctx.step("book", book, invoice)
        """
        return await self._events.run(task, payload, key=key, user=user, timeout=timeout)

    async def gather(self, *work: Coroutine[Any, Any, Any]) -> list[Any]:
        """Run steps, waits and other coroutines side by side, and return their results in the order of ``work``.

        Each step is recorded by itself, so a retry repeats only those without a result. When one fails, the others
        finish before its error is raised. When some sleep or wait, the run is suspended until the first of them
        continues. Steps of the same name are distinguished by their order here; inside a function of your own, give
        each step its own name. Use it instead of ``asyncio.gather``, which does not wait for the others.

        Raises the first error in the order of ``work``, and ValueError for more than 1,000 coroutines.

        >>> async def order_created(ctx: Context, event: Event) -> None:
        ...     order, stock = await ctx.gather(
        ...         ctx.step("fetch", fetch_order, event.payload["id"]), ctx.step("stock", fetch_order, "A-2")
        ...     )
        """
        return await side_by_side(work)

    def patched(self, name: str) -> PatchAnswer:
        """Whether this run takes changed code: ``if await ctx.patched("name"):`` the new code, ``else`` the old one.

        It is True for runs that come here for the first time, and False for those whose recorded steps have passed this
        place without the patch. The first answer is recorded for the run, under the name: all attempts get it, also in
        a loop. Call it in the task's own function, not in what runs side by side. Remove the old code when no run from
        before the patch waits any more.

        Raises ValueError for a name of more than 190 characters, and the errors of ``step``.

        >>> async def order_created(ctx: Context, event: Event) -> None:
        ...     if await ctx.patched("check the stock"):
        ...         await ctx.step("stock", fetch_order, event.payload["id"])
        ...     await ctx.step("book", book, event.payload)
        """
        return PatchAnswer(lambda: self.steps.patched(name).__await__())

    @property
    def steps(self) -> RunSteps:
        """The steps of this attempt; raises StepsNotAvailableError."""
        return self._events.steps

    @property
    def idempotency_key(self) -> str:
        """A text that is the same in all attempts: of the step that the code is in, or else of the run.

        >>> async def book(ctx: Context, order: dict[str, str]) -> None:
        ...     headers = {"Idempotency-Key": ctx.idempotency_key}
        ...     await ctx.fetch("shop", "/orders", method="POST", json=order, headers=headers)
        """
        return self._events.idempotency_key

    async def fetch(
        self, template: str, url: str | URL = "", *, method: str = "GET", **options: Any
    ) -> aiohttp.ClientResponse:
        """One request through a connection template; the answer's body is already read.

        ``url`` is a path under the connection's base URL (or an absolute URL of its origin); ``options``
        are aiohttp's: ``params``, ``headers``, ``json``, ``data``, ``timeout``, … The time-out is 30
        seconds unless given. A redirect within the origin is followed; one to another origin is not, and raises
        ForeignRedirectError (``allow_redirects=False`` returns the redirect itself).

        What is safe to repeat is sent again up to ``retries`` times (2 unless given, 0 for never): GET, HEAD,
        OPTIONS, PUT and DELETE after lost connections and after 429, 502, 503 and 504, every method when there
        was no connection. ``Retry-After`` is respected up to 10 seconds; what asks for more is returned.

        Raises the errors of tieline.errors about templates, credentials and URLs, RequestTimeoutError, and aiohttp's.
        ``response.raise_for_status()`` raises an UpstreamError, which has the beginning of what the system answered.

        >>> async def orders(ctx: Context) -> list[str]:
        ...     response = await ctx.fetch("shop", "/orders", params={"state": "open"})
        ...     response.raise_for_status()
        ...     return [order["id"] for order in (await response.json())["orders"]]
        >>> run(orders)
        ['A-1', 'A-2']
        >>> sent()
        'GET /orders?state=open'
        """
        return await fetch(self.session(template), url, method=method, **options)

    async def graphql(
        self,
        template: str,
        query: str,
        variables: Mapping[str, Any] | None = None,
        *,
        url: str | None = None,
        **options: Any,
    ) -> Any:
        """The data that a system answers to a GraphQL request: ``query`` may be a mutation, too.

        The endpoint is the System's ``graphqlPath`` (``/graphql`` unless it says so), or ``url``. Queries are repeated
        as ``fetch`` repeats a GET, and mutations as a POST; a system that answers THROTTLED, or with the cost of the
        request, makes all pods wait where the connection has limits. ``options`` are those of ``fetch``.

        Raises GraphQLError for errors in the answer, also beside data; RateLimitedError where the limits of the system
        are reached; UpstreamError for a status of 400 and above; and the errors of ``fetch``.

        >>> async def order(ctx: Context) -> str:
        ...     data = await ctx.graphql("shop", "query ($id: ID!) { order(id: $id) { id } }", {"id": "A-1"})
        ...     return data["order"]["id"]
        """
        _, body = await self._graphql(
            template, url, query, {"json": {"query": query, "variables": dict(variables or {})}, **options}
        )
        return body["data"]

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
    ) -> AsyncIterator[Any]:
        """The items of a connection of GraphQL, of all pages; the next page is read when it is needed.

        The query asks for ``pageInfo { hasNextPage endCursor }`` and has the argument ``after: $name``, whose variable
        is set for each page. ``items`` is the place of the connection, such as ``"shop.orders"``, where there are
        several. ``options`` are those of ``graphql``.

        Raises PaginationError, and the errors of ``graphql``.

        >>> async def orders(ctx: Context) -> list[str]:
        ...     query = '''query ($after: String) {
        ...         orders(first: 100, after: $after) { nodes { id } pageInfo { hasNextPage endCursor } }
        ...     }'''
        ...     return [order["id"] async for order in ctx.graphql_pages("shop", query)]
        """
        return self._connection(
            template, query, variables, items=items, url=url, max_pages=max_pages, options=options
        ).all()

    def _connection(
        self,
        template: str,
        query: str,
        variables: Mapping[str, Any] | None,
        *,
        items: str | None,
        url: str | None,
        max_pages: int,
        options: Mapping[str, Any],
    ) -> Pager:
        async def fetch_page(_template: str, _url: str, **given: Any) -> aiohttp.ClientResponse:
            response, _ = await self._graphql(template, url, query, given)
            return response

        return Pager(
            fetch_page,
            template,
            url or "",
            pages=ConnectionPages(query, items),
            max_pages=max_pages,
            options={"json": {"query": query, "variables": dict(variables or {})}, **options},
        )

    async def _graphql(
        self, template: str, url: str | None, query: str, options: Mapping[str, Any]
    ) -> tuple[aiohttp.ClientResponse, dict[str, Any]]:
        """A good answer and its body."""
        connection = self._configuration.current.connection(template, self.activation)
        response = await fetch(
            self.session(template),
            connection.graphql_path if url is None else url,
            method="POST",
            is_safe=is_safe(query),
            **options,
        )
        return response, await checked(template, response, self._configuration.redactor)

    async def call(
        self,
        template: str,
        operation: str,
        *,
        body: Any = None,
        path: Mapping[str, Any] | None = None,
        query: Mapping[str, Any] | None = None,
        headers: Mapping[str, Any] | None = None,
        connector: str | None = None,
        **options: Any,
    ) -> Any:
        """Call an operation of an imported description; returns the body: JSON data, a text, bytes or None.

        The description is ``connectors/<template>.json`` beside main.py, which ``tieline connectors add`` writes, or
        the one that ``connector`` names. What you give is checked before it is sent: ``path`` and ``query`` are the
        parameters there, by name; ``headers`` also takes those that the description does not know, and its cookies.
        The request is sent, repeated and limited as ``fetch`` does it, in a span with the operation's name;
        ``options`` are those of ``fetch``.

        Raises InvalidCallError when the description does not allow it, and nothing was sent; UpstreamError for a status
        of 400 and above; UnexpectedAnswerError for JSON that cannot be read; ConnectorDescriptionError,
        UnknownOperationError, and the errors of ``fetch``. An answer that does not follow the description is logged,
        once for each operation and status, and returned; in tests it raises UnexpectedAnswerError.

        >>> async def create(ctx: Context) -> str:
        ...     created = await ctx.call("shop", "createOrder", body={"reference": "A-1"})
        ...     return created["id"]
        >>> run(create)
        '7'
        >>> sent()
        'POST /orders'
        """
        return await self._caller(template, connector).call(
            operation, path=path, query=query, headers=headers, body=body, options=options
        )

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
    ) -> AsyncIterator[Any]:
        """The items of a list that an operation gives in pages; see ``call`` and ``paginate``.

        How the pages follow each other is what the description says, or ``pages`` and ``items``.
        Raises NoPagesError when neither says it, and the errors of both.

        >>> async def orders(ctx: Context) -> list[str]:
        ...     return [order["id"] async for order in ctx.call_pages("shop", "listOrders")]
        >>> run(orders)
        ['A-1', 'A-2']
        """
        return self._pager(
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
        ).all()

    def _pager(self, template: str, operation: str, *, connector: str | None, **given: Any) -> Pager:
        connection = self._configuration.current.connection(template, self.activation)
        return self._caller(template, connector).pages(operation, dialect=connection.lists.at, **given)

    def _caller(self, template: str, connector: str | None) -> Caller:
        return Caller(
            self._connectors,
            connector or template,
            template=template,
            fetch=self.fetch,
            graphql=self._graphql,
            tracer=self._tracer,
            log=self.log,
        )

    def paginate(
        self,
        template: str,
        url: str = "",
        *,
        pages: Pages | None = None,
        items: str | None = None,
        max_pages: int = MAX_PAGES,
        **options: Any,
    ) -> AsyncIterator[Any]:
        """The items of a list that comes in pages, one after the other; the next page is read when it is needed.

        How pages follow each other is what the System says (``lists``), or ``pages``: CursorPages, NumberedPages,
        OffsetPages or LinkPages. ``items`` is where answers have the list, such as ``"data.orders"``. If it is empty,
        or left out beside ``pages``, the answer is the list. ``options`` are those of ``fetch``.

        Raises NoDialectError when neither says it; PaginationError for an answer without the list or the cursor, and
        for pages without an end (``max_pages``, 10,000); UpstreamError for a status of 400 and above; and the errors of
        ``fetch``.

        >>> async def orders(ctx: Context) -> list[str]:
        ...     pages = CursorPages(parameter="after", next="meta.next")
        ...     return [order["id"] async for order in ctx.paginate("shop", "/orders", pages=pages, items="orders")]
        >>> run(orders)
        ['A-1', 'A-2']
        """
        return self._list(template, url, pages=pages, items=items, max_pages=max_pages, options=options).all()

    def _list(
        self,
        template: str,
        url: str,
        *,
        pages: Pages | None,
        items: str | None,
        max_pages: int,
        options: Mapping[str, Any],
    ) -> Pager:
        connection = self._configuration.current.connection(template, self.activation)
        dialect = connection.lists.at(path_below(base=connection.base_url, url=url))
        chosen = pages or dialect
        if chosen is None:
            raise NoDialectError(template, url)
        if pages is not None and items is None:
            items = ""
        return Pager(
            self.fetch,
            template,
            url,
            pages=chosen,
            items=items,
            max_pages=max_pages,
            options=options,
        )

    def incremental(self, name: str, *, start: Any = None) -> IncrementalSync:
        """Read only what is new: a cursor for this activation, which is kept at the end of an ``async with`` block.

        See IncrementalSync. ``start`` is the cursor of the first run.

        >>> async def orders(ctx: Context) -> int:
        ...     async with ctx.incremental("orders", start=0) as sync:
        ...         sync.advance(7)
        ...     async with ctx.incremental("orders") as sync:
        ...         return sync.cursor
        >>> run(orders)
        7
        """
        return IncrementalSync(self.state, name, start=start)

    async def bulk(
        self,
        name: str,
        items: Iterable[Any],
        work: Callable[[Any], Awaitable[R]],
        *,
        key: Callable[[Any], object],
        concurrency: int = 10,
    ) -> BulkResult[R]:
        """Await ``work(item)`` for each item, ``concurrency`` at once; an item that fails does not stop the others.

        ``key`` identifies an item. In events and queued webhooks each item is a step: a retry skips items that
        are done, and ``ctx.idempotency_key`` within ``work`` is the item's. There are at most 1,000 steps in a run.
        ``raise_for_failures()`` of the result fails the run, which is then tried again.

        Raises ValueError for two items with the same key.

        >>> async def send(order: dict[str, str]) -> str:
        ...     return order["id"].lower()
        >>> async def orders(ctx: Context) -> dict[str, str]:
        ...     result = await ctx.bulk("send", [{"id": "A-1"}], send, key=lambda order: order["id"])
        ...     result.raise_for_failures()
        ...     return result.results
        >>> run(orders)
        {'A-1': 'a-1'}
        """
        return await bulk(name, items, work, key=key, step=self._step_or_call, concurrency=concurrency)

    async def _step_or_call(self, name: str, work: Callable[[], Awaitable[Any]]) -> Any:
        try:
            _ = self._events.steps
        except StepsNotAvailableError:
            return await work()
        return await self._events.step(name, work)
