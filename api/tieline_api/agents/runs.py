"""Calls of operations as runs with a trace, which the API stores, in an environment that uses the connection."""

import logging
import secrets
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import orjson

from tieline_api import errors
from tieline_api.agents.reach import OpenConnection
from tieline_api.cluster.indexes import environment_names
from tieline_api.http.operation import AnyCall
from tieline_api.traces import spans
from tieline_api.traces.origins import Origin
from tieline_api.traces.otlp_batch import JSON
from tieline_core.identity.ids import environment_id, new_id, object_id
from tieline_core.identity.names import workload_name
from tieline_core.objects import ObjectView
from tieline_core.resources.objects import (
    ActivationObject,
    ConnectionObject,
    ConnectionTemplateObject,
    ProjectObject,
)
from tieline_protocol.event_streams import EventStreams
from tieline_protocol.run_records import RunError, RunRecord, UpstreamAnswer

logger = logging.getLogger(__name__)

_NANOSECONDS = 1e9
_CLIENT, _OK, _ERROR = 3, 1, 2
"""OTLP's numbers: the kind of a span that asks another system, and codes of its status."""


@dataclass(frozen=True, kw_only=True)
class Home:
    """The environment that a call is a run of."""

    project: ProjectObject
    environment: str
    activation: ActivationObject | None = None
    """The activation that has the connection, where one has."""

    @property
    def id(self) -> str:
        """The environment's id."""
        return environment_id(object_id(self.project), self.environment)


@dataclass(kw_only=True)
class CallRun:
    """A call under way, and what came of it."""

    home: Home
    attributes: dict[str, str]
    id: str = field(default_factory=new_id)
    trace_id: str = field(default_factory=lambda: secrets.token_hex(spans.TRACE_ID_BYTES))
    start: int = field(default_factory=time.time_ns)
    end: int = 0
    problem: str = ""
    """Why it failed; empty where it did not."""
    system: str = ""
    """The name of the system that answered."""

    def answered(self, status: int, system: str) -> None:
        """Notes the system's answer: its status, and nothing of what it says."""
        self.system = system
        self.attributes["http.response.status_code"] = str(status)
        if status >= 400:
            self.attributes[spans.UPSTREAM_STATUS] = str(status)
            self.failed("UpstreamError", f"{system} answered {status}")

    def failed(self, kind: str, message: str) -> None:
        """Notes that it failed."""
        self.problem = message
        self.attributes[spans.EXCEPTION_TYPE] = kind

    def record(self) -> RunRecord:
        """As a record of the run history."""
        attributes, began, ended = self.attributes, self.start / _NANOSECONDS, self.end / _NANOSECONDS
        error = None
        if self.problem:
            status = attributes.get(spans.UPSTREAM_STATUS)
            upstream = UpstreamAnswer(status=int(status), body="", system=self.system) if status else None
            error = RunError(
                type=attributes.get(spans.EXCEPTION_TYPE, "Error"), message=self.problem, upstream=upstream
            )
        return RunRecord(
            id=self.id,
            kind="call",
            task=attributes[spans.TASK],
            status="failed" if error else "succeeded",
            attempt=1,
            attempts=1,
            user=attributes.get(spans.USER),
            activation_id=attributes.get(spans.ACTIVATION, ""),
            error=error,
            trace_id=self.trace_id,
            queued_at=began,
            at=ended,
            started_at=began,
            ended_at=ended,
        )

    def exported(self) -> bytes:
        """Its span as a request of OTLP, in JSON."""
        status = {"code": _ERROR, "message": self.problem} if self.problem else {"code": _OK}
        attributes = {spans.EXECUTION_ID: self.id, spans.RUN_KIND: spans.CALL, **self.attributes}
        span = {
            "traceId": self.trace_id,
            "spanId": secrets.token_hex(spans.SPAN_ID_BYTES),
            "name": self.attributes[spans.TASK],
            "kind": _CLIENT,
            "startTimeUnixNano": str(self.start),
            "endTimeUnixNano": str(self.end),
            "attributes": _pairs(attributes),
            "status": status,
        }
        resource = {"attributes": _pairs({spans.SERVICE_NAME: self.home.project["spec"]["name"]})}
        scope = {"scope": {"name": "tieline.agents"}, "spans": [span]}
        return orjson.dumps({"resourceSpans": [{"resource": resource, "scopeSpans": [scope]}]})


@asynccontextmanager
async def recorded(call: AnyCall, connection: OpenConnection, action: ObjectView) -> AsyncIterator[CallRun]:
    """A run for what happens within, stored when it ends, however it ends. ApiError 409 as ``require_home``."""
    home = require_home(call, connection)
    run = CallRun(home=home, attributes=_attributes(call, connection, action, home))
    try:
        yield run
    except errors.ApiError as error:
        run.failed(error.code, error.message)
        raise
    except BaseException as error:
        run.failed(type(error).__name__, "The call was ended before there was an answer")
        raise
    finally:
        run.end = max(run.start, time.time_ns())
        call.platform.direct_runs.called(EventStreams(call.organisation.id, home.id), run.record())
        await _export(call, run)


async def _export(call: AnyCall, run: CallRun) -> None:
    home = run.home
    owner = spans.Owner(
        organisation=call.organisation.id, project=object_id(home.project), environment=home.id
    )
    workload = workload_name(home.project["metadata"]["name"], home.environment)
    origin = Origin(owner=owner, service=f"{call.namespace}/{workload}")
    if await call.platform.traces.take(origin, JSON, run.exported()) is None:
        logger.warning(
            "The trace of an agent's call was not stored: too many spans wait", extra={"run": run.id}
        )


def require_home(call: AnyCall, connection: OpenConnection) -> Home:
    """The environment that uses a connection: that of the oldest activation which has it, or else of a template.

    ApiError 409 where none does: nobody could find the call again.
    """
    found = next(_homes(call, connection.obj), None)
    if found is None:
        raise errors.conflict(
            "No environment uses the connection, so the call would be no run: link it to a connection template first"
        )
    return found


def _homes(call: AnyCall, connection: ConnectionObject) -> Iterator[Home]:
    cluster, namespace, name = call.platform.cluster, call.namespace, connection["metadata"]["name"]
    for activation in cluster.referring(cluster.activations, "connection", namespace, name):
        if call.reach is None or call.reach.has_activation(activation):
            yield from _home(call, activation, activation)
    templates = cluster.referring(cluster.templates, "connection", namespace, name)
    made_for = cluster.referred(cluster.templates, connection, "connectionTemplateRef")
    for template in (*templates, *([made_for] if made_for else ())):
        if call.reach is None or call.reach.has_template(template):
            yield from _home(call, template, None)


def _home(
    call: AnyCall, obj: ActivationObject | ConnectionTemplateObject, activation: ActivationObject | None
) -> Iterator[Home]:
    """The environment that an activation or a template is in, where it is there."""
    cluster, name = call.platform.cluster, obj["spec"]["environment"]
    project = cluster.referred(cluster.projects, obj, "projectRef")
    if project is not None and name in environment_names(project):
        yield Home(project=project, environment=name, activation=activation)


def _attributes(call: AnyCall, connection: OpenConnection, action: ObjectView, home: Home) -> dict[str, str]:
    """What the run's span says: who called what through which connection, and nothing that was given."""
    cluster, caller = call.platform.cluster, call.caller
    user = cluster.referred(cluster.users, connection.obj, "endUserRef")
    session = caller.end_user.session if caller.end_user else ""
    found = {
        spans.TASK: action["name"],
        "caller": caller.username,
        "session": session,
        "connection": connection.id,
        "operation": action["name"],
        spans.HTTP_METHOD: action["method"].upper(),
        "http.route": action["path"],
        spans.USER: user["spec"]["externalId"] if user else "",
        spans.ACTIVATION: object_id(home.activation) if home.activation else "",
    }
    return {name: value for name, value in found.items() if value}


def _pairs(attributes: dict[str, str]) -> list[dict[str, Any]]:
    return [{"key": key, "value": {"stringValue": value}} for key, value in attributes.items()]
