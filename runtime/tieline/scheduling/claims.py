"""A pod's claim on a sweep: written again and again for as long as the pod works on it."""

import asyncio
import logging
from dataclasses import dataclass

from tieline.scheduling.clock import Clock
from tieline.scheduling.records import Record, from_json, to_json
from tieline.state.documents import SCHEDULES, DocumentChangedError, Documents, StateUnavailableError

logger = logging.getLogger("tieline.schedules")

_RETRY = 1.0


class ClaimLostError(Exception):
    """Another pod may be working on it by now."""


@dataclass(frozen=True, kw_only=True)
class ClaimTerms:
    """How claims last; seconds."""

    seconds: float = 30.0
    """A claim that is not renewed for so long is taken over."""

    @property
    def renewed(self) -> float:
        """A claim is renewed this often at least."""
        return self.seconds / 4

    @property
    def tick(self) -> float:
        """Runs that have ended are written down within this time."""
        return self.seconds / 15

    @property
    def fence(self) -> float:
        """A pod that could not renew its claim for so long stops its work: others are about to begin with it."""
        return self.seconds * 2 / 3


class Claim:
    """The record of a schedule while this process holds its sweep."""

    def __init__(
        self,
        documents: Documents,
        name: str,
        *,
        record: Record,
        version: str,
        clock: Clock,
        terms: ClaimTerms,
    ) -> None:
        self.record = record
        self._documents = documents
        self._name = name
        self._version = version
        self._clock = clock
        self._terms = terms
        self._written = clock.monotonic()
        self._lock = asyncio.Lock()

    @property
    def age(self) -> float:
        """Seconds since it was renewed."""
        return self._clock.monotonic() - self._written

    async def write(self, record: Record, *, patiently: bool = False) -> None:
        """Renew it with ``record``. Raises ClaimLostError, at the fence at the latest.

        ``patiently`` is for the end, when nothing goes on any more: then only another pod's claim ends the trying.
        """
        async with self._lock:
            while True:
                asked = self._clock.monotonic()
                try:
                    if await self._put(record):
                        self.record, self._written = record, asked
                        return
                except StateUnavailableError as error:
                    if self.age >= self._terms.fence and not patiently:
                        raise ClaimLostError(str(error)) from error
                    await self._clock.wait(asyncio.Event(), _RETRY)

    async def _put(self, record: Record) -> bool:
        """Whether it was written; when not, the version to replace is known now."""
        try:
            self._version = await self._documents.put(
                SCHEDULES, self._name, to_json(record), expected=self._version
            )
        except DocumentChangedError:
            await self._adopt()
            return False
        return True

    async def _adopt(self) -> None:
        """A write whose answer was lost may have happened: then the record is still this process's."""
        found = await self._documents.get(SCHEDULES, self._name)
        there = from_json(found.value) if found else None
        mine = self.record.sweep
        if found is None or there is None or there.sweep is None or mine is None:
            raise ClaimLostError("its record has gone")
        if (there.sweep.holder, there.sweep.due) != (mine.holder, mine.due):
            raise ClaimLostError("another pod has taken it over")
        self._version = found.version
