"""Reports to the platform that a system refuses a connection's credentials, that it accepts them again, and that
requests succeed.

Reports are few: one when refusals begin, one a minute while they go on, one when a request is accepted, and one in ten
minutes while requests succeed.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import quote

import aiohttp

from tieline.configuration.pod_api import UNREACHABLE, PodApi
from tieline.configuration.snapshot import Connection
from tieline.errors import reason
from tieline_common.bounded_dict import BoundedDict

logger = logging.getLogger("tieline.http")

PATH = "/internal/v1/connections"
_TIMEOUT = aiohttp.ClientTimeout(total=5, connect=2)
_REMEMBERED = 1000
# A system may forbid single things with 403; it does so to all requests if it refuses the credentials.
_FORBIDDEN_IN_A_ROW = 3
_AGAIN_SECONDS = 60.0
_SUCCESS_SECONDS = 600.0
_SUCCESSES = 10_000
_OTHER_SECONDS = 5.0
_SHORTEST_WAIT = 0.1
# What says nothing about the credentials: proxies, time-outs, limits, and a system in trouble.
_SILENT = frozenset({407, 408, 421, 425, 429})


@dataclass
class _Reported:
    in_a_row: int = 0
    unsent: int = 0
    status: int = 200
    said: str = ""
    """The beginning of the last refusal's body."""
    fingerprint: str = ""
    """The credentials that the last answer is about."""
    refused: bool = False
    """Whether the credentials count as refused."""
    due: bool = False
    reported: bool | None = None
    """What was reported last; None: nothing."""
    reported_of: str = ""
    """The credentials that it was about."""
    sent_at: float = -_AGAIN_SECONDS

    @property
    def earliest(self) -> float:
        """When the next report may be sent: soon where it is another one than the last."""
        is_same = self.reported is self.refused and self.reported_of == self.fingerprint
        return self.sent_at + (_AGAIN_SECONDS if is_same else _OTHER_SECONDS)


@dataclass
class OutcomeReporter:
    """Sees the status of each answer, and sends reports in the background."""

    api: PodApi
    now: Callable[[], float] = time.monotonic
    _states: BoundedDict[str, _Reported] = field(default_factory=lambda: BoundedDict(_REMEMBERED))
    _successes: BoundedDict[str, tuple[str, float]] = field(default_factory=lambda: BoundedDict(_SUCCESSES))
    """By the connection's id: the credentials with which a request succeeded, and when that was reported."""
    _woken: asyncio.Event = field(default_factory=asyncio.Event)

    def answered(self, connection: Connection, status: int, said: str = "") -> None:
        """A request was answered, after all that the runtime does by itself (another access token after a 401)."""
        if status >= 500 or status in _SILENT:
            return
        state = self._states.get(connection.id)
        if status in (401, 403):
            if state is None:
                state = self._states[connection.id] = _Reported()
            state.in_a_row += 1
            state.unsent += 1
            state.status, state.said, state.fingerprint = status, said, connection.fingerprint
            if status == 401 or state.in_a_row >= _FORBIDDEN_IN_A_ROW or connection.refused:
                state.refused = True
                self._tell(state)
            return
        is_success = status < 400 and self._is_news(connection)
        if state is None and not connection.refused and not is_success:
            return
        if state is None:
            state = self._states[connection.id] = _Reported()
        state.refused = False
        state.in_a_row = state.unsent = 0
        state.status, state.fingerprint = status, connection.fingerprint
        state.due = False  # a refusal that was not reported yet needs no taking back
        if connection.refused and state.reported is False:
            state.reported = None  # another pod was refused since: that it is over is news again
        if connection.refused or state.reported or is_success:
            self._tell(state)

    def _is_news(self, connection: Connection) -> bool:
        """Whether the platform does not know yet that requests succeed with these credentials."""
        fingerprint, reported = self._successes.get(connection.id) or ("", -_SUCCESS_SECONDS)
        return fingerprint != connection.fingerprint or self.now() - reported >= _SUCCESS_SECONDS

    def _tell(self, state: _Reported) -> None:
        state.due = True
        self._woken.set()

    async def run(self) -> None:
        """Send reports until cancelled."""
        while True:
            wait = await self._send_due()
            try:
                await asyncio.wait_for(self._woken.wait(), wait)
            except TimeoutError:
                continue
            self._woken.clear()

    async def _send_due(self) -> float | None:
        """Send what may be sent now; the seconds until more may be, None where nothing waits."""
        later: list[float] = []
        for identifier, state in list(self._states.items()):
            if not state.due:
                continue
            left = state.earliest - self.now()
            if left > 0:
                later.append(left)
                continue
            await self._send(identifier, state)
            if state.due:
                later.append(max(state.earliest - self.now(), _SHORTEST_WAIT))
        return min(later, default=None)

    async def _send(self, identifier: str, state: _Reported) -> None:
        refused, count = state.refused, state.unsent
        state.sent_at = self.now()
        status, fingerprint = state.status, state.fingerprint
        body: dict[str, object] = {"status": status, "of": fingerprint}
        if refused:
            body |= {"count": max(count, 1), "said": state.said}
        path = f"{PATH}/{quote(identifier, safe='')}/outcome"
        try:
            answer = await self.api.request("POST", path, body=body, limits=_TIMEOUT)
        except UNREACHABLE as error:
            logger.debug("Refused requests cannot be reported to the platform: %s", reason(error))
            return
        if answer.status >= 500 or answer.status == 429:
            return
        # An older API has no such endpoint, and a connection may be gone: neither is asked again for this.
        state.reported, state.reported_of = refused, fingerprint
        if not refused and status < 400:
            self._successes[identifier] = (fingerprint, self.now())
        if state.refused is refused:
            state.unsent -= count if refused else 0
            state.due = refused and state.unsent > 0
