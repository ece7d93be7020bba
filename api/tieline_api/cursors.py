"""Paging by opaque cursors that survive concurrent writes.

A cursor is a position in the order (creation time, id), not a count: whatever is written meanwhile, no
item comes twice and none that stayed is left out.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypedDict, TypeVar, Unpack

from tieline_api.page_tokens import refused_cursor, seal, unseal
from tieline_core.identity.ids import parse_id

T = TypeVar("T")

DEFAULT_FIRST = 20

Position = tuple[str, str]
"""Where an item stands: its creation time (RFC 3339) and its id."""


class Window(TypedDict, total=False):
    """Which part of a list: so many items, after or before a cursor."""

    first: int
    after: str | None
    before: str | None


@dataclass(frozen=True)
class Slice(Generic[T]):
    """One page of a list, with cursors to its neighbours where there are any."""

    items: list[T]
    total: int
    next: str | None
    prev: str | None


def encode(kind: str, position: Position) -> str:
    """The cursor for a position in the list ``kind``."""
    return seal(kind, *position)


def decode(kind: str, cursor: str) -> Position:
    """The position that a cursor of the list ``kind`` stands for; 400 for one that was not ours."""
    refused = refused_cursor()
    match unseal(cursor, refused=refused):
        case [str(found), str(created), str(identifier)] if (
            found == kind and parse_id(identifier) == identifier
        ):
            return created, identifier
    raise refused


def cut(
    items: Iterable[T],
    *,
    kind: str,
    position: Callable[[T], Position],
    newest_first: bool = False,
    **window: Unpack[Window],
) -> Slice[T]:
    """The page of ``items``, which may be in any order, after (or before) a cursor: see cut_sorted."""
    ordered = sorted(items, key=position)
    return cut_sorted(ordered, kind=kind, position=position, newest_first=newest_first, **window)


def cut_sorted(
    ordered: Sequence[T],
    *,
    kind: str,
    position: Callable[[T], Position],
    first: int = DEFAULT_FIRST,
    after: str | None = None,
    before: str | None = None,
    newest_first: bool = False,
) -> Slice[T]:
    """The page of ``ordered`` (by position) after or before a cursor, found without looking at the rest.

    With both cursors the page lies between them and starts after the first. Raises ApiError (400) for
    cursors of other lists.
    """
    low = decode(kind, after) if after else None
    high = decode(kind, before) if before else None
    if newest_first:
        low, high = high, low
    begin = bisect_right(ordered, low, key=position) if low else 0
    end = bisect_left(ordered, high, key=position) if high else len(ordered)
    from_the_end = bool(before and not after) != newest_first
    if from_the_end:
        begin = max(begin, end - first)
    else:
        end = min(end, begin + first)
    page = list(ordered[begin:end])
    if not page:
        return Slice(items=[], total=len(ordered), next=None, prev=None)
    earlier = encode(kind, position(page[0])) if begin > 0 else None
    later = encode(kind, position(page[-1])) if end < len(ordered) else None
    if newest_first:
        page.reverse()
        earlier, later = later, earlier
    return Slice(items=page, total=len(ordered), next=later, prev=earlier)
