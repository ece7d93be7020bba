"""Reading Secrets of the credential type: from the cache, and from the API server what the cache has not seen.

A Connection may be known here before the Secret that it refers to: the two come by watches of their own.
"""

import time
from collections.abc import Callable, Iterable
from contextlib import suppress

from tieline_core.identity.names import CREDENTIAL_TYPE
from tieline_core.kubernetes import Kube, KubeError, SecretCache
from tieline_core.kubernetes.resources import SECRETS
from tieline_core.objects import ObjectView

_ABSENT_SECONDS = 2.0


class SecretReader:
    """Knows each Secret that exists at the moment it is asked for."""

    def __init__(
        self, kube: Kube, cache: SecretCache, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._kube = kube
        self._cache = cache
        self._clock = clock
        self._absent: dict[tuple[str, str], float] = {}

    async def get(self, namespace: str, name: str) -> ObjectView | None:
        """The Secret, or None where there is none of the credential type.

        What was absent is not asked for again at once.
        """
        found: ObjectView | None = self._cache.get(namespace, name)
        if found is None and self._clock() >= self._absent.get((namespace, name), 0.0):
            found = await self._ask(namespace, name)
        return found if found is not None and found.get("type") == CREDENTIAL_TYPE else None

    async def read(self, namespace: str, name: str) -> ObjectView | None:
        """The Secret as the API server has it now, or None where there is none of the credential type."""
        return await self._ask(namespace, name)

    async def fetch(self, namespace: str, names: Iterable[str]) -> None:
        """Sees to it that the cache has those of ``names`` that exist, as far as Kubernetes can be asked."""
        with suppress(KubeError):
            for name in names:
                await self.get(namespace, name)

    async def _ask(self, namespace: str, name: str) -> ObjectView | None:
        now = self._clock()
        self._absent = {key: until for key, until in self._absent.items() if until > now}
        selector = f"metadata.name={name},type={CREDENTIAL_TYPE}"
        found = await self._kube.list(SECRETS, namespace, field_selector=selector)
        if not found:
            self._absent[namespace, name] = now + _ABSENT_SECONDS
            return None
        self._cache.observe(found[0])
        return found[0]
