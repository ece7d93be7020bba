"""The configuration that runs read: always the newest whole snapshot."""

import asyncio
from collections.abc import Callable
from typing import Protocol

from tieline.configuration import change_log
from tieline.configuration.api_tokens import AccessTokens
from tieline.configuration.snapshot import Snapshot
from tieline.telemetry.redaction import Redactor

Publish = Callable[[Snapshot], None]


class Source(Protocol):
    """Where snapshots come from."""

    async def run(self, publish: Publish) -> None:
        """Publish the first snapshot as soon as it can be had and every later one; runs until cancelled."""


class Configuration:
    """Holds the current snapshot; a new one replaces it in one assignment."""

    def __init__(self, *, redactor: Redactor, needed: bool) -> None:
        self.current = Snapshot()
        self.arrived = asyncio.Event()
        """Set once there is a configuration to serve with: at once when none is needed."""
        if not needed:
            self.arrived.set()
        self.tokens: AccessTokens | None = None
        """Where other access tokens come from after a 401; None where nobody can be asked."""
        self.redactor = redactor
        """Knows the secrets of the environment's connections."""

    @property
    def obtained(self) -> bool:
        """Whether there is a configuration to serve with."""
        return self.arrived.is_set()

    def publish(self, snapshot: Snapshot) -> None:
        """Make ``snapshot`` the current one; its secrets are redacted before any run can use them."""
        self.redactor.replace("configuration", snapshot.secrets(), snapshot.user_names())
        before, self.current = self.current, snapshot
        self.arrived.set()
        change_log.tell(before.changes, snapshot.changes)
