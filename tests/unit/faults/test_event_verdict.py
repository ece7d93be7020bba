"""The judge of events under faults notices every harm."""

from __future__ import annotations

import pytest

from tests.faults.events.verdict import Publication, Seen, judge_events


def _line(at: float, what: str, run: str, **more: object) -> dict[str, object]:
    return {"at": at, "what": what, "run": run, "number": int(run), "pid": 1, **more}


def _publication(number: int) -> Publication:
    return Publication(number, number, number + 0.5, True, str(number), "chain")


def _waited(confirmed: bool, *, patient: bool = True) -> dict[str, object]:
    return _line(7, "waited", "1", confirming="9", confirmed=confirmed, patient=patient)


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
        (Seen(PUBLICATIONS, [*LINES, _waited(False)], ENDED, frozenset()), "Not woken: event 1"),
        (
            Seen(PUBLICATIONS, [*LINES, _waited(True), _waited(False, patient=False)], ENDED, frozenset()),
            "Two outcomes: run 1",
        ),
        (
            Seen([*PUBLICATIONS, Publication(3, 3, 4, True)], LINES, ENDED, frozenset()),
            "answered as stored already",
        ),
    ],
)
def test_harm_to_events_is_noticed(seen: Seen, complaint: str) -> None:
    assert not judge_events(Seen(PUBLICATIONS, LINES, ENDED, frozenset())).complaints
    (found,) = judge_events(seen).complaints
    assert complaint in found


def test_a_wait_whose_event_is_a_dead_letter_ends_without_it() -> None:
    seen = Seen(PUBLICATIONS, [*LINES, _waited(False)], ENDED | {"9": ["dead"]}, frozenset({"9"}))
    assert not judge_events(seen).complaints
