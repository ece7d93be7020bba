"""A run that has ended as one document, with what is kept of its steps and of the answers of other systems."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from tieline_api import errors
from tieline_api.dependencies import Dependencies
from tieline_api.errors import ApiError
from tieline_api.runs.model import Run
from tieline_api.traces.spans import HTTP_METHOD, Span
from tieline_protocol.kept_results import KeptResult
from tieline_protocol.recordings import MAX_ANSWERS, RecordedAnswer
from tieline_protocol.run_records import ENDED, RunError

_URL, _STATUS = "url.full", "http.response.status_code"
_MASKED = "Secrets that the platform knows are masked by *** in the input, the results and the answers"


@dataclass
class RunContents:
    """What is kept of a run."""

    payload: str | None = None
    steps: Sequence[KeptResult] = ()
    answers: Sequence[RecordedAnswer] = ()
    notes: list[str] = field(default_factory=lambda: [_MASKED])


async def contents_of(platform: Dependencies, organisation: str, project: str, run: Run) -> RunContents:
    """What is kept of a run. Raises ApiError, 409 for one that has not ended."""
    if run.status not in ENDED:
        raise errors.conflict(f"The run is {run.status}: it can be downloaded once it has ended")
    found = RunContents()
    given = await platform.runs.input(organisation, run)
    try:
        found.payload = given.payload.decode() if given is not None else None
    except UnicodeDecodeError:
        found.notes.append("The input is no text, and is left out")
    if given is None:
        found.notes.append("The input is not kept")
    ended = await platform.runs.ended_steps(organisation, run)
    if ended is not None and ended.results is not None:
        found.steps = ended.results
    elif ended is None or ended.steps:
        found.notes.append("The results of steps are not kept")
    for one in found.steps:
        if one.missing:
            found.notes.append(f"The result of the step {one.name!r} is {_MISSING[one.missing]}")
    found.answers = await _answers(platform, organisation, project, run, found.notes)
    return found


_MISSING = {"masked": "masked", "large": "not kept, because it is large"}


async def _answers(
    platform: Dependencies, organisation: str, project: str, run: Run, notes: list[str]
) -> Sequence[RecordedAnswer]:
    try:
        trace = bytes.fromhex(run.trace_id)
        spans = await platform.traces.trace(organisation, project, trace) if trace else []
    except ApiError as error:
        notes.append(f"The trace cannot be read: {error.message}")
        return ()
    found = answers_in(spans, run.id, since=run.started_at or 0, error=run.error)
    if any(one.body is None for one in found):
        notes.append("Traces keep no bodies of answers, except of the one that failed the run")
    if not spans:
        notes.append("There is no trace, so answers of other systems are missing")
    return found


def answers_in(
    spans: Sequence[Span], run: str, *, since: int, error: RunError | None
) -> Sequence[RecordedAnswer]:
    """The answers to the requests of a run since a time (nanoseconds), in the order of the requests.

    What failed the run is the body of the last answer with that status.
    """
    sent = [
        one
        for one in sorted(spans, key=lambda one: one.start)
        if one.execution_id == run
        and not one.entry
        and one.start >= since
        and HTTP_METHOD in one.attributes
        and one.attributes.get(_STATUS, "").isdecimal()
    ][:MAX_ANSWERS]
    statuses = [int(one.attributes[_STATUS][:3]) for one in sent]
    upstream = error.upstream if error is not None else None
    failed = max(
        (at for at, status in enumerate(statuses) if upstream and status == upstream.status), default=-1
    )
    return [
        RecordedAnswer(
            method=span.attributes[HTTP_METHOD],
            url=span.attributes.get(_URL, ""),
            status=status,
            body=upstream.body if upstream is not None and at == failed else None,
        )
        for at, (span, status) in enumerate(zip(sent, statuses, strict=True))
    ]
