"""Schedules that were not run when they were due, by what pods have written down about them. Pure.

A schedule counts once the version that is wanted has run it: records of schedules that the code does not have any more
stay as they are.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import orjson

from tieline_core.identity.ids import to_utc
from tieline_protocol.cron import CronError, parse_cron

GRACE = timedelta(minutes=5)
"""How late a run may begin until its schedule counts as missed."""
MAX_SCHEDULES = 120
_MAX_TEXT = 256


def missed_schedules(
    records: Mapping[str, bytes], *, deployed_at: datetime, now: datetime
) -> dict[str, datetime]:
    """The schedules that should have begun, with the first time that was missed.

    ``records`` are what pods have written, as JSON. Users' code runs beside what writes it, so what cannot be read is
    left out.
    """
    missed = {}
    for name, text in sorted(records.items())[:MAX_SCHEDULES]:
        due = _due(text, deployed_at)
        if due is not None and due + GRACE < now:
            missed[name] = due
    return missed


def _due(text: bytes, deployed_at: datetime) -> datetime | None:
    """When a schedule is due next; None where a pod works on it, and where nothing can be said."""
    try:
        value: Any = orjson.loads(text)
        settled = _moment(value["settled"])
        sweep = value.get("sweep")
        if settled < deployed_at:
            return None
        if sweep:
            # One that a pod has given back waits for another pod.
            return None if sweep["holder"] else _moment(sweep["due"])
        expression, _, zone = str(value["times"])[:_MAX_TEXT].rpartition(" ")
        return to_utc(parse_cron(expression, zone).next(settled))
    except (AttributeError, CronError, KeyError, OverflowError, StopIteration, TypeError, ValueError):
        return None


def _moment(text: Any) -> datetime:
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError("no zone")
    return to_utc(moment)
