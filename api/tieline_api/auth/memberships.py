"""In which organisations a caller may do something, and with which of the roles of ``deploy/``."""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Literal

from tieline_api.auth.access import MEMBERSHIP, Access
from tieline_api.auth.authentication import Caller
from tieline_api.auth.permissions import Permission
from tieline_api.auth.ttl_cache import TtlCache
from tieline_api.cluster.organisations import Organisation

Role = Literal["viewer", "editor", "admin", "custom"]
Granted = frozenset[Permission]

MOST_ORGANISATIONS = 1000
"""About how many organisations Kubernetes is asked for one caller."""
PROBES: Mapping[Role, tuple[Permission, ...]] = {
    "viewer": (MEMBERSHIP, Permission("watch", "systems")),
    "editor": (Permission("patch", "projects"), Permission("delete", "connections")),
    "admin": (Permission("patch", "systems"), Permission("patch", "credentialgrants")),
}
"""Permissions that each role of ``deploy/`` has and the one before it lacks."""
_ALL = tuple(permission for probes in PROBES.values() for permission in probes)
_CACHED_CALLERS = 2_000
_AT_ONCE = 16
_NOBODY_SECONDS = 2.0
_ANYWHERE = ""
"""As the namespace of a review: all namespaces."""


def role_of(granted: Granted) -> Role:
    """The role that grants what was found to be granted, and no more than that.

    >>> role_of(frozenset(PROBES["viewer"])), role_of(frozenset(_ALL)), role_of(frozenset(_ALL[:1]))
    ('viewer', 'admin', 'custom')
    """
    having: set[Permission] = set()
    for role, probes in PROBES.items():
        having |= set(probes)
        if granted == having:
            return role
    return "custom"


class Memberships:
    """Asks Kubernetes what callers may do, for many organisations at a time.

    Its answers are kept by caller, apart from those for single permissions: a stranger who asks must not push those
    of everybody else out of their cache.
    """

    def __init__(
        self,
        access: Access,
        *,
        seconds: float = 10.0,
        away_seconds: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``away_seconds``: how much longer an answer counts while Kubernetes is away."""
        self._access = access
        self._seconds = seconds
        self._at_once = asyncio.Semaphore(_AT_ONCE)
        self._cache: TtlCache[tuple[object, ...], Mapping[str, Role]] = TtlCache(
            size=_CACHED_CALLERS, grace=away_seconds, clock=clock
        )

    async def of(self, caller: Caller, organisations: Iterable[Organisation]) -> dict[str, Role]:
        """The caller's role in each of ``organisations`` that it is a member of, by namespace.

        Members are those who may list projects, as everywhere in the API. KubeError where Kubernetes cannot be asked.
        """
        asked = list(organisations)

        async def ask() -> tuple[Mapping[str, Role], float]:
            found = await self._ask(caller, asked)
            return found, self._seconds if found else _NOBODY_SECONDS

        roles = await self._cache.get((caller.key(), caller.organisations), ask)
        # The cache may know namespaces that are no organisations any more.
        return {one.namespace: roles[one.namespace] for one in asked if one.namespace in roles}

    async def _ask(self, caller: Caller, organisations: Iterable[Organisation]) -> dict[str, Role]:
        everywhere = await self._granted(caller, _ANYWHERE, _ALL)

        async def ask(namespace: str) -> tuple[str, Granted]:
            if MEMBERSHIP not in everywhere and not await self._granted(caller, namespace, (MEMBERSHIP,)):
                return namespace, frozenset()
            others = [one for one in _ALL if one not in everywhere and one != MEMBERSHIP]
            return namespace, everywhere | {MEMBERSHIP} | await self._granted(caller, namespace, others)

        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(ask(one.namespace)) for one in organisations]
        except ExceptionGroup as failed:
            raise failed.exceptions[0] from None
        return {namespace: role_of(granted) for namespace, granted in (t.result() for t in tasks) if granted}

    async def _granted(self, caller: Caller, namespace: str, permissions: Iterable[Permission]) -> Granted:
        granted = set()
        for permission in permissions:
            async with self._at_once:
                if await self._access.review(caller, namespace, permission):
                    granted.add(permission)
        return frozenset(granted)
