"""The catalogue: a search over the operations of all connectors."""

import asyncio

from tieline_api.auth.permissions import permission
from tieline_api.cluster.operation_index import words_of
from tieline_api.cluster.sorted_lists import position
from tieline_api.conversion import connectors as convert
from tieline_api.http.operation import ORGANISATION, AnyCall, Call, Operations, Reply
from tieline_api.page_tokens import refused_cursor, seal, unseal
from tieline_api.schemas import connectors as rest
from tieline_api.views.connector_lookup import versions_of
from tieline_core.identity.ids import object_id, parse_id
from tieline_core.resources.objects import ConnectorObject, ConnectorVersionObject

_KIND = "operations"
_AT_ONCE = 8
"""Versions whose indexes are made at once."""

Place = tuple[str, str, int]
"""Where an operation stands: its connector's creation time and id, and its number in the description."""

OPERATIONS = Operations("Connectors")


class _Hits:
    """The operations of one connector's default version that a search finds."""

    def __init__(
        self, connector: ConnectorObject, version: ConnectorVersionObject, numbers: list[int]
    ) -> None:
        self.connector = connector
        self.version = version
        self.numbers = numbers
        self.position = position(connector)

    def place(self, index: int) -> Place:
        return (*self.position, self.numbers[index])


@OPERATIONS.add(
    "GET",
    f"{ORGANISATION}/connectors/operations",
    id="searchOperations",
    summary="Search the operations of all connectors",
    permissions=(*permission("list", "connectors"), *permission("list", "connectorversions")),
)
async def search_operations(call: Call[rest.OperationsQuery, None]) -> Reply[rest.FoundOperationPage]:
    """A page of the operations of all connectors whose name, path or summary has every word of ``search``.

    Each connector's default version is searched. Connectors come oldest first, and their operations in the order of
    the description.
    """
    query = call.query
    hits = await _search(call, words_of(query.search or ""), query.connector_id)
    total = sum(len(one.numbers) for one in hits)
    start = _before(hits, _place(query.after), after=True) if query.after else 0
    end = _before(hits, _place(query.before), after=False) if query.before else total
    if query.before and not query.after:
        start = max(start, end - query.first)
    end = max(start, min(end, start + query.first))
    items, places = await _items(call, hits, start, end)
    return Reply(
        body=rest.FoundOperationPage(
            total_count=total,
            items=items,
            next=seal(_KIND, *places[-1]) if places and end < total else None,
            prev=seal(_KIND, *places[0]) if places and start > 0 else None,
        )
    )


async def _search(call: AnyCall, words: list[bytes], only: str | None) -> list[_Hits]:
    cluster = call.platform.cluster
    wanted = parse_id(only) if only else None
    pairs = []
    for connector in sorted(cluster.connectors.list(call.namespace), key=position):
        if only and object_id(connector) != wanted:
            continue
        version = convert.default_of(connector, versions_of(call, connector))
        if version is not None:
            pairs.append((connector, version))
    hits: list[_Hits] = []
    for start in range(0, len(pairs), _AT_ONCE):
        part = pairs[start : start + _AT_ONCE]
        indexes = await asyncio.gather(*(call.platform.operations.get(version) for _, version in part))
        for (connector, version), index in zip(part, indexes, strict=True):
            if found := index.find(words):
                hits.append(_Hits(connector, version, found))
            # A thousand operations take a millisecond: others must not wait for all.
            await asyncio.sleep(0)
    return hits


async def _items(
    call: AnyCall, hits: list[_Hits], start: int, end: int
) -> tuple[list[rest.FoundOperation], list[Place]]:
    items: list[rest.FoundOperation] = []
    places: list[Place] = []
    first = 0
    for one in hits:
        low, high = max(start - first, 0), min(end - first, len(one.numbers))
        first += len(one.numbers)
        if low >= high:
            continue
        index = await call.platform.operations.get(one.version)
        for offset, row in enumerate(index.rows(one.numbers[low:high])):
            items.append(
                rest.FoundOperation.model_validate(
                    {
                        **row,
                        "connector_id": object_id(one.connector),
                        "connector_name": one.connector["spec"]["name"],
                        "version_id": object_id(one.version),
                        "version": one.version["spec"]["name"],
                    }
                )
            )
            places.append(one.place(low + offset))
    return items, places


def _before(hits: list[_Hits], place: Place, *, after: bool) -> int:
    """How many operations stand before a place; with ``after`` also the one that stands there."""
    count = 0
    for one in hits:
        if one.position < place[:2]:
            count += len(one.numbers)
        elif one.position == place[:2]:
            count += sum(1 for number in one.numbers if number < place[2] or (after and number == place[2]))
    return count


def _place(cursor: str) -> Place:
    refused = refused_cursor()
    match unseal(cursor, refused=refused):
        case [str(kind), str(created), str(identifier), int(number)] if kind == _KIND and not isinstance(
            number, bool
        ):
            return created, identifier, number
    raise refused
