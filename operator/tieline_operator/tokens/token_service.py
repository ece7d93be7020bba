"""Wires the parts that keep tokens fresh."""

from collections.abc import Callable

import aiohttp

from tieline_core.credentials.live_lookups import LiveCredentialLookups
from tieline_core.credentials.token_manager import TokenManager
from tieline_core.kubernetes import Kube
from tieline_core.oauth.state_store import OAuthStateStore
from tieline_operator.cache.cluster_cache import ClusterCache
from tieline_operator.cache.credential_directory import CacheDirectory
from tieline_operator.config import Config
from tieline_operator.metrics import Metrics
from tieline_operator.tokens.refresher import TokenRefresher
from tieline_protocol.oauth.token_client import TokenClient

# The operator stores no states, but the store requires a lifetime.
_STATES = 600.0


class TokenService:
    """Owns the HTTP session with providers. Create it inside a running event loop."""

    def __init__(
        self,
        config: Config,
        kube: Kube,
        cache: ClusterCache,
        metrics: Metrics,
        changed: Callable[[str, str], None],
        leads: Callable[[], bool],
    ) -> None:
        self._session = aiohttp.ClientSession(
            connector=config.egress.connector(), cookie_jar=aiohttp.DummyCookieJar()
        )
        token_manager = TokenManager(
            kube,
            client=TokenClient(self._session),
            lookups=LiveCredentialLookups(CacheDirectory(cache), kube),
            states=OAuthStateStore(kube, seconds=_STATES),
        )
        self.refresher = TokenRefresher(cache, token_manager, metrics, changed=changed, leads=leads)
        queue = self.refresher.queue
        metrics.watch_refreshes(waiting=lambda: len(queue), late=lambda: queue.late)

    async def close(self) -> None:
        """Closes the connections."""
        await self._session.close()
