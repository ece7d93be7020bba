"""The limits of connections, for requests of the API: it takes part in them as one more pod."""

from dataclasses import dataclass, field

from tieline.http_client.limit_sources import LimitsUnavailableError
from tieline_api.engine.limit_states import LimitStates
from tieline_api.errors import ApiError
from tieline_common.bounded_dict import BoundedDict
from tieline_protocol.request_limits import RequestLimits, SlotAnswer, SlotQuestion

_REMEMBERED = 10_000


@dataclass
class PlatformLimits:
    """See LimitSource of the runtime."""

    states: LimitStates
    _organisations: BoundedDict[str, str] = field(default_factory=lambda: BoundedDict(_REMEMBERED))

    def remember(self, connection: str, organisation: str) -> None:
        """Whose connection it is, for the questions about it."""
        self._organisations[connection] = organisation

    async def ask(self, connection: str, limits: RequestLimits, question: SlotQuestion) -> SlotAnswer:
        """See LimitSource."""
        organisation = self._organisations.get(connection)
        if organisation is None:
            raise LimitsUnavailableError("the connection no longer exists")
        try:
            return await self.states.ask(organisation, connection, limits, question)
        except ApiError as error:
            raise LimitsUnavailableError(str(error)) from None
