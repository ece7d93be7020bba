"""The traces of a project: what its runs did, and how long it took."""

import re
from datetime import UTC, datetime, timedelta

from tieline_api import errors
from tieline_api.auth.permissions import permission
from tieline_api.handlers.projects import PROJECT
from tieline_api.http.operation import Call, Operations, Reply
from tieline_api.page_tokens import seal, unseal
from tieline_api.schemas import traces as rest
from tieline_api.traces.origins import Origin
from tieline_api.traces.query import BadFilterError, Position, RunQuery, parse_filter
from tieline_api.traces.spans import ACTIVATION, EXCEPTION_TYPE, USER, Owner, Span
from tieline_api.views.project_lookup import require_environment, require_project
from tieline_core.identity.ids import environment_id, object_id
from tieline_core.identity.names import workload_name

_MAX_INT = 2**63 - 1
_TRACE_ID = re.compile("[0-9a-fA-F]{32}")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

OPERATIONS = Operations("Traces")


@OPERATIONS.add(
    "GET",
    f"{PROJECT}/traces/{{trace_id}}",
    id="getTrace",
    summary="Get trace",
    permissions=permission("get", "projects"),
)
async def get_trace(call: Call[None, None]) -> Reply[rest.Trace]:
    """A trace with all its spans, of all the project's environments. It appears within a second or two."""
    project = require_project(call)
    text = call.path["trace_id"]
    spans: list[Span] = []
    if _TRACE_ID.fullmatch(text):
        spans = await call.platform.traces.trace(
            call.organisation.id, object_id(project), bytes.fromhex(text)
        )
    if not spans:
        raise errors.not_found("trace", text)
    return Reply(body=rest.Trace(trace_id=text.lower(), spans=[_span(span) for span in spans]))


@OPERATIONS.add(
    "GET",
    f"{PROJECT}/traces",
    id="listProjectTraces",
    summary="List project traces",
    permissions=permission("get", "projects"),
)
async def list_traces(call: Call[rest.TracesQuery, None]) -> Reply[rest.TracePage]:
    """The runs of an environment, newest first, each with its trace."""
    query = call.query
    project = require_project(call)
    project_id = object_id(project)
    environment = require_environment(project, name=query.project_env)
    owner = Owner(
        organisation=call.organisation.id,
        project=project_id,
        environment=environment_id(project_id, environment),
    )
    metadata = project["metadata"]
    workload = workload_name(project["metadata"]["name"], environment)
    origin = Origin(owner=owner, service=f"{metadata['namespace']}/{workload}")
    try:
        terms = parse_filter(query.filter or "")
    except BadFilterError as error:
        raise errors.invalid("filter", str(error)) from None
    wanted = RunQuery(
        first=query.first,
        start=_nanoseconds(query.start) if query.start else None,
        end=_nanoseconds(query.end) if query.end else None,
        filter=terms,
        error=query.error,
        task=query.task,
        beyond=_decode(owner.environment, query.next_token) if query.next_token else None,
    )
    page = await call.platform.traces.runs(origin, wanted)
    return Reply(
        body=rest.TracePage(
            items=[_item(span) for span in page.entries],
            next_token=_encode(owner.environment, page.last) if page.last else None,
        )
    )


def _item(span: Span) -> rest.TraceItem:
    return rest.TraceItem(
        trace_id=span.trace_id.hex(),
        span_id=span.span_id.hex(),
        name=span.name,
        service_name=span.service,
        start_time=_time(span.start),
        duration=(span.end - span.start) / 1_000_000,
        status=_status(span),
        error=_error(span),
        user=rest.RunUser(external_id=user) if (user := span.attributes.get(USER)) else None,
        activation_id=span.attributes.get(ACTIVATION) or None,
        execution_id=span.execution_id or None,
    )


def _span(span: Span) -> rest.TraceSpan:
    return rest.TraceSpan(
        span_id=span.span_id.hex(),
        parent_span_id=span.parent_id.hex() or None,
        name=span.name,
        start_time=_time(span.start),
        end_time=_time(span.end),
        attributes=[rest.SpanAttribute(key=key, value=value) for key, value in span.attributes.items()],
        status=_status(span),
    )


def _status(span: Span) -> rest.SpanStatus:
    return rest.SpanStatus(code=span.status, message=span.message or None)


def _error(span: Span) -> rest.RunError | None:
    if span.status != "ERROR":
        return None
    kind = span.attributes.get(EXCEPTION_TYPE)
    return rest.RunError(type=kind, message=span.message or kind or "The run failed")


def _time(nanoseconds: int) -> str:
    seconds, rest_of_second = divmod(nanoseconds, 1_000_000_000)
    moment = (_EPOCH + timedelta(seconds=seconds)).replace(tzinfo=None)
    return f"{moment.isoformat(timespec='seconds')}.{rest_of_second:09d}Z"


def _nanoseconds(text: str) -> int:
    """The nanoseconds of a time with nine digits after the point, as far as spans may lie."""
    moment = datetime.fromisoformat(text[:26]).replace(tzinfo=UTC) - _EPOCH
    return max(-_MAX_INT, min(_MAX_INT, moment // timedelta(microseconds=1) * 1000))


def _encode(scope: str, position: Position) -> str:
    return seal("traces", scope, *position)


def _decode(scope: str, token: str) -> Position:
    refused = errors.malformed(
        "next_token is none of this list: pass the nextToken of the page before, unchanged, with the same environment"
    )
    match unseal(token, refused=refused):
        case ["traces", str(where), int(start), int(number)] if (
            where == scope and 0 <= start <= _MAX_INT and 0 <= number <= _MAX_INT
        ):
            return start, number
    raise refused
