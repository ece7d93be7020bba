"""What is remembered of a schedule between runs and pods: the latest time that is settled, and the sweep under way.

A *sweep* is all that one due time brings: one run, or a run for each user. A pod claims it by writing its own name
into the record (by compare-and-swap), works through it page by page, and settles the due time at its end.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

STATIC = ""
"""Stands for the static activation where others are distinguished by their user's external id."""


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """Where the work for one due time stands."""

    due: datetime
    holder: str
    """The process that works on it; empty when that one has given it back."""
    page: Mapping[str, int] = field(default_factory=dict)
    """Whose runs are left of this page, and how often each was begun already."""
    after: str | None = None
    """Where the next page begins; None when this one is the last."""
    request: str | None = None
    """The id of the request that it comes from; None where it was due by the clock."""


@dataclass(frozen=True, kw_only=True)
class Record:
    """One schedule's record."""

    settled: datetime
    """Everything that was due until then is done, or will never be."""
    times: str
    """The cron expression and the zone that this was decided by."""
    sweep: Sweep | None = None
    ran: datetime | None = None
    """When the last sweep that was worked through was due, or asked for."""
    claimed: tuple[str, ...] = ()
    """The ids of the requests that were claimed last: pods may still be notified of them."""


def to_json(record: Record) -> dict[str, Any]:
    """The record as a document's value."""
    value: dict[str, Any] = {"settled": _text(record.settled), "times": record.times}
    if (sweep := record.sweep) is not None:
        value["sweep"] = {
            "due": _text(sweep.due),
            "holder": sweep.holder,
            "page": dict(sweep.page),
            "after": sweep.after,
            **({"request": sweep.request} if sweep.request else {}),
        }
    if record.ran is not None:
        value["ran"] = _text(record.ran)
    if record.claimed:
        value["claimed"] = list(record.claimed)
    return value


def from_json(value: Any) -> Record | None:
    """The record of a document's value; None for what is no record (it is begun anew then)."""
    try:
        sweep, ran = value.get("sweep"), value.get("ran")
        return Record(
            settled=_moment(value["settled"]),
            times=str(value["times"]),
            sweep=Sweep(
                due=_moment(sweep["due"]),
                holder=str(sweep["holder"]),
                page={str(name): int(begun) for name, begun in sweep["page"].items()},
                after=None if sweep["after"] is None else str(sweep["after"]),
                request=str(sweep["request"]) if sweep.get("request") else None,
            )
            if sweep
            else None,
            ran=_moment(ran) if ran else None,
            claimed=tuple(str(one) for one in value.get("claimed") or ()),
        )
    except (AttributeError, KeyError, TypeError, ValueError):
        return None


def _text(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat()


def _moment(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(text)
    return moment.astimezone(UTC)
