"""Runs that wait, to REST."""

import base64

from tieline_api.runs.sleepers import FoundSleepers, RecordedOutcome, Sleeper
from tieline_api.schemas import sleepers as rest


def sleepers_to_rest(found: FoundSleepers) -> rest.SleepingRuns:
    """Runs as they are replayed."""
    return rest.SleepingRuns(total_count=found.total, items=[_run(one) for one in found.runs])


def _run(run: Sleeper) -> rest.SleepingRun:
    return rest.SleepingRun(
        metadata=dict(run.event.metadata),
        payload=base64.b64encode(run.event.payload).decode(),
        steps=[rest.SleepingStep(**vars(step)) for step in run.steps],
        outcomes=[_outcome(one) for one in run.outcomes],
    )


def _outcome(outcome: RecordedOutcome) -> rest.SleepingOutcome:
    if outcome.event is None:
        return rest.SleepingOutcome(wait=outcome.wait, payload="")
    return rest.SleepingOutcome(
        wait=outcome.wait,
        metadata=dict(outcome.event.metadata),
        payload=base64.b64encode(outcome.event.payload).decode(),
    )
