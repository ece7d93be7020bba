"""Operations on audit records."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from pydantic import ValidationError

from tieline_api.audit.reading import read_newest
from tieline_api.auth.permissions import permission
from tieline_api.http.operation import ORGANISATION, Call, Operations, Reply
from tieline_api.page_tokens import refused_cursor, seal, unseal
from tieline_api.schemas import audit as rest
from tieline_core.engine.audit_streams import AuditPart
from tieline_core.identity.ids import parse_id, parse_time

_CURSOR = "audit"

OPERATIONS = Operations("Access and changes")


@OPERATIONS.add(
    "GET",
    f"{ORGANISATION}/audit",
    id="listAuditRecords",
    summary="List who changed what, and who was refused",
    permissions=permission("create", "rolebindings"),
)
async def list_audit_records(call: Call[rest.AuditQuery, None]) -> Reply[rest.AuditList]:
    """Returns audit records of the organisation, newest first. It needs the permission to assign roles. A write is
    in the list soon after it was answered. A page looks through at most 5,000 records."""
    query, organisation = call.query, call.organisation.id
    page = await read_newest(
        call.platform.engine,
        organisation,
        AuditPart(query.log),
        before=_number(query, organisation),
        first=query.first,
        wanted=_filter(query),
    )
    following = None if page.next is None else seal(_CURSOR, organisation, query.log, page.next)
    return Reply(
        body=rest.AuditList(
            items=[rest.entry_of(sequence, record) for sequence, record in page.found], next=following
        )
    )


def _number(query: rest.AuditQuery, organisation: str) -> int | None:
    """The number that a cursor of this list stands for. ApiError 400 for another one."""
    if query.after is None:
        return None
    match unseal(query.after, refused=refused_cursor()):
        case [*of, int(number)] if of == [_CURSOR, organisation, query.log]:
            return number
    raise refused_cursor()


def _filter(query: rest.AuditQuery) -> Callable[[Mapping[str, Any]], bool]:
    identifier = None if query.id is None else parse_id(query.id) or query.id
    since, until = (parse_time(one) if one else None for one in (query.since, query.until))
    equal = {"subject": query.subject, "kind": query.kind, "outcome": query.outcome}

    def wanted(record: Mapping[str, Any]) -> bool:
        try:
            entry = rest.entry_of(0, record)
        except ValidationError:
            return False
        if any(value is not None and getattr(entry, name) != value for name, value in equal.items()):
            return False
        if identifier is not None and identifier not in (
            entry.object,
            *(one.object for one in entry.changes),
        ):
            return False
        return _is_between(entry.at, since, until)

    return wanted


def _is_between(text: str, since: datetime | None, until: datetime | None) -> bool:
    try:
        at = parse_time(text)
    except ValueError:
        return False
    return (since is None or at >= since) and (until is None or at < until)
