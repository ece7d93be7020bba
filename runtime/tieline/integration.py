"""Integration: where code registers what it wants to run."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Literal, TypeVar

from tieline.events.batch import Batch
from tieline.events.cancel_on import CancelOn
from tieline.events.debounce import Debounce
from tieline.events.event import EventTask
from tieline.events.retry import Retry
from tieline.events.throttle import Throttle
from tieline.scheduling.schedules import (
    ACTIVATIONS,
    MAX_CATCH_UP,
    MAX_PARALLEL,
    MAX_RUN_SECONDS,
    OVERLAPS,
    Activations,
    Overlap,
    Schedule,
)
from tieline.task_options import (
    Handler,
    arguments_of,
    batch_rule,
    cancel_rule,
    check_key,
    check_name,
    check_priority,
    check_range,
    check_retry,
    check_tool,
    check_webhook_name,
    debounce_rule,
    in_seconds,
    is_async,
    matched_fields,
    throttle_rule,
)
from tieline_protocol.cron import CronError, parse_cron
from tieline_protocol.signature_challenges import FixedAnswer, answer_problem
from tieline_protocol.waits import (
    KEEP_SECONDS,
    MAX_KEEP_SECONDS,
    MAX_NAMES,
    MAX_RULES,
    WaitRule,
)

F = TypeVar("F", bound=Handler)
Delivery = Literal["direct", "queued"]

MAX_SCHEDULES = 50
"""Of a project. The platform keeps 120 records of an environment: enough for the old and the new code in a rollout."""
MAX_EVENT_SECONDS = 24 * 3600.0
_METHODS = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"})


@dataclass(frozen=True, kw_only=True)
class Accepted(FixedAnswer):
    """What a queued webhook answers once a request is stored: a status of 200 to 299, and a body of at most 1,024
    characters.

    >>> Accepted(status=200, body="[accepted]").status
    200
    """

    status: int = 200

    def __post_init__(self) -> None:
        if problem := answer_problem(self.status, self.body, self.content_type):
            raise ValueError(f"Accepted: {problem}")


@dataclass(frozen=True, kw_only=True)
class Webhook:
    """A function that is run by HTTP requests to ``/<name>``, which may hold path parameters."""

    name: str
    methods: frozenset[str]
    handler: Handler
    is_async: bool
    arguments: int
    """How many of (context, request) the function takes: 0, 1 or 2."""
    connection: str | None = None
    """The connection template whose credentials callers must show."""
    unauthenticated: frozenset[str] = frozenset()
    """The methods that need no credentials; such requests are answered directly."""
    delivery: Delivery = "direct"
    """Whether callers wait for the run, or only until the request is stored."""
    key: str | None = None
    """Of a queued webhook: the field of the JSON body that has the key by which its requests are kept in order."""
    retry: Retry = field(default_factory=Retry)
    """Of a queued webhook; a run of a direct one is run again once."""
    timeout: float | None = None
    """Seconds for a run of a queued webhook; None is the pod's setting."""
    answer: Accepted | None = None
    """What a queued webhook answers; None is the answer of its sender's preset, or 202 with the run's id."""
    tool: str | None = None
    """What it does, for agents that may run it; None where they may not."""
    input_schema: Mapping[str, Any] | None = None
    """The JSON Schema of its body, for the same."""

    def queues(self, method: str) -> bool:
        """Whether requests of the method are stored, and run later."""
        return self.delivery == "queued" and method not in self.unauthenticated


class Integration:
    """Collects the webhooks, events and schedules of a project; ``main.py`` holds one at module level."""

    def __init__(self) -> None:
        self.webhooks: dict[str, Webhook] = {}
        self.schedules: dict[str, Schedule] = {}
        self.events: dict[str, EventTask] = {}
        self.waits: dict[str, tuple[WaitRule, ...]] = {}
        """The declared rules of waits, by the events' names."""

    def webhook(
        self,
        name: str,
        *,
        methods: Iterable[str] = ("POST",),
        connection: str | None = None,
        unauthenticated: Iterable[str] = (),
        delivery: Delivery = "direct",
        key: str | None = None,
        retry: Retry | None = None,
        timeout: float | None = None,
        answer: Accepted | None = None,
        tool: str | None = None,
        input_schema: Mapping[str, Any] | None = None,
    ) -> Callable[[F], F]:
        """Run the decorated function for requests to ``/<name>`` with one of ``methods``.

        Requests to ``/<name>/users/<external id>`` run it for that user's activation. With ``connection``,
        the name of a connection template, only requests that show the connection's credentials are run:
        its API key, its user name and password, or its HMAC signature. Others are answered with 401. The methods in
        ``unauthenticated`` need no credentials: for a sender that first asks with GET whether the URL is right. Such
        requests run the function directly, also with ``delivery="queued"``.

        ``name`` may have path parameters: ``"orders/{orderId}"`` is run for ``/orders/17``, and
        ``request.match_info["orderId"]`` is then ``"17"``.

        ``async def f(ctx: Context, request: Request)`` runs on the event loop; ``def f(ctx: SyncContext,
        request: SyncRequest)`` runs in a thread and may block. A function that needs no request may leave
        it out. It returns None (204), a dict, list, dataclass, pydantic model, number or bool (JSON), str
        (text), bytes, or an aiohttp response.

        With ``delivery="queued"`` callers get 202 once the request is stored (at most 4 MiB), or 503. Then the
        function runs, and is tried again as ``retry`` says, for ``timeout`` seconds at most each time. What it
        returns is not used, but an answer of 500 and above counts as failed. A request with the same ``Webhook-Id`` or
        ``Idempotency-Key`` as one of the last two minutes is not stored again. ``key`` names a field of the JSON body:
        requests with the same value run one at a time, in the order in which they were stored. ``answer`` is for
        callers that demand another answer than 202, such as ``Accepted(status=200)``.

        ``tool`` opens the webhook to agents, which may run it through the platform: it describes what the webhook does,
        in at most 1,000 characters, and must stand in the code as a text. ``input_schema`` describes the body:
        a JSON Schema that stands in the code as a dictionary, at most 4,096 characters of JSON. Requests are not
        checked by it. A tool has no ``connection``, whose credentials no agent has.

        Raises ValueError for a name, method or option that is no such thing, or a name that is taken, and
        TypeError for a function that takes other arguments.

        >>> integration = Integration()
        >>> @integration.webhook("ping", methods=["GET"])
        ... def ping() -> str:
        ...     return "pong"
        >>> sorted(integration.webhooks)
        ['ping']
        """
        check_webhook_name(name, self.webhooks)
        allowed = frozenset({methods} if isinstance(methods, str) else methods)
        if not allowed or not allowed <= _METHODS:
            raise ValueError(f"The methods of webhook {name!r} must be some of {', '.join(sorted(_METHODS))}")
        exempt = frozenset({unauthenticated} if isinstance(unauthenticated, str) else unauthenticated)
        if exempt and (connection is None or not exempt <= allowed):
            raise ValueError(
                f"Webhook {name!r}: unauthenticated needs a connection, and holds some of the webhook's methods"
            )
        if delivery not in ("direct", "queued"):
            raise ValueError(f'The delivery of webhook {name!r} must be "direct" or "queued"')
        if delivery == "direct" and not (
            key is None and retry is None and timeout is None and answer is None
        ):
            raise ValueError(f'Webhook {name!r}: key, retry, timeout and answer need delivery="queued"')
        if answer is not None and not isinstance(answer, Accepted):
            raise TypeError(f"Webhook {name!r}: answer must be an Accepted, such as Accepted(status=200)")
        check_tool(f"Webhook {name!r}", tool, input_schema, connection)
        check_key(f"Webhook {name!r}", key)
        check_retry(f"Webhook {name!r}", retry)
        if timeout is not None:
            check_range(f"Webhook {name!r}", "timeout", timeout, 0.001, MAX_EVENT_SECONDS)

        def register(handler: F) -> F:
            # Again: of several decorators of one function, none has registered its name when the next one is made.
            check_webhook_name(name, self.webhooks)
            self.webhooks[name] = Webhook(
                name=name,
                methods=allowed,
                handler=handler,
                is_async=is_async(handler),
                arguments=arguments_of(f"webhook {name!r}", "request", handler),
                connection=connection,
                unauthenticated=exempt,
                delivery=delivery,
                key=key,
                retry=retry or (Retry() if delivery == "queued" else Retry(attempts=1)),
                timeout=timeout,
                answer=answer,
                tool=tool,
                input_schema=input_schema,
            )
            return handler

        return register

    def event(
        self,
        name: str,
        *,
        key: str | None = None,
        shared_key: bool = False,
        retry: Retry | None = None,
        timeout: float | None = None,
        cancel_on: str | CancelOn | None = None,
        debounce: float | timedelta | Debounce | None = None,
        throttle: Throttle | None = None,
        batch: Batch | None = None,
        priority: int = 0,
    ) -> Callable[[F], F]:
        """Run the decorated function for events that ``ctx.publish(name, payload)`` or the REST API publishes.

        Each event runs at least once: it is tried again, as ``retry`` says, until the function returns, raises Reject,
        or no attempt is left; then it is a dead letter, which can be replayed. ``key`` names the field of the payload
        (dots lead into objects) by which events are kept in order: those with the same value run one at a time, and a
        retry holds up those behind it. The order is among the task's events for one user. With ``shared_key`` it
        is among the events of all tasks that have it, and of all users. An attempt that takes longer than ``timeout``
        seconds is stopped.

        ``cancel_on`` names an event that cancels the task's runs for its user that were published before it: those
        whose payload has the event's value of the field ``key``, or with ``CancelOn(name, match=[...])`` its values of
        other fields. A run that waits, sleeps or is to be retried is cancelled at once, one in the queue when its turn
        comes, and one whose code runs at its next new step.

        ``debounce`` runs the task once for a burst of events, with the newest: when no other one has come for that
        many seconds. ``Debounce(30, key="id", timeout=300)`` does so for each value of a field of the payload, and at
        the latest after ``timeout`` seconds. Such a task has no ``key``.

        ``throttle=Throttle(10, per=60)`` starts at most 10 runs of the task in 60 seconds, over all pods and users; the
        others wait for their turn. With ``Throttle(10, per=60, key="customer")`` each value of a field of the payload
        has this limit. A retry needs no turn.

        ``batch`` runs the function for several events of one user at once: ``async def f(ctx: Context, events:
        list[Event])``. ``Batch(100, seconds=5)`` has up to 100 events, oldest first, and begins at most 5 seconds
        after a pod took the first one. It is tried again with the same events; if no attempt is left, each of them is a
        dead letter. It excludes ``key``, ``debounce``, ``throttle`` and ``cancel_on``.

        ``priority`` is 1, 0 or -1: among events that wait because the environment's pods are full, those with 1 start
        first, and those with -1 last. Each eleventh start at the latest is one of a lower priority, if any waits.

        ``async def f(ctx: Context, event: Event)`` runs on the event loop; ``def f(ctx: SyncContext, event: Event)``
        runs in a thread. The function may omit unused parameters. Its return value is ignored.

        Raises ValueError for a name or an option that cannot be, and TypeError for a function that takes other
        arguments.

        >>> integration = Integration()
        >>> @integration.event("order.created", key="customer.id", retry=Retry(attempts=5))
        ... async def order_created(ctx: Context, event: Event) -> None:
        ...     await ctx.fetch("shop", "/orders", method="POST", json=event.payload)
        >>> sorted(integration.events)
        ['order.created']
        """
        check_name("event", name, self.events)
        check_key(f"Event {name!r}", key)
        check_retry(f"Event {name!r}", retry)
        if timeout is not None:
            check_range(f"Event {name!r}", "timeout", timeout, 0.001, MAX_EVENT_SECONDS)
        rule = None if cancel_on is None else cancel_rule(name, key, cancel_on)
        if rule is not None and rule not in self.waits.get(rule.name, ()):
            self._add_rule(f"Event {name!r}, cancel_on", rule)
        debounced = None if debounce is None else debounce_rule(f"Event {name!r}", key, debounce)
        throttled = None if throttle is None else throttle_rule(f"Event {name!r}", throttle)
        check_priority(f"Event {name!r}", priority)
        excluded = {
            "key": key,
            "shared_key": shared_key,
            "debounce": debounce,
            "throttle": throttle,
            "cancel_on": cancel_on,
        }
        batched = None if batch is None else batch_rule(f"Event {name!r}", batch, others=excluded)

        def register(handler: F) -> F:
            self.events[name] = EventTask(
                name=name,
                handler=handler,
                is_async=is_async(handler),
                arguments=arguments_of(f"event {name!r}", "event" if batched is None else "events", handler),
                key=key,
                shared_key=shared_key,
                retry=retry or Retry(),
                timeout=timeout,
                cancel_on=rule,
                debounce=debounced,
                throttle=throttled,
                batch=batched,
                priority=priority,
            )
            return handler

        return register

    def waits_for(
        self,
        name: str,
        *,
        match: Iterable[str] = (),
        shared: bool = False,
        keep: float | timedelta = KEEP_SECONDS,
    ) -> None:
        """Declare that runs wait for events of this name with ``ctx.wait_for(name, match={...})``.

        ``ctx.publish(name, payload)`` then accepts such events, with or without a function that ``event`` decorates.
        ``match`` names at most 5 fields of the payload (dots lead into objects): an event ends the waits that ask for
        its values. Without ``match``, each event of the name ends them. An event ends waits of runs for its own user;
        with ``shared``, those of all users. It is kept for ``keep`` (seconds or a timedelta; an hour, at most 7 days),
        and also ends waits that begin within that time. Call this once for each set of fields, at most 8 times for a
        name.

        Raises ValueError for a name or an option that cannot be.

        >>> integration = Integration()
        >>> integration.waits_for("payment.confirmed", match=["orderId"])
        >>> sorted(integration.waits)
        ['payment.confirmed']
        """
        what = f"waits_for({name!r})"
        check_name("event", name, ())
        fields = matched_fields(what, match)
        seconds = in_seconds(keep)
        check_range(what, "keep", seconds, 0, MAX_KEEP_SECONDS)
        rule = WaitRule(name=name, fields=fields, shared=bool(shared), keep=seconds)
        if any(one.fields == rule.fields and not one.cancels for one in self.waits.get(name, ())):
            raise ValueError(
                f"{what}: these fields are declared already; call it once for each set of fields"
            )
        self._add_rule(what, rule)

    def _add_rule(self, what: str, rule: WaitRule) -> None:
        rules = self.waits.get(rule.name, ())
        if len(rules) >= MAX_RULES:
            raise ValueError(f"{what}: at most {MAX_RULES} sets of fields of a name can be waited for")
        if not rules and len(self.waits) >= MAX_NAMES:
            raise ValueError(f"{what}: a project waits for events of at most {MAX_NAMES} names")
        self.waits[rule.name] = (*rules, rule)

    def schedule(
        self,
        name: str,
        cron: str,
        *,
        timezone: str = "UTC",
        activations: Activations = "static",
        parallel: int = 10,
        overlap: Overlap = "wait",
        catch_up: float = 3600.0,
        timeout: float | None = None,
    ) -> Callable[[F], F]:
        """Run the decorated function at the times of ``cron`` in ``timezone`` (a name of the IANA database).

        ``cron`` has five fields (minute, hour, day of month, month, day of week), or six with seconds before
        them; see docs/sdk/reference.md for their syntax. The environment's pods share the work: each time is run by
        one of them. With ``activations="users"`` it runs for each user's activation, ``parallel`` of them at
        once. When a run is due while the one before still goes on, it waits (``overlap="wait"``; of several that
        wait only the latest is run) or does not happen (``"skip"``). What was missed while nothing ran is made up
        for by one run, if the latest missed time is not longer ago than ``catch_up`` seconds. A run that takes
        longer than ``timeout`` seconds is stopped.

        ``async def f(ctx: Context, run: ScheduledRun)`` runs on the event loop; ``def f(ctx: SyncContext, run:
        ScheduledRun)`` runs in a thread. What the function has no use for it may leave out. What it returns is
        not used.

        Raises ValueError for a name, a time or an option that cannot be, and TypeError for a function that takes
        other arguments.

        >>> integration = Integration()
        >>> @integration.schedule("report", "0 9 * * MON-FRI", timezone="Europe/Berlin")
        ... def report() -> None:
        ...     print("Good morning")
        >>> integration.schedules["report"].cron.expression
        '0 9 * * MON-FRI'
        """
        check_name("schedule", name, self.schedules)
        if len(self.schedules) >= MAX_SCHEDULES:
            raise ValueError(
                f"A project has at most {MAX_SCHEDULES} schedules; let one function do several things"
            )
        try:
            times = parse_cron(cron, timezone)
        except CronError as error:
            raise ValueError(f"Schedule {name!r}: {error}") from None
        if activations not in ACTIVATIONS or overlap not in OVERLAPS:
            raise ValueError(
                f"Schedule {name!r}: activations is one of {', '.join(ACTIVATIONS)}, "
                f"overlap one of {', '.join(OVERLAPS)}"
            )
        check_range(f"Schedule {name!r}", "parallel", parallel, 1, MAX_PARALLEL)
        check_range(f"Schedule {name!r}", "catch_up", catch_up, 0, MAX_CATCH_UP)
        if timeout is not None:
            check_range(f"Schedule {name!r}", "timeout", timeout, 0.001, MAX_RUN_SECONDS)

        def register(handler: F) -> F:
            self.schedules[name] = Schedule(
                name=name,
                cron=times,
                activations=activations,
                parallel=parallel,
                overlap=overlap,
                catch_up=catch_up,
                timeout=timeout,
                handler=handler,
                is_async=is_async(handler),
                arguments=arguments_of(f"schedule {name!r}", "run", handler),
            )
            return handler

        return register
