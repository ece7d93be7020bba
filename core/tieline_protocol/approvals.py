"""Approvals: what a run asks people, and what they answer. Pure.

An approval is a wait whose event is an answer. The run's pod stores the question, and the platform lists it and takes
the answer. Code of the environment can write both, so their readers check them.
"""

import math
import re
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, Self, get_args

import orjson

from tieline_protocol.event_streams import hashed
from tieline_protocol.events import EventMetadata
from tieline_protocol.waits import MAX_WAIT_SECONDS

ANSWER_TASK = "~approval"
"""Takes the place of a task in the event that carries an answer. No code can have a task of this name."""
WAIT_PREFIX = "approval-"
"""Of the names of waits for an answer. What follows is the approval's id."""
MAX_TITLE = 150
MAX_DETAILS_BYTES = 16 * 1024
MAX_FORM_BYTES = 16 * 1024
MAX_VALUES_BYTES = 16 * 1024
MAX_DEPTH = 50
"""Levels of objects and lists in details, forms and values."""
MAX_COMMENT = 1000
MAX_APPROVERS = 20
MAX_NAME = 256
MAX_APPROVAL_SECONDS = MAX_WAIT_SECONDS
KEPT_SECONDS = 30 * 86400.0
"""How long an approval is kept after its time, answered or not."""
ROLES = ("tieline-viewer", "tieline-editor", "tieline-admin")
"""Who may answer, as ``role:<name>``. Each has the rights of the one before it."""
EDITOR = "tieline-editor"
"""Who may answer where an approval names nobody: who may edit the project."""
_APPROVER = re.compile(r"(?P<kind>role|user|group):(?P<name>\S(.*\S)?)")
_ID = re.compile(r"[0-9A-HJKMNP-TV-Z]{26}")
_MAX_BYTES = 128 * 1024

ApprovalState = Literal["open", "approved", "rejected", "timed_out", "withdrawn"]
"""``withdrawn``: its run ended without an answer."""
STATES: tuple[ApprovalState, ...] = get_args(ApprovalState)


class InvalidApprovalError(ValueError):
    """A message that is not a valid approval or answer."""


@dataclass(frozen=True, kw_only=True)
class Approval:
    """What a run asks. Times are seconds since 1970."""

    id: str
    """A ULID."""
    run: str
    task: str
    title: str
    asked_at: float
    until: float
    details: Any = None
    """JSON data, with known secrets masked."""
    by: tuple[str, ...] = ()
    """Who may answer: ``role:…``, ``user:…`` or ``group:…``. Empty: whoever may edit the project."""
    form: Mapping[str, Any] | None = None
    """A JSON Schema of the values that an answer must have."""
    other_than: str | None = None
    """The name of a user who may not answer."""
    user: str | None = None
    """External id of the run's user."""

    def encode(self) -> bytes:
        """The content of its message."""
        return _encode(asdict(self))

    @classmethod
    def decode(cls, content: bytes) -> Self:
        """From ``encode``. Raises InvalidApprovalError."""
        found = _decoded(content)
        try:
            form = found.get("form")
            approval = cls(
                id=_id(found["id"]),
                run=_id(found["run"]),
                task=_text(found["task"], MAX_NAME),
                title=_text(found["title"], MAX_TITLE),
                asked_at=_number(found["asked_at"]),
                until=_number(found["until"]),
                details=found.get("details"),
                by=tuple(_text(one, MAX_NAME) for one in found.get("by") or ())[:MAX_APPROVERS],
                form=None if form is None else _object(form),
                other_than=_maybe(found.get("other_than")),
                user=_maybe(found.get("user")),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise _invalid(error) from None
        if is_deeper(approval.details) or is_deeper(approval.form):
            raise InvalidApprovalError("An approval nests too deep")
        return approval


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What somebody answered."""

    approval: str
    approved: bool
    by: str
    """The name by which the platform knows the caller."""
    at: float
    name: str = ""
    """The caller's name, for people."""
    comment: str = ""
    values: Mapping[str, Any] | None = None
    """What the form asks for."""

    def encode(self) -> bytes:
        """The payload of its event."""
        return _encode(asdict(self))

    @classmethod
    def decode(cls, content: bytes) -> Self:
        """From ``encode``. Raises InvalidApprovalError."""
        found = _decoded(content)
        try:
            values = found.get("values")
            answer = cls(
                approval=_id(found["approval"]),
                approved=_bool(found["approved"]),
                by=_text(found["by"], MAX_NAME),
                at=_number(found["at"]),
                name=_text(found.get("name", ""), MAX_NAME),
                comment=_text(found.get("comment", ""), MAX_COMMENT),
                values=None if values is None else _object(values),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise _invalid(error) from None
        if is_deeper(answer.values):
            raise InvalidApprovalError("An answer nests too deep")
        return answer


def answer_event(run: str, at: float) -> EventMetadata:
    """The metadata of the event that carries an answer. ``run`` tells answers apart."""
    return EventMetadata(run=run, kind="event", task=ANSWER_TASK, queued_at=at)


def approval_index(approval: str) -> str:
    """The index of the wait for an answer."""
    return hashed(f"approval {approval}")


def wait_name(approval: str) -> str:
    """The name of the wait for an answer."""
    return f"{WAIT_PREFIX}{approval}"


def approver(text: str) -> tuple[str, str] | None:
    """The kind and the name of somebody who may answer; None for a text that is neither.

    >>> approver("role:tieline-editor"), approver("user:ann@example.com"), approver("ann")
    (('role', 'tieline-editor'), ('user', 'ann@example.com'), None)
    """
    found = _APPROVER.fullmatch(text)
    if found is None or len(text) > MAX_NAME or (found["kind"] == "role" and found["name"] not in ROLES):
        return None
    return found["kind"], found["name"]


def roles_below(role: str | None) -> tuple[str, ...]:
    """The roles whose rights somebody with a role has.

    >>> roles_below("tieline-editor"), roles_below(None)
    (('tieline-viewer', 'tieline-editor'), ())
    """
    return ROLES[: ROLES.index(role) + 1] if role in ROLES else ()


def refusal(approval: Approval, *, user: str, groups: Collection[str], roles: Collection[str]) -> str | None:
    """Why somebody may not answer; None where they may. ``roles`` are all of ROLES whose rights they have."""
    if approval.other_than is not None and approval.other_than == user:
        return "Somebody else must answer: the approval was asked for by you"
    known = {"role": roles, "user": (user,), "group": groups}
    named = [found for one in approval.by if (found := approver(one)) is not None]
    if any(name in known[kind] for kind, name in named):
        return None
    if not approval.by and EDITOR in roles:
        return None
    return f"You may not answer this approval: it is for {', '.join(approval.by) or f'role:{EDITOR}'}"


def is_deeper(value: Any, levels: int = MAX_DEPTH) -> bool:
    """Whether JSON data nests deeper than so many levels of objects and lists.

    >>> is_deeper([[1]], 2), is_deeper([[[]]], 2), is_deeper("x", 0)
    (False, True, False)
    """
    level = _containers([value])
    for _ in range(levels):
        level = [inner for outer in level for inner in _containers(outer)]
        if not level:
            return False
    return bool(level)


def _containers(values: Any) -> list[Any]:
    """The objects and lists among the values of an object or list."""
    inner = values.values() if isinstance(values, Mapping) else values
    return [one for one in inner if isinstance(one, Mapping | list | tuple)]


def _encode(content: dict[str, Any]) -> bytes:
    return orjson.dumps({name: value for name, value in content.items() if value is not None})


def _decoded(content: bytes) -> dict[str, Any]:
    if len(content) > _MAX_BYTES:
        raise InvalidApprovalError("The message is too long for an approval")
    try:
        return _object(orjson.loads(content))
    except (TypeError, ValueError) as error:
        raise _invalid(error) from None


def _invalid(error: BaseException) -> InvalidApprovalError:
    return InvalidApprovalError(f"The message is not a valid approval: {type(error).__name__}")


def _id(value: Any) -> str:
    if not isinstance(value, str) or not _ID.fullmatch(value):
        raise ValueError("no id")
    return value


def _text(value: Any, longest: int) -> str:
    if not isinstance(value, str) or len(value) > longest:
        raise ValueError("no such text")
    return value


def _maybe(value: Any) -> str | None:
    return None if value is None else _text(value, MAX_NAME)


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise TypeError("no number")
    if not 0 <= value <= _LATEST:
        raise ValueError("no time")
    return float(value)


def _bool(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError("no bool")
    return value


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError("no object")
    return value


_LATEST = 253_402_300_799.0
"""The end of the year 9999."""
