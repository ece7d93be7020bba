"""Reads values of environments from the engine, once a minute, for those that have notifications about them."""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from nats.aio.client import Client

from tieline_core.engine.state_reading import values_at
from tieline_core.engine.state_streams import StatePlace
from tieline_core.engine.trust import AccountSigner
from tieline_core.identity.ids import environment_id, object_id
from tieline_core.kubernetes.resources import NOTIFICATIONS, PROJECTS
from tieline_core.resources.notifications import FAILURE_EVENTS, NotificationEvent
from tieline_operator.apply.plan import Object
from tieline_operator.cache.cluster_cache import Listers
from tieline_operator.cache.indexers import namespace_of, ref
from tieline_operator.cache.organisations import organisation_of
from tieline_operator.queues.organisation_turns import OrganisationTurns

logger = logging.getLogger(__name__)

POLL_SECONDS = 60.0
STALE_SECONDS = 240.0
"""After this long without an answer of the engine, nothing is known."""
_ORGANISATION_SECONDS = 15.0
_TOTAL_SECONDS = 45.0

Environment = tuple[str, str]
"""Namespace and id of an environment."""


@dataclass(frozen=True, kw_only=True)
class WantedValues:
    """Which values are read."""

    events: frozenset[NotificationEvent]
    """Notifications about any of them need the values."""
    place: Callable[[str, str], StatePlace]
    """Where those of an environment are, by the ids of its organisation and of itself."""
    limit: int
    """Of an environment, so many are read."""
    problem: str
    """What the log says when they cannot be read."""


@dataclass(frozen=True)
class _Reading:
    at: float
    records: Mapping[str, bytes]


class PlaceReader:
    """The values at one place of each environment that has notifications about some events."""

    def __init__(
        self,
        listers: Listers,
        wanted: WantedValues,
        *,
        signer: Callable[[], AccountSigner | None],
        open_account: Callable[[AccountSigner], AbstractAsyncContextManager[Client]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``signer`` is of the platform's account, None while it is not known."""
        self._listers = listers
        self._values = wanted
        self._signer = signer
        self._open = open_account
        self._clock = clock
        self._readings: dict[Environment, _Reading] = {}
        self._turns = OrganisationTurns(
            wanted.problem,
            seconds=_ORGANISATION_SECONDS,
            total_seconds=_TOTAL_SECONDS,
            clock=clock,
        )
        self._problem = ""

    @property
    def stalled(self) -> int:
        """Organisations whose values cannot be read."""
        return self._turns.stalled

    def records(self, namespace: str, environment_id: str) -> Mapping[str, bytes] | None:
        """The values of an environment by their keys; None while nothing is known."""
        found = self._readings.get((namespace, environment_id))
        return None if found is None or self._clock() - found.at > STALE_SECONDS else found.records

    async def run(self) -> None:
        """Polls, for ever."""
        while True:
            await self.poll()
            await asyncio.sleep(POLL_SECONDS)

    async def poll(self) -> None:
        """Reads the values of all environments that have notifications about the events."""
        wanted = {
            environment: place
            for notification in self._listers[NOTIFICATIONS].list()
            for environment, place in self._wanted(notification)
        }
        self._readings = {one: reading for one, reading in self._readings.items() if one in wanted}
        signer = self._signer()
        if not wanted or signer is None:
            return
        try:
            async with self._open(signer) as client:
                await self._turns.take(
                    {namespace for namespace, _ in wanted},
                    lambda namespace: self._read(client, namespace, wanted),
                    usable=lambda: client.is_connected,
                )
        except Exception as error:
            problem = str(error) or type(error).__name__
            level = logging.DEBUG if problem == self._problem else logging.WARNING
            logger.log(level, "%s, trying again: %s", self._values.problem, problem)
            self._problem = problem
        else:
            self._problem = ""

    async def _read(self, client: Client, namespace: str, wanted: Mapping[Environment, StatePlace]) -> None:
        """Reads the values of a namespace's environments."""
        for environment, place in wanted.items():
            if environment[0] == namespace:
                records = await values_at(client, place, limit=self._values.limit)
                self._readings[environment] = _Reading(self._clock(), records)

    def _wanted(self, notification: Object) -> list[tuple[Environment, StatePlace]]:
        spec, namespace = notification["spec"], namespace_of(notification)
        project = ref(notification, "projectRef")
        found = self._listers[PROJECTS].get(namespace, project) if project else None
        organisation = organisation_of(self._listers, namespace)
        is_wanted = self._values.events & set(spec.get("events") or FAILURE_EVENTS)
        if not is_wanted or found is None or organisation is None:
            return []
        identifier = environment_id(object_id(found), spec["environment"])
        return [((namespace, identifier), self._values.place(organisation, identifier))]
