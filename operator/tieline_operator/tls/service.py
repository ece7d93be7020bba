"""Wires what keeps TLS: the keeper of the certificates, and the distribution of the authorities."""

import asyncio
import ssl
from contextlib import suppress

from tieline_common.authorities import Trust
from tieline_common.cancellation import cancel_and_wait
from tieline_core.kubernetes import Kube
from tieline_core.kubernetes import resources as r
from tieline_operator.apply.applier import Writer
from tieline_operator.cache.cluster_cache import ClusterCache
from tieline_operator.config import Config
from tieline_operator.tls.distribution import Distribution
from tieline_operator.tls.keeper import TlsKeeper

_FIRST_SECONDS = 15.0


class TlsService:
    """TLS between pods and the platform, as long as this replica leads; nothing where it is disabled."""

    def __init__(self, config: Config, kube: Kube, writes: Writer, cache: ClusterCache) -> None:
        self._config = config
        self._cache = cache
        self._keeper = TlsKeeper(
            kube,
            writes,
            namespace=config.lease_namespace,
            source=config.tls_certificates,
            changed=self._changed,
        )
        self._distribution = Distribution(
            cache, writes, lambda: self._keeper.trusted, namespaces=config.namespaces
        )
        self._work: asyncio.Task[None] | None = None

    @property
    def engine_trust(self) -> Trust | None:
        """How the operator verifies the engine's servers; None where they are others' or speak plain text."""
        return self._trust if self._config.engine_by_tls else None

    def follow(self) -> None:
        """Follows organisations and their ConfigMaps. Call it before the caches start."""
        if self._config.tls.is_served:
            self._cache[r.NAMESPACES].subscribe(self._distribution.namespace_changed)
            self._cache[r.CONFIG_MAPS].subscribe(self._distribution.config_map_changed)

    async def start(self) -> None:
        """Starts the work of the leader. Makes certificates first, since API and engine wait for them."""
        if not self._config.tls.is_served:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(_FIRST_SECONDS):
                await self._keeper.refresh()
        self._distribution.queue.start()
        self._distribution.all_changed()
        self._work = asyncio.create_task(self._keeper.run(), name="certificates")

    async def stop(self) -> None:
        """Ends the work."""
        if self._work is not None:
            await cancel_and_wait(self._work)
            self._work = None
            await self._distribution.queue.stop()

    def _changed(self) -> None:
        self._distribution.all_changed()

    def _trust(self) -> ssl.SSLContext:
        return self._keeper.trust()
