"""What can be done with runs and events: publish, run again, cancel."""

import logging
import time
from collections.abc import Awaitable, Sequence
from dataclasses import fields, replace
from datetime import UTC, datetime

from tieline_api import errors
from tieline_api.dependencies import Dependencies
from tieline_api.engine.new_streams import with_streams
from tieline_api.engine.requests import TIMEOUT, EngineRequests
from tieline_api.errors import ApiError
from tieline_api.runs.history import RunInput, input_of
from tieline_api.runs.model import Run
from tieline_api.runs.records import MAX_STEPS
from tieline_api.use_cases.waking import wake
from tieline_core.engine.publisher import (
    Published,
    is_run_task,
    publish_event,
    publish_token,
    publish_waking,
)
from tieline_core.engine.stored_messages import StoredMessage
from tieline_core.identity.ids import new_id
from tieline_protocol.child_runs import ChildEnd, ended_event
from tieline_protocol.event_streams import MAX_EVENT_BYTES, TTL, EventStreams, subject_parts
from tieline_protocol.events import EventMetadata, InvalidEventError
from tieline_protocol.run_records import ENDED, RunFacts, RunRecord, RunStatus

logger = logging.getLogger("tieline.runs")

_NANOSECONDS = 1_000_000_000
_CANCELLED_TTL = "1h"
_CANCELLED_SECONDS = 2.0


async def require_room(platform: Dependencies, streams: EventStreams) -> None:
    """ApiError where no event may be added: the environment is full, or the organisation publishes too many."""
    await platform.waiting_limits.require_room(streams)
    namespace = platform.cluster.namespace_of(streams.organisation)
    if namespace is not None:
        quotas = platform.cluster.quotas(namespace, platform.settings.quotas).quotas
        await platform.event_quotas.hit(streams.organisation, quotas.events_per_second)


async def publish(
    platform: Dependencies,
    streams: EventStreams,
    metadata: EventMetadata,
    payload: bytes,
    *,
    at: datetime | None = None,
    deduplicated_by: str | None = None,
) -> tuple[Published, RunRecord]:
    """Stores an event, and says in the history that it waits. Raises ApiError."""
    stored, record = await store(platform, streams, metadata, payload, at=at, deduplicated_by=deduplicated_by)
    if not stored.duplicate:
        await record_state(platform, streams, record)
    return stored, record


async def store(
    platform: Dependencies,
    streams: EventStreams,
    metadata: EventMetadata,
    payload: bytes,
    *,
    at: datetime | None = None,
    deduplicated_by: str | None = None,
) -> tuple[Published, RunRecord]:
    """Stores an event; the record says for the history that it waits. Raises ApiError."""
    if len(payload) > MAX_EVENT_BYTES:
        raise errors.too_large("The payload of an event", limit=MAX_EVENT_BYTES)
    await require_room(platform, streams)
    environment = platform.environments.of(streams)

    def send() -> Awaitable[Published]:
        return environment.ask(
            lambda jetstream: publish_event(
                jetstream,
                streams,
                metadata,
                payload,
                at=at,
                deduplicated_by=deduplicated_by,
                seconds=TIMEOUT,
            ),
            seconds=2 * TIMEOUT,
        )

    stored = await with_streams(environment, streams, send)
    await wake(platform, streams, at=at)
    record = RunRecord(
        id=metadata.run,
        kind=metadata.kind,
        task=metadata.task,
        status="queued" if at is None else "waiting",
        attempt=0,
        queued_at=metadata.queued_at,
        at=metadata.queued_at,
        user=metadata.user,
        key=metadata.key,
        event_id=metadata.event_id,
        batch=metadata.batch,
        next_attempt_at=at.timestamp() if at else None,
        waits_for="delay" if at else None,
        replay_of=metadata.replay_of,
    )
    return stored, record


async def first_run(
    platform: Dependencies, streams: EventStreams, metadata: EventMetadata, stored: Published
) -> str | None:
    """The run of the event that was stored before under the same id, as far as that is known."""
    message = await platform.environments.of(streams).message(stored.stream, stored.sequence)
    if message is not None:
        try:
            return EventMetadata.parse(message.headers).run
        except InvalidEventError:
            return None
    found = await platform.runs.by_event(streams, metadata.task, metadata.event_id or "")
    return found.id if found else None


async def replay(
    platform: Dependencies,
    organisation: str,
    run: Run,
    payload: bytes | None = None,
    *,
    once: bool = False,
) -> RunRecord | None:
    """Runs a run again; the record of the new run. Raises ApiError, 409 where it cannot be run again.

    With ``once``, a second call within two minutes starts nothing, and returns None.
    """
    refused = why_not_again(run)
    if refused:
        raise errors.conflict(refused)
    streams = EventStreams(organisation, run.environment)
    given = await platform.runs.replayed_input(organisation, run)
    if given is None:
        if payload is None or run.kind in ("webhook", "schedule"):
            raise errors.conflict(no_input(run))
        given = RunInput(payload, None, recorded=True)
    # With the same input, other systems recognise what the run has done already. What somebody sends is one event,
    # whatever it looks like.
    changes = {"idempotency_run": run.id} if payload is None else {"batch": False}
    metadata = replace(replay_metadata(run, given), **changes)
    stored, record = await publish(
        platform,
        streams,
        metadata,
        given.payload if payload is None else payload,
        deduplicated_by=f"~replay:{run.id}" if once else None,
    )
    if run.status == "dead":
        await remove_dead_letter(platform, streams, run, given)
    return None if stored.duplicate else record


def replay_metadata(run: Run, given: RunInput) -> EventMetadata:
    """What the event of a new run says that runs another one again."""
    return EventMetadata(
        run=new_id(),
        kind=run.kind,
        task=run.task,
        queued_at=time.time(),
        user=run.user,
        key=run.key,
        shared_key=run.shared_key,
        batch=run.batch,
        replay_of=run.id,
        request=given.request,
    )


async def remove_dead_letter(
    platform: Dependencies, streams: EventStreams, run: Run, given: RunInput
) -> None:
    """Removes the dead letter of a run that was run again. The history keeps what the letter alone had.

    The new run is stored, whatever becomes of the letter.
    """
    try:
        if not given.recorded:
            ended = await _ended(platform, streams.organisation, run, "dead", given)
            # This record takes the place of the one with the input.
            results = await platform.runs.packed_results(streams.organisation, run)
            await platform.runs.write(streams, replace(ended, step_results=results))
        await platform.environments.of(streams).purge(streams.dead_letters, streams.dead(run.id))
    except ApiError as error:
        logger.warning("The dead letter of a run that was run again stays: %s", error.message)


def why_not_again(run: Run) -> str:
    """Why a run cannot be run again, whatever its input; empty when it can."""
    if run.status not in ENDED:
        return f"The run is {run.status}: it can be run again once it has ended, or cancel it first"
    if run.direct and run.input_at is None:
        return no_input(run)
    if not is_run_task(run.task):
        return "The run's task has a name that no task can have, so there is nothing to run again"
    return ""


def no_input(run: Run) -> str:
    """Why a run whose input is not kept cannot be run again."""
    if run.kind == "background":
        return "Background work cannot be run again, because its input is not kept: events can (ctx.publish)"
    if run.kind == "call":
        return "A call of an agent cannot be run again, because its input is not kept"
    if run.kind == "schedule":
        return (
            "The run's input is not kept: runs of schedules can be run again that were run while "
            "settings.keepInputs was set"
        )
    if run.kind == "webhook":
        return (
            "The webhook's request is not kept, so it cannot be sent again: it was answered directly. Queued webhooks, "
            "and direct ones while settings.keepInputs is set, can be run again"
        )
    if run.discarded_at is not None:
        return (
            "The run's dead letter was discarded, and the history does not have its input: send it as payload"
        )
    return "The run's input is no longer kept: send it as payload"


async def cancel(platform: Dependencies, organisation: str, run: Run) -> None:
    """Cancels a run. Raises ApiError, 409 for one that has ended.

    What is queued or waits is removed; a pod that runs it is notified, and reports what becomes of it. One that is
    about to have it wait, or gets it after another one died with it, finds what was said before that.
    """
    if run.status in ENDED:
        raise errors.conflict(f"The run has ended: it is {run.status}")
    streams = EventStreams(organisation, run.environment)
    environment = platform.environments.of(streams)
    removed = False
    given: RunInput | None = None
    await _say_cancelled(environment, streams, run)
    if run.status != "running":
        messages = await _remove_queued(platform, streams, run)
        removed = bool(messages)
        for subject in (streams.waiting(run.id), streams.due(run.id)):
            message = await environment.first_at(streams.later, subject)
            if await environment.purge(streams.later, subject):
                removed = True
                messages += [message] if message is not None else []
        given = next((found for one in messages if (found := input_of(one))), None)
        await _wake_parent(environment, streams, run, messages)
        await wake(platform, streams)
    await environment.tell(streams.control, {"run": run.id})
    if removed:
        for subjects in (streams.steps(run.id), streams.run_state(run.id)):
            await environment.purge(streams.runs, subjects)
        await record_state(platform, streams, await _ended(platform, organisation, run, "cancelled", given))


async def _wake_parent(
    engine: EngineRequests, streams: EventStreams, run: Run, removed: Sequence[StoredMessage]
) -> None:
    """Has a pod tell the runs that wait for the one that was removed. Without room they go on at their timeout."""
    child = next((found for one in removed if (found := _awaited_in(one))), None)
    if child is None:
        return
    end = ChildEnd(child=run.id, status="cancelled").encode()
    metadata = ended_event(child, new_id(), time.time())
    try:
        await engine.ask(
            lambda jetstream: publish_waking(jetstream, streams, metadata, end, seconds=TIMEOUT),
            seconds=2 * TIMEOUT,
        )
    except ApiError as error:
        logger.warning("The parent of a run that was cancelled does not know it: %s", error.message)


def _awaited_in(message: StoredMessage) -> EventMetadata | None:
    """The event of a run for which others wait; None for another one."""
    try:
        metadata = EventMetadata.parse(message.headers)
    except InvalidEventError:
        return None
    return metadata if metadata.waiting_runs else None


async def discard(platform: Dependencies, organisation: str, run: Run) -> None:
    """Removes the dead letter of a run, which stays in the history as discarded. Raises ApiError, 409 for others.

    What the letter alone had is gone then; the history keeps what it has.
    """
    if run.status != "dead":
        raise errors.conflict(f"The run is {run.status}: only dead runs have a dead letter to discard")
    streams = EventStreams(organisation, run.environment)
    await platform.environments.of(streams).purge(streams.dead_letters, streams.dead(run.id))
    if run.discarded_at is None:
        ended = await _ended(platform, organisation, run, "dead", None)
        await platform.runs.write(streams, replace(ended, discarded_at=ended.at))


async def _say_cancelled(engine: EngineRequests, streams: EventStreams, run: Run) -> None:
    """For a pod that stores the run's next attempt after it would have been removed, or that begins with it."""
    subject = streams.cancelled(run.id)
    try:
        await engine.ask(
            lambda jetstream: jetstream.publish(
                subject, timeout=_CANCELLED_SECONDS, stream=streams.runs, headers={TTL: _CANCELLED_TTL}
            )
        )
    except ApiError as error:
        # A full stream: what is stored is removed nevertheless.
        logger.warning("Pods that get the run later do not know that it is cancelled: %s", error.message)


async def _remove_queued(platform: Dependencies, streams: EventStreams, run: Run) -> list[StoredMessage]:
    """Removes a run's event from the queue, and returns it. A key that waited with it goes on with its next one."""
    engine = platform.environments.of(streams)
    subjects = (streams.any_event(run.id), streams.keyed_event("*", run.id))
    removed = [await _remove_first(engine, streams, subject) for subject in subjects]
    keyed = removed[1]
    if keyed is not None and run.status == "waiting":
        # The history has masked the key itself.
        key_hash = subject_parts(keyed.subject)[0]
        if await engine.purge(streams.later, streams.waiting_key(key_hash)):
            await engine.ask(lambda jetstream: publish_token(jetstream, streams, key_hash, seconds=TIMEOUT))
    return [message for message in removed if message is not None]


async def _remove_first(engine: EngineRequests, streams: EventStreams, subject: str) -> StoredMessage | None:
    """The message that was removed."""
    message = await engine.first_at(streams.queue, subject)
    if message is None or not await engine.delete(streams.queue, message.sequence):
        return None
    return message


async def _ended(
    platform: Dependencies, organisation: str, run: Run, status: RunStatus, given: RunInput | None
) -> RunRecord:
    """The record of a run that no pod will run any more, with its input; what its last attempt did stays."""
    now = time.time()
    last = (await platform.runs.attempts(organisation, run, most=1, most_steps=MAX_STEPS)).attempts
    facts = {one.name: getattr(run, one.name) for one in fields(RunFacts)}
    return RunRecord(
        **{**facts, "status": status},
        queued_at=run.queued_at / _NANOSECONDS,
        at=now,
        started_at=_seconds(run.started_at),
        ended_at=_seconds(run.ended_at) or (now if status == "cancelled" else None),
        discarded_at=_seconds(run.discarded_at),
        steps=tuple(last[0].steps) if last else (),
        input=given.payload if given else None,
        request=given.request if given else None,
    )


async def record_state(platform: Dependencies, streams: EventStreams, *records: RunRecord) -> None:
    """Adds to the history. What was done is done, even where the history cannot say so."""
    if not records:
        return
    try:
        await platform.runs.write(streams, *records)
    except ApiError as error:
        count, status = len(records), records[0].status
        logger.warning("The run history lacks that %d runs are %s: %s", count, status, error.message)


def _seconds(nanoseconds: int | None) -> float | None:
    return None if nanoseconds is None else nanoseconds / _NANOSECONDS


def time_of(seconds: float) -> datetime:
    """A moment in UTC."""
    return datetime.fromtimestamp(seconds, UTC)
