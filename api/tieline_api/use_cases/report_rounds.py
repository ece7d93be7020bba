"""Rounds in which a replica looks at environments that have notifications about something, for the operator.

Every replica looks. What was reported is in a ledger for each environment, which is changed by compare-and-swap, so
that of several replicas one reports.
"""

import asyncio
import logging
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from tieline_api.dependencies import Dependencies
from tieline_api.errors import ApiError
from tieline_api.state.documents import Document, DocumentKey, DocumentLimits, DocumentScope
from tieline_common.backoff import jitter
from tieline_core.engine.state_streams import StatePlace
from tieline_core.identity.ids import environment_id, object_id
from tieline_core.objects import ObjectView
from tieline_core.resources.notifications import FAILURE_EVENTS, NotificationEvent

L = TypeVar("L")

logger = logging.getLogger("tieline.reports")

ROUND_SECONDS = 15.0
MAX_ENVIRONMENTS = 50
"""Of an organisation in one round; the next rounds look at the others."""
_ORGANISATION_SECONDS = 10.0
_CONFLICT = 409
LIMITS = DocumentLimits(keys=1, value_bytes=256 * 1024)


@dataclass(frozen=True)
class WatchedEnvironment:
    """An environment with a notification about the events of a reporter."""

    organisation: str
    namespace: str
    id: str


class Reporter(ABC):
    """Looks at the environments that have notifications about ``events``."""

    events: frozenset[NotificationEvent]
    what: str
    """What is reported, for the log."""

    def __init__(self, platform: Dependencies, *, now: Callable[[], int] = time.time_ns) -> None:
        self._platform = platform
        self._now = now
        self._turns: dict[str, deque[WatchedEnvironment]] = {}
        """Of each organisation, the environment that was looked at longest ago comes first."""

    async def run_periodically(self) -> None:
        """Looks every few seconds, for ever."""
        while True:
            await asyncio.sleep(jitter(ROUND_SECONDS))
            try:
                await self.report()
            except Exception:  # without another round nobody would be notified
                logger.exception("Cannot look for %s to report, trying again", self.what)

    async def report(self) -> int:
        """One round; returns how many reports were written."""
        if not self._platform.cluster.ready:
            return 0
        watched = watched_environments(self._platform, self.events)
        by_organisation: dict[str, list[WatchedEnvironment]] = {}
        for one in watched:
            by_organisation.setdefault(one.organisation, []).append(one)
        self._turns = {
            name: _turns(self._turns.get(name, ()), found) for name, found in by_organisation.items()
        }
        written = 0
        for organisation, turns in self._turns.items():
            try:
                async with asyncio.timeout(_ORGANISATION_SECONDS):
                    written += await self._report_organisation(turns, watched)
            except (ApiError, TimeoutError) as error:
                logger.debug(
                    "%s cannot be reported, trying again: %s",
                    self.what.capitalize(),
                    str(error) or type(error).__name__,
                    extra={"organisation": organisation},
                )
        return written

    async def _report_organisation(
        self, turns: deque[WatchedEnvironment], watched: Mapping[WatchedEnvironment, int]
    ) -> int:
        written = 0
        for _ in range(min(len(turns), MAX_ENVIRONMENTS)):
            turns.rotate(-1)
            written += await self._report_environment(turns[-1], watched[turns[-1]])
        return written

    @abstractmethod
    async def _report_environment(self, environment: WatchedEnvironment, since: int) -> int:
        """Writes what is to be reported of an environment; returns how many reports. ``since`` is in nanoseconds."""

    def _parsed(self, stored: Document | None, parse: Callable[[bytes], L]) -> L | None:
        """A stored ledger; None where there is none that can be read. Then all that is there counts as reported."""
        try:
            return parse(stored.text) if stored else None
        except ValueError:
            logger.warning(
                "Cannot read which %s were reported: those that are there count as reported", self.what
            )
            return None

    async def _replace(
        self, key: DocumentKey, stored: Document | None, content: Mapping[str, object]
    ) -> bool:
        """Writes a ledger in the place of ``stored``; False where another replica was faster."""
        try:
            await self._platform.documents.put(
                key, content, anyway=False, expected=stored.version if stored else None
            )
        except ApiError as error:
            if error.status != _CONFLICT:
                raise
            return False
        return True


def ledger_at(place: StatePlace, key: str) -> DocumentKey:
    """Where it is kept what was reported."""
    return DocumentScope(place=place, bounds=LIMITS).document(key)


def watched_environments(
    platform: Dependencies, events: frozenset[NotificationEvent]
) -> dict[WatchedEnvironment, int]:
    """The environments that have notifications about ``events``, with the creation of the first one (nanoseconds)."""
    found: dict[WatchedEnvironment, int] = {}
    for environment, since in _watched(platform, events):
        found[environment] = min(found.get(environment, since), since)
    return found


def console_url(platform: Dependencies) -> str:
    """The URL of the console; empty where none is configured."""
    settings = platform.settings
    return f"{settings.public_api_url}/console" if settings.console and settings.public_api_url else ""


def _watched(
    platform: Dependencies, events: frozenset[NotificationEvent]
) -> Iterator[tuple[WatchedEnvironment, int]]:
    cluster = platform.cluster
    for notification in cluster.notifications.list():
        namespace, spec = notification["metadata"]["namespace"], notification["spec"]
        if not events & set(spec.get("events") or FAILURE_EVENTS):
            continue
        organisation = cluster.organisation_of(namespace)
        project = cluster.referred(cluster.projects, notification, "projectRef")
        if organisation is None or project is None:
            continue
        identifier = environment_id(object_id(project), spec["environment"])
        yield WatchedEnvironment(organisation.id, namespace, identifier), _created(notification)


def _created(obj: ObjectView) -> int:
    return round(datetime.fromisoformat(obj["metadata"]["creationTimestamp"]).timestamp()) * 1_000_000_000


def _turns(
    before: deque[WatchedEnvironment] | tuple[()], found: Sequence[WatchedEnvironment]
) -> deque[WatchedEnvironment]:
    known = set(before)
    there = set(found)
    return deque([*(one for one in found if one not in known), *(one for one in before if one in there)])
