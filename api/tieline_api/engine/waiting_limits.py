"""The bound on events that wait: JetStream has none for such a stream, so publishers of new events keep to it."""

from cachetools import TTLCache

from tieline_api.engine.environments import EnvironmentEngines
from tieline_api.engine.errors import EngineFullError, EngineUnavailableError
from tieline_common.single_flight import SingleFlight
from tieline_engine.streams import is_waiting_full
from tieline_protocol.event_streams import EventStreams

_ENVIRONMENTS = 4096
_SECONDS = 10.0


class WaitingLimits:
    """Asks at most once in ten seconds for an environment how much waits there."""

    def __init__(self, engines: EnvironmentEngines, *, seconds: float = _SECONDS) -> None:
        self._engines = engines
        self._full: TTLCache[EventStreams, bool] = TTLCache(_ENVIRONMENTS, seconds)
        self._asking: SingleFlight[EventStreams, bool] = SingleFlight()

    async def require_room(self, streams: EventStreams) -> None:
        """Raises EngineFullError where more waits than may, and NoStreamError.

        Where the engine does not say how much waits, there is room: the limits of its account hold in any case.
        """
        full = self._full.get(streams)
        if full is None:
            try:
                full = await self._asking.run(streams, lambda: self._ask(streams))
            except EngineUnavailableError:
                return
        if full:
            raise EngineFullError

    async def _ask(self, streams: EventStreams) -> bool:
        info = await self._engines.of(streams).stream_info(streams.later)
        full = info is not None and is_waiting_full(info)
        self._full[streams] = full
        return full
