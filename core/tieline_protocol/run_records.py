"""The run history as pods write it: one message has the records of several runs.

A record says what a run is at a moment. Of two records of a run the later one is that with the higher ``rank``.
Records may come twice, and in another order than they were written in.
"""

import base64
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, is_dataclass
from typing import Any, Literal, Self, get_args

import orjson

from tieline_protocol.approvals import ApprovalState
from tieline_protocol.event_streams import MAX_HISTORY_BYTES
from tieline_protocol.events import RunKind, WebhookRequest
from tieline_protocol.run_progress import Progress, valid_progress
from tieline_protocol.run_tags import valid_tags

RunStatus = Literal["queued", "running", "waiting", "succeeded", "failed", "dead", "cancelled"]
ENDED: frozenset[RunStatus] = frozenset(("succeeded", "failed", "dead", "cancelled"))
WaitsFor = Literal["delay", "debounce", "throttle", "batch", "retry", "sleep", "event", "approval", "child"]
_WAITS_FOR: frozenset[WaitsFor] = frozenset(get_args(WaitsFor))
_PHASES: dict[RunStatus, int] = {
    "queued": 0, "running": 1, "waiting": 2, "succeeded": 3, "failed": 3, "dead": 3, "cancelled": 3,
}  # fmt: skip
ENDED_PHASE = 3
"""The phase of a run that has ended, or a later one."""


MAX_DIRECT_INPUT = 1024 * 1024
"""Bytes of a direct run's input. Longer ones are left out."""
MAX_VALUES = 250_000
"""Of a message, counted by separators: far more than pods write, and a quarter of a second to read."""
_FAST = 1
_BYTES = ("input", "step_results")
"""Fields that are in base64."""


class InvalidRecordsError(ValueError):
    """The message has no records of runs."""


class TooManyValuesError(InvalidRecordsError):
    """The message is refused unread: it would cost much time and memory to read."""

    def __init__(self) -> None:
        super().__init__("A message has too many values for records of runs")


@dataclass(frozen=True, kw_only=True)
class UpstreamAnswer:
    """What an external system answered: its status, and the masked beginning of the body."""

    status: int
    body: str
    system: str = ""
    """The name of the system; of the connection template where no system is known."""


@dataclass(frozen=True, kw_only=True)
class RunError:
    """Why an attempt failed, with secrets masked."""

    type: str
    message: str
    upstream: UpstreamAnswer | None = None


POD_DIED = RunError(type="PodDiedError", message="The pod ended in the middle of this attempt")
"""Why an attempt failed of which nothing more is known."""


@dataclass(frozen=True, kw_only=True)
class StepApproval:
    """What came of an approval that a step asked for, so far."""

    id: str
    state: ApprovalState
    by: str = ""
    """Who answered."""
    at: float | None = None
    """When."""
    comment: str = ""
    """Why."""


@dataclass(frozen=True, kw_only=True)
class StepRecord:
    """A step that an attempt did or found done."""

    name: str
    occurrence: int
    started_at: float
    ended_at: float
    recorded: bool = False
    """Whether an earlier attempt had done it."""
    error: str | None = None
    approval: StepApproval | None = None
    child: str | None = None
    """The run that it started and waited for."""

    def to_dict(self) -> dict[str, Any]:
        """For JSON, without what the step does not have."""
        return {name: value for name, value in vars(self).items() if value is not None and value is not False}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Self:
        """From JSON. Raises TypeError and AttributeError for something else."""
        approval = content.get("approval")
        return cls(**{**content, "approval": StepApproval(**approval) if approval else None})


@dataclass(frozen=True, kw_only=True)
class RunFacts:
    """What a run is, apart from its times."""

    id: str
    kind: RunKind
    task: str
    status: RunStatus
    attempt: int
    """The attempt that is under way or was the last; 0 before the first."""
    attempts: int | None = None
    """How many attempts there are at most."""
    user: str | None = None
    """External id."""
    activation_id: str = ""
    version: str = ""
    """Name of the ProjectVersion whose code ran."""
    key: str | None = None
    shared_key: bool = False
    """Whether the key is one with other tasks and users."""
    event_id: str | None = None
    batch: bool = False
    """Whether it is the run of a batch of events."""
    error: RunError | None = None
    """Why the attempt failed."""
    trace_id: str = ""
    replay_of: str | None = None
    parent: str | None = None
    """The run that waits for this one."""
    tags: Mapping[str, str] = field(default_factory=dict)
    """Values by their names. Those of a run are the union of its records', the latest value of a name."""
    progress: Progress | None = None
    """How far the run is; the latest one counts, and stays until a later attempt says something else."""
    waits_for: WaitsFor | None = None
    """Of a run that waits for a time, and maybe for something else before it."""


@dataclass(frozen=True, kw_only=True)
class RunRecord(RunFacts):
    """A run at a moment. Times are seconds since 1970."""

    queued_at: float
    at: float
    """When it was so."""
    started_at: float | None = None
    """When the attempt began."""
    ended_at: float | None = None
    """When the attempt ended."""
    next_attempt_at: float | None = None
    discarded_at: float | None = None
    """When the dead letter of a dead run was discarded."""
    steps: Sequence[StepRecord] = field(default_factory=tuple)
    input: bytes | None = None
    """The payload; records of ended runs have it where it is kept."""
    request: WebhookRequest | None = None
    """Of a webhook, beside its body, which is the input."""
    result: str | None = None
    """What the code of a child returned, as JSON. Only the mark of a run's end has it, never the history."""
    step_results: bytes | None = None
    """What ``kept_results.packed`` made of the results of the last attempt's steps; records with an input may have
    it."""

    @property
    def rank(self) -> tuple[int, int, int]:
        """Orders records of one run: 1 for one that has ended, the attempt, and the phase.

        A run that has ended is over, also where a pod that does not know that has begun a later attempt. What was
        discarded stays so, whatever the clocks of who says that it is dead.
        """
        phase = _PHASES[self.status]
        discarded = self.discarded_at is not None
        return (int(phase >= ENDED_PHASE), self.attempt, phase + 1 if discarded else phase)


def encode(records: Sequence[RunRecord]) -> bytes:
    """The message's content."""
    content = [_to_dict(record) for record in records]
    try:
        return orjson.dumps(content)
    except TypeError:
        # A header or an error of code may have halves of characters.
        return orjson.dumps(_readable(content))


def packed(records: Sequence[RunRecord]) -> bytes:
    """The message's content, compressed, as the stream of direct runs has it."""
    return zlib.compress(encode(records), _FAST)


def unpacked(content: bytes) -> bytes:
    """What ``packed`` compressed, for ``decode``. Raises InvalidRecordsError."""
    decompressor = zlib.decompressobj()
    try:
        found = decompressor.decompress(content, MAX_HISTORY_BYTES)
    except zlib.error:
        raise InvalidRecordsError("A message is not compressed as records of runs are") from None
    if not decompressor.eof:
        raise InvalidRecordsError("A message is cut off, or too long for records of runs")
    return found


def is_readable(content: bytes) -> bool:
    """Whether readers take a message of so many values."""
    return sum(content.count(one) for one in (b",", b"[", b"{")) <= MAX_VALUES


def decode(content: bytes) -> list[RunRecord]:
    """The records of a message. Raises InvalidRecordsError."""
    if not is_readable(content):
        raise TooManyValuesError
    try:
        return [_from_dict(one) for one in orjson.loads(content)]
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
        raise InvalidRecordsError(f"A message has no records of runs: {type(error).__name__}") from None


def _readable(value: Any) -> Any:
    """The value with each half of a character replaced."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, Mapping):
        return {_readable(name): _readable(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_readable(one) for one in value]
    return _readable(asdict(value)) if is_dataclass(value) and not isinstance(value, type) else value


def _to_dict(record: RunRecord) -> dict[str, Any]:
    content = {
        name: value
        for name, value in vars(record).items()
        if value is not None and value is not False and value != ""
    }
    for name in _BYTES:
        if (value := content.get(name)) is not None:
            content[name] = base64.b64encode(value).decode()
    content["steps"] = [step.to_dict() for step in record.steps]
    if not record.tags:
        content.pop("tags", None)
    return content


def _from_dict(content: dict[str, Any]) -> RunRecord:
    known = {name: value for name, value in content.items() if name in RunRecord.__dataclass_fields__}
    if known["status"] not in _PHASES:
        raise ValueError("unknown status")
    # What orders records of a run, and tells runs apart: readers compare these.
    if not isinstance(known["id"], str) or type(known["attempt"]) is not int:
        raise TypeError("no run")
    if error := known.get("error"):
        upstream = error.get("upstream")
        known["error"] = RunError(
            type=error["type"],
            message=error["message"],
            upstream=UpstreamAnswer(**upstream) if upstream else None,
        )
    known["steps"] = tuple(StepRecord.from_dict(step) for step in known.get("steps", ()))
    if tags := known.pop("tags", None):
        known["tags"] = valid_tags(tags)
    known["progress"] = valid_progress(known.get("progress"))
    if known.get("waits_for") not in _WAITS_FOR:
        known["waits_for"] = None
    if request := known.get("request"):
        known["request"] = WebhookRequest.from_dict(request)
    for name in _BYTES:
        if (text := known.get(name)) is not None:
            known[name] = base64.b64decode(text)
    return RunRecord(**known)
