"""Writes are guarded by the leader Lease.

A replica that is stopped for a while (by a debugger, a machine that sleeps, a node without memory) resumes in the
middle of its work and does not know that another one leads by now. So each write checks the Lease first, and times out
with it: no write starts once another replica may have taken over. (A write that was just being sent may still arrive;
the new leader reverts it.)

Tokens are not written this way: their Secrets are replaced by resourceVersion, which fences them in the API server,
and a token that a provider has just rotated must be kept in any case (docs/decisions/0011). A refresh does not start
without the Lease, but one that has started is completed.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeVar, Unpack

from tieline_core.kubernetes import Applied, KubeError, Resource
from tieline_operator.apply.applier import ApplyOptions, Preconditions, Writer
from tieline_operator.apply.plan import MANAGER, Object

T = TypeVar("T")


class NotLeaderError(KubeError):
    """Another replica may lead: nothing was written, or it is unknown whether it was."""


class LeaderGuardedClient:
    """Writes while ``remaining_lease`` (seconds of certain leadership) is above zero; else raises NotLeaderError."""

    def __init__(self, kube: Writer, remaining_lease: Callable[[], float]) -> None:
        self._kube = kube
        self._remaining_lease = remaining_lease

    async def create(
        self, resource: Resource, obj: Mapping[str, Any], *, field_manager: str = MANAGER
    ) -> Object:
        return await self._while_leading(
            lambda: self._kube.create(resource, obj, field_manager=field_manager), f"create {resource.plural}"
        )

    async def apply(
        self, resource: Resource, obj: Mapping[str, Any], **options: Unpack[ApplyOptions]
    ) -> Applied:
        return await self._while_leading(
            lambda: self._kube.apply(resource, obj, **options), f"apply {resource.plural}"
        )

    async def delete(
        self, resource: Resource, name: str, namespace: str | None = None, **options: Unpack[Preconditions]
    ) -> object:
        return await self._while_leading(
            lambda: self._kube.delete(resource, name, namespace, **options), f"delete {resource.plural}"
        )

    async def _while_leading(self, write: Callable[[], Coroutine[Any, Any, T]], doing: str) -> T:
        remaining_lease = self._remaining_lease()
        if remaining_lease <= 0:
            raise NotLeaderError(f"{doing}: this replica no longer leads, so it writes nothing")
        try:
            async with asyncio.timeout(remaining_lease):
                return await write()
        except TimeoutError:
            raise NotLeaderError(f"{doing}: cut off, because the leadership could not be renewed") from None
