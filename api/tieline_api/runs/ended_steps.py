"""The steps of a run that has ended, and which of them another run takes over that begins at one of them."""

from collections.abc import Sequence
from dataclasses import dataclass

from tieline_api import errors
from tieline_api.errors import ApiError
from tieline_protocol.events import HEADER, EventMetadata, InvalidEventError
from tieline_protocol.kept_results import KeptResult
from tieline_protocol.run_records import StepRecord

FIELD = "fromStep"
_FROM_EARLIER = "Replay from an earlier step"
_NAMED = 10


@dataclass(frozen=True)
class StepName:
    """A step as people name it."""

    name: str
    occurrence: int = 1

    def __str__(self) -> str:
        return repr(self.name) if self.occurrence == 1 else f"{self.name!r} (occurrence {self.occurrence})"


@dataclass(frozen=True)
class EndedSteps:
    """What the history has of the steps of a run's last attempt, in the order in which they ended."""

    steps: Sequence[StepRecord]
    """All of them, also those that failed."""
    results: Sequence[KeptResult] | None
    """Those that are done; None where their results are not kept."""


def taken_over(ended: EndedSteps, first: StepName) -> list[KeptResult]:
    """The steps before ``first``, whose results the new run gets.

    Raises ApiError: 422 where there is no such step, 409 where a result cannot be taken over.
    """
    steps = [StepName(one.name, one.occurrence) for one in ended.steps]
    results = [StepName(one.name, one.occurrence) for one in ended.results or ()]
    if first in results:
        before = set(results[: results.index(first)])
    elif first in steps:
        before = set(steps[: steps.index(first)])
    else:
        raise _unknown(first, steps or results)
    done = {StepName(one.name, one.occurrence) for one in ended.steps if one.error is None}
    if ended.results is None and before & done:
        raise errors.conflict(
            "The results of the run's steps are not kept, so it can only be run again from its beginning"
        )
    unanswered = {
        StepName(one.name, one.occurrence)
        for one in ended.steps
        if one.approval is not None and one.approval.state == "open"
    }
    found = [one for one in ended.results or () if StepName(one.name, one.occurrence) in before]
    for one in found:
        _require_whole(one, is_open=StepName(one.name, one.occurrence) in unanswered)
    return found


def _require_whole(result: KeptResult, *, is_open: bool) -> None:
    step = StepName(result.name, result.occurrence)
    if result.missing == "masked":
        raise _refused(step, "has a secret in it, which the run history masks")
    if result.missing == "large":
        raise _refused(step, "is not kept: those of a run have at most 512 KiB together")
    if is_open or (result.is_wait and result.outcome is None):
        raise _refused(step, "is not there: the run ended while it waited")
    if result.outcome is not None and not _is_readable(result.outcome.event):
        raise _refused(step, "cannot be read")


def _is_readable(event: str | None) -> bool:
    if event is None:
        return True
    try:
        EventMetadata.parse({HEADER: event})
    except InvalidEventError:
        return False
    return event.isascii() and event.isprintable()


def _refused(step: StepName, why: str) -> ApiError:
    return errors.conflict(f"The result of the step {step} {why}. {_FROM_EARLIER}")


def _unknown(first: StepName, steps: Sequence[StepName]) -> ApiError:
    if not steps:
        return errors.invalid(FIELD, "the last attempt of this run did no step")
    known = ", ".join(map(str, steps[:_NAMED]))
    more = ", and others" if len(steps) > _NAMED else ""
    return errors.invalid(FIELD, f"the last attempt of this run has no step {first}: it has {known}{more}")
