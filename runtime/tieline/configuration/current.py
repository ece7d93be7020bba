"""The configuration that runs read: always the newest whole snapshot."""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from tieline.configuration.api_tokens import AccessTokens
from tieline.configuration.request_gates import RequestGate, RequestOutcomes
from tieline.configuration.snapshot import Snapshot, learn_secrets
from tieline.telemetry.redaction import Redactor

logger = logging.getLogger("tieline.configuration")

Publish = Callable[[Snapshot], None]
# Kubernetes tears lines of more than 16 KiB: what is more than these goes into lines of its own.
_IN_A_LINE = 100
_NAMED = 10
_PROJECT = "projects/"


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
        self.gate: RequestGate | None = None
        """Where requests through connections with limits wait; None: nobody keeps to limits."""
        self.outcomes: RequestOutcomes | None = None
        """Told how systems answer; None: nobody is."""
        self.redactor = redactor
        """Knows the secrets of the environment's connections."""
        self.followers: list[Callable[[], None]] = []
        """Called after each change."""

    @property
    def obtained(self) -> bool:
        """Whether there is a configuration to serve with."""
        return self.arrived.is_set()

    def publish(self, snapshot: Snapshot) -> None:
        """Make ``snapshot`` the current one; its secrets are redacted before any run can use them."""
        learn_secrets(self.redactor, "configuration", snapshot.connections.values())
        before, self.current = self.current, snapshot
        self.arrived.set()
        log_changes(before.changes, snapshot.changes)
        for follower in self.followers:
            follower()


def log_changes(before: Mapping[str, str], now: Mapping[str, str]) -> None:
    """Log what is other ``now`` than ``before``: changes by their objects' names, as ``connections/shop``.

    A change is one text, such as ``01J…Z.3`` (an object's id and generation). The API's line of the request that made
    it has it, and so has the operator's: people can follow a change to its end.

    The project's change is missing while another version is wanted than this pod runs: nothing is gone then.
    """
    taken_up = [name for name, change in now.items() if before.get(name) != change]
    left = [name for name in before if name not in now and not name.startswith(_PROJECT)]
    for start in range(0, len(taken_up), _IN_A_LINE):
        names = taken_up[start : start + _IN_A_LINE]
        changes = [now[name] for name in names]
        logger.info("Serving with %s", _named(names), extra={"fields": {"changes": changes}})
    for start in range(0, len(left), _IN_A_LINE):
        names = left[start : start + _IN_A_LINE]
        gone = [before[name].partition(".")[0] for name in names]
        logger.info("Serving without %s", _named(names), extra={"fields": {"gone": gone}})


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
