"""Pods and engine killed, paused and cut off at random: what was accepted ends, in order, and no step is repeated."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.events.__main__ import faulty_events
from tests.faults.events.verdict import Publication, Seen, judge_events


async def test_what_was_accepted_ends_in_order_and_no_recorded_step_is_repeated(tmp_path: Path) -> None:
    verdict, stage = await faulty_events(tmp_path, seed=4, events=250, pause=1.2, rate=12)
    print(dict(stage.faults), verdict.counts)
    assert not verdict.complaints, "\n".join([*verdict.complaints, f"see {tmp_path}"])
    assert verdict.counts["asked"] == 250


def _line(at: float, what: str, run: str, **told: object) -> dict[str, object]:
    return {"at": at, "what": what, "run": run, "number": int(run), "pid": 1, **told}


def _publication(number: int) -> Publication:
    return Publication(number, number, number + 0.5, True, str(number), "chain")


PUBLICATIONS = [_publication(1), _publication(2)]
LINES = [
    _line(1, "begun", "1"),
    _line(2, "effect", "1", step="1/book"),
    _line(3, "recorded", "1", step="1/book"),
    _line(4, "done", "1"),
    _line(5, "begun", "2"),
    _line(6, "done", "2"),
]
ENDED = {"1": ["succeeded"], "2": ["succeeded"]}


@pytest.mark.parametrize(
    ("seen", "complaint"),
    [
        (Seen(PUBLICATIONS, LINES, {"1": ["succeeded"]}, frozenset()), "has no end in the history"),
        (Seen(PUBLICATIONS, LINES[:-1], ENDED, frozenset()), "was not done"),
        (Seen(PUBLICATIONS, LINES, ENDED | {"2": ["dead"]}, frozenset()), "has no dead letter"),
        (Seen(PUBLICATIONS, [*LINES[4:], *LINES[:4]], ENDED, frozenset()), "Out of order"),
        (
            Seen(PUBLICATIONS, [*LINES, _line(7, "effect", "1", step="1/book")], ENDED, frozenset()),
            "Repeated",
        ),
        (Seen(PUBLICATIONS, LINES, ENDED, frozenset(), {"key": 1}), "Left: 1 messages of key"),
        (
            Seen([*PUBLICATIONS, Publication(3, 3, 4, True)], LINES, ENDED, frozenset()),
            "answered as stored already",
        ),
    ],
)
def test_harm_is_noticed(seen: Seen, complaint: str) -> None:
    assert not judge_events(Seen(PUBLICATIONS, LINES, ENDED, frozenset())).complaints
    (found,) = judge_events(seen).complaints
    assert complaint in found
