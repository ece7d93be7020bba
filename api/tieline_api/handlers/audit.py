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
        select=_selection(query),
    )
    following = None if page.next is None else seal(_CURSOR, organisation, query.log, page.next)
    return Reply(body=rest.AuditList(items=list(page.found), next=following))


def _number(query: rest.AuditQuery, organisation: str) -> int | None:
    """The number that a cursor of this list stands for. ApiError 400 for another one."""
    if query.after is None:
        return None
    match unseal(query.after, refused=refused_cursor()):
        case [*of, int(number)] if of == [_CURSOR, organisation, query.log]:
            return number
    raise refused_cursor()


def _selection(query: rest.AuditQuery) -> Callable[[int, Mapping[str, Any]], rest.AuditEntry | None]:
    """The entry of a record that fits. Most do not, so its other fields are read only where it does."""
    identifier = None if query.id is None else parse_id(query.id) or query.id
    since, until = (parse_time(one) if one else None for one in (query.since, query.until))
    given = {"subject": query.subject, "kind": query.kind, "outcome": query.outcome}
    equal = {name: value for name, value in given.items() if value is not None}

    def select(sequence: int, record: Mapping[str, Any]) -> rest.AuditEntry | None:
        if any(record.get(name) != value for name, value in equal.items()):
            return None
        try:
            entry = rest.entry_of(sequence, record)
        except ValidationError:
            return None
        if identifier is not None and identifier not in (
            entry.object,
            *(one.object for one in entry.changes),
        ):
            return None
        return entry if _is_between(entry.at, since, until) else None

    return select


def _is_between(text: str, since: datetime | None, until: datetime | None) -> bool:
    try:
        at = parse_time(text)
    except ValueError:
        return False
    return (since is None or at >= since) and (until is None or at < until)
