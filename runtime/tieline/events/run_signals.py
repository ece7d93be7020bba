"""Signals to a run: what others send to it by its id, and code waits for."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from tieline.events.retry import Reject
from tieline.events.run_waits import Place, RunWaits
from tieline_protocol.event_streams import hashed
from tieline_protocol.signals import KEPT_SECONDS, InvalidSignalError, SentSignal, is_name, signal_index
from tieline_protocol.waits import MAX_WAIT_SECONDS


@dataclass(frozen=True, kw_only=True)
class Signal:
    """What somebody has sent to a run.

    >>> signal = Signal(name="address", payload={"city": "Bonn"}, by="ann@example.com", at=datetime.now(UTC))
    >>> signal.payload["city"]
    'Bonn'
    """

    name: str
    payload: Any
    """JSON data; None where nothing was sent with it."""
    by: str
    """Who has sent it, by the name that Kubernetes knows them by."""
    at: datetime
    """When."""


async def wait_for_signal(
    waits: RunWaits,
    run: str,
    name: str,
    timeout: float | timedelta,  # noqa: ASYNC109  (the run ends meanwhile)
    place: Place,
) -> Signal | None:
    """See ``Context.wait_for_signal``. Ends the attempt with SuspendedRun until there is one."""
    if not is_name(name):
        raise ValueError(
            "The name of a signal has letters, digits, '-', '_' and '.', at most 100, and a letter or digit first, not "
            f"{name!r:.120}"
        )
    seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else float(timeout)
    if not 0 <= seconds <= MAX_WAIT_SECONDS:
        raise ValueError(
            f"The timeout of a signal is from 0 to {MAX_WAIT_SECONDS:,.0f} seconds "
            f"({MAX_WAIT_SECONDS / 86400:g} days), not {seconds:,.0f}"
        )
    found = await waits.wait_for(
        name,
        signal_index(run, name),
        seconds,
        keep=KEPT_SECONDS,
        kind="signal",
        # Not the index: that of a run that begins at a step of this one is another.
        work=hashed(f"signal {name}"),
        in_order=place.in_order,
        handles_error=place.handles_error,
    )
    if found is None:
        return None
    try:
        sent = SentSignal.decode(found.payload)
    except InvalidSignalError:
        raise Reject(f"What ended the wait for the signal {name!r} is no signal") from None
    return Signal(
        name=sent.name,
        payload=json.loads(sent.payload),
        by=sent.by,
        at=datetime.fromtimestamp(sent.at, UTC),
    )
