"""Deletes from the engine state and schedules of what is gone, and packages that no version needs."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager

from nats.aio.client import Client

from tieline_core.engine.package_streams import packages_stream, stored_packages
from tieline_core.engine.state_reading import purge, subjects_of
from tieline_core.engine.state_streams import (
    OWN,
    activation_of_subject,
    environment_of_subject,
    state_stream_names,
)
from tieline_core.engine.trust import AccountSigner
from tieline_core.identity.ids import object_id
from tieline_core.kubernetes.resources import ACTIVATIONS, NAMESPACES
from tieline_operator.cache.cluster_cache import Listers
from tieline_operator.cache.organisations import organisation_of
from tieline_operator.engine.account_turns import AccountTurns
from tieline_operator.engine.desired_streams import KnownStreams
from tieline_operator.engine.package_leftovers import leftovers, needed_keys
from tieline_protocol.event_streams import EventStreams

logger = logging.getLogger(__name__)

SWEEP_SECONDS = 300.0
GRACE_SECONDS = 3600.0
"""How long somebody must have been gone until what was kept for it is deleted."""
_ORGANISATION_SECONDS = 60.0
_TOTAL_SECONDS = 240.0

Left = tuple[str, str]
"""A stream, and what the subjects of one environment's schedules or of one activation's state begin with."""


class StateSweep:
    """Sweeps now and then. How long somebody is gone is counted from when this process first found it so."""

    def __init__(
        self,
        listers: Listers,
        *,
        signer: Callable[[], AccountSigner | None],
        open_account: Callable[[AccountSigner], AbstractAsyncContextManager[Client]],
        architecture: str,
        healthy: Callable[[], bool] = lambda: True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``signer`` is of the platform's account. While the caches are not ``healthy``, nothing is deleted.

        ``architecture`` is that of the packages.
        """
        self._listers = listers
        self._healthy = healthy
        self._architecture = architecture
        self._clock = clock
        self._gone: dict[Left, float] = {}
        self._turns = AccountTurns(
            "State of what is gone cannot be deleted",
            signer=signer,
            open_account=open_account,
            seconds=_ORGANISATION_SECONDS,
            total_seconds=_TOTAL_SECONDS,
            clock=clock,
        )

    @property
    def stalled(self) -> int:
        """Organisations whose state cannot be read."""
        return self._turns.stalled

    async def run(self) -> None:
        """Sweeps, for ever."""
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            await self.sweep()

    async def sweep(self) -> None:
        """Looks at all organisations, and deletes what is due."""
        if not self._healthy():
            return
        known = _Known(self._listers)
        self._gone = {left: since for left, since in self._gone.items() if left[0] in known.streams}
        await self._turns.take(
            known.organisations, lambda client, organisation: self._sweep(client, known, organisation)
        )

    async def _sweep(self, client: Client, known: "_Known", organisation: str) -> None:
        now = self._clock()
        found = {left async for left in self._left(client, known, organisation)}
        streams = _streams(organisation)
        others = {left: since for left, since in self._gone.items() if left[0] not in streams}
        mine = {left: self._gone.get(left, now) for left in found}
        self._gone = {**others, **mine}
        for stream, prefix in sorted(left for left, since in mine.items() if now - since >= GRACE_SECONDS):
            values = await purge(client, stream, f"{prefix}.>")
            logger.info(
                "Deleted what was kept for an environment, activation or version that is gone",
                extra={"stream": stream, "values": values},
            )

    async def _left(self, client: Client, known: "_Known", organisation: str) -> AsyncIterator[Left]:
        for stream in state_stream_names(organisation):
            prefixes = {
                prefix
                for subject in await subjects_of(client, stream)
                if (prefix := known.left(organisation, subject)) is not None
            }
            for prefix in prefixes:
                yield stream, prefix
        async for left in self._packages_left(client, organisation):
            yield left

    async def _packages_left(self, client: Client, identifier: str) -> AsyncIterator[Left]:
        stream = packages_stream(identifier)
        subjects = await subjects_of(client, stream)
        if not subjects:
            return
        entries = await stored_packages(client, identifier)
        needed = frozenset(
            key
            for namespace in self._listers[NAMESPACES].by_index("organisation", identifier)
            for key in needed_keys(self._listers, namespace["metadata"]["name"], self._architecture)
        )
        for prefix in {*leftovers(subjects, entries, needed)}:
            yield stream, prefix


def _streams(organisation: str) -> tuple[str, ...]:
    """The streams of an organisation in which something can be left."""
    return (*state_stream_names(organisation), packages_stream(organisation))


class _Known:
    """Which environments and activations there are."""

    def __init__(self, listers: Listers) -> None:
        self._streams = KnownStreams(listers)
        self._activations = {object_id(one) for one in listers[ACTIVATIONS].list()}
        names = (one["metadata"]["name"] for one in listers[NAMESPACES].list())
        found = (organisation_of(listers, name) for name in names)
        self.organisations = sorted({identifier for identifier in found if identifier})
        self.streams = {stream for one in self.organisations for stream in _streams(one)}

    def left(self, organisation: str, subject: str) -> str | None:
        """What the subjects of all that goes with this one begin with, if nobody needs it any more."""
        environment = environment_of_subject(subject)
        if environment is None:
            return None
        if not self._streams.has_environment(EventStreams(organisation, environment)):
            return ".".join(subject.split(".")[:3])
        of = activation_of_subject(subject)
        if of is None or of[1] == OWN or of[1] in self._activations:
            return None
        return ".".join(subject.split(".")[:4])
