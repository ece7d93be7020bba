"""Writing as the user's hand: server-side apply as ``tieline-api``, never by force.

A change is applied on top of what the API owns already, on the resource version that it was computed for.
So nothing of others is touched, a field that somebody else owns is a conflict (409 naming the manager), and
a concurrent write makes the change be computed again.
"""

import asyncio
import copy
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tieline_api import errors
from tieline_api.store import revisions
from tieline_api.store.etags import matches
from tieline_api.store.field_managers import MANAGER, Step, other_managers
from tieline_core.ids import ID_LABEL, object_id, object_name
from tieline_core.kube import Cache, Conflict, Kube, NotFound, Resource, owned

Obj = dict[str, Any]
Change = Callable[[Obj, Obj], None]
"""Gets the live object (to read) and what the API owns of it (to change in place)."""

TRIES = 5
_FIRST_PAUSE = 0.02


class Writer:
    """Creates, changes and deletes objects; the caches see it at once."""

    def __init__(self, kube: Kube, *, pause: Callable[[float], Any] = asyncio.sleep) -> None:
        self._kube = kube
        self._pause = pause
        self._creating: set[tuple[str, str, str]] = set()

    async def create(
        self,
        cache: Cache,
        namespace: str,
        identifier: str,
        spec: Mapping[str, Any],
        *,
        chosen_by_client: bool = False,
        owner: Mapping[str, Any] | None = None,
    ) -> Obj:
        """A new object named after its id. 409 when an id that the client chose is taken.

        An apply would change an object that has the name already, so it is looked for first. Two replicas
        that are asked for the same id in the same instant can both find nothing: then the second apply
        reports that it created nothing, and the caller gets the 409 although the first one's spec was
        replaced. Ids that the API makes up are never the same.
        """
        resource = cache.resource
        name = object_name(identifier)
        place = (resource.plural, namespace, name)
        taken = errors.conflict(f"The id {identifier} is taken", id=identifier)
        if place in self._creating or cache.by_index("id", f"{namespace}/{identifier}"):
            raise taken
        self._creating.add(place)
        metadata: Obj = {"name": name, "namespace": namespace, "labels": {ID_LABEL: identifier}}
        if owner:
            metadata["ownerReferences"] = [dict(owner)]
        try:
            if chosen_by_client and await self._exists(resource, name, namespace):
                raise taken
            applied = await self._kube.apply(
                resource,
                {
                    "apiVersion": resource.api_version,
                    "kind": resource.kind,
                    "metadata": metadata,
                    "spec": dict(spec),
                },
                field_manager=MANAGER,
            )
        finally:
            self._creating.discard(place)
        if chosen_by_client and not applied.created:
            raise taken
        cache.observe(applied.object)
        revisions.wrote(resource.plural, applied.object)
        return applied.object

    async def change(
        self, cache: Cache, namespace: str, name: str, change: Change, *, if_match: str | None = None
    ) -> Obj:
        """Applies ``change`` to an object and returns what it is then.

        Raises ApiError: 404, 409 (a field of others, or TRIES concurrent writes), 412 (``if_match``).
        """
        for attempt in range(TRIES):
            live = await self._kube.get(cache.resource, name, namespace)
            version = live["metadata"]["resourceVersion"]
            if if_match is not None and not matches(if_match, version):
                raise errors.precondition_failed()
            mine = copy.deepcopy(owned(live, MANAGER))
            mine.setdefault("spec", {})
            change(live, mine)
            mine["metadata"]["resourceVersion"] = version
            try:
                applied = await self._kube.apply(cache.resource, mine, field_manager=MANAGER)
            except Conflict as conflict:
                if conflict.conflicts:
                    raise
                if if_match is not None:
                    raise errors.precondition_failed() from conflict
                if attempt == TRIES - 1:
                    raise
                await self._pause(_FIRST_PAUSE * 2**attempt * (0.5 + random.random()))  # noqa: S311
                continue
            cache.observe(applied.object)
            revisions.wrote(cache.resource.plural, applied.object)
            return applied.object
        raise AssertionError("unreachable: the last try returns or raises")

    async def delete(self, cache: Cache, obj: Mapping[str, Any]) -> None:
        """Deletes an object; 404 when it is gone already. Its children go with it."""
        metadata = obj["metadata"]
        await self._kube.delete(cache.resource, metadata["name"], metadata["namespace"], uid=metadata["uid"])
        cache.forget(obj)
        revisions.deleted(cache.resource.plural, obj)

    async def delete_if_ours(self, cache: Cache, obj: Mapping[str, Any]) -> None:
        """Deletes what REST made (it is named after its id) together with its owner; others' objects stay."""
        metadata = obj["metadata"]
        if metadata["name"] != object_name(object_id(obj)):
            return
        try:
            await self.delete(cache, obj)
        except NotFound:
            return

    async def _exists(self, resource: Resource, name: str, namespace: str) -> bool:
        try:
            await self._kube.get(resource, name, namespace)
        except NotFound:
            return False
        return True


def put_or_leave_out(spec: Obj, field: str, value: Any) -> None:
    """Sets a list or a map, or leaves it out when it is empty.

    An apply of an empty map where there was a full one leaves ``null`` behind, which no schema accepts.
    """
    if value:
        spec[field] = value
    else:
        spec.pop(field, None)


def refuse_removal(live: Mapping[str, Any], path: Sequence[Step], *, what: str) -> None:
    """409 naming the managers when others own what is to be removed at ``path`` (below ``spec``)."""
    managers = other_managers(live, ("spec", *path))
    if managers:
        names = ", ".join(f'"{name}"' for name in managers)
        raise errors.conflict(
            f"{what} belongs to {names}: remove it there, or make that manager give it up", managers=managers
        )
