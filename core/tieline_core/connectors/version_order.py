"""The order in which a connector's versions were published: the newest is its ``latest``."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from tieline_core.identity.ids import object_id

V = TypeVar("V", bound=Mapping[str, Any])

_STEP = timedelta(milliseconds=1)


def published_at(version: Mapping[str, Any]) -> str:
    """When a ConnectorVersion was published: RFC 3339 in UTC, to the millisecond, so that texts sort as moments.

    When it was created, where it does not say so in a way that can be read.
    """
    return _text(_moment(version))


def position(version: Mapping[str, Any]) -> tuple[str, str]:
    """Where a version stands in its connector's list: when it was published, and its id."""
    return published_at(version), object_id(version)


def newest_first(versions: Iterable[V]) -> list[V]:
    """Versions in the order of their publication, the newest first."""
    return sorted(versions, key=position, reverse=True)


def next_moment(siblings: Iterable[Mapping[str, Any]], now: datetime) -> str:
    """The moment of a version that is published now, after its ``siblings``: later than each of them.

    They may have been dated by a clock that is ahead of this one.
    """
    newest = max(map(_moment, siblings), default=None)
    moment = now.astimezone(UTC)
    if newest is not None:
        with suppress(OverflowError):
            moment = max(moment, newest + _STEP)
    return _text(moment)


def _moment(version: Mapping[str, Any]) -> datetime:
    metadata = version["metadata"]
    for text in (version["spec"].get("publishedAt"), metadata.get("creationTimestamp")):
        with suppress(ValueError, OverflowError):
            return datetime.fromisoformat(text or "").astimezone(UTC)
    return datetime.fromtimestamp(0, UTC)


def _text(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
