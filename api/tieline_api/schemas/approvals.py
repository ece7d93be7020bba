"""Approvals in REST."""

from typing import Annotated, Any

from pydantic import Field, StrictBool, StringConstraints

from tieline_api.schemas.base import PageQuery, Rest, TimeOut, UlidIn, UlidOut
from tieline_protocol.approvals import MAX_COMMENT, ApprovalState

_EnvironmentName = Annotated[str, StringConstraints(max_length=64)]
_States = Annotated[list[ApprovalState] | None, Field(min_length=1, max_length=5)]
_Comment = Annotated[str, StringConstraints(max_length=MAX_COMMENT)]


class ApprovalsQuery(PageQuery):
    """Which approvals."""

    project_env: _EnvironmentName | None = None
    """Only approvals in environments with this name."""
    project: UlidIn | None = None
    """Only approvals of this project, by its id."""
    environment: UlidIn | None = None
    """Only approvals of this environment, by its id."""
    state: _States = None
    """Only approvals that are open, approved, rejected, timed_out or withdrawn; several times for several states."""
    answerable: bool = False
    """Only open approvals that the caller may answer."""


class ApprovalAnswer(Rest):
    """What somebody answered."""

    approved: bool
    """Whether they approved."""
    by: str
    """Who answered, by the name that Kubernetes knows them by."""
    name: str | None = None
    """Their name, for people."""
    at: TimeOut
    """When they answered."""
    comment: str | None = None
    """Why."""
    values: dict[str, Any] | None = None
    """What the form asked for."""


class Approval(Rest):
    """What a run asks people."""

    id: UlidOut
    """The id."""
    project_id: UlidOut
    """The project."""
    environment_id: UlidOut
    """The environment."""
    run_id: UlidOut
    """The run that waits for the answer."""
    task: str
    """The run's task."""
    user: str | None = None
    """The external id of the run's user; absent for the static activation."""
    title: str
    """What it asks, with secrets masked."""
    details: Any = None
    """What people need to decide, with secrets masked."""
    by: list[str]
    """Who may answer: ``role:…``, ``user:…`` or ``group:…``. Empty for whoever may edit the project."""
    other_than: str | None = None
    """The user who may not answer."""
    form: dict[str, Any] | None = None
    """The JSON Schema of the values that approving needs."""
    asked_at: TimeOut
    """When it was asked."""
    until: TimeOut
    """When it times out."""
    state: ApprovalState
    """``open``, ``approved``, ``rejected``, ``timed_out``, or ``withdrawn``: its run ended without an answer."""
    answer: ApprovalAnswer | None = None
    """The answer; absent until there is one."""
    may_answer: bool
    """Whether the caller may answer it now."""


class ApprovalPage(Rest):
    """A part of a list of approvals, newest first."""

    total_count: int
    """How many there are among the at most 1,000 of the list and, if only that is asked for, of those that have
    no answer."""
    items: list[Approval]
    """The approvals, newest first."""
    next: str | None = None
    """Pass it as ``after`` for older approvals, with the same other parameters; absent at the end."""
    prev: str | None = None
    """Pass it as ``before`` for newer approvals; absent at the beginning."""


class ApprovalAnswerCreate(Rest):
    """An answer to an approval."""

    approved: StrictBool
    """Whether to approve or to reject."""
    comment: _Comment = ""
    """Why."""
    values: dict[str, Any] | None = None
    """What the form asks for; at most 16 KiB and 50 levels. A rejection need not have any."""
