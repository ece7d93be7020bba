"""The Kubernetes port of a process that may see a few namespaces and nothing beyond them.

Roles give rights in namespaces. Such a right does not let one list all Namespaces, nor watch some of them, but a
Role *in* a namespace may let one get that Namespace itself: so these are asked for by name, again and again.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path
from types import MappingProxyType
from typing import Self, Unpack

from tieline_core.kubernetes.client import TIMEOUT, Kube, Object, Objects, WatchEvent
from tieline_core.kubernetes.errors import Invalid, NotFound
from tieline_core.kubernetes.object_store import is_older, no_transform
from tieline_core.kubernetes.resources import NAMESPACES, Resource
from tieline_core.kubernetes.selectors import Selectors, selects

POLL_SECONDS = 10.0
"""How late a change of a Namespace's labels may be noticed: organisations are made once."""


class ScopedKube(Kube):
    """``Kube`` where "everywhere" means the namespaces that it was given.

    Lists and watches of a namespaced resource that name no namespace go to the only one there is.
    """

    _namespaces: Sequence[str] = ()
    _poll = POLL_SECONDS
    _seen: Mapping[str, Object] = MappingProxyType({})
    """The Namespaces as they were seen last, by name: how their end is recognised."""

    @classmethod
    async def connect(
        cls,
        *,
        kubeconfig: str | Path | None = None,
        context: str | None = None,
        limit: int = 64,
        user_agent: str = "tieline",
        timeout: float = TIMEOUT,  # noqa: ASYNC109  (of each call later, not of this one)
        namespaces: Sequence[str] = (),
        poll: float = POLL_SECONDS,
    ) -> Self:
        """As ``Kube.connect``; ``poll``: seconds between two looks at the Namespaces."""
        kube = await super().connect(
            kubeconfig=kubeconfig, context=context, limit=limit, user_agent=user_agent, timeout=timeout
        )
        kube._namespaces, kube._poll = tuple(namespaces), poll
        return kube

    async def list_with_version(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        metadata_only: bool = False,
        transform: Callable[[Object], Object] = no_transform,
        **selectors: Unpack[Selectors],
    ) -> tuple[Objects, str]:
        """As ``Kube.list_with_version``. Namespaces that are not there are left out."""
        if resource == NAMESPACES:
            found = await self._look()
            matching = [item for item in found if selects(item, **selectors)]
            return [transform(item) for item in matching], _newest(found)
        return await super().list_with_version(
            resource,
            self._namespace_for(resource, namespace),
            metadata_only=metadata_only,
            transform=transform,
            **selectors,
        )

    async def watch(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        resource_version: str,
        metadata_only: bool = False,
        **selectors: Unpack[Selectors],
    ) -> AsyncGenerator[WatchEvent, None]:
        """As ``Kube.watch``. Of Namespaces it brings all at every look (one that is known is no news)."""
        if resource == NAMESPACES:
            events = self._watch_namespaces(selectors)
        else:
            events = super().watch(
                resource,
                self._namespace_for(resource, namespace),
                resource_version=resource_version,
                metadata_only=metadata_only,
                **selectors,
            )
        async with aclosing(events):
            async for event in events:
                yield event

    async def _watch_namespaces(self, selectors: Selectors) -> AsyncGenerator[WatchEvent, None]:
        while True:
            found = await self._look()
            names = {item["metadata"]["name"] for item in found}
            for item in found:
                matching = selects(item, **selectors)
                yield WatchEvent("MODIFIED" if matching else "DELETED", item)
            for name, item in self._seen.items():
                if name not in names:
                    yield WatchEvent("DELETED", item)
            yield WatchEvent("BOOKMARK", {"metadata": {"resourceVersion": _newest(found)}})
            await asyncio.sleep(self._poll)

    async def _look(self) -> Objects:
        found: Objects = []
        for name in self._namespaces:
            try:
                found.append(await self.get(NAMESPACES, name))
            except NotFound:
                continue
        self._seen = {**self._seen, **{item["metadata"]["name"]: item for item in found}}
        return found

    def _namespace_for(self, resource: Resource, namespace: str | None) -> str | None:
        if namespace is not None or not resource.namespaced:
            return namespace
        if len(self._namespaces) != 1:
            raise Invalid(
                f"Say in which namespace to look for {resource.plural}: there are several", status=400
            )
        return self._namespaces[0]


def _newest(found: Objects) -> str:
    newest = "0"
    for item in found:
        version: str = item["metadata"]["resourceVersion"]
        newest = version if is_older(newest, version) else newest
    return newest
