"""Writing as the user's hand: server-side apply as ``tieline-api``, never by force.

A change is applied on top of what the API owns already, on the resource version that it was computed for.
So nothing of others is touched, a field that somebody else owns is a conflict (409 naming the manager), and
a concurrent write makes the change be computed again.
"""

import asyncio
import copy
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol, cast
from weakref import WeakValueDictionary

from tieline_api import errors
from tieline_api.cluster import revisions
from tieline_api.cluster.etags import matches
from tieline_api.cluster.field_managers import MANAGER, Step, other_managers
from tieline_api.schemas.limits import Limits
from tieline_common.backoff import exponential, jitter
from tieline_core.identity.ids import ID_LABEL, object_id, object_name
from tieline_core.kubernetes import Conflict, Informer, Kube, NotFound, Stored, owned
from tieline_core.objects import Object, ObjectView

Change = Callable[[Stored, Object], None]
"""Gets the live object (to read) and what the API owns of it (to change in place)."""

TRIES = 5
CONTENDED_TRIES = 12
_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 0.5
# An apply that names a version creates what is not there, and conflicts with what is, unless that is at just
# this version. No object of ours ever is: etcd's first revision is taken before there can be one.
_NEW = "1"


class IdTakenError(errors.ApiError):
    """409: there is an object with this id already."""

    def __init__(self, identifier: str) -> None:
        super().__init__(409, "conflict", f"The id {identifier} is taken", extra={"id": identifier})


class Writer:
    """Creates, changes and deletes objects; the caches see it at once."""

    def __init__(self, kube: Kube, *, pause: Callable[[float], Any] = asyncio.sleep) -> None:
        self._kube = kube
        self._pause = pause
        self._turns: WeakValueDictionary[tuple[str, str, str], asyncio.Lock] = WeakValueDictionary()

    async def create(
        self,
        cache: Informer[Stored],
        namespace: str,
        identifier: str,
        spec: Mapping[str, Any],
        *,
        chosen_by_client: bool = False,
        owner: Mapping[str, Any] | None = None,
    ) -> Stored:
        """A new object named after its id. IdTakenError when an id that somebody chose is taken.

        Of those who ask for one id in the same instant, through whichever replicas, one creates it. Ids that
        the API makes up are never the same: those applies may be tried again when an answer is lost.
        """
        resource = cache.resource
        if cache.by_index("id", f"{namespace}/{identifier}"):
            raise IdTakenError(identifier)
        metadata: Object = {
            "name": object_name(identifier),
            "namespace": namespace,
            "labels": {ID_LABEL: identifier},
        }
        if owner:
            metadata["ownerReferences"] = [dict(owner)]
        if chosen_by_client:
            metadata["resourceVersion"] = _NEW
        manifest = {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": metadata,
            "spec": dict(spec),
        }
        try:
            applied = await self._kube.apply(resource, manifest, field_manager=MANAGER)
        except Conflict:
            raise IdTakenError(identifier) from None
        cache.observe(applied.object)
        revisions.wrote(resource.plural, applied.object)
        revisions.changed(resource.plural, before=None, after=applied.object)
        return cast("Stored", applied.object)

    async def change(
        self,
        cache: Informer[Stored],
        namespace: str,
        name: str,
        change: Change[Stored],
        *,
        if_match: str | None = None,
        prepare: Callable[[], Awaitable[None]] | None = None,
        tries: int = TRIES,
    ) -> Stored:
        """Applies ``change`` to an object and returns what it is then.

        ``prepare`` is called after each computation of the change, before it is applied.
        Raises ApiError: 404, 409 (a field of others, or ``tries`` concurrent writes), 412 (``if_match``).
        """
        for attempt in range(1, tries + 1):
            before: list[Stored] = []

            def noted(live: Stored, mine: Object, before: list[Stored] = before) -> None:
                before.append(live)
                change(live, mine)

            mine = await self.try_out(cache, namespace, name, noted, if_match=if_match)
            if prepare is not None:
                await prepare()
            try:
                applied = await self._kube.apply(cache.resource, mine, field_manager=MANAGER)
            except Conflict as conflict:
                if conflict.conflicts:
                    raise
                if if_match is not None:
                    raise errors.precondition_failed() from conflict
                if attempt == tries:
                    raise
                await self._pause(jitter(exponential(attempt, first=_FIRST_PAUSE, cap=_LONGEST_PAUSE)))
                continue
            cache.observe(applied.object)
            revisions.wrote(cache.resource.plural, applied.object)
            revisions.changed(cache.resource.plural, before=before[0], after=applied.object)
            return cast("Stored", applied.object)
        raise AssertionError("unreachable: the last try returns or raises")

    async def try_out(
        self,
        cache: Informer[Stored],
        namespace: str,
        name: str,
        change: Change[Stored],
        *,
        if_match: str | None = None,
    ) -> Object:
        """What ``change`` would apply to an object; writes nothing. Raises ApiError as ``change`` does."""
        live: Any = await self._kube.get(cache.resource, name, namespace)
        version = live["metadata"]["resourceVersion"]
        if if_match is not None and not matches(if_match, version):
            raise errors.precondition_failed()
        mine = copy.deepcopy(owned(live, MANAGER))
        mine.setdefault("spec", {})
        change(live, mine)
        mine["metadata"]["resourceVersion"] = version
        return mine

    async def change_in_turn(
        self, cache: Informer[Stored], namespace: str, name: str, change: Change[Stored]
    ) -> Stored:
        """The same for an object that many change at once: those of this replica one after the other, so that only
        replicas and other writers are in each other's way, and for CONTENDED_TRIES. ``change`` may raise what says
        that nothing is to be written."""
        async with self._turns.setdefault((cache.resource.plural, namespace, name), asyncio.Lock()):
            return await self.change(cache, namespace, name, change, tries=CONTENDED_TRIES)

    async def delete(self, cache: Informer[Any], obj: ObjectView) -> None:
        """Deletes an object; 404 when it is gone already. Its children go with it."""
        metadata = obj["metadata"]
        await self._kube.delete(cache.resource, metadata["name"], metadata["namespace"], uid=metadata["uid"])
        cache.forget(obj)
        revisions.deleted(cache.resource.plural, obj)
        revisions.changed(cache.resource.plural, before=obj, after=None)

    async def delete_if_ours(self, cache: Informer[Any], obj: ObjectView) -> None:
        """Deletes what REST made (it is named after its id) together with its owner; others' objects stay."""
        metadata = obj["metadata"]
        if metadata["name"] != object_name(object_id(obj)):
            return
        try:
            await self.delete(cache, obj)
        except NotFound:
            return


def set_or_drop(spec: Object, field: str, value: Any) -> None:
    """Sets a list or a map, or leaves it out when it is empty.

    An apply of an empty map where there was a full one leaves ``null`` behind, which no schema accepts.
    """
    if value:
        spec[field] = value
    else:
        spec.pop(field, None)


def change_map(
    live: ObjectView, mine: Object, field: str, wanted: Mapping[str, str] | None, *, what: str
) -> None:
    """Sets a map of a spec to ``wanted``; None leaves it. 409 where others own an entry that is to go."""
    if wanted is None:
        return
    there = live["spec"].get(field) or {}
    for name in there.keys() - wanted.keys():
        refuse_removal(live, (field, name), what=f'{what} "{name}"')
    ours = mine["spec"].get(field) or {}
    # What others have set to the same value stays theirs alone.
    set_or_drop(
        mine["spec"],
        field,
        {name: value for name, value in wanted.items() if name in ours or there.get(name) != value},
    )


class SpecPart(Protocol):
    """A part of a spec in a request."""

    def to_spec(self) -> Mapping[str, Any]:
        """As custom resources have it; empty for none."""


def change_limits(live: ObjectView, mine: Object, limits: Limits | None) -> None:
    """Set the limits of a System or Connection; None leaves them, empty ones take them away."""
    change_part(live, mine, "limits", limits, what="The limits")


def change_part(live: ObjectView, mine: Object, field: str, part: SpecPart | None, *, what: str) -> None:
    """Set a part of a spec; None leaves it, an empty one takes it away."""
    if part is None:
        return
    if content := part.to_spec():
        mine["spec"][field] = content
    elif field in live["spec"]:
        refuse_removal(live, (field,), what=what)
        mine["spec"].pop(field, None)


def refuse_removal(live: ObjectView, path: Sequence[Step], *, what: str) -> None:
    """409 naming the managers when others own what is to be removed at ``path`` (below ``spec``)."""
    managers = other_managers(live, ("spec", *path))
    if managers:
        names = ", ".join(f'"{name}"' for name in managers)
        raise errors.conflict(
            f"{what} belongs to {names}: remove it there, or make that manager give it up", managers=managers
        )
