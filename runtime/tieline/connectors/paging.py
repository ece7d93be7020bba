"""How the pages of an operation's list follow each other, as ``tieline connectors add`` found it in the description."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tieline.connectors.description import Description, Operation
from tieline.errors import TielineError
from tieline.patterns.pagination import CursorPages, LinkPages, NumberedPages, OffsetPages, Pages


class NoPagesError(TielineError):
    """The description does not say how an operation's pages follow each other.

    >>> async def orders(ctx: Context) -> str:
    ...     try:
    ...         return str([order async for order in ctx.call_pages("shop", "getOrder", path={"id": "A-1"})])
    ...     except NoPagesError as error:
    ...         return str(error)
    >>> run(orders)
    'The description of shop does not say how the pages of getOrder follow each other; say it by pages= and …'
    """


@dataclass(frozen=True, kw_only=True)
class Paging:
    """How pages follow each other, and where each has its items."""

    pages: Pages
    items: str
    parameters: frozenset[str] = frozenset()
    """Parameters of the query that paging itself sets."""


def paging_of(
    description: Description, operation: Operation, *, pages: Pages | None, items: str | None
) -> Paging:
    """The paging of an operation: as given, or as described. Raises NoPagesError."""
    described = operation.pages or {}
    found = pages or (_pages(described) if described else None)
    where = items if items is not None else described.get("items")
    if found is None or where is None:
        raise NoPagesError(
            f"The description of {description.name} does not say how the pages of {operation.id} follow each other; "
            "say it by pages= and items="
        )
    set_by = frozenset(found.first().parameters) if pages else set_by_paging(described)
    return Paging(pages=found, items=where, parameters=set_by)


def set_by_paging(described: Mapping[str, Any]) -> frozenset[str]:
    """The parameters of the query that paging sets, so that code does not."""
    names = (described.get(key) for key in ("parameter", "sizeParameter", "limitParameter"))
    return frozenset(str(name) for name in names if name)


def _pages(described: Mapping[str, Any]) -> Pages:
    kind = described["kind"]
    if kind == "cursor":
        return CursorPages(parameter=described["parameter"], next=described["next"])
    if kind == "numbered":
        return NumberedPages(
            parameter=described["parameter"],
            start=described.get("start", 1),
            size_parameter=described.get("sizeParameter"),
            size=described.get("size", 100),
        )
    if kind == "offset":
        return OffsetPages(
            parameter=described["parameter"],
            limit_parameter=described["limitParameter"],
            limit=described.get("limit", 100),
        )
    return LinkPages(next=described.get("next"))
