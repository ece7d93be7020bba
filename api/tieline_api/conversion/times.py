"""When objects were made and last changed, and when credentials end."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from tieline_core.credentials.refusals import REPORTER
from tieline_core.identity.ids import parse_time

UPDATED = "tieline.dev/updated-at"
"""Where caches keep the time of the last change of the spec (never written to the cluster)."""
_NOBODY = frozenset({"tieline-operator", REPORTER})
"""Managers that write what no person or client has changed."""


def created_at(obj: Mapping[str, Any]) -> str:
    """When the object was created."""
    created: str = obj["metadata"]["creationTimestamp"]
    return created


def updated_at(obj: Mapping[str, Any]) -> str:
    """When anybody but the operator last changed the object."""
    times: list[str] = [
        entry["time"]
        for entry in obj["metadata"].get("managedFields") or ()
        if entry.get("time") and not entry.get("subresource") and entry.get("manager") not in _NOBODY
    ]
    remembered: str | None = (obj["metadata"].get("annotations") or {}).get(UPDATED)
    return max([created_at(obj), *times, *([remembered] if remembered else [])])


def remember_update(obj: Mapping[str, Any]) -> dict[str, Any]:
    """``obj`` with the time of its last change where it stays when the managed fields are dropped."""
    metadata = dict(obj["metadata"])
    metadata["annotations"] = {**(metadata.get("annotations") or {}), UPDATED: updated_at(obj)}
    return {**obj, "metadata": metadata}


def in_utc(text: str | None) -> datetime | None:
    """A time of a manifest, with whatever offset, in UTC; None where there is none that can be read."""
    try:
        return parse_time(text) if text else None
    except ValueError:
        return None


def expired(credential: Mapping[str, Any], now: datetime) -> bool:
    """Whether the ``expiresAt`` of a connection's credential has come. One that cannot be read never comes."""
    ends = in_utc(credential.get("expiresAt"))
    return ends is not None and ends <= now
