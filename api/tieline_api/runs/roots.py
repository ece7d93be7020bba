"""Direct runs and background work, from the spans that tell them."""

from collections.abc import Mapping
from dataclasses import replace
from typing import get_args

from tieline_api.runs.model import PageRequest, Run, RunFilter
from tieline_api.traces.root_runs import RootQuery, RootRun
from tieline_api.traces.spans import (
    ACTIVATION,
    EXCEPTION_MESSAGE,
    EXCEPTION_TYPE,
    UPSTREAM_BODY,
    UPSTREAM_STATUS,
    USER,
    DirectKind,
    Span,
)
from tieline_core.identity.ids import parse_id
from tieline_protocol.run_records import RunError, UpstreamAnswer

_KINDS: Mapping[str, DirectKind] = {one: one for one in get_args(DirectKind)}


def root_query(
    wanted: RunFilter, page: PageRequest, limit: int, *, identifier: str | None = None
) -> RootQuery | None:
    """What to ask the store of traces; None where no direct run fits."""
    if wanted.kind is not None and wanted.kind not in _KINDS:
        return None
    if wanted.status not in (None, "succeeded", "failed") or wanted.versions is not None:
        return None
    if wanted.key is not None or wanted.event_id is not None or wanted.discarded or wanted.replayed:
        return None
    if wanted.search and wanted.status == "succeeded":
        return None
    query = RootQuery(
        organisation=wanted.organisation,
        environments=wanted.environments,
        limit=limit,
        older_than=page.after,
        newer_than=page.before,
        newest_first=not page.backwards,
        kind=_KINDS[wanted.kind] if wanted.kind else None,
        failed=None if wanted.status is None else wanted.status == "failed",
        task=wanted.task,
        user=wanted.user,
        start=wanted.start,
        end=wanted.end,
        search=wanted.search,
        trace_id=bytes.fromhex(wanted.trace_id) if wanted.trace_id is not None else None,
    )
    return replace(query, id=identifier) if identifier is not None else query


def run_of_root(root: RootRun) -> Run:
    """The run that a root span tells."""
    span = root.span
    failed = span.status == "ERROR"
    return Run(
        id=span.run_id,
        environment=root.environment,
        kind=root.kind,
        task=span.task or span.name,
        status="failed" if failed else "succeeded",
        attempt=1,
        queued_at=span.start,
        user=span.attributes.get(USER) or None,
        activation_id=parse_id(span.attributes.get(ACTIVATION, "")) or "",
        started_at=span.start,
        ended_at=span.end,
        error=_error(span) if failed else None,
        trace_id=span.trace_id.hex(),
        source="span",
    )


def _error(span: Span) -> RunError:
    kind = span.attributes.get(EXCEPTION_TYPE) or "Error"
    status = span.attributes.get(UPSTREAM_STATUS, "")
    upstream = None
    if status.isascii() and status.isdigit() and len(status) <= 3:
        upstream = UpstreamAnswer(status=int(status), body=span.attributes.get(UPSTREAM_BODY, ""))
    message = span.message or span.attributes.get(EXCEPTION_MESSAGE) or "The run failed"
    return RunError(type=kind, message=message, upstream=upstream)
