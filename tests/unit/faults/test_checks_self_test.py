"""The self-test of the faults breaks the order of events by itself, and says when it cannot."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.faults.checks_self_test import _swapped_events
from tests.faults.event_traffic import EventWorker
from tests.faults.events.verdict import EventVerdict, Publication, Seen, judge_events
from tests.faults.history import History

pytestmark = pytest.mark.fast


class _Events:
    """A project that runs each event at once, or one that accepts none."""

    def __init__(self, *, deployed: bool) -> None:
        self.deployed = deployed
        self.publications: list[Publication] = []
        self.lines: list[dict[str, Any]] = []

    def publish(self, task: str, delay: float | None = None, *, chain: str | None = None) -> str | None:
        number = len(self.publications)
        run = f"run-{number}" if self.deployed else None
        self.publications.append(Publication(number, number, number + 0.5, self.deployed, run, chain))
        if run:
            told = {"run": run, "number": number, "pid": 1}
            self.lines += [{"at": number, "what": what, **told} for what in ("begun", "done")]
        return run

    def judged(self) -> EventVerdict:
        statuses = {line["run"]: ["succeeded"] for line in self.lines}
        return judge_events(Seen(self.publications, self.lines, statuses, frozenset()))


def _history(events: _Events) -> History:
    return cast(History, SimpleNamespace(events=events, judged_events=events.judged))


def test_order_is_broken_also_when_no_event_was_published_before() -> None:
    events = _Events(deployed=True)
    _swapped_events(_history(events))
    assert not events.judged().complaints
    assert [one.chain for one in events.publications] == ["chain-0", "chain-0"]


def test_a_project_that_accepts_no_event_is_named() -> None:
    with pytest.raises(AssertionError, match="the project with events is not deployed"):
        _swapped_events(_history(_Events(deployed=False)))


def test_a_project_that_was_not_made_is_named() -> None:
    with pytest.raises(AssertionError, match="was not made in time"):
        EventWorker.publish(cast(EventWorker, SimpleNamespace(projects=list)), "free")
