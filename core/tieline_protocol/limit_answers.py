"""Which answers of an external system mean "too many requests", and until when.

``LimitAnswers`` reads answers by the rules of a System (``spec.limits.answers`` and ``cost``), and what no rule is
about by what most systems do. Times from outside are never trusted: what cannot be read, or lies too far ahead, is
missing.
"""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import StrEnum
from functools import cached_property
from typing import Any, Self

from tieline_protocol.answer_paths import MAX_PATH, MISSING, find
from tieline_protocol.list_dialects import NAME
from tieline_protocol.request_limits import MAX_PAUSE_SECONDS, seconds_of

MAX_RULES = 16
MAX_VALUES = 32
MAX_VALUE = 256
LONGEST_SECONDS = 31 * 24 * 3600.0
"""A time that lies further ahead is taken for a mistake."""
_EPOCH_SECONDS = 1e9
_EPOCH_MILLISECONDS = 1e11
_LONGEST_TEXT = 256
_NUMBER = re.compile(r"[+-]?[0-9]{1,20}(\.[0-9]{1,20})?")
_SHARE = re.compile(r"([0-9]{1,12})\s*/\s*([0-9]{1,12})")
# draft-ietf-httpapi-ratelimit-headers: `limit=100, remaining=0, reset=5` (07), `"default";r=0;t=5` (08 and later).
_RATE_LIMIT_MEMBER = re.compile(r"(?:^|[;,])\s*(remaining|reset|r|t)\s*=\s*([0-9]{1,15})", re.IGNORECASE)
_QUOTED = re.compile(r'"[^"]*"')
_REMAINING = ("X-RateLimit-Remaining", "X-Rate-Limit-Remaining", "RateLimit-Remaining")
_RESET = ("X-RateLimit-Reset", "X-Rate-Limit-Reset", "RateLimit-Reset", "X-RateLimit-Reset-After")
_CALL_LIMIT = "X-Shopify-Shop-Api-Call-Limit"
_CALL_LIMIT_SECONDS = 1.0
_TOO_MANY, _UNAVAILABLE, _FORBIDDEN = 429, 503, 403
# Errors in a 200: `{"ok": false, "error": "ratelimited"}`, `{"errors": [{"extensions": {"code": "THROTTLED"}}]}`.
_WORDS = frozenset(
    {"ratelimited", "ratelimitexceeded", "ratelimit", "throttled", "toomanyrequests", "maxcostexceeded"}
)
_CODES = ("error", "error.code", "error.type", "errors.0.extensions.code", "errors.0.type", "errors.0.code")
_NAMES_IN_BODIES = (b'"error', b'"extensions"')
_SHOPIFY = "extensions.cost"


class TimeUnit(StrEnum):
    """How a header or a field says when requests are accepted again."""

    SECONDS = "seconds"
    MILLISECONDS = "milliseconds"
    EPOCH_SECONDS = "epochSeconds"
    EPOCH_MILLISECONDS = "epochMilliseconds"
    ISO8601 = "iso8601"
    HTTP_DATE = "httpDate"


@dataclass(frozen=True, kw_only=True)
class LimitSignal:
    """What an answer says about limits."""

    refused: bool
    """Whether the request was refused; otherwise the next one would be."""
    seconds: float | None = None
    """How long to send nothing, at most MAX_PAUSE_SECONDS; None where the answer does not say it."""


def wait_of(value: object, now: float, unit: TimeUnit | None = None) -> float | None:
    """The seconds from ``now`` (in seconds since 1970) until the time that ``value`` names; None where it names none.

    Without a unit every form is understood, and great numbers are times since 1970.

    >>> wait_of("120", 0.0), wait_of("1.5", 0.0), wait_of("1700000030", 1700000000.0)
    (120.0, 1.5, 30.0)
    >>> wait_of("2023-11-14T22:13:50Z", 1700000000.0), wait_of("Tue, 14 Nov 2023 22:13:50 GMT", 1700000000.0)
    (30.0, 30.0)
    >>> [wait_of(text, 0.0) for text in ("-1", "nan", "1e308", "soon", "9999-12-31T00:00:00Z", "")]
    [None, None, None, None, None, None]
    """
    number = _number_of(value)
    if number is not None:
        seconds = _seconds(number, now, unit)
    elif isinstance(value, str) and len(value) <= _LONGEST_TEXT:
        at = _moment(value.strip(), unit)
        seconds = None if at is None else max(0.0, at - now)
    else:
        seconds = None
    return seconds if seconds is not None and 0 <= seconds <= LONGEST_SECONDS else None


def _number_of(value: object) -> float | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return float(value) if -1e18 < value < 1e18 else None
    if isinstance(value, str) and _NUMBER.fullmatch(value.strip()):
        return float(value)
    return None


def _seconds(number: float, now: float, unit: TimeUnit | None) -> float | None:
    if number < 0:
        return None
    if unit is None:
        unit = TimeUnit.SECONDS
        if number > _EPOCH_SECONDS:
            unit = TimeUnit.EPOCH_SECONDS
        if number > _EPOCH_MILLISECONDS:
            unit = TimeUnit.EPOCH_MILLISECONDS
    match unit:
        case TimeUnit.SECONDS:
            return number
        case TimeUnit.MILLISECONDS:
            return number / 1000
        case TimeUnit.EPOCH_SECONDS:
            return max(0.0, number - now)
        case TimeUnit.EPOCH_MILLISECONDS:
            return max(0.0, number / 1000 - now)
    return None


_FORMS: Mapping[TimeUnit, Callable[[str], datetime]] = {
    TimeUnit.ISO8601: datetime.fromisoformat,
    TimeUnit.HTTP_DATE: parsedate_to_datetime,
}


def _moment(text: str, unit: TimeUnit | None) -> float | None:
    for form, read in _FORMS.items():
        if unit not in (None, form):
            continue
        try:
            at = read(text)
            return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
        except (ValueError, TypeError, IndexError, OverflowError):
            continue
    return None


def remaining_of(text: str | None) -> int | None:
    """How many requests are left, by a header: a number, ``used/limit``, or the member of a RateLimit header.

    >>> remaining_of("0"), remaining_of("32/40"), remaining_of("limit=10, remaining=3, reset=5")
    (0, 8, 3)
    >>> remaining_of('"default";r=7;t=30'), remaining_of("many"), remaining_of(None)
    (7, None, None)
    """
    if text is None or len(text) > 4 * _LONGEST_TEXT:
        return None
    if (number := _number_of(text)) is not None:
        return math.floor(number) if number >= 0 else None
    if share := _SHARE.fullmatch(text.strip()):
        return max(0, int(share[2]) - int(share[1]))
    found = _rate_limit(text)
    return found[0] if found else None


def _rate_limit(text: str) -> tuple[int, float | None] | None:
    """What is left, and the seconds until there is more, of the policy that has the least; None for another form."""
    found: list[tuple[int, float | None]] = []
    for item in re.split(r",(?=\s*\")", _QUOTED.sub('""', text)):
        members = {name.lower(): int(value) for name, value in _RATE_LIMIT_MEMBER.findall(item)}
        left = members.get("r", members.get("remaining"))
        if left is not None:
            found.append((left, members.get("t", members.get("reset"))))
    # Of two that are used up, the later one counts.
    return min(found, key=lambda one: (one[0], -(one[1] or 0)), default=None)


@dataclass(frozen=True, kw_only=True)
class LimitRule:
    """One kind of answer that means "too many requests"."""

    status: int | None = None
    path: str = ""
    values: frozenset[str] = frozenset()
    """The values at ``path`` that mean it."""
    remaining: str = ""
    """The header that has what is left; the rule is about answers with nothing left."""
    header: str = ""
    """The header that says when requests are accepted again."""
    reset_path: str = ""
    """The place in the body that says it."""
    unit: TimeUnit | None = None
    """The form of that time; None: any."""
    wait: float | None = None
    """Seconds to wait where the header does not say it."""

    @classmethod
    def parse(cls, content: Any) -> Self:
        """From an item of ``spec.limits.answers``. Raises ValueError that names the field."""
        if not isinstance(content, Mapping):
            raise ValueError("must be an object")
        status, wait, unit = content.get("status"), content.get("wait"), content.get("unit")
        if status is not None and (
            isinstance(status, bool) or not isinstance(status, int) or not 100 <= status <= 599
        ):
            raise ValueError("status must be a number from 100 to 599")
        rule = cls(
            status=status,
            path=_path_in(content, "path"),
            values=_values(content),
            remaining=_header_in(content, "remaining"),
            header=_header_in(content, "header"),
            reset_path=_path_in(content, "resetPath"),
            unit=_unit(unit),
            wait=None if wait is None else float(seconds_of(str(wait))),
        )
        if rule.status is None and not rule.path and not rule.remaining:
            raise ValueError("needs status, path or remaining")
        if bool(rule.path) != bool(rule.values):
            raise ValueError("path needs equals or in, and they need path")
        return rule

    def read(self, status: int, headers: Mapping[str, str], body: Any, now: float) -> LimitSignal | None:
        """What the answer says; None where the rule is not about it."""
        if self.status is not None and status != self.status:
            return None
        if self.path and _text_of(find(body, self.path)) not in self.values:
            return None
        if self.remaining and remaining_of(headers.get(self.remaining)) != 0:
            return None
        seconds = wait_of(headers.get(self.header), now, self.unit) if self.header else None
        if seconds is None and self.reset_path:
            seconds = wait_of(find(body, self.reset_path), now, self.unit)
        if seconds is None:
            if self.header and self.wait is None and not (self.path or self.remaining):
                return None  # such as a 403 without Retry-After, which is about rights
            seconds = self.wait
        return LimitSignal(refused=status >= 400 or bool(self.path), seconds=_bounded(seconds))


RULE_FIELDS = frozenset(
    {"status", "path", "equals", "in", "remaining", "header", "resetPath", "unit", "wait"}
)


@dataclass(frozen=True, kw_only=True)
class CostRule:
    """Where answers have the cost of a GraphQL request, and what is left of the budget."""

    requested: str = ""
    available: str = ""
    restore_rate: str = ""
    reset: str = ""

    @classmethod
    def parse(cls, content: Any) -> Self:
        """From ``spec.limits.cost``. Raises ValueError."""
        if not isinstance(content, Mapping):
            raise ValueError("cost must be an object")
        rule = cls(
            requested=_path_in(content, "requested"),
            available=_path_in(content, "available"),
            restore_rate=_path_in(content, "restoreRate"),
            reset=_path_in(content, "reset"),
        )
        if not rule.available or not (rule.restore_rate or rule.reset):
            raise ValueError("cost needs available, and restoreRate or reset")
        return rule

    def seconds(self, body: Any, now: float) -> float | None:
        """How long it takes until the same request fits into the budget; None where it fits, or is not known."""
        available = _number_of(find(body, self.available))
        if available is None:
            return None
        requested = _number_of(find(body, self.requested)) if self.requested else None
        missing = (requested if requested is not None else 1.0) - available
        if missing <= 0:
            return None
        rate = _number_of(find(body, self.restore_rate)) if self.restore_rate else None
        if rate is not None and rate > 0:
            return _bounded(missing / rate)
        return _bounded(wait_of(find(body, self.reset), now)) if self.reset else None


COST_FIELDS = frozenset({"requested", "available", "restoreRate", "reset"})
_USUAL_COST = CostRule(
    requested=f"{_SHOPIFY}.requestedQueryCost",
    available=f"{_SHOPIFY}.throttleStatus.currentlyAvailable",
    restore_rate=f"{_SHOPIFY}.throttleStatus.restoreRate",
)


@dataclass(frozen=True, kw_only=True)
class LimitAnswers:
    """The rules of a System, and what is usual where it has none."""

    rules: tuple[LimitRule, ...] = ()
    cost: CostRule | None = None

    @classmethod
    def parse(cls, content: Mapping[str, Any]) -> Self:
        """From ``{answers, cost}``, as limits have them. Raises ValueError that names the field."""
        answers = content.get("answers") or []
        if not isinstance(answers, list) or len(answers) > MAX_RULES:
            raise ValueError(f"answers must be a list of at most {MAX_RULES} items")
        rules = []
        for index, item in enumerate(answers):
            try:
                rules.append(LimitRule.parse(item))
            except ValueError as error:
                raise ValueError(f"answers[{index}]: {error}") from None
        cost = content.get("cost")
        return cls(rules=tuple(rules), cost=CostRule.parse(cost) if cost else None)

    @cached_property
    def read_bodies(self) -> bool:
        """Whether a rule is about bodies of answers."""
        return self.cost is not None or any(rule.path or rule.reset_path for rule in self.rules)

    def may_be_in(self, body: bytes) -> bool:
        """Whether a body has to be parsed: most say nothing of limits."""
        return self.read_bodies or any(name in body for name in _NAMES_IN_BODIES)

    def read(
        self, status: int, headers: Mapping[str, str], body: Any = MISSING, *, now: float
    ) -> LimitSignal | None:
        """What an answer says about limits; None for nothing. ``body`` is its JSON, MISSING where it was not read."""
        for rule in self.rules:
            if (signal := rule.read(status, headers, body, now)) is not None:
                return self._with_cost(signal, body, now)
        # A rule for 429 whose header is missing tells less than the usual headers.
        if status == _TOO_MANY or not any(rule.status == status for rule in self.rules):
            signal = _usual(status, headers, body, now)
            if signal is not None:
                return self._with_cost(signal, body, now)
        seconds = self._cost_seconds(body, now)
        return None if seconds is None else LimitSignal(refused=False, seconds=seconds)

    def _with_cost(self, signal: LimitSignal, body: Any, now: float) -> LimitSignal:
        if signal.seconds is not None:
            return signal
        return LimitSignal(refused=signal.refused, seconds=self._cost_seconds(body, now))

    def _cost_seconds(self, body: Any, now: float) -> float | None:
        return None if body is MISSING else (self.cost or _USUAL_COST).seconds(body, now)


USUAL = LimitAnswers()
"""What is usual alone."""


def _usual(status: int, headers: Mapping[str, str], body: Any, now: float) -> LimitSignal | None:
    """Most systems: 429; 503 and 403 that say when; nothing left; and errors in a 200."""
    if status < 400:
        # Nearly all answers: they cost as little as possible.
        if says_too_many(body):
            asked = wait_of(headers.get("Retry-After"), now)
            return LimitSignal(refused=True, seconds=_usual_wait(headers, asked, now)[1])
        used_up = _CALL_LIMIT in headers and remaining_of(headers[_CALL_LIMIT]) == 0
        return LimitSignal(refused=False, seconds=_CALL_LIMIT_SECONDS) if used_up else None
    if status not in (_TOO_MANY, _UNAVAILABLE, _FORBIDDEN):
        return None
    asked = wait_of(headers.get("Retry-After"), now)
    if status == _UNAVAILABLE:
        return None if asked is None else LimitSignal(refused=True, seconds=_bounded(asked))
    left, seconds = _usual_wait(headers, asked, now)
    if status == _FORBIDDEN and asked is None and left != 0:
        return None
    return LimitSignal(refused=True, seconds=seconds)


def _usual_wait(
    headers: Mapping[str, str], asked: float | None, now: float
) -> tuple[int | None, float | None]:
    """How many requests are left, and how long to wait: as ``asked`` for, or until the reset of what is left."""
    left, reset = _usual_remaining(headers, now)
    return left, _bounded(asked if asked is not None else reset)


def _usual_remaining(headers: Mapping[str, str], now: float) -> tuple[int | None, float | None]:
    structured = _rate_limit(headers.get("RateLimit", "")[: 4 * _LONGEST_TEXT])
    if structured is not None:
        left, seconds = structured
        if seconds is None:
            seconds = _policy_seconds(headers.get("RateLimit-Policy"))
        return left, wait_of(seconds, now)
    known = (remaining_of(headers.get(name)) for name in _REMAINING)
    remaining = next((one for one in known if one is not None), None)
    waits = (wait_of(headers.get(name), now) for name in _RESET)
    return remaining, next((wait for wait in waits if wait is not None), None)


def _policy_seconds(text: str | None) -> float | None:
    """The shortest window of a RateLimit-Policy: `"default";q=100;w=60`, `100;w=60`."""
    windows = re.findall(r";\s*w\s*=\s*([0-9]{1,9})", _QUOTED.sub('""', (text or "")[: 4 * _LONGEST_TEXT]))
    return min(map(float, windows), default=None)


def says_too_many(body: object) -> bool:
    """Whether the error in an answer's JSON means "too many requests", whatever its status.

    >>> says_too_many({"ok": False, "error": "ratelimited"}), says_too_many({"error": "invalid_grant"})
    (True, False)
    """
    if not isinstance(body, dict) or ("error" not in body and "errors" not in body) or body.get("ok") is True:
        return False
    return any(means_too_many(find(body, path)) for path in _CODES)


def means_too_many(code: object) -> bool:
    """Whether an error code means "too many requests".

    >>> means_too_many("RATE_LIMITED"), means_too_many("invalid_grant")
    (True, False)
    """
    return isinstance(code, str) and len(code) <= 64 and re.sub(r"[^a-z]", "", code.lower()) in _WORDS


def _bounded(seconds: float | None) -> float | None:
    return None if seconds is None else min(seconds, MAX_PAUSE_SECONDS)


def _text_of(value: object) -> str | None:
    """A value as rules write it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, str | int | float) else None


def _values(content: Mapping[str, Any]) -> frozenset[str]:
    equals, several = content.get("equals"), content.get("in")
    if equals is not None and several is not None:
        raise ValueError("give one of equals and in")
    values = several if several is not None else [] if equals is None else [equals]
    if not isinstance(values, list) or len(values) > MAX_VALUES:
        raise ValueError(f"in must be a list of at most {MAX_VALUES} texts")
    found = [_text_of(value) for value in values]
    if any(value is None or len(value) > MAX_VALUE for value in found):
        raise ValueError("equals and in must be texts")
    return frozenset(value for value in found if value is not None)


def _path_in(content: Mapping[str, Any], name: str) -> str:
    value = content.get(name) or ""
    if not isinstance(value, str) or len(value) > MAX_PATH:
        raise ValueError(f"{name} must be a path, such as errors.0.code")
    return value


def _header_in(content: Mapping[str, Any], name: str) -> str:
    value = content.get(name) or ""
    if not isinstance(value, str) or len(value) > MAX_VALUE or (value and not re.search(NAME, value)):
        raise ValueError(f"{name} must be the name of a header")
    return value


def _unit(value: Any) -> TimeUnit | None:
    if not value:
        return None
    try:
        return TimeUnit(value)
    except ValueError:
        raise ValueError(f"unit must be one of {', '.join(TimeUnit)}, not {value!r}") from None
