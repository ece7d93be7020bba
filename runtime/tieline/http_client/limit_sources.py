"""Who says when requests may be sent: the API for all pods, or the process itself where it is alone."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Protocol
from urllib.parse import quote

import aiohttp

from tieline.configuration.pod_api import UNREACHABLE, PodApi
from tieline.errors import reason
from tieline_common.bounded_dict import BoundedDict
from tieline_protocol.limit_coordinator import LimitState
from tieline_protocol.request_limits import ANSWER_SECONDS, RequestLimits, SlotAnswer, SlotQuestion

PATH = "/internal/v1/connections"
_TIMEOUT = aiohttp.ClientTimeout(total=ANSWER_SECONDS, connect=1)
_REMEMBERED = 1000


class LimitsUnavailableError(Exception):
    """Nobody can say now when requests may be sent."""


class LimitSource(Protocol):
    """Answers questions about connections, by their ids."""

    async def ask(self, connection: str, limits: RequestLimits, question: SlotQuestion) -> SlotAnswer:
        """The answer. Raises LimitsUnavailableError."""


@dataclass(frozen=True)
class ApiLimits:
    """The API's coordinator, which all pods of all environments ask. It knows the limits itself."""

    api: PodApi

    async def ask(self, connection: str, limits: RequestLimits, question: SlotQuestion) -> SlotAnswer:
        """See LimitSource."""
        path = f"{PATH}/{quote(connection, safe='')}/limits"
        try:
            answer = await self.api.request("POST", path, body=question.to_json(), limits=_TIMEOUT)
            if answer.status != 200:
                raise LimitsUnavailableError(f"the API answered {answer.status}")
            return SlotAnswer.from_json(answer.json())
        except (*UNREACHABLE, ValueError) as error:
            raise LimitsUnavailableError(reason(error)) from None


@dataclass
class OwnLimits:
    """Coordinates the requests of this process alone: on your own machine, and in tests."""

    clock: Callable[[], float] = time.time
    _states: BoundedDict[str, LimitState] = field(default_factory=lambda: BoundedDict(_REMEMBERED))

    async def ask(self, connection: str, limits: RequestLimits, question: SlotQuestion) -> SlotAnswer:
        """See LimitSource."""
        state = self._states.get(connection)
        if state is None:
            state = self._states[connection] = LimitState()
        answer = state.decide(limits, question, self.clock())
        return replace(answer, now=answer.time)
