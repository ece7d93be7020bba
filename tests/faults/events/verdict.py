"""What must be true of events once everything has come to rest. Pure: from what was seen to sentences that complain."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

ENDS = frozenset({"succeeded", "dead"})


@dataclass(frozen=True)
class Publication:
    """An attempt of a client to publish an event, and what it was told."""

    number: int
    """The client's own name of the event: none comes twice, but for a repetition of one that was not answered."""
    began: float
    answered: float
    accepted: bool
    run: str | None = None
    """None where the answer was that it is stored already, and where there was no answer."""
    chain: str | None = None
    """Events of one chain have one key, and each was published after the answer to the one before."""


@dataclass(frozen=True)
class Seen:
    """What is there in the end."""

    publications: Sequence[Publication]
    lines: Sequence[Mapping[str, Any]]
    """What the code of the pods recorded, in its order (``code.py``)."""
    statuses: Mapping[str, Sequence[str]]
    """Of each run the states in which it ended, as the run history has them."""
    letters: frozenset[str]
    """Runs that have a dead letter."""
    left: Mapping[str, int] = field(default_factory=dict)
    """Messages that are left in the engine, by their kind."""


@dataclass(frozen=True)
class EventVerdict:
    """What is wrong, and how much was done more than once, which is allowed."""

    complaints: list[str]
    counts: dict[str, int]


def judge_events(seen: Seen) -> EventVerdict:
    """Compares what clients were told with what was done."""
    complaints = [
        *_lost(seen),
        *_out_of_order(seen),
        *_repeated(seen),
        *_badly_waited(seen),
        *_without_letter(seen),
        *_left(seen),
    ]
    return EventVerdict(complaints, _counts(seen))


def _accepted(seen: Seen) -> dict[str, str]:
    """Runs that somebody was told of, and by what name."""
    runs = {one.run: f"event {one.number}" for one in seen.publications if one.accepted and one.run}
    for line in seen.lines:
        if line["what"] == "published":
            runs[line["child"]] = f"the child of event {line['number']}"
    return runs


def _lost(seen: Seen) -> Iterable[str]:
    done = {line["run"] for line in seen.lines if line["what"] == "done"}
    numbers = {line["number"] for line in seen.lines if line["what"] == "done"}
    ended = {line["number"] for line in seen.lines if ENDS & set(seen.statuses.get(line["run"], ()))}
    for run, name in _accepted(seen).items():
        statuses = set(seen.statuses.get(run, ()))
        if not statuses & ENDS:
            begun = "begun" if any(line["run"] == run for line in seen.lines) else "never begun"
            yield f"Lost: {name} was accepted as {run}, and has no end in the history ({begun})"
        elif "dead" not in statuses and run not in done:
            yield f"Lost: {name} has succeeded in the history as {run}, and was not done"
    for one in seen.publications:
        if one.accepted and one.run is None and one.number not in numbers | ended:
            yield f"Lost: event {one.number} was answered as stored already, and was not done"


def _out_of_order(seen: Seen) -> Iterable[str]:
    """The next event of a key begins after the one before has ended once."""
    begun: dict[str, int] = {}
    over: dict[str, int] = {}
    last: dict[str, int] = {}
    for place, line in enumerate(seen.lines):
        begun.setdefault(line["run"], place)
        last[line["run"]] = place
        if line["what"] == "done":
            over.setdefault(line["run"], place)
    chains: dict[str, list[Publication]] = defaultdict(list)
    for one in sorted(seen.publications, key=lambda one: one.began):
        if one.chain and one.accepted and one.run in begun:
            chains[one.chain].append(one)
    for name, chain in chains.items():
        for before, after in pairwise(chain):
            first, second = str(before.run), str(after.run)
            # A dead letter ends without a sign here; a pod that was paused may even do the rest of it later.
            end = begun[first] if first in seen.letters else over.get(first, last[first])
            if begun[second] < end:
                seconds = seen.lines[end]["at"] - seen.lines[begun[second]]["at"]
                yield (
                    f"Out of order: event {after.number} ({second}) of {name} began {seconds:.3f} s "
                    f"before event {before.number} ({first}) was done"
                )


def _repeated(seen: Seen) -> Iterable[str]:
    """No step is done again once its result is recorded."""
    recorded: dict[str, Mapping[str, Any]] = {}
    for line in seen.lines:
        if line["what"] == "recorded":
            recorded.setdefault(line["step"], line)
        elif line["what"] == "effect" and line["step"] in recorded:
            before = recorded[line["step"]]
            yield (
                f"Repeated: step {line['step']} of event {line['number']} was done again by {line['pid']}, "
                f"{line['at'] - before['at']:.3f} s after {before['pid']} had recorded it"
            )


def _badly_waited(seen: Seen) -> Iterable[str]:
    """A wait ends in one way, and by its event where there is much time."""
    outcomes: dict[str, set[bool]] = defaultdict(set)
    for line in seen.lines:
        if line["what"] != "waited":
            continue
        outcomes[line["run"]].add(line["confirmed"])
        is_dead = "dead" in seen.statuses.get(str(line["confirming"]), ())
        if line["patient"] and not line["confirmed"] and not is_dead:
            yield f"Not woken: event {line['number']} waited as {line['run']} until its time was over"
    for run, found in outcomes.items():
        if len(found) > 1:
            yield f"Two outcomes: run {run} was confirmed in one attempt, and not in another one"


def _without_letter(seen: Seen) -> Iterable[str]:
    for run, statuses in seen.statuses.items():
        if set(statuses) & ENDS == {"dead"} and run not in seen.letters:
            yield f"Lost: run {run} is dead in the history, and has no dead letter"


def _left(seen: Seen) -> Iterable[str]:
    for kind, count in seen.left.items():
        if count:
            yield f"Left: {count} messages of {kind}"


def _counts(seen: Seen) -> dict[str, int]:
    done = Counter(line["run"] for line in seen.lines if line["what"] == "done")
    effects = Counter(line["step"] for line in seen.lines if line["what"] == "effect")
    runs_of: dict[int, set[str]] = defaultdict(set)
    children = _children(seen)
    for line in seen.lines:
        if line["what"] == "begun" and line["run"] not in children:
            runs_of[line["number"]].add(line["run"])
    accepted = _accepted(seen)
    return {
        "waited": len({line["run"] for line in seen.lines if line["what"] == "waited"}),
        "asked": len({one.number for one in seen.publications}),
        "accepted": len(accepted),
        "succeeded": sum("succeeded" in seen.statuses.get(run, ()) for run in accepted),
        "dead": sum("dead" in seen.statuses.get(run, ()) for run in accepted),
        "not answered": sum(not one.accepted for one in seen.publications),
        "runs done twice": sum(count > 1 for count in done.values()),
        "events with two runs": sum(len(runs) > 1 for runs in runs_of.values()),
        "steps": len(effects),
        "steps done twice, not recorded before": sum(count > 1 for count in effects.values()),
        "attempts": sum(line["what"] == "begun" for line in seen.lines),
        "ended twice in the history": sum(
            len([one for one in ends if one in ENDS]) > 1 for ends in seen.statuses.values()
        ),
        "both dead and succeeded": sum(set(ends) >= ENDS for ends in seen.statuses.values()),
    }


def _children(seen: Seen) -> set[str]:
    return {line["child"] for line in seen.lines if line["what"] == "published"}
