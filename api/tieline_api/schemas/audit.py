"""Audit records in REST."""

from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from tieline_api.schemas.base import Cursor, Query, Rest, TimeOut
from tieline_api.schemas.project_logs import TimeIn

_Text = Annotated[str, StringConstraints(max_length=256)]
AuditOutcome = Literal["allowed", "refused", "failed"]


class AuditQuery(Query):
    """Which records."""

    log: Literal["changes", "access"] = "changes"
    """``changes`` of people, service accounts, API keys and agents; or ``access``: what end users and callers without
    valid credentials did, and requests through connections."""
    first: Annotated[int, Field(ge=1, le=200)] = 50
    """How many, 1 to 200."""
    after: Cursor | None = None
    """The ``next`` of the page before."""
    subject: _Text | None = None
    """Only writes of this subject, by its name in RBAC."""
    kind: _Text | None = None
    """Only writes about this kind, such as ``connections``."""
    id: _Text | None = None
    """Only writes about the object with this id, or that changed it."""
    outcome: AuditOutcome | None = None
    """Only writes with this outcome."""
    since: TimeIn | None = None
    """Only writes at this time or later (RFC 3339)."""
    until: TimeIn | None = None
    """Only writes before this time (RFC 3339)."""


class AuditField(Rest):
    """A field that changed."""

    name: str
    """The field of the spec."""
    before: str | bool | int | None = None
    """What it was, if its values are shown."""
    after: str | bool | int | None = None
    """What it is since, if its values are shown."""


class AuditChange(Rest):
    """An object that a write changed."""

    kind: str
    """The kind, such as ``connections``."""
    object: str
    """The object's id."""
    action: str
    """created, changed or deleted."""
    fields: Annotated[list[AuditField], Field(default_factory=list)]
    """The fields that changed."""


class AuditRequest(Rest):
    """A request that went through a connection."""

    method: str
    """Its method."""
    host: str
    """The system's host."""
    path: str
    """Its path, without the query; known secrets are masked."""


class AuditEntry(Rest):
    """A write, or a refused one."""

    sequence: int
    """The record's number. In each log, numbers rise by one: where one is missing, a record is missing."""
    id: str
    """The record's id."""
    at: TimeOut
    """When the request ended."""
    subject: str
    """Who, or on whose behalf a page went on, by the name in RBAC; a provider by its client id. Empty for anonymous
    callers."""
    caller: str
    """user, serviceAccount, apiKey, endUser or provider; empty without valid credentials."""
    via: str
    """rest, console, page (for end users, or with the token of a connect session) or agent."""
    session: str = ""
    """The id of the connect session."""
    address: str = ""
    """Where the request came from; of IPv6 the /64."""
    user_agent: str = ""
    """The client, as it calls itself."""
    request: str = ""
    """The id of the request, as in the API's log."""
    operation: str
    """The operation's id in this document; an agent's tool; or the request of a page for end users."""
    kind: str = ""
    """The kind of what it is about, such as ``connections``."""
    object: str = ""
    """Its id."""
    outcome: str
    """``allowed``; ``refused``; or ``failed``: something was or may have been written before it went wrong."""
    status: int = 0
    """The status of the answer."""
    code: str = ""
    """The code of the error."""
    fields: Annotated[list[str], Field(default_factory=list)]
    """Fields that the body had."""
    changes: Annotated[list[AuditChange], Field(default_factory=list)]
    """Objects that it changed."""
    sent: Annotated[list[AuditRequest], Field(default_factory=list)]
    """Requests that went through connections."""
    cut: bool = False
    """Whether there was more than a record takes."""


class AuditList(Rest):
    """Audit records."""

    items: list[AuditEntry]
    """The records, newest first. With filters there can be fewer than asked for, although there are more."""
    next: str | None = None
    """Pass it as ``after`` to go on; absent where the oldest record was reached."""


def entry_of(sequence: int, record: Any) -> AuditEntry:
    """A record as it is stored, in REST. Raises ValidationError."""
    return AuditEntry.model_validate({**record, "sequence": sequence})
