"""What a recording has of the answers of other systems: those of the run's last attempt, in their order."""

from __future__ import annotations

from typing import Any

import pytest

from tieline_api.traces.spans import Span
from tieline_api.use_cases.run_recordings import answers_in
from tieline_protocol.recordings import MAX_ANSWERS, RecordedAnswer
from tieline_protocol.run_records import RunError, UpstreamAnswer

pytestmark = pytest.mark.fast


def span(start: int, status: str, **fields: Any) -> Span:
    content: dict[str, Any] = {
        "execution_id": "run",
        "entry": False,
        "attributes": {
            "http.request.method": "GET",
            "url.full": f"https://shop.example/{start}",
            "http.response.status_code": status,
        },
        **fields,
    }
    return Span(
        trace_id=b"", span_id=b"", parent_id=b"", name="GET", start=start, end=start + 1, status="OK", message="",
        service="", task="order", **content,
    )  # fmt: skip


def answer(start: int, status: int, body: str | None = None) -> RecordedAnswer:
    return RecordedAnswer(method="GET", url=f"https://shop.example/{start}", status=status, body=body)


def test_answers_are_those_of_the_last_attempt_and_the_last_failure_has_its_body() -> None:
    spans = [
        span(9, "503"),
        span(7, "503"),
        span(8, "200"),
        span(2, "200"),
        span(7, "200", entry=True),
        span(7, "200", execution_id="other"),
        span(7, ""),
        span(7, "x"),
        span(7, "200", attributes={}),
    ]
    error = RunError(type="E", message="m", upstream=UpstreamAnswer(status=503, body="closed"))
    expected = [answer(7, 503), answer(8, 200), answer(9, 503)]
    assert answers_in(spans, "run", since=5, error=None) == expected
    expected[2] = answer(9, 503, "closed")
    assert answers_in(spans, "run", since=5, error=error) == expected


def test_hostile_traces_have_a_bound() -> None:
    spans = [span(number, "200") for number in range(MAX_ANSWERS + 5)]
    assert len(answers_in(spans, "run", since=0, error=None)) == MAX_ANSWERS
