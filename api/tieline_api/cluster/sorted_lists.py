"""Lists that are always in order: kept as the caches change, so that a page costs no more than its items.

An order is made of groups: the systems of a namespace, the connections of a user, the activations of an
environment. Each is sorted by position; a page begins where a binary search says.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from operator import attrgetter
from typing import Generic, Unpack

from tieline_api.cluster.indexes import by_environment, by_reference, key
from tieline_api.cursors import Position, Slice, Window, cut_sorted
from tieline_core.identity.ids import object_id
from tieline_core.kubernetes import Change, Informer, Stored
from tieline_core.objects import ObjectView
from tieline_core.resources.objects import (
    ActivationObject,
    ConnectionObject,
    EndUserObject,
    ProjectObject,
    SystemObject,
)


@dataclass(frozen=True, slots=True)
class Row(Generic[Stored]):
    """An object where it stands."""

    position: Position
    name: str
    """Tells those of one position apart."""
    text: str
    """What a search looks into."""
    obj: Stored


Rows = list[Row[Stored]]
_POSITION = attrgetter("position")
_STANDING = attrgetter("position", "name")


class SortedList(Generic[Stored]):
    """The objects of a cache in groups, oldest first. What it gives is shared: never change it."""

    def __init__(
        self,
        cache: Informer[Stored],
        groups: Callable[[Stored], Iterable[str]],
        *,
        searched: tuple[str, ...] = (),
    ) -> None:
        """``searched`` are the fields of the spec that a search looks into."""
        self._groups = groups
        self._searched = searched
        self._rows: dict[str, Rows[Stored]] = {}
        self._standing: dict[tuple[str, str], tuple[Row[Stored], tuple[str, ...]]] = {}
        cache.subscribe(self._changed)

    def rows(self, group: str, *, search: str | None = None) -> Rows[Stored]:
        """A group's rows; with ``search`` those that hold it, in upper or lower case."""
        found = self._rows.get(group, [])
        needle = (search or "").casefold()
        return [row for row in found if needle in row.text] if needle else found

    def objects(self, group: str) -> Iterator[Stored]:
        """A group's objects, oldest first."""
        return (row.obj for row in self._rows.get(group, ()))

    def place_after(self, group: str, after: Position) -> int:
        """How many of a group's rows stand at or before a position."""
        return bisect_right(self._rows.get(group, []), after, key=_POSITION)

    def _changed(self, change: Change[Stored]) -> None:
        metadata = change.object["metadata"]
        name_key = (metadata["namespace"], metadata["name"])
        old = self._standing.pop(name_key, None)
        if old is not None:
            for group in old[1]:
                self._take_out(group, old[0])
        if change.new is None:
            return
        obj = change.new
        spec = obj["spec"]
        # A line break stands between the fields, since no name holds one.
        text = "\n".join(str(spec.get(field, "")) for field in self._searched).casefold()
        row = Row(position(obj), metadata["name"], text, obj)
        groups = tuple(self._groups(obj))
        self._standing[name_key] = (row, groups)
        for group in groups:
            insort(self._rows.setdefault(group, []), row, key=_STANDING)

    def _take_out(self, group: str, row: Row[Stored]) -> None:
        rows = self._rows[group]
        del rows[bisect_left(rows, _STANDING(row), key=_STANDING)]
        if not rows:
            del self._rows[group]


class SortedLists:
    """The lists that may be long."""

    def __init__(
        self,
        *,
        systems: Informer[SystemObject],
        connections: Informer[ConnectionObject],
        projects: Informer[ProjectObject],
        users: Informer[EndUserObject],
        activations: Informer[ActivationObject],
    ) -> None:
        self.systems = SortedList(systems, _namespace, searched=("name", "domain"))
        self.connections = SortedList(connections, _namespace, searched=("name",))
        self.connections_of_system = SortedList(connections, by_reference("systemRef"), searched=("name",))
        self.connections_of_user = SortedList(connections, by_reference("endUserRef"), searched=("name",))
        self.projects = SortedList(projects, _namespace)
        self.users = SortedList(users, _namespace, searched=("externalId", "displayName"))
        self.activations = SortedList(activations, _environment_of_user)
        """Activations of users, by environment."""


def page(rows: Rows[Stored], *, kind: str, **window: Unpack[Window]) -> Slice[Stored]:
    """The page of ``rows`` after (or before) a cursor of the list ``kind``. ApiError 400 for other cursors."""
    found = cut_sorted(rows, kind=kind, position=_POSITION, **window)
    return Slice(items=[row.obj for row in found.items], total=found.total, next=found.next, prev=found.prev)


def position(obj: ObjectView) -> Position:
    """Where an object stands in lists: creation time and id."""
    return obj["metadata"]["creationTimestamp"], object_id(obj)


def _namespace(obj: ObjectView) -> tuple[str]:
    return (key(obj["metadata"]["namespace"]),)


def _environment_of_user(activation: ActivationObject) -> Iterable[str]:
    return by_environment(activation) if activation["spec"].get("endUserRef") else ()
