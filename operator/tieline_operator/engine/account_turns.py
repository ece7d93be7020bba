"""Turns of organisations, with a client of the platform's account in the event engine."""

import logging
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager

from nats.aio.client import Client

from tieline_core.engine.trust import AccountSigner
from tieline_operator.queues.organisation_turns import OrganisationTurns

logger = logging.getLogger(__name__)


class AccountTurns:
    """Gives each organisation its turns. A problem that all of them share is logged once."""

    def __init__(
        self,
        problem: str,
        *,
        signer: Callable[[], AccountSigner | None],
        open_account: Callable[[AccountSigner], AbstractAsyncContextManager[Client]],
        seconds: float,
        total_seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``problem`` says in the log what cannot be done. ``signer`` is of the platform's account; ``seconds`` are for
        one turn, ``total_seconds`` for a round of turns."""
        self._text = problem
        self._signer = signer
        self._open = open_account
        self._turns = OrganisationTurns(problem, seconds=seconds, total_seconds=total_seconds, clock=clock)
        self._problem = ""

    @property
    def stalled(self) -> int:
        """Organisations for which the work has failed several times in a row."""
        return self._turns.stalled

    async def take(
        self, organisations: Iterable[str], work: Callable[[Client, str], Awaitable[None]]
    ) -> None:
        """Does ``work`` for each organisation whose turn it is. Nothing is done while there is no signer."""
        signer = self._signer()
        if signer is None:
            return
        try:
            async with self._open(signer) as client:
                await self._turns.take(
                    organisations, lambda name: work(client, name), usable=lambda: client.is_connected
                )
        except Exception as error:
            problem = str(error) or type(error).__name__
            level = logging.DEBUG if problem == self._problem else logging.WARNING
            logger.log(level, "%s, trying again: %s", self._text, problem)
            self._problem = problem
        else:
            self._problem = ""
