"""How the pages of an operation's list follow each other, as ``tieline connectors add`` found it in the description."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tieline.connectors.description import Description, Operation
from tieline.errors import TielineError
from tieline.patterns.list_pages import Pages
from tieline_protocol.list_dialects import ListDialect, ListKind


class NoPagesError(TielineError):
    """The description does not say how an operation's pages follow each other.

    >>> async def orders(ctx: Context) -> str:
    ...     try:
    ...         return str([order async for order in ctx.call_pages("shop", "getOrder", path={"id": "A-1"})])
    ...     except NoPagesError as error:
    ...         return str(error)
    >>> run(orders)
    'Neither the description of shop nor the lists of its System say how the pages of getOrder follow each other; …'
    """


@dataclass(frozen=True, kw_only=True)
class Paging:
    """How pages follow each other, and where each has its items."""

    pages: Pages | ListDialect
    items: str | None
    parameters: frozenset[str] = frozenset()
    """Parameters of the query that paging itself sets."""


def paging_of(
    description: Description,
    operation: Operation,
    *,
    pages: Pages | None,
    items: str | None,
    system: ListDialect | None,
) -> Paging:
    """The paging of an operation: as given, as described, or as its System says. Raises NoPagesError."""
    described = operation.pages or {}
    if operation.document and pages is None:
        if items is None and not described:
            raise NoPagesError(
                f"{operation.id} of {description.name} asks for no connection with the argument after: $name and "
                "pageInfo { hasNextPage endCursor }"
            )
        place = described.get("items", "") if items is None else items
        parameter = described.get("parameter", "after")
        dialect = ListDialect(kind=ListKind.GRAPHQL, items=f"data.{place}", parameter=parameter)
        return Paging(pages=dialect, items=None)
    found = pages or (_dialect(described) if described else system)
    where = items if items is not None else described.get("items")
    if found is None or (where is None and not isinstance(found, ListDialect)):
        raise NoPagesError(
            f"Neither the description of {description.name} nor the lists of its System say how the pages of "
            f"{operation.id} follow each other; set one of them, or give pages= and items="
        )
    if isinstance(found, ListDialect):
        set_by = frozenset(
            name for name in (found.parameter, found.limit_parameter) if name and not found.in_body
        )
    else:
        set_by = frozenset(found.first().parameters)
    return Paging(pages=found, items=where, parameters=set_by)


def set_by_paging(described: Mapping[str, Any]) -> frozenset[str]:
    """The parameters of the query that paging sets, so that code does not."""
    names = (described.get(key) for key in ("parameter", "sizeParameter", "limitParameter"))
    return frozenset(str(name) for name in names if name)


def _dialect(described: Mapping[str, Any]) -> ListDialect:
    # The description has the fields of the answer, so a cursor that is missing is not at another place.
    return ListDialect(
        kind=ListKind(described["kind"]),
        parameter=described.get("parameter", ""),
        next=described.get("next") or "",
        absent_at_end=True,
        start=described.get("start"),
        limit_parameter=described.get("sizeParameter") or described.get("limitParameter") or "",
        limit=described.get("size") or described.get("limit"),
    )
