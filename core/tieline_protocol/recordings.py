"""A run that has ended as one file, which REST writes and ``tieline run --replay`` reads. It comes from outside."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar, get_args

from tieline_protocol.event_streams import hashed
from tieline_protocol.events import HEADER, EventMetadata, InvalidEventError
from tieline_protocol.kept_results import MAX_RESULTS, MAX_RESULTS_BYTES, KeptOutcome, KeptResult, Missing

T = TypeVar("T")

FORMAT = 1
MAX_RECORDING_BYTES = 16 * 1024 * 1024
MAX_ANSWERS = 1000
_MAX_TEXT = 512
_MAX_URL = 8192
_MAX_BODY = 1024 * 1024
_MAX_NUMBER = 1_000_000
_MISSING: Mapping[str, Missing] = {one: one for one in get_args(Missing)}
_FIRST_STATUS, _LAST_STATUS = 200, 599


class InvalidRecordingError(ValueError):
    """The file is no recording of a run; the message says where."""


@dataclass(frozen=True, kw_only=True)
class RecordedAnswer:
    """What another system answered to a request."""

    method: str
    url: str
    """Without what the query says."""
    status: int
    body: str | None = None
    """None where it was not kept."""
    content_type: str = "application/json"


@dataclass(frozen=True, kw_only=True)
class Recording:
    """What ``tieline run --replay`` needs of a run."""

    metadata: EventMetadata
    payload: str
    """JSON."""
    version: str
    steps: Sequence[KeptResult]
    answers: Sequence[RecordedAnswer]

    @classmethod
    def parse(cls, content: bytes) -> "Recording":
        """From a file's content. Raises InvalidRecordingError."""
        if len(content) > MAX_RECORDING_BYTES:
            raise InvalidRecordingError(f"the file has more than {MAX_RECORDING_BYTES:,} bytes")
        try:
            document = json.loads(content)
        except (ValueError, RecursionError):
            raise InvalidRecordingError("the file is not JSON") from None
        body = _object(document, "the file")
        if body.get("format") != FORMAT:
            raise InvalidRecordingError(f"format is not {FORMAT}: `tieline runs download` writes such a file")
        if body.get("kind") != "event":
            raise InvalidRecordingError("kind is not event: only runs of events can be replayed on a machine")
        payload = body.get("payload")
        if not isinstance(payload, str):
            raise InvalidRecordingError(
                "payload is missing: the platform does not keep the run's input any more"
            )
        version = _object(body.get("version") or {}, "version")
        return cls(
            metadata=_metadata(body),
            payload=payload,
            version=_text(version, "name", "version."),
            steps=_list(body, "steps", MAX_RESULTS, _step),
            answers=_list(body, "answers", MAX_ANSWERS, _answer),
        )


def _metadata(body: Mapping[str, Any]) -> EventMetadata:
    run, task = _text(body, "id"), _text(body, "task")
    if not run or not task:
        raise InvalidRecordingError("id or task is missing")
    try:
        queued_at = datetime.fromisoformat(_text(body, "queuedAt")).timestamp()
    except (ValueError, OverflowError):
        raise InvalidRecordingError("queuedAt is no time") from None
    return EventMetadata(
        run=run,
        kind="event",
        task=task,
        queued_at=queued_at,
        attempt=_number(body, "attempt", 1, _MAX_NUMBER),
        user=_text(body, "user") or None,
        key=_text(body, "key") or None,
        event_id=_text(body, "eventId") or None,
        replay_of=_text(body, "replayOf") or None,
        has_steps=True,
    )


def _step(content: Mapping[str, Any], at: str) -> KeptResult:
    result = content.get("result", "")
    if not isinstance(result, str) or len(result) > MAX_RESULTS_BYTES:
        raise InvalidRecordingError(f"{at}result is no JSON text of at most {MAX_RESULTS_BYTES:,} characters")
    missing = _MISSING.get(_text(content, "missing", at))
    if missing is None:
        raise InvalidRecordingError(f"{at}missing is not masked or large")
    if missing != "large":
        _require_json(result, f"{at}result")
    name = _text(content, "name", at)
    name_hash = _text(content, "nameHash", at) or hashed(name)
    given = content.get("outcome")
    return KeptResult(
        name=name,
        name_hash=name_hash,
        occurrence=_number(content, "occurrence", 1, _MAX_NUMBER, at),
        place=_number(content, "place", 0, _MAX_NUMBER, at),
        work=_text(content, "work", at),
        version=_text(content, "version", at),
        run=_text(content, "run", at),
        result=result,
        missing=missing,
        outcome=None if given is None else _outcome(_object(given, f"{at}outcome"), f"{at}outcome."),
    )


def _outcome(content: Mapping[str, Any], at: str) -> KeptOutcome:
    event, payload = content.get("event"), content.get("payload") or ""
    if not isinstance(payload, str) or len(payload) > MAX_RESULTS_BYTES:
        raise InvalidRecordingError(f"{at}payload is no text of at most {MAX_RESULTS_BYTES:,} characters")
    if event is not None:
        try:
            EventMetadata.parse({HEADER: event})
        except InvalidEventError:
            raise InvalidRecordingError(f"{at}event is no event") from None
        _require_json(payload, f"{at}payload")
    return KeptOutcome(wait=_text(content, "wait", at), event=event, payload=payload)


def _answer(content: Mapping[str, Any], at: str) -> RecordedAnswer:
    body, url = content.get("body"), content.get("url")
    if body is not None and (not isinstance(body, str) or len(body) > _MAX_BODY):
        raise InvalidRecordingError(f"{at}body is no text of at most {_MAX_BODY:,} characters")
    if not isinstance(url, str) or len(url) > _MAX_URL:
        raise InvalidRecordingError(f"{at}url is no text of at most {_MAX_URL:,} characters")
    content_type = _text(content, "contentType", at) or "application/json"
    if not content_type.isascii() or not content_type.isprintable():
        raise InvalidRecordingError(f"{at}contentType is no media type")
    return RecordedAnswer(
        method=_text(content, "method", at).upper(),
        url=url,
        status=_number(content, "status", _FIRST_STATUS, _LAST_STATUS, at),
        body=body,
        content_type=content_type,
    )


def _require_json(text: str, at: str) -> None:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        raise InvalidRecordingError(f"{at} is not JSON") from None


def _object(value: Any, at: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise InvalidRecordingError(f"{at} is no object")
    return value


def _list(
    body: Mapping[str, Any], name: str, most: int, read: Callable[[Mapping[str, Any], str], T]
) -> Sequence[T]:
    found = body.get(name, [])
    if not isinstance(found, list) or len(found) > most:
        raise InvalidRecordingError(f"{name} is no list of at most {most:,}")
    return [read(_object(one, f"{name}[{number}]"), f"{name}[{number}].") for number, one in enumerate(found)]


def _text(content: Mapping[str, Any], name: str, at: str = "") -> str:
    found = content.get(name)
    if found is None:
        return ""
    if not isinstance(found, str) or len(found) > _MAX_TEXT:
        raise InvalidRecordingError(f"{at}{name} is no text of at most {_MAX_TEXT} characters")
    return found


def _number(content: Mapping[str, Any], name: str, least: int, most: int, at: str = "") -> int:
    found = content.get(name)
    if type(found) is not int or not least <= found <= most:
        raise InvalidRecordingError(f"{at}{name} is no number from {least} to {most:,}")
    return found
