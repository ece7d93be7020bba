"""Events of the stream of changes."""

from typing import Literal

from tieline_api.schemas.base import Rest


class ChangedObject(Rest):
    """A changed object, run, or decision about an issue."""

    kind: Literal[
        "project",
        "version",
        "connection",
        "system",
        "connectionTemplate",
        "user",
        "activation",
        "connector",
        "connectorVersion",
        "notificationChannel",
        "notification",
        "apiKey",
        "run",
        "issue",
    ]
    """What it is."""
    id: str | None = None
    """Its id: a ULID, or that of an issue. Absent if many of the kind changed, or if the kind has no public ids."""
    what: Literal["added", "changed", "deleted"]
    """How it changed."""


class WatchEvent(Rest):
    """The data of a server-sent event."""

    type: Literal["begin", "changes", "reset", "end"]
    """``begin``: the stream is open. ``changes``: something has changed. ``reset``: events were dropped, because the
    client reads too slowly. ``end``: the stream ends, and ``retry`` says when to connect again."""
    changes: list[ChangedObject] | None = None
    """Of ``changes``."""
    reason: Literal["session", "forbidden", "unavailable", "stopping", "renew"] | None = None
    """Of ``end``: the session has ended, the permission was revoked, Kubernetes cannot confirm it, the replica stops,
    or the stream has reached its longest time."""
