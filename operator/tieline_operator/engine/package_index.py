"""Which packages the event engine has, as reconcilers see it: read now and then, and when something waits for some."""

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, suppress

from nats.aio.client import Client

from tieline_core.engine.package_streams import PackageEntry, stored_packages
from tieline_core.engine.trust import AccountSigner
from tieline_core.kubernetes.resources import PROJECT_VERSIONS
from tieline_operator.cache.cluster_cache import Listers
from tieline_operator.cache.indexers import namespace_of
from tieline_operator.cache.organisations import organisation_of
from tieline_operator.engine.account_turns import AccountTurns

logger = logging.getLogger(__name__)

REFRESH_SECONDS = 60.0
_PAUSE_SECONDS = 1.0
_ORGANISATION_SECONDS = 20.0
_TOTAL_SECONDS = 60.0


class PackageIndex:
    """What is known stays known while the engine is away: packages are not deleted while a version needs them."""

    def __init__(
        self,
        listers: Listers,
        *,
        signer: Callable[[], AccountSigner | None],
        open_account: Callable[[AccountSigner], AbstractAsyncContextManager[Client]],
        require_streams: Callable[[str], None],
        changed: Callable[[str], None],
    ) -> None:
        """``signer`` is of the platform's account. ``changed`` is called with a namespace whose packages are others.

        ``require_streams`` is called with a namespace whose organisation needs a stream of packages.
        """
        self._listers = listers
        self._require_streams = require_streams
        self._changed = changed
        self._entries: dict[str, Mapping[str, PackageEntry]] = {}
        self._wanted = asyncio.Event()
        self._turns = AccountTurns(
            "The packages in the event engine cannot be listed",
            signer=signer,
            open_account=open_account,
            seconds=_ORGANISATION_SECONDS,
            total_seconds=_TOTAL_SECONDS,
        )

    @property
    def stalled(self) -> int:
        """Organisations whose packages cannot be listed."""
        return self._turns.stalled

    def get(self, namespace: str, *, again: bool = False) -> Mapping[str, PackageEntry] | None:
        """The packages of a namespace's organisation by key; None while they are not known.

        With ``again``, and while they are not known, they are read soon.
        """
        found = self._entries.get(namespace)
        if found is None or again:
            self._wanted.set()
        return found

    async def run(self) -> None:
        """Reads, for ever."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(REFRESH_SECONDS):
                    await self._wanted.wait()
            self._wanted.clear()
            await self.refresh()
            await asyncio.sleep(_PAUSE_SECONDS)

    async def refresh(self) -> None:
        """Reads the packages of all organisations whose versions need some."""
        namespaces = sorted(set(namespaces_with_locks(self._listers)))
        if not namespaces:
            return
        await self._turns.take(namespaces, self._refresh)
        for gone in self._entries.keys() - set(namespaces):
            del self._entries[gone]

    async def _refresh(self, client: Client, namespace: str) -> None:
        organisation = organisation_of(self._listers, namespace)
        if organisation is None:
            return
        if namespace not in self._entries:
            self._require_streams(namespace)
        found = await stored_packages(client, organisation)
        if found != self._entries.get(namespace):
            self._entries[namespace] = found
            self._changed(namespace)


def namespaces_with_locks(listers: Listers) -> Iterator[str]:
    """The namespaces with versions that need packages."""
    for version in listers[PROJECT_VERSIONS].list():
        if version.get("status", {}).get("packageLock"):
            yield namespace_of(version)
