"""Options of tasks, as code gives them: checked, and as the runtime wants them. All raise ValueError or TypeError."""

import inspect
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import timedelta
from typing import Any

from tieline.events.batch import MAX_SECONDS, MAX_SIZE, Batch, BatchRule
from tieline.events.cancel_on import CancelOn
from tieline.events.debounce import Debounce, DebounceRule
from tieline.events.retry import Retry
from tieline.events.throttle import Throttle, ThrottleRule
from tieline.execution.priorities import HIGHEST, LOWEST
from tieline_protocol.waits import MAX_FIELDS, MAX_KEEP_SECONDS, MAX_VALUE, WaitRule
from tieline_protocol.webhook_names import MAX_TOOL, input_schema_problem, registration_problem

MAX_STARTS = 1000
"""The largest limit of a Throttle."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
Handler = Callable[..., Any]


def check_name(kind: str, name: str, taken: Iterable[str]) -> None:
    """The name of a task, or of an event that others publish."""
    if not _NAME.fullmatch(name):
        raise ValueError(
            f"The {kind} name {name!r} must be 1 to 100 letters, digits, '-', '_' or '.', not starting with a mark"
        )
    if name in taken:
        raise ValueError(f"There are two {kind}s with the name {name!r}; give one another name")


def check_webhook_name(name: str, taken: Collection[str]) -> None:
    """The name of a webhook, which is part of a URL."""
    if problem := registration_problem(name, taken):
        raise ValueError(problem)


def check_tool(what: str, tool: str | None, input_schema: object, connection: str | None) -> None:
    """What agents see of a webhook."""
    if tool is None:
        if input_schema is not None:
            raise ValueError(f"{what}: input_schema is for agents, so it needs tool")
        return
    if not 0 < len(tool.strip()) <= MAX_TOOL:
        raise ValueError(f"{what}: tool says what the webhook does, in 1 to {MAX_TOOL:,} characters")
    if connection is not None:
        raise ValueError(
            f"{what}: a tool has no connection, whose credentials no agent has; give the function a second webhook"
        )
    if input_schema is not None and (problem := input_schema_problem(input_schema)):
        raise ValueError(f"{what}: input_schema {problem}")


def check_key(what: str, key: str | None) -> None:
    """A field of the payload."""
    if key is not None and not (key and all(key.split("."))):
        raise ValueError(f"{what}: key names a field of the payload, such as 'customer.id'")


def matched_fields(what: str, match: Iterable[str]) -> tuple[str, ...]:
    """Fields of the payload that are compared, sorted."""
    fields = (match,) if isinstance(match, str) else tuple(match)
    for one in fields:
        if not (isinstance(one, str) and one and all(one.split(".")) and len(one) <= MAX_VALUE):
            raise ValueError(f"{what}: match names fields of the payload, such as 'order.id', not {one!r}")
    if len(set(fields)) != len(fields) or len(fields) > MAX_FIELDS:
        raise ValueError(f"{what}: match names at most {MAX_FIELDS} fields, each once")
    return tuple(sorted(fields))


def cancel_rule(task: str, key: str | None, cancel_on: object) -> WaitRule:
    """How events cancel the runs of a task."""
    what = f"Event {task!r}, cancel_on"
    wanted = CancelOn(cancel_on) if isinstance(cancel_on, str) else cancel_on
    if not (isinstance(wanted, CancelOn) and isinstance(wanted.event, str)):
        raise TypeError(
            f"{what}: name an event, as in cancel_on='order.cancelled' or "
            f"cancel_on=CancelOn('order.cancelled', match=['orderId']), not {cancel_on!r}"
        )
    check_name("event", wanted.event, ())
    if wanted.event == task:
        raise ValueError(f"{what}: name another event; each event of the task would cancel its own run")
    fields = matched_fields(what, wanted.match)
    if not fields and key is None:
        raise ValueError(
            f"{what}: say which runs an event cancels: give the task a key, or write "
            f"cancel_on=CancelOn({wanted.event!r}, match=['orderId'])"
        )
    return WaitRule(name=wanted.event, fields=fields or (str(key),), keep=MAX_KEEP_SECONDS, cancels=True)


def debounce_rule(what: str, key: str | None, debounce: object) -> DebounceRule:
    """How bursts of events of a task are run once."""
    if isinstance(debounce, int | float | timedelta) and not isinstance(debounce, bool):
        debounce = Debounce(debounce)
    if not isinstance(debounce, Debounce):
        raise TypeError(
            f"{what}: debounce is a number of seconds, a timedelta, or a Debounce such as "
            f"Debounce(30, key='id', timeout=300), not {debounce!r}"
        )
    if key is not None:
        raise ValueError(
            f"{what}: a debounced task keeps no order by a key; write debounce=Debounce(..., key={key!r}) "
            "to debounce events with other values apart"
        )
    check_key(f"{what}, debounce", debounce.key)
    for option, value in (("period", debounce.period), ("timeout", debounce.timeout or debounce.period)):
        _check_duration(f"{what}, debounce", option, value)
    period = in_seconds(debounce.period)
    timeout = None if debounce.timeout is None else in_seconds(debounce.timeout)
    check_range(f"{what}, debounce", "period (seconds)", period, 1, MAX_KEEP_SECONDS)
    if timeout is not None:
        check_range(
            f"{what}, debounce", "timeout (seconds, at least the period)", timeout, period, MAX_KEEP_SECONDS
        )
    return DebounceRule(period=period, key=debounce.key, timeout=timeout)


def throttle_rule(what: str, throttle: object) -> ThrottleRule:
    """How often runs of a task start."""
    if not isinstance(throttle, Throttle):
        raise TypeError(
            f"{what}: throttle is a Throttle such as Throttle(10, per=60, key='customer'), not {throttle!r}"
        )
    what = f"{what}, throttle"
    _check_count(what, "limit", throttle.limit, "runs")
    _check_duration(what, "per", throttle.per)
    _check_field(what, throttle.key)
    per = in_seconds(throttle.per)
    check_range(what, "limit", throttle.limit, 1, MAX_STARTS)
    check_range(what, "per (seconds)", per, 1, MAX_KEEP_SECONDS)
    return ThrottleRule(limit=throttle.limit, per=per, key=throttle.key)


def check_priority(what: str, priority: object) -> None:
    """Which events of an environment go first."""
    if isinstance(priority, bool) or not isinstance(priority, int):
        raise TypeError(f"{what}: priority is a whole number, not {priority!r}")
    check_range(what, "priority (1 goes first)", priority, LOWEST, HIGHEST)


def batch_rule(what: str, batch: object, *, others: Mapping[str, object]) -> BatchRule:
    """How events of a task are run together; ``others`` are the options that make no sense with it."""
    if not isinstance(batch, Batch):
        raise TypeError(f"{what}: batch is a Batch, such as Batch(100, seconds=5), not {batch!r}")
    for option, reason in _NOT_WITH_BATCH.items():
        if others.get(option):
            raise ValueError(f"{what}: batch and {option} exclude each other: {reason}")
    what = f"{what}, batch"
    _check_count(what, "size", batch.size, "events")
    _check_duration(what, "seconds", batch.seconds)
    _check_field(what, batch.key)
    seconds = in_seconds(batch.seconds)
    check_range(what, "size", batch.size, 1, MAX_SIZE)
    check_range(what, "seconds", seconds, 0.1, MAX_SECONDS)
    return BatchRule(size=batch.size, seconds=seconds, key=batch.key)


_NOT_WITH_BATCH = {
    "key": "batches keep no order by a key; write Batch(..., key=...) for one batch for each value",
    "shared_key": "batches keep no order by a key",
    "debounce": "a burst is run once already",
    "throttle": "batches are not throttled; a larger size or more seconds make fewer of them",
    "cancel_on": "an event would cancel the work of all members",
}


def _check_count(what: str, option: str, value: object, unit: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{what}: {option} is a whole number of {unit}, not {value!r}")


def _check_duration(what: str, option: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float | timedelta):
        raise TypeError(f"{what}: {option} is a number of seconds or a timedelta, not {value!r}")


def _check_field(what: str, key: object) -> None:
    if key is not None and not isinstance(key, str):
        raise TypeError(f"{what}: key names a field of the payload, not {key!r}")
    check_key(what, key)


def in_seconds(duration: float | timedelta) -> float:
    """A duration in seconds."""
    return duration.total_seconds() if isinstance(duration, timedelta) else float(duration)


def check_retry(what: str, retry: object) -> None:
    """How a task is tried again."""
    if retry is not None and not isinstance(retry, Retry):
        raise TypeError(f"{what}: retry must be a Retry, such as Retry(attempts=5), not {retry!r}")


def check_range(what: str, option: str, value: float, least: float, most: float) -> None:
    """A number, or seconds."""
    if not least <= value <= most:
        raise ValueError(f"{what}: {option} must be from {least:g} to {most:g}")


def is_async(handler: Handler) -> bool:
    """Whether calling it gives a coroutine."""
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(
        getattr(handler, "__call__", None)  # noqa: B004  (an object with an async __call__)
    )


def arguments_of(what: str, second: str, handler: Handler) -> int:
    """How many of (ctx, second) a function takes."""
    signature = inspect.signature(handler)
    for count in (2, 1, 0):
        try:
            signature.bind(*range(count))
        except TypeError:
            continue
        return count
    raise TypeError(f"The function of {what} must take (ctx, {second}), (ctx) or nothing, not {signature}")
