"""Which requests are recorded, and what a record says of one.

Every operation that is no read is a write, but for those in ``NOT_WRITES``. What it wrote, the writer has noted
(``revisions.Writes``). Requests through connections are recorded whatever their method.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from aiohttp import web
from pydantic import BaseModel

from tieline_api import errors
from tieline_api.audit.log import AuditLog
from tieline_api.audit.records import AuditRecord, redacted, sent_through
from tieline_api.auth.authentication import Caller
from tieline_api.client_address import Network, origin
from tieline_api.cluster.cluster_cache import ClusterCache
from tieline_api.cluster.organisations import Organisation
from tieline_api.cluster.revisions import Writes
from tieline_core.identity.ids import new_id, parse_id
from tieline_core.kubernetes import KubeError

if TYPE_CHECKING:
    from tieline_api.http.operation import Operation, Reply

logger = logging.getLogger("tieline.audit")

NOT_WRITES = frozenset(
    {
        "validateProject",
        "listStoreKeys",
        "listStoreKeysInOrganisation",
        "countStoreKeys",
        "countStoreKeysInOrganisation",
        "callEnvironment",
        "publishEvent",
        "publishEvents",
        "replayRun",
        "replayRuns",
        "replayIssue",
        "signalRun",
        "runScheduler",
    }
)
"""Operations that read, call webhooks or start runs, whatever their method."""
KINDS: Mapping[str, str] = {
    "activation_id": "activations",
    "approval_id": "approvals",
    "binding_id": "rolebindings",
    "channel_id": "notificationchannels",
    "connection_id": "connections",
    "connector_id": "connectors",
    "environment_id": "environments",
    "issue_id": "issues",
    "key_id": "apikeys",
    "notification_id": "notifications",
    "project_id": "projects",
    "run_id": "runs",
    "scheduler_id": "schedulers",
    "session_id": "connectsessions",
    "system_id": "systems",
    "template_id": "connectiontemplates",
    "user_id": "endusers",
    "version_id": "projectversions",
}
"""What the ids in paths are of."""
_READS = frozenset({"GET", "HEAD", "OPTIONS"})
_REFUSED = frozenset({401, 403, 409, 412, 422})
_UNAUTHENTICATED, _INTERNAL, _CLIENT_GONE = 401, 500, 499


@dataclass
class Trail:
    """What is known of a request so far."""

    caller: Caller | None = None
    organisation: Organisation | None = None
    body: BaseModel | None = None
    writes: Writes | None = None
    reply: "Reply[Any] | None" = None
    session: str = ""
    from_console: bool = False


@dataclass(frozen=True)
class _Outcome:
    name: str
    status: int
    code: str = ""


class Auditor:
    """Records requests once they are answered. It never fails one."""

    def __init__(self, log: AuditLog, cluster: ClusterCache, *, trusted: Sequence[Network]) -> None:
        """``trusted`` are our own proxies."""
        self._log = log
        self._cluster = cluster
        self._trusted = trusted

    def ended(
        self,
        operation: "Operation",
        request: web.Request,
        trail: Trail,
        *,
        request_id: str,
        error: BaseException | None,
    ) -> None:
        """Records a request that was answered, or ended with ``error``, if it is one to record."""
        try:
            self._ended(operation, request, trail, request_id, error)
        except Exception:
            self._log.counts["dropped"] += 1
            logger.exception("An audit record is lost", extra={"request_id": request_id})

    def _ended(
        self,
        operation: "Operation",
        request: web.Request,
        trail: Trail,
        request_id: str,
        error: BaseException | None,
    ) -> None:
        if not _is_recorded(operation, trail):
            return
        outcome = _outcome(operation, trail, error)
        organisation = trail.organisation or self._organisation(request.match_info)
        if outcome is None or organisation is None or not organisation.id:
            return
        address = origin(request.remote, request.headers.getall("X-Forwarded-For", ()), trusted=self._trusted)
        is_bounded = outcome.name != "allowed" and not _has_written(trail)
        if is_bounded and not self._admits(organisation.id, trail.caller, address):
            self._log.counts["limited"] += 1
            return
        kind, identifier = _object_of(operation, request.match_info, trail.reply)
        caller, writes = trail.caller, trail.writes or Writes()
        self._log.add(
            AuditRecord(
                id=new_id(),
                at=datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
                organisation=organisation.id,
                subject=caller.username if caller else "",
                caller=caller.kind if caller else "",
                via=_via(operation, trail),
                session=trail.session,
                address=address,
                user_agent=request.headers.get("User-Agent", ""),
                request=request_id,
                operation=operation.id,
                kind=kind,
                object=identifier,
                outcome=outcome.name,
                status=outcome.status,
                code=outcome.code,
                fields=_declared(trail.body),
                changes=redacted(writes.changes),
                sent=sent_through(writes.sent),
            )
        )

    def _admits(self, organisation: str, caller: Caller | None, address: str) -> bool:
        """Whether one more refusal is recorded. Who is of other organisations alone is a stranger in this one."""
        is_stranger = caller is None or (
            caller.organisations is not None and organisation not in caller.organisations
        )
        if caller is None or is_stranger:
            return self._log.refusals.admits_stranger(organisation, address)
        return self._log.refusals.admits_caller(organisation, caller.username)

    def _organisation(self, path: Mapping[str, str]) -> Organisation | None:
        """The organisation of a request that was refused before it was known."""
        try:
            if (identifier := parse_id(path.get("organisation_id", ""))) is not None:
                return self._cluster.organisation(identifier)
            if (identifier := parse_id(path.get("project_id", ""))) is not None:
                return next(iter(self._cluster.organisations_of_project(identifier)), None)
            if (identifier := parse_id(path.get("activation_id", ""))) is not None:
                return next(iter(self._cluster.organisations_of_activation(identifier)), None)
        except errors.ApiError:
            pass  # the caches are not there yet
        return None


def _is_recorded(operation: "Operation", trail: Trail) -> bool:
    if operation.own_protocol:
        return _has_written(trail)
    if operation.proxies or _has_written(trail):
        return True
    return operation.method not in _READS and operation.id not in NOT_WRITES


def _has_written(trail: Trail) -> bool:
    return trail.writes is not None and bool(trail.writes.changes or trail.writes.sent)


def _outcome(operation: "Operation", trail: Trail, error: BaseException | None) -> _Outcome | None:
    """What came of it; None for what is not recorded, such as a request that cannot be read."""
    if error is None:
        response = trail.reply.response if trail.reply else None
        return _Outcome("allowed", response.status if response is not None else operation.success)
    if isinstance(error, KubeError):
        error = errors.from_kube(error)
    if isinstance(error, errors.ApiError):
        found = _Outcome("refused", error.status, error.code)
    elif isinstance(error, Exception):
        found = _Outcome("failed", _INTERNAL, "internal")
    else:
        found = _Outcome("failed", _CLIENT_GONE, "cancelled")
    if found.status >= _INTERNAL or found.name == "failed" or _has_written(trail):
        return _Outcome("failed", found.status, found.code)
    return found if found.status in _REFUSED else None


def _via(operation: "Operation", trail: Trail) -> str:
    if operation.own_protocol:
        return "agent"
    if trail.from_console:
        return "console"
    return "page" if trail.session else "rest"


def _object_of(
    operation: "Operation", path: Mapping[str, str], reply: "Reply[Any] | None"
) -> tuple[str, str]:
    """Kind and id of what an operation made, or else of what its path names last."""
    for parameter, pointer in operation.link_sources.items():
        if parameter in KINDS:
            return KINDS[parameter], _value(reply.body if reply else None, pointer.removeprefix("/"))
    named = [name for name in path if name in KINDS and f"{{{name}}}" in operation.path]
    if named:
        last = max(named, key=lambda name: operation.path.index(f"{{{name}}}"))
        return KINDS[last], parse_id(path[last]) or path[last]
    return (operation.permissions[0].resource if operation.permissions else ""), ""


def _value(body: BaseModel | None, alias: str) -> str:
    if body is None:
        return ""
    for name, described in type(body).model_fields.items():
        if alias in (described.serialization_alias, described.alias, name):
            return str(getattr(body, name))
    return ""


def _declared(body: BaseModel | None) -> Sequence[str]:
    """The declared fields that a body had, by their names in the contract."""
    if body is None:
        return ()
    known = type(body).model_fields
    return sorted(known[name].alias or name for name in body.model_fields_set if name in known)
