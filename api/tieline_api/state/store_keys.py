"""Pages of keys. A cursor is a key, so what is written meanwhile neither repeats nor leaves out another. Pure."""

from collections.abc import Iterable

from tieline_api import errors
from tieline_api.page_tokens import seal, unseal
from tieline_api.schemas import store as rest

_KIND = "kv"

Parts = tuple[str, ...]


def selected(keys: Iterable[str], selector: rest.StoreFilter) -> list[Parts]:
    """The keys that are meant, as parts, in order."""
    prefix, text = tuple(selector.prefix), selector.filter or ""
    found = (tuple(key.split("/")) for key in keys if text in key)
    return sorted(parts for parts in found if len(parts) > len(prefix) and parts[: len(prefix)] == prefix)


def page_of(keys: Iterable[str], wanted: rest.StoreList) -> rest.StorePage:
    """The page that is asked for. ApiError 422 for a cursor that is none."""
    selector, limit, reverse = wanted.selector, wanted.options.limit, wanted.options.reverse
    ordered = selected(keys, selector)
    if reverse:
        ordered.reverse()
    start, end = 0, len(ordered)
    if selector.after is not None:
        after = _read(selector.after, "selector.after")
        start = sum(not _is_later(one, after, reverse=reverse) for one in ordered)
    if selector.before is not None:
        before = _read(selector.before, "selector.before")
        end = sum(_is_later(before, one, reverse=reverse) for one in ordered)
        if selector.after is None:
            start = max(end - limit, 0)
    end = max(min(end, start + limit), start)
    shown = ordered[start:end]
    return rest.StorePage(
        data=[rest.StoreKey(key=list(parts)) for parts in shown],
        pagination=rest.StorePagination(
            next_cursor=_cursor(shown[-1]) if shown and end < len(ordered) else None,
            prev_cursor=_cursor(shown[0]) if shown and start > 0 else None,
        ),
    )


def _is_later(one: Parts, other: Parts, *, reverse: bool) -> bool:
    return one < other if reverse else one > other


def _cursor(parts: Parts) -> str:
    return seal(_KIND, "/".join(parts))


def _read(token: str, field: str) -> Parts:
    refused = errors.invalid(field, "is no cursor of this list: pass one of its pagination, or leave it out")
    match unseal(token, refused=refused):
        case [str(kind), str(key)] if kind == _KIND:
            return tuple(key.split("/"))
    raise refused
