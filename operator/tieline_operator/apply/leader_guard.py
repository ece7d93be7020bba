"""Writes of the replica that leads, and of no other.

A replica that is stopped for a while (by a debugger, a machine that sleeps, a node without memory) wakes up in the
middle of its work and does not know that another one leads by now. So each write asks the Lease first, and is given
no more time than the Lease still has: nothing is begun any more once another replica may have taken over. (What had
leave and was just being sent may still arrive; the other replica puts right what that says.)

Tokens are not written by this way: their Secrets are replaced by their resourceVersion, which is a fence of the API
server's own, and a token that a provider has just rotated must be kept in any case (docs/decisions/0011). A refresh is
not begun without the Lease, but one that has begun is ended.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeVar

from tieline_core.kubernetes import Applied, KubeError, Resource
from tieline_operator.apply.applier import Writer
from tieline_operator.apply.plan import MANAGER, Object

T = TypeVar("T")


class NotLeaderError(KubeError):
    """Another replica may lead: nothing was written, or it is unknown whether it was."""


class LeaderGuardedClient:
    """Writes while ``left`` (seconds of leadership that are sure) is above zero. Raises NotLeaderError else."""

    def __init__(self, kube: Writer, left: Callable[[], float]) -> None:
        self._kube = kube
        self._left = left

    async def create(
        self, resource: Resource, obj: Mapping[str, Any], *, field_manager: str = MANAGER
    ) -> Object:
        return await self._leading(
            lambda: self._kube.create(resource, obj, field_manager=field_manager), f"create {resource.plural}"
        )

    async def apply(
        self,
        resource: Resource,
        obj: Mapping[str, Any],
        *,
        field_manager: str,
        force: bool = False,
        subresource: str | None = None,
    ) -> Applied:
        return await self._leading(
            lambda: self._kube.apply(
                resource, obj, field_manager=field_manager, force=force, subresource=subresource
            ),
            f"apply {resource.plural}",
        )

    async def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str | None = None,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
    ) -> object:
        return await self._leading(
            lambda: self._kube.delete(resource, name, namespace, uid=uid, resource_version=resource_version),
            f"delete {resource.plural}",
        )

    async def _leading(self, write: Callable[[], Coroutine[Any, Any, T]], doing: str) -> T:
        left = self._left()
        if left <= 0:
            raise NotLeaderError(f"{doing}: this replica does not lead any more, so it writes nothing")
        try:
            async with asyncio.timeout(left):
                return await write()
        except TimeoutError:
            raise NotLeaderError(f"{doing}: cut off, because the leadership could not be renewed") from None
