"""Approvals of a run: what it asks people, checked and masked, and their answers."""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from tieline.events.run_waits import Place, RunWaits
from tieline.events.wait_store import KeptEvent
from tieline.plain_json import encode
from tieline_protocol import approvals
from tieline_protocol.approvals import Answer, Approval, InvalidApprovalError, approver, is_deeper

Mask = Callable[[str], str]


_MOST_DIGITS = 18
"""Of integers, so that 64 bits hold them."""


@dataclass(frozen=True, kw_only=True)
class ApprovalAnswer:
    """What came of an approval. It is true where somebody has approved.

    >>> answer = ApprovalAnswer(approved=True, by="ann@example.com", comment="The goods came back.")
    >>> "pay" if answer else "tell the customer"
    'pay'
    """

    approved: bool
    """Whether somebody has approved; False after a rejection or the timeout."""
    timed_out: bool = False
    """Whether nobody has answered in time."""
    by: str | None = None
    """Who has answered, by the name that Kubernetes knows them by; None after the timeout."""
    at: datetime | None = None
    """When; None after the timeout."""
    comment: str = ""
    """Why."""
    values: Mapping[str, Any] = field(default_factory=dict)
    """What the form asked for."""

    def __bool__(self) -> bool:
        return self.approved


@dataclass(frozen=True, kw_only=True)
class Question:
    """What code asks, checked."""

    title: str
    details: Any
    by: tuple[str, ...]
    seconds: float
    form: Mapping[str, Any] | None
    other_than: str | None

    @classmethod
    def of(
        cls,
        title: str,
        *,
        details: Any,
        by: Iterable[str] | None,
        timeout: float | timedelta,
        form: Mapping[str, Any] | None,
        other_than: str | None,
    ) -> "Question":
        """From the arguments of ``Context.approve``. Raises ValueError and TypeError."""
        if not isinstance(title, str) or not 1 <= len(title) <= approvals.MAX_TITLE:
            raise ValueError(f"The title of an approval is a text of 1 to {approvals.MAX_TITLE} characters")
        seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else float(timeout)
        if not 0 < seconds <= approvals.MAX_APPROVAL_SECONDS:
            days = approvals.MAX_APPROVAL_SECONDS / 86400
            raise ValueError(
                f"The timeout of an approval is from 0 to {days:g} days, not {seconds:g} seconds"
            )
        if other_than is not None and not _is_name(other_than):
            raise ValueError(f"other_than is a name of 1 to {approvals.MAX_NAME} characters")
        return cls(
            title=_readable(title),
            details=_data("details", details, approvals.MAX_DETAILS_BYTES),
            by=_approvers(by),
            seconds=seconds,
            form=_form(form),
            other_than=other_than,
        )

    def work(self) -> str:
        """By what a step is recognised in a later version."""
        return encode([self.title, self.details, self.by, self.form, self.other_than])


class RunApprovals:
    """The approvals of one attempt."""

    def __init__(self, waits: RunWaits, *, run: str, task: str, user: str | None, mask: Mask) -> None:
        """``mask`` masks known secrets in a text."""
        self._waits = waits
        self._run = run
        self._task = task
        self._user = user
        self._mask = mask

    async def approve(self, question: Question, place: Place) -> ApprovalAnswer:
        """See ``Context.approve``. Ends the attempt with SuspendedRun until there is an answer."""
        if question.form is not None and masked(question.form, self._mask) != question.form:
            raise ValueError("The form has a secret in it: everyone who may answer would read it")

        def asked(identifier: str, at: float, until: float) -> Approval:
            return Approval(
                id=identifier,
                run=self._run,
                task=self._task,
                title=self._mask(question.title)[: approvals.MAX_TITLE],
                asked_at=at,
                until=until,
                details=masked(question.details, self._mask),
                by=question.by,
                form=question.form,
                other_than=question.other_than,
                user=self._user,
            )

        found = await self._waits.approve(question.title, question.work(), question.seconds, asked, place)
        return ApprovalAnswer(approved=False, timed_out=True) if found is None else answer_of(found)


def answer_of(event: KeptEvent) -> ApprovalAnswer:
    """The answer that an event carries. One that cannot be read approves nothing."""
    try:
        answer = Answer.decode(event.payload)
    except InvalidApprovalError:
        return ApprovalAnswer(approved=False, comment="The answer cannot be read")
    return ApprovalAnswer(
        approved=answer.approved,
        by=answer.by,
        at=datetime.fromtimestamp(answer.at, UTC),
        comment=answer.comment,
        values=answer.values or {},
    )


def masked(value: Any, mask: Mask) -> Any:
    """JSON data with known secrets masked in each of its texts, and numbers that are one as a text.

    >>> masked({"pin": 123456, "note": ["ok"]}, lambda text: text.replace("123456", "***"))
    {'pin': '***', 'note': ['ok']}
    """
    match value:
        case str():
            return mask(value)
        case dict():
            return {mask(name): masked(one, mask) for name, one in value.items()}
        case list():
            return [masked(one, mask) for one in value]
        case int() | float() if not isinstance(value, bool):
            text = str(value)
            return value if (hidden := mask(text)) == text else hidden
    return value


def _approvers(by: Iterable[str] | None) -> tuple[str, ...]:
    if isinstance(by, str):
        raise TypeError('by is a list, such as ["role:tieline-editor"]')
    given = tuple(by or ())
    if len(given) > approvals.MAX_APPROVERS:
        raise ValueError(f"by names at most {approvals.MAX_APPROVERS}, not {len(given)}")
    for one in given:
        if not isinstance(one, str) or one != _readable(one) or approver(one) is None:
            roles = ", ".join(f"role:{role}" for role in approvals.ROLES)
            raise ValueError(f"by names {roles}, user:NAME or group:NAME, not {one!r}")
    return given


def _form(form: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    if form is None:
        return None
    found = _data("form", dict(form), approvals.MAX_FORM_BYTES)
    from tieline_protocol.variables import schema_problem  # noqa: PLC0415  (most pods need not load it)

    if problem := schema_problem(found):
        raise ValueError(f"The form cannot be used: {problem}")
    return dict(found)


def _data(name: str, value: Any, longest: int) -> Any:
    """The value as JSON data. Raises TypeError and ValueError."""
    try:
        text = encode(value)
    except RecursionError:
        raise ValueError(_too_deep(name)) from None
    text = _readable(text)
    if len(text.encode()) > longest:
        raise ValueError(f"{name} has more than {longest:,} bytes: give what people need to decide")
    found = json.loads(text, parse_int=_number)
    if is_deeper(found):
        raise ValueError(_too_deep(name))
    return found


def _number(digits: str) -> int | str:
    """An integer; as a text where its readers' 64 bits cannot hold it.

    >>> _number("17"), _number("99999999999999999999999")
    (17, '99999999999999999999999')
    """
    return int(digits) if len(digits) <= _MOST_DIGITS else digits


def _is_name(value: object) -> bool:
    return isinstance(value, str) and 1 <= len(value) <= approvals.MAX_NAME and value == _readable(value)


def _readable(text: str) -> str:
    """The text with each half of a character replaced."""
    return text.encode("utf-8", "replace").decode()


def _too_deep(name: str) -> str:
    return f"{name} nests deeper than {approvals.MAX_DEPTH} levels"
