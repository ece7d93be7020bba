"""Runs that begin at a step of another run, whose results before that step they have as their own."""

import json
import logging
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from tieline_api import errors
from tieline_api.dependencies import Dependencies
from tieline_api.engine.new_streams import with_streams
from tieline_api.engine.requests import TIMEOUT, EngineRequests
from tieline_api.errors import ApiError
from tieline_api.runs.ended_steps import StepName, taken_over
from tieline_api.runs.model import Run
from tieline_api.use_cases.run_actions import (
    no_input,
    publish,
    remove_dead_letter,
    replay_metadata,
    why_not_again,
)
from tieline_core.engine.publisher import store_once
from tieline_core.identity.ids import parse_id
from tieline_protocol.child_runs import wait_name
from tieline_protocol.event_streams import STEP_HEADER, TTL, EventStreams
from tieline_protocol.events import HEADER
from tieline_protocol.kept_results import (
    STEPS_TTL,
    KeptOutcome,
    KeptResult,
    outcome_name,
    step_header,
)
from tieline_protocol.run_records import RunRecord
from tieline_protocol.waits import TIMED_OUT

logger = logging.getLogger("tieline.runs")


async def fork(platform: Dependencies, organisation: str, run: Run, first: StepName) -> RunRecord:
    """Runs a run again from a step on, with its input and the results before that step; the record of the new run.

    Its event is stored last. So no pod begins with it before it has all results, whenever this process dies.
    Raises ApiError: 409 where the run cannot be run again so, 422 where it has no such step.
    """
    if refused := why_not_again(run):
        raise errors.conflict(refused)
    if run.direct:
        raise errors.conflict(
            "The run has no steps: it was not one that is retried. Replay it from the beginning"
        )
    ended = await platform.runs.ended_steps(organisation, run)
    if ended is None:
        raise errors.conflict(
            "The record of the run's steps is no longer kept. Replay the run from the beginning"
        )
    results = taken_over(ended, first)
    given = await platform.runs.replayed_input(organisation, run)
    if given is None:
        raise errors.conflict(no_input(run))
    streams = EventStreams(organisation, run.environment)
    metadata = replace(replay_metadata(run, given), has_steps=bool(results))
    await platform.waiting_limits.require_room(streams)
    await _take_over(platform.environments.of(streams), streams, metadata.run, results)
    # Where this fails the event may be stored nevertheless, so the steps stay. They go by themselves.
    _, record = await publish(platform, streams, metadata, given.payload)
    if run.status == "dead":
        await remove_dead_letter(platform, streams, run, given)
    return record


async def _take_over(
    environment: EngineRequests, streams: EventStreams, run: str, results: Sequence[KeptResult]
) -> None:
    """Stores results as those of a run that nobody knows yet."""
    try:
        for one in results:
            await with_streams(environment, streams, partial(_store, environment, streams, run, one))
    except BaseException:
        await _remove(environment, streams, run)
        raise


async def _store(environment: EngineRequests, streams: EventStreams, run: str, result: KeptResult) -> None:
    subject = streams.hashed_step(run, result.name_hash, result.occurrence, result.place)
    about = step_header(result.name, work=result.work, version=result.version, run=result.run)
    await _store_once(environment, streams, subject, result.result.encode(), {STEP_HEADER: about})
    # Answers to approvals are found by the approval's id.
    names = (outcome_name(result.name_hash, result.occurrence), _wait_for_child(result))
    if result.outcome is not None and result.outcome.wait in names:
        subject = streams.outcome(run, result.outcome.wait)
        await _store_once(environment, streams, subject, *_written(result.outcome))


def _wait_for_child(result: KeptResult) -> str | None:
    """The name of the wait for the run that a step has started; None where it has started none."""
    try:
        child = json.loads(result.result)["child"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    return wait_name(child) if isinstance(child, str) and parse_id(child) == child else None


def _written(outcome: KeptOutcome) -> tuple[bytes, dict[str, str]]:
    if outcome.event is None:
        return b"", {TIMED_OUT: "1"}
    return outcome.payload.encode(), {HEADER: outcome.event}


async def _store_once(
    environment: EngineRequests, streams: EventStreams, subject: str, content: bytes, headers: dict[str, str]
) -> None:
    stored = await environment.ask(
        lambda jetstream: store_once(
            jetstream, subject, content, {**headers, TTL: STEPS_TTL}, stream=streams.runs, seconds=TIMEOUT
        )
    )
    if not stored:
        raise errors.conflict("The steps of the new run are there already: repeat the request")


async def _remove(environment: EngineRequests, streams: EventStreams, run: str) -> None:
    try:
        await environment.purge(streams.runs, streams.steps(run))
    except ApiError as error:
        logger.warning("Steps of a run that was not begun stay for a while: %s", error.message)
