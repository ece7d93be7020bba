"""Which requests are recorded, and what a record says of one.

Every operation that is no read is a write, but for those in ``NOT_WRITES``. What it wrote, the writer has noted
(``revisions.Writes``). Requests through connections are recorded whatever their method. Of agents, a message is
recorded that sent something through a connection, or whose tool was refused. Pages for end users are no operations:
they say themselves what they did (``Auditor.page``).
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from aiohttp import web
from pydantic import BaseModel

from tieline_api import errors
from tieline_api.audit.log import AuditLog
from tieline_api.audit.records import AuditRecord, redacted, sent_through
from tieline_api.auth.authentication import Caller
from tieline_api.client_address import Network, origin
from tieline_api.cluster import revisions
from tieline_api.cluster.cluster_cache import ClusterCache
from tieline_api.cluster.organisations import NO_ORGANISATION, Organisation
from tieline_api.cluster.revisions import Writes
from tieline_api.http.request_keys import OPERATION, REQUEST_ID, SESSION, SESSION_ENDS
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
_TOOL_REFUSED = _REFUSED | {404}
"""What an agent may not reach is not there for it."""
_UNAUTHENTICATED, _INTERNAL, _CLIENT_GONE = 401, 500, 499


@dataclass
class Trail:
    """What is known of a request so far."""

    caller: Caller | None = None
    organisation: Organisation | None = None
    body: BaseModel | None = None
    writes: Writes | None = None
    reply: "Reply[Any] | None" = None


@dataclass
class PageTrail:
    """What is known of a request of a page for end users so far."""

    operation: str
    organisation: Organisation | None = None
    caller: Caller | None = None
    """Whose credentials came with it."""
    on_behalf: str = ""
    """Who began what the page goes on with, where no credentials came."""
    kind_of_caller: str = ""
    """The kind of that one. A record has it only where nothing went wrong: it may be another person's browser."""
    session: str = ""
    kind: str = ""
    object: str = ""
    status: int = 200
    wrote: bool = False
    """Whether it wrote something, once it has."""
    writes: Writes = field(default_factory=Writes)


@dataclass(frozen=True)
class _Outcome:
    name: str
    status: int
    code: str = ""


@dataclass(frozen=True, kw_only=True)
class _Facts:
    """What a record says of a request, beside what came of it."""

    organisation: str
    caller: Caller | None
    subject: str
    kind_of_caller: str
    via: str
    session: str
    operation: str
    about: tuple[str, str]
    """The kind and the id of what it is about."""
    fields: Sequence[str] = ()
    writes: Writes


class Auditor:
    """Records requests once they are answered. It never fails one."""

    def __init__(self, log: AuditLog, cluster: ClusterCache, *, trusted: Sequence[Network]) -> None:
        """``trusted`` are our own proxies."""
        self._log = log
        self._cluster = cluster
        self._trusted = trusted

    @contextmanager
    def operation(self, operation: "Operation", request: web.Request) -> Iterator[Trail]:
        """Records the request of an operation, if it is one to record, by what is noted in the trail until its end."""
        trail, failure = Trail(), None
        try:
            yield trail
        except BaseException as error:
            failure = error
            raise
        finally:
            self.ended(operation, request, trail, error=failure)

    def ended(
        self, operation: "Operation", request: web.Request, trail: Trail, *, error: BaseException | None
    ) -> None:
        """Records a request that was answered, or ended with ``error``, if it is one to record."""
        with self._losing(request):
            self._ended(operation, request, trail, error)

    @contextmanager
    def page(self, request: web.Request) -> Iterator[PageTrail]:
        """Records what a page did, by what is noted in the trail until its end."""
        trail, failure = PageTrail(operation=request[OPERATION], writes=revisions.recording()), None
        try:
            yield trail
        except BaseException as error:
            failure = error
            raise
        finally:
            with self._losing(request):
                self._page_ended(request, trail, failure)

    @contextmanager
    def _losing(self, request: web.Request) -> Iterator[None]:
        """Counts a record that could not be made, and goes on."""
        try:
            yield
        except Exception:
            self._log.counts["dropped"] += 1
            logger.exception("An audit record is lost", extra={"request_id": request.get(REQUEST_ID, "")})

    def _page_ended(self, request: web.Request, trail: PageTrail, error: BaseException | None) -> None:
        kind: str = trail.kind_of_caller
        outcome = _Outcome("allowed", trail.status) if trail.wrote else None
        if error is not None:
            kind, outcome = "", _failure(error, wrote=trail.wrote or bool(trail.writes.changes))
        if outcome is None or trail.organisation is None:
            return
        self._record(
            request,
            _Facts(
                organisation=trail.organisation.id,
                caller=trail.caller,
                subject=trail.caller.username if trail.caller else trail.on_behalf,
                kind_of_caller=trail.caller.kind if trail.caller else kind,
                via="page",
                session=trail.session,
                operation=trail.operation,
                about=(trail.kind, trail.object),
                writes=trail.writes,
            ),
            outcome,
        )

    def _ended(
        self,
        operation: "Operation",
        request: web.Request,
        trail: Trail,
        error: BaseException | None,
    ) -> None:
        if not _is_recorded(operation, trail):
            return
        outcome = _outcome(operation, trail, error)
        organisation = trail.organisation or self._organisation(request.match_info)
        if organisation is NO_ORGANISATION and trail.caller is not None:
            organisation = self._organisation_of(trail.caller)
        if outcome is None or organisation is None or not organisation.id:
            return
        caller, writes = trail.caller, trail.writes or Writes()
        tool = writes.tool
        self._record(
            request,
            _Facts(
                organisation=organisation.id,
                caller=caller,
                subject=caller.username if caller else "",
                kind_of_caller=caller.kind if caller else "",
                via=_via(operation, request),
                session=request.get(SESSION, ""),
                operation=tool.tool if tool else operation.id,
                about=(tool.kind, tool.object)
                if tool
                else _object_of(operation, request.match_info, trail.reply),
                fields=_declared(trail.body),
                writes=writes,
            ),
            outcome,
        )

    def _record(self, request: web.Request, facts: "_Facts", outcome: _Outcome) -> None:
        address = origin(request.remote, request.headers.getall("X-Forwarded-For", ()), trusted=self._trusted)
        writes = facts.writes
        is_bounded = outcome.name != "allowed" and not (writes.changes or writes.sent)
        if is_bounded and not self._admits(facts.organisation, facts.caller, address):
            self._log.counts["limited"] += 1
            return
        kind, identifier = facts.about
        self._log.add(
            AuditRecord(
                id=new_id(),
                at=datetime.now(UTC),
                organisation=facts.organisation,
                subject=facts.subject,
                caller=facts.kind_of_caller,
                via=facts.via,
                session=facts.session,
                address=address,
                user_agent=request.headers.get("User-Agent", ""),
                request=request.get(REQUEST_ID, ""),
                operation=facts.operation,
                kind=kind,
                object=identifier,
                outcome=outcome.name,
                status=outcome.status,
                code=outcome.code,
                fields=facts.fields,
                changes=redacted(writes.changes),
                sent=sent_through(writes.sent),
            )
        )

    def _admits(self, organisation: str, caller: Caller | None, address: str) -> bool:
        """Whether one more refusal is recorded. A member of other organisations alone counts as anonymous."""
        if caller is None or (caller.organisations is not None and organisation not in caller.organisations):
            return self._log.refusals.admits_anonymous(organisation, address)
        return self._log.refusals.admits_caller(organisation, caller.username)

    def _organisation_of(self, caller: Caller) -> Organisation | None:
        """The organisation of an end user, whose requests about themselves name none."""
        if caller.end_user is None or caller.organisations is None or len(caller.organisations) != 1:
            return None
        return self._cluster.organisation(next(iter(caller.organisations)))

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
        return _has_written(trail) or _tool_refused(trail) is not None
    if operation.proxies or _has_written(trail):
        return True
    return operation.method not in _READS and operation.id not in NOT_WRITES


def _has_written(trail: Trail) -> bool:
    return trail.writes is not None and bool(trail.writes.changes or trail.writes.sent)


def _tool_refused(trail: Trail) -> _Outcome | None:
    """The refusal of an agent's tool."""
    tool = trail.writes.tool if trail.writes else None
    if tool is None or tool.status not in _TOOL_REFUSED or _has_written(trail):
        return None
    return _Outcome("refused", tool.status, tool.code)


def _outcome(operation: "Operation", trail: Trail, error: BaseException | None) -> _Outcome | None:
    """What came of it; None for what is not recorded, such as a request that cannot be read."""
    if error is None and (refused := _tool_refused(trail)) is not None:
        return refused
    if error is None:
        response = trail.reply.response if trail.reply else None
        return _Outcome("allowed", response.status if response is not None else operation.success)
    return _failure(error, wrote=_has_written(trail))


def _failure(error: BaseException, *, wrote: bool) -> _Outcome | None:
    if isinstance(error, KubeError):
        error = errors.from_kube(error)
    if isinstance(error, errors.ApiError):
        found = _Outcome("refused", error.status, error.code)
    elif isinstance(error, Exception):
        found = _Outcome("failed", _INTERNAL, "internal")
    else:
        found = _Outcome("failed", _CLIENT_GONE, "cancelled")
    if found.status >= _INTERNAL or found.name == "failed" or wrote:
        return _Outcome("failed", found.status, found.code)
    return found if found.status in _REFUSED else None


def _via(operation: "Operation", request: web.Request) -> str:
    if operation.own_protocol:
        return "agent"
    if SESSION_ENDS in request:
        return "console"
    return "page" if request.get(SESSION) else "rest"


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
