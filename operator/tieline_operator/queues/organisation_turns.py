"""Periodic work for each organisation, where one organisation never ends or delays the work for the others."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass

from tieline_common.backoff import exponential, jitter

logger = logging.getLogger(__name__)

STALLED_FAILURES = 3
"""An organisation counts as stalled after so many failures in a row."""
_FIRST_PAUSE, _LONGEST_PAUSE = 30.0, 600.0
_NEVER = float("-inf")


@dataclass
class _Turn:
    """What happened in an organisation's turns."""

    last: float = _NEVER
    failures: int = 0
    """In a row."""
    not_before: float = _NEVER
    suspect: bool = False
    """Whether what is shared was lost in its turn, and it had none that worked since: it has its turns alone."""


class OrganisationTurns:
    """Gives each organisation a turn with its own try, time budget and backoff.

    Within the total time, those that had no turn for the longest come first.
    """

    def __init__(
        self,
        work: str,
        *,
        seconds: float,
        total_seconds: float,
        at_once: int = 2,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``work`` names the work in the log. ``seconds`` are for one turn, ``total_seconds`` for a round of turns."""
        self._work = work
        self._seconds = seconds
        self._total_seconds = total_seconds
        self._at_once = at_once
        self._clock = clock
        self._turns: dict[str, _Turn] = {}

    @property
    def stalled(self) -> int:
        """Organisations for which the work has failed several times in a row."""
        return sum(turn.failures >= STALLED_FAILURES for turn in self._turns.values())

    async def take(
        self,
        organisations: Iterable[str],
        work: Callable[[str], Awaitable[object]],
        *,
        usable: Callable[[], bool] = lambda: True,
    ) -> None:
        """Does ``work`` for each organisation whose turn it is.

        When ``usable`` is False after a failure, what all organisations share has failed, for example the connection:
        the round ends and raises what ``work`` raised. Those whose turn it was come last and alone in the next rounds,
        and what fails then is their failure: their stream may be what ends the connection.
        """
        wanted = set(organisations)
        self._turns = {name: self._turns.get(name, _Turn()) for name in wanted}
        ready = [name for name, turn in self._turns.items() if turn.not_before <= self._clock()]
        ready.sort(key=lambda name: (self._turns[name].last, name))
        suspects = [name for name in ready if self._turns[name].suspect]
        loop = asyncio.get_running_loop()
        until = loop.time() + self._total_seconds
        broken: list[Exception] = []

        async def worker(names: Iterator[str]) -> None:
            for name in names:
                alone = self._turns[name].suspect
                error = await self._take(name, work)
                lost = error is not None and not usable()
                if error is not None and lost:
                    broken.append(error)
                    self._turns[name].suspect = True
                if error is not None and (alone or not lost):
                    self._failed(name, error)
                if broken or loop.time() >= until:
                    return

        waiting = iter([name for name in ready if not self._turns[name].suspect])
        await asyncio.gather(*(worker(waiting) for _ in range(self._at_once)))
        if suspects and not broken:
            await worker(iter(suspects))
        if broken:
            raise broken[0]

    async def _take(self, name: str, work: Callable[[str], Awaitable[object]]) -> Exception | None:
        """The error with which the work failed."""
        turn = self._turns[name]
        try:
            async with asyncio.timeout(self._seconds):
                await work(name)
        except Exception as error:
            return error
        finally:
            turn.last = self._clock()
        if turn.failures >= STALLED_FAILURES:
            logger.info("%s for an organisation: this is over", self._work, extra={"organisation": name})
        turn.failures, turn.not_before, turn.suspect = 0, _NEVER, False
        return None

    def _failed(self, name: str, error: Exception) -> None:
        turn = self._turns[name]
        turn.failures += 1
        pause = jitter(exponential(turn.failures, first=_FIRST_PAUSE, cap=_LONGEST_PAUSE))
        turn.not_before = self._clock() + pause
        logger.log(
            logging.WARNING if turn.failures in {1, STALLED_FAILURES} else logging.DEBUG,
            "%s for an organisation, trying again in %d s: %s",
            self._work,
            pause,
            str(error) or type(error).__name__,
            extra={"organisation": name, "failures": turn.failures},
        )
