"""What the command writes: nothing of what it shows can act on the terminal, and times are told as people say them."""

from __future__ import annotations

from datetime import UTC, datetime

import orjson
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tieline.cli.terminal import Output, age, duration, safe, show
from tieline.cli.waterfall import waterfall

NOW = datetime(2026, 11, 25, 12, tzinfo=UTC)
ATTACK = "\x1b]0;owned\x07\x1b[2J\u202egpj.exe\x9b31m"


@given(st.text())
def test_no_text_can_control_the_terminal(text: str) -> None:
    shown = safe(text)
    assert not any(ord(character) < 32 and character not in "\t\n" for character in shown)
    assert not any(0x7F <= ord(character) < 0xA0 for character in shown)
    assert "\u202e" not in shown


def test_usual_text_stays_as_it_is() -> None:
    assert safe("Ä order\tof 7 € – 注文\n") == "Ä order\tof 7 € – 注文\n"


@pytest.mark.parametrize(
    ("time", "text"),
    [
        ("2026-11-25T11:59:30Z", "30s"),
        ("2026-11-25T11:58:30Z", "1m"),
        ("2026-11-25T10:30:00Z", "90m"),
        ("2026-11-25T07:00:00Z", "5h"),
        ("2026-11-20T12:00:00Z", "5d"),
        ("2026-11-25T12:10:00Z", "in 10m"),
        ("no time", "no time"),
        (None, ""),
    ],
)
def test_times_are_told_by_how_long_ago_they_were(time: str | None, text: str) -> None:
    assert age(time, now=NOW) == text


def test_short_durations_are_in_milliseconds() -> None:
    assert duration("2026-11-25T12:00:00.000Z", "2026-11-25T12:00:00.250Z") == "250ms"
    assert duration("2026-11-25T12:00:00Z", "2026-11-25T12:00:02.5Z") == "2.5s"
    assert duration("2026-11-25T12:00:00Z", None) == ""


def test_a_table_shows_hostile_cells_as_text(capsys: pytest.CaptureFixture[str]) -> None:
    show(Output.TABLE, [], ("name",), lambda: [(ATTACK,), ("[red]markup[/red]",)])
    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    assert "\\x1b]0;owned" in shown
    assert "[red]markup[/red]" in shown


def test_a_pipe_gets_lines_that_are_not_cut(capsys: pytest.CaptureFixture[str]) -> None:
    show(Output.TABLE, [], ("name", "error"), lambda: [("a", "x" * 250)])
    assert "x" * 250 in capsys.readouterr().out


@pytest.mark.parametrize("output", [Output.JSON, Output.YAML])
def test_programs_get_the_value_as_the_api_has_it(output: Output, capsys: pytest.CaptureFixture[str]) -> None:
    value = [{"name": ATTACK, "count": 3}]
    show(output, value, ("name",), lambda: [(ATTACK,)])
    text = capsys.readouterr().out
    assert (orjson.loads(text) if output is Output.JSON else yaml.safe_load(text)) == value
    assert "\x1b" not in text


def span(identifier: str, parent: str | None, start: str, end: str, **more: object) -> dict[str, object]:
    return {
        "spanId": identifier,
        "parentSpanId": parent,
        "name": f"span {identifier}",
        "startTime": f"2026-11-25T12:00:{start}Z",
        "endTime": f"2026-11-25T12:00:{end}Z",
        "attributes": [],
        "status": {"code": "OK"},
        **more,
    }


def test_a_trace_is_a_waterfall_with_children_below_their_parents() -> None:
    failed = {"status": {"code": "ERROR", "message": "503 Stocktaking\nmore"}}
    spans = [
        span("a", "elsewhere", "00", "10"),
        span("c", "b", "06", "08", **failed),
        span("b", "a", "05", "10"),
    ]
    lines = [line.plain for line in waterfall(spans)]
    assert [line.split("  ")[0].strip() or line.strip().split("  ")[0] for line in lines] == [
        "span a",
        "span b",
        "span c",
    ]
    assert lines[0].count("█") == 40
    assert 18 <= lines[1].count("█") <= 21
    assert lines[2].endswith("503 Stocktaking")


def test_spans_that_are_their_own_ancestors_are_shown_once() -> None:
    spans = [span("a", "b", "00", "01"), span("b", "a", "00", "01")]
    assert [line.plain.split()[1] for line in waterfall(spans)] == ["a", "b"]
    assert waterfall([]) == []
