"""The parts that keep tokens fresh, put together."""

from collections.abc import Callable

import aiohttp

from tieline_core.kube import Kube
from tieline_core.oauth.keeping import Keeper
from tieline_core.oauth.live_lookups import LiveLookups
from tieline_core.oauth.states import OAuthStates
from tieline_core.oauth.tokens import TokenClient
from tieline_operator.config import Config
from tieline_operator.lookups import CacheDirectory
from tieline_operator.metrics import Metrics
from tieline_operator.refreshes import Refreshes
from tieline_operator.world import World

# Only for states that somebody remembers here, which the operator does not.
_STATES = 600.0


class Tokens:
    """Owns the connections to providers. Make it where an event loop runs."""

    def __init__(
        self,
        config: Config,
        kube: Kube,
        world: World,
        metrics: Metrics,
        changed: Callable[[str, str], None],
        leads: Callable[[], bool],
    ) -> None:
        self._session = aiohttp.ClientSession(
            connector=config.egress.connector(), cookie_jar=aiohttp.DummyCookieJar()
        )
        keeper = Keeper(
            kube,
            client=TokenClient(self._session),
            lookups=LiveLookups(CacheDirectory(world), kube),
            states=OAuthStates(kube, seconds=_STATES),
        )
        self.refreshes = Refreshes(world, keeper, metrics, changed=changed, leads=leads)
        queue = self.refreshes.queue
        metrics.watch_refreshes(waiting=lambda: len(queue), late=lambda: queue.late)

    async def close(self) -> None:
        """Closes the connections."""
        await self._session.close()
