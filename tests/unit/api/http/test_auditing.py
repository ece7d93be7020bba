"""Which requests are recorded, as what, and what a record never has."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from aiohttp.test_utils import make_mocked_request

from tieline_api import errors
from tieline_api.audit.log import AuditLog
from tieline_api.audit.records import AuditRecord
from tieline_api.audit.refusals import MOST_OF_ADDRESS
from tieline_api.auth.authentication import Caller
from tieline_api.auth.end_users import EndUserScope
from tieline_api.cluster.organisations import NO_ORGANISATION, Organisation
from tieline_api.cluster.revisions import ObjectChange, SentRequest, ToolCall, Writes
from tieline_api.handlers import OPERATIONS
from tieline_api.http.auditing import KINDS, NOT_WRITES, Auditor, Trail
from tieline_api.http.openapi import parameters
from tieline_api.http.operation import Operation, Reply
from tieline_api.http.request_keys import OPERATION, REQUEST_ID, SESSION
from tieline_api.schemas.systems import SystemUpdate
from tieline_core.kubernetes import Conflict

OURS = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
SYSTEM = "01JD3Y7M5RZX9KQW8T2V4N6P0A"
ORGANISATION = Organisation(id=OURS, namespace="acme")
BY_ID = {one.id: one for one in OPERATIONS}
ANN = Caller(username="ann")


class Log(AuditLog):
    """Keeps records."""

    def __init__(self) -> None:
        super().__init__(Mock())
        self.records: list[AuditRecord] = []

    def add(self, record: AuditRecord) -> None:
        self.records.append(record)


class Requests:
    """Ends requests."""

    def __init__(self) -> None:
        self.log = Log()
        cluster = SimpleNamespace(organisation=lambda found: ORGANISATION if found == OURS else None)
        self.auditor = Auditor(self.log, cluster, trusted=())  # type: ignore[arg-type]

    def end(
        self,
        operation: Operation,
        trail: Trail,
        error: BaseException | None = None,
        *,
        agent: str = "",
        session: str = "",
    ) -> list[AuditRecord]:
        path = {"organisation_id": OURS, "system_id": SYSTEM}
        request = make_mocked_request(operation.method, "/", match_info=path, headers={"User-Agent": agent})
        request[REQUEST_ID], request[SESSION] = "r1", session
        self.auditor.ended(operation, request, trail, error=error)
        return self.log.records


def known(**more: Any) -> Trail:
    return Trail(caller=ANN, organisation=ORGANISATION, **more)


def written() -> Writes:
    before, after = ({"metadata": {"labels": {"tieline.dev/id": SYSTEM}}, "spec": {"name": n}} for n in "ab")
    return Writes(changes=[ObjectChange("systems", before, after)])


def test_a_write_says_who_what_and_what_came_of_it() -> None:
    body = SystemUpdate.model_validate({"name": "b"})
    trail = known(writes=written(), reply=Reply(), body=body)
    (found,) = Requests().end(BY_ID["updateSystem"], trail, agent="curl")
    assert (found.subject, found.caller, found.via, found.request) == ("ann", "user", "rest", "r1")
    assert (found.operation, found.kind, found.object) == ("updateSystem", "systems", SYSTEM)
    assert (found.outcome, found.status, found.user_agent) == (
        "allowed",
        BY_ID["updateSystem"].success,
        "curl",
    )
    assert found.fields == ["name"]
    assert found.changes[0]["fields"] == [{"name": "name", "before": "a", "after": "b"}]


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (errors.forbidden("no"), 403, "forbidden"),
        (errors.conflict("no"), 409, "conflict"),
        (errors.invalid("name", "is wrong"), 422, "validation_failed"),
        (errors.precondition_failed(), 412, errors.precondition_failed().code),
        (Conflict("changed", status=409), 409, "conflict"),
    ],
)
def test_a_refused_write_has_the_reasons_code(error: Exception, status: int, code: str) -> None:
    (found,) = Requests().end(BY_ID["updateSystem"], known(), error)
    assert (found.outcome, found.status, found.code) == ("refused", status, code)


@pytest.mark.parametrize("error", [errors.forbidden("no"), errors.malformed("no"), ValueError()])
def test_what_went_wrong_after_a_write_has_failed(error: Exception) -> None:
    (found,) = Requests().end(BY_ID["updateSystem"], known(writes=written()), error)
    assert found.outcome == "failed"
    assert found.changes


@pytest.mark.parametrize("error", [ValueError(), errors.unavailable("no"), asyncio.CancelledError()])
def test_what_may_have_been_written_has_failed(error: BaseException) -> None:
    (found,) = Requests().end(BY_ID["updateSystem"], known(writes=Writes()), error)
    assert found.outcome == "failed"


def test_what_is_not_found_or_cannot_be_read_is_not_recorded() -> None:
    requests = Requests()
    for error in (
        errors.not_found("system", SYSTEM),
        errors.malformed("no"),
        errors.too_many_requests("no", retry_after=1),
    ):
        assert not requests.end(BY_ID["updateSystem"], known(), error)


def test_reads_are_not_recorded_and_every_other_operation_is() -> None:
    for operation in OPERATIONS:
        requests = Requests()
        found = requests.end(operation, known(reply=Reply()))
        reads = operation.method in ("GET", "HEAD", "OPTIONS") and not operation.proxies
        assert bool(found) is not (reads or operation.id in NOT_WRITES), operation.id
    assert BY_ID.keys() >= NOT_WRITES


def test_what_operations_are_about_has_a_kind() -> None:
    """A new parameter of a path is one of them, or is none of an object's own id."""
    others = {
        "organisation_id", "connection_template_id", "definition_id", "entry", "external_user_id", "id", "key",
        "name", "path", "release", "trace_id", "version",
    }  # fmt: skip
    assert {name for one in OPERATIONS for name in parameters(one)} == KINDS.keys() | others


def test_requests_through_connections_are_recorded_whatever_their_method() -> None:
    sent = Writes(sent=[SentRequest("GET", "api.example", "/v1/orders")])
    (found,) = Requests().end(BY_ID["proxyGet"], known(writes=sent, reply=Reply()))
    assert found.sent == [{"method": "GET", "host": "api.example", "path": "/v1/orders"}]


def test_an_agents_message_is_recorded_if_it_sent_something() -> None:
    agent = SimpleNamespace(
        id="mcp", method="POST", path="/mcp", proxies=False, own_protocol=True, success=200,
        link_sources={}, permissions=(),
    )  # fmt: skip
    requests = Requests()
    assert not requests.end(agent, known(writes=Writes(), reply=Reply()))  # type: ignore[arg-type]
    sent = Writes(sent=[SentRequest("GET", "api.example", "/v1/orders")])
    (found,) = requests.end(agent, known(writes=sent, reply=Reply()))  # type: ignore[arg-type]
    assert found.via == "agent"


@pytest.mark.parametrize(("status", "is_recorded"), [(0, False), (403, True), (404, True), (503, False)])
def test_a_refused_tool_of_an_agent_is_recorded(status: int, is_recorded: bool) -> None:
    agent = SimpleNamespace(
        id="mcp", method="POST", path="/mcp", proxies=False, own_protocol=True, success=200,
        link_sources={}, permissions=(),
    )  # fmt: skip
    tool = ToolCall(tool="call_operation", kind="connections", object=SYSTEM, status=status, code="no")
    requests = Requests()
    found = requests.end(agent, known(writes=Writes(tool=tool), reply=Reply()))  # type: ignore[arg-type]
    assert bool(found) is is_recorded
    for one in found:
        assert (one.operation, one.kind, one.object) == ("call_operation", "connections", SYSTEM)
        assert (one.outcome, one.status, one.code, one.via) == ("refused", status, "no", "agent")


class Page:
    """A page that goes on with what an end user began."""

    def __init__(self) -> None:
        self.requests = Requests()

    def records(self, error: Exception | None = None, **known: Any) -> list[AuditRecord]:
        request = make_mocked_request("POST", "/oauth2/callback")
        request[OPERATION], request[REQUEST_ID] = "oauth2CallbackFinish", "r1"
        with (
            suppress(Exception),
            self.requests.auditor.page(request) as trail,
        ):
            trail.organisation, trail.on_behalf, trail.kind_of_caller = ORGANISATION, "user:ann", "endUser"
            for name, value in known.items():
                setattr(trail, name, value)
            if error is not None:
                raise error
        return self.requests.log.records


def test_what_a_page_wrote_says_on_whose_behalf() -> None:
    (found,) = Page().records(wrote=True, session="s1", kind="connections", object=SYSTEM)
    assert (found.subject, found.caller, found.session, found.via) == ("user:ann", "endUser", "s1", "page")
    assert (found.outcome, found.kind, found.object) == ("allowed", "connections", SYSTEM)


def test_a_page_that_wrote_nothing_leaves_no_record() -> None:
    assert not Page().records()
    assert not Page().records(errors.unauthenticated("no"), organisation=None)
    assert not Page().records(errors.too_many_requests("no", retry_after=1))


def test_who_a_page_refuses_may_be_somebody_else_and_counts_as_anonymous() -> None:
    page = Page()
    for _ in range(50):
        page.records(errors.invalid("state", "is of another browser"))
    assert len(page.requests.log.records) == MOST_OF_ADDRESS
    found = page.requests.log.records[0]
    assert (found.outcome, found.status, found.caller) == ("refused", 422, "")


def test_a_page_that_failed_after_a_write_has_failed() -> None:
    (found,) = Page().records(ValueError("no"), writes=written())
    assert (found.outcome, found.status) == ("failed", 500)


def test_an_end_users_write_about_themselves_is_their_organisations() -> None:
    scope = EndUserScope(external_id="pat", session="s1")
    pat = Caller(username="pat", kind="endUser", organisations=frozenset({OURS}), end_user=scope)
    trail = Trail(caller=pat, organisation=NO_ORGANISATION, reply=Reply())
    (found,) = Requests().end(BY_ID["endCurrentConnectSession"], trail, session="s1")
    assert (found.organisation, found.subject, found.session) == (OURS, "pat", "s1")
    ann = Trail(caller=ANN, organisation=NO_ORGANISATION, reply=Reply())
    assert not Requests().end(BY_ID["endCurrentConnectSession"], ann)


def test_anonymous_refusals_are_bounded() -> None:
    requests = Requests()
    for _ in range(50):
        requests.end(BY_ID["updateSystem"], Trail(), errors.unauthenticated("no"))
    assert len(requests.log.records) == MOST_OF_ADDRESS
    assert (requests.log.records[0].subject, requests.log.records[0].status) == ("", 401)
    assert requests.log.counts["limited"] == 50 - MOST_OF_ADDRESS


def test_a_caller_of_another_organisation_counts_as_anonymous() -> None:
    requests = Requests()
    eve = Trail(caller=Caller(username="eve", organisations=frozenset({SYSTEM})))
    for _ in range(50):
        requests.end(BY_ID["updateSystem"], eve, errors.forbidden("no"))
    assert len(requests.log.records) == MOST_OF_ADDRESS


def test_allowed_writes_are_never_limited() -> None:
    requests = Requests()
    for _ in range(500):
        requests.end(BY_ID["updateSystem"], known(writes=written(), reply=Reply()))
    assert len(requests.log.records) == 500


def test_an_error_in_the_audit_fails_no_request() -> None:
    requests = Requests()
    requests.auditor._cluster = None  # type: ignore[assignment]
    assert not requests.end(BY_ID["updateSystem"], Trail(), errors.unauthenticated("no"))
    assert requests.log.counts["dropped"] == 1
