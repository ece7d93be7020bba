"""Signals to runs: who sends one learns whether it is stored; the run takes it when its code waits for it."""

import logging
import time

from tieline_api import errors
from tieline_api.dependencies import Dependencies
from tieline_api.engine.requests import TIMEOUT
from tieline_api.runs.model import Run
from tieline_api.use_cases.run_actions import require_room
from tieline_api.use_cases.waking import wake
from tieline_core.engine.publisher import publish_waking
from tieline_core.identity.ids import new_id
from tieline_protocol.event_streams import EventStreams, hashed
from tieline_protocol.run_records import ENDED
from tieline_protocol.signals import (
    MAX_BY,
    MAX_KEPT,
    MAX_PAYLOAD_BYTES,
    NAME_PATTERN,
    SentSignal,
    is_name,
    signal_event,
)

logger = logging.getLogger("tieline.runs")


async def send(
    platform: Dependencies,
    organisation: str,
    run: Run,
    name: str,
    payload: bytes,
    *,
    by: str,
    identifier: str | None,
) -> bool:
    """Stores a signal for a run; False for one whose id was stored in the last two minutes.

    Raises ApiError: 409 for a run that cannot take it, 413 and 422. The event is stored like any other: a pod takes it
    whatever dies, keeps it for the run, and wakes that if it waits.
    """
    _require_able(run)
    if not is_name(name):
        raise errors.invalid("name", f"must match {NAME_PATTERN}")
    if len(payload) > MAX_PAYLOAD_BYTES:
        raise errors.too_large("The payload of a signal", limit=MAX_PAYLOAD_BYTES)
    sent = SentSignal(run=run.id, name=name, payload=payload.decode(), by=by[:MAX_BY], at=time.time())
    streams = EventStreams(organisation, run.environment)
    engine = platform.environments.of(streams)
    kept = await engine.subjects(streams.runs, streams.kept_event(sent.index, "*"))
    if len(kept) >= MAX_KEPT:
        raise errors.conflict(
            f'The run has got {MAX_KEPT:,} signals "{name}", which is as many as a run may get'
        )
    await require_room(platform, streams)
    event_id = None if identifier is None else hashed(f"{run.id}\0{name}\0{identifier}")
    metadata = signal_event(new_id(), sent.at, event_id=event_id)
    stored = await engine.ask(
        lambda jetstream: publish_waking(jetstream, streams, metadata, sent.encode(), seconds=TIMEOUT),
        seconds=2 * TIMEOUT,
    )
    await wake(platform, streams)
    logger.info(
        "Signal sent",
        extra={
            "signal": name,
            "run": run.id,
            "environment": run.environment,
            "organisation": organisation,
            "user": by,
        },
    )
    return not stored.duplicate


def _require_able(run: Run) -> None:
    if run.direct or run.kind == "call":
        raise errors.conflict(
            "The run cannot wait for signals: those of events and of queued webhooks can, which are retried"
        )
    if run.status in ENDED:
        raise errors.conflict(f"The run has ended: it is {run.status}")
