"""How inputs and times are shown, and where the router leads."""

from __future__ import annotations

import base64
import json
from typing import Any

import orjson
import pytest

from tieline_api.app import _routed
from tieline_api.conversion.runs import MAX_INLINE, input_to_rest, time_to_rest
from tieline_api.errors import ApiError
from tieline_api.handlers import OPERATIONS
from tieline_api.handlers.runs import run_detail
from tieline_api.http.request_body import validate
from tieline_api.runs.history import RunInput
from tieline_api.runs.model import AttemptPage
from tieline_api.schemas.events import EventCreate
from tieline_api.schemas.runs import Run, RunDetail
from tieline_core.identity.ids import new_id

DEEP = b"[" * 500 + b"]" * 500


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        (b'{"a": [1, "\xc3\xa4"]}', {}),
        (b'{"a": 123456789012345678901234567890, "b": 1.10}', {}),
        (b"0", {}),
        (b"false", {}),
        (b"null", {"input_base64": "bnVsbA==", "input_content_type": "application/json"}),
        (b"\xff", {"input_base64": "/w==", "input_content_type": "application/octet-stream"}),
        (b"", {"input_base64": "", "input_content_type": "application/octet-stream"}),
        (
            DEEP,
            {
                "input_base64": base64.b64encode(DEEP).decode(),
                "input_content_type": "application/octet-stream",
            },
        ),
    ],
    ids=["object", "numbers", "number", "false", "null", "binary", "empty", "deep"],
)
def test_an_input_is_shown_as_json_where_it_is_json(payload: bytes, expected: dict[str, Any]) -> None:
    text, fields = input_to_rest(payload, None)
    assert (text, fields) == (None if expected else payload, expected)
    run = Run(
        id=new_id(), kind="event", task="t", status="queued", environment_id=new_id(), attempt=0,
        queued_at=time_to_rest(0), tags=[],
    )  # fmt: skip
    shown = run_detail(run, AttemptPage([]), {}, RunInput(payload, None), can_replay=True)
    assert {"input", "inputBase64"} & json.loads(shown).keys()
    assert text is None or b'"input":%b}' % text in shown
    RunDetail.model_validate_json(shown)


def test_a_large_input_is_cut_whatever_it_is() -> None:
    payload = orjson.dumps("x" * MAX_INLINE)
    _, fields = input_to_rest(payload, "application/json")
    assert base64.b64decode(fields["input_base64"]) == payload[:MAX_INLINE]
    assert (fields["input_content_type"], fields["input_truncated"]) == ("application/json", True)
    text = payload[: MAX_INLINE - 1] + b'"'
    assert input_to_rest(text, None) == (text, {})


def test_times_are_rfc_3339_to_the_microsecond() -> None:
    assert time_to_rest(1_763_719_200_123_456_789) == "2025-11-21T10:00:00.123456Z"
    assert time_to_rest(0) == "1970-01-01T00:00:00.000000Z"


def test_the_router_takes_no_word_of_another_path_for_an_id() -> None:
    routed = {
        operation.path: _routed(operation, OPERATIONS) for operation in OPERATIONS if not operation.tail
    }
    changed = {path for path, found in routed.items() if found != path}
    project = "/api/v2/o/{organisation_id}/projects/{project_id}"
    assert changed == {
        project,
        f"{project}/runs/{{run_id}}",
        f"{project}/environments/{{environment_id}}",
        "/api/v2/o/{organisation_id}/connectors/{connector_id}",
    }


@pytest.mark.parametrize(
    ("changed", "field", "says"),
    [
        ({"task": "a b"}, "task", "letters, digits, '-', '_' and '.', at most 100"),
        ({"task": "x" * 101}, "task", "at most 100"),
        ({"task": "a\n"}, "task", "letters, digits"),
        ({"delay": 366 * 86400 + 1}, "delay", "at most a year"),
        ({"delay": -1}, "delay", "0 or more"),
    ],
    ids=str,
)
def test_an_event_that_makes_no_sense_is_told_so_in_words(
    changed: dict[str, Any], field: str, says: str
) -> None:
    validate(EventCreate, {"task": "order.created", "payload": 1, "delay": 366 * 86400})
    with pytest.raises(ApiError) as refused:
        validate(EventCreate, {"task": "t", "payload": 1, **changed})
    (found,) = refused.value.fields
    assert found.field == field
    assert says in found.message
    assert "[A-Z" not in found.message
