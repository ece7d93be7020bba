"""The steps that an attempt has done or found done, with their results: the record of the run's end has them."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from tieline.events.run_store import KeptStep
from tieline.events.wait_store import KeptEvent
from tieline_protocol.event_streams import hashed
from tieline_protocol.kept_results import MAX_NAME, MAX_RESULTS_BYTES, KeptOutcome, KeptResult


@dataclass
class _Done:
    step: KeptStep
    is_left_out: bool = False
    wait: str = ""
    """The name of the wait, of a step that waits."""
    ended: bool = False
    event: KeptEvent | None = None


class DoneSteps:
    """Results up to a number of bytes. What is beyond is known by its name alone."""

    def __init__(self, run: str, version: str) -> None:
        """``run`` is the one whose idempotency keys steps have that were not taken over from another run."""
        self._run = run
        self._version = version
        self._steps: dict[tuple[str, int], _Done] = {}
        self._bytes = 0

    def add(self, step: KeptStep) -> None:
        """A step is done."""
        has_room = self._take(len(step.result))
        kept = step if has_room else replace(step, result=b"")
        self._steps[step.name, step.occurrence] = _Done(kept, is_left_out=not has_room)

    def waits(self, name: str, occurrence: int, wait: str) -> None:
        """A step that is done waits for an event or an answer."""
        self._steps[name, occurrence].wait = wait

    def ended(self, wait: str, event: KeptEvent | None) -> None:
        """A wait has ended: with an event, or by its timeout."""
        for one in self._steps.values():
            if one.wait == wait:
                has_room = event is None or self._take(len(event.payload))
                one.ended, one.event = has_room, event if has_room else None
                one.is_left_out = one.is_left_out or not has_room

    def kept(self, mask: Callable[[str], str]) -> list[KeptResult]:
        """All of them in the order in which they ended, with known secrets masked."""
        return [self._kept(one, mask) for one in self._steps.values()]

    def _kept(self, one: _Done, mask: Callable[[str], str]) -> KeptResult:
        step = one.step
        found = KeptResult(
            name=mask(step.name)[:MAX_NAME],
            name_hash=hashed(step.name),
            occurrence=step.occurrence,
            place=step.place,
            work=step.work,
            version=step.version or self._version,
            run=step.run or self._run,
            missing="large" if one.is_left_out else "",
            is_wait=bool(one.wait),
        )
        if one.is_left_out:
            return found
        plain = step.result.decode("utf-8", "replace")
        outcome = _outcome(one)
        masked = mask(plain)
        shown = outcome and replace(
            outcome, event=outcome.event and mask(outcome.event), payload=mask(outcome.payload)
        )
        is_same = (masked, shown) == (plain, outcome)
        return replace(found, result=masked, outcome=shown, missing="" if is_same else "masked")

    def _take(self, size: int) -> bool:
        has_room = self._bytes + size <= MAX_RESULTS_BYTES
        self._bytes += size if has_room else 0
        return has_room


def _outcome(one: _Done) -> KeptOutcome | None:
    if not one.ended:
        return None
    if one.event is None:
        return KeptOutcome(wait=one.wait)
    payload = one.event.payload.decode("utf-8", "replace")
    return KeptOutcome(wait=one.wait, event=one.event.metadata.header(), payload=payload)
