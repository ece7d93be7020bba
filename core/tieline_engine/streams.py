"""What a stream says of itself."""

from collections.abc import Mapping
from typing import Any

from tieline_protocol.event_streams import EVENTS_PER_SECOND, MAX_BYTES


def publishers_limit(config: Mapping[str, Any]) -> int:
    """The bytes beyond which publishers of new events stop, by a stream's configuration; 0 where they do not.

    JetStream has no such limit for a stream with schedules: it would drop the oldest messages.
    """
    return _number(config, MAX_BYTES)


def events_quota(config: Mapping[str, Any]) -> int:
    """The organisation's quota of events a second, by a stream's configuration; 0 where there is none."""
    return _number(config, EVENTS_PER_SECOND)


def is_waiting_full(info: Mapping[str, Any]) -> bool:
    """Whether a stream of events that wait has as much as publishers may store, by JetStream's answer."""
    limit = publishers_limit(info["config"])
    return 0 < limit <= int(info["state"]["bytes"])


def _number(config: Mapping[str, Any], name: str) -> int:
    text = str((config.get("metadata") or {}).get(name, ""))
    return int(text) if text.isascii() and text.isdecimal() else 0
