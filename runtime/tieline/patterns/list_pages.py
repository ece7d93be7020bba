"""How the pages of a list follow each other, by the dialect of a System."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Protocol

import aiohttp
from yarl import URL

from tieline.errors import TielineError
from tieline.patterns.links import target_of
from tieline_protocol.answer_paths import MISSING, find, prefixes, value_at
from tieline_protocol.list_dialects import ListDialect, ListKind

_LONGEST_CURSOR = 8192
_ODATA = ("@odata.nextLink", "odata.nextLink", "d.__next")
_ODATA_ITEMS = ("value", "d.results")
_AFTER = "after"
# Fields by which answers say that there are more pages: next, nextCursor, next_page_token, @odata.nextLink, …
_NEXT = re.compile(r"@?(odata)?next(page|cursor|link|url|uri|href|token|marker|offset|start|key)*")
_MORE = re.compile(r"(has|is)?(more|moreitems|moreresults|morerecords|morepages|nextpage|next|truncated)")
_DEEPEST = 3


class PaginationError(TielineError):
    """A list does not come as the code or the System says: no list at its place, no cursor, or pages without an end.

    >>> async def orders(ctx: Context) -> str:
    ...     orders = ctx.paginate("shop", "/orders", pages=CursorPages(), items="data")
    ...     try:
    ...         return str([order async for order in orders])
    ...     except PaginationError as error:
    ...         return str(error)
    >>> run(orders)
    "The answer of shop /orders has no list at 'data' (there are: 'id', 'orders')"
    """


def _nothing() -> Mapping[str, Any]:
    return MappingProxyType({})


@dataclass(frozen=True, kw_only=True)
class PageRequest:
    """What asks for a page, beside the author's own parameters: further ones, or another URL."""

    parameters: Mapping[str, str] = field(default_factory=_nothing)
    """Of the query."""
    body: Mapping[str, Any] = field(default_factory=_nothing)
    """Fields of the JSON body; objects are put together with the author's."""
    url: str | None = None
    """Takes the place of URL and query, where the answer before has named one."""
    path: str | None = None
    """Takes the place of the URL; the query stays."""
    keep: frozenset[str] | None = None
    """The author's parameters that are sent again; None: all."""

    @property
    def identity(self) -> object:
        """Two requests with the same one ask for the same page."""
        return (self.url, self.path, repr(sorted(self.parameters.items())), repr(sorted(self.body.items())))


@dataclass(frozen=True, kw_only=True)
class Page:
    """A page that was read."""

    response: aiohttp.ClientResponse
    body: Any
    items: Sequence[Any]
    number: int
    """1 for the first page that was read."""
    received: int
    """Items of this page and of all before it."""


class Pages(Protocol):
    """How a system's pages follow each other."""

    def first(self) -> PageRequest:
        """Asks for the first page."""

    def following(self, request: PageRequest, page: Page) -> PageRequest | None:
        """Asks for the page after ``page``, which ``request`` brought; None at the end."""


class DialectPages:
    """The pages of a list in a dialect."""

    def __init__(self, dialect: ListDialect, given: Mapping[str, Any] | None = None) -> None:
        """``given`` are the author's own parameters: a size of pages, or where to begin. None: the pages are of code.

        Signs of further pages are not looked for then: whoever names the places in an answer knows them.
        """
        self.dialect = dialect
        self._is_of_system = given is not None
        given = given or {}
        self._size = _whole(given.get(dialect.limit_parameter)) or dialect.limit
        start = _whole(given.get(dialect.parameter)) if dialect.kind in _COUNTED else None
        self._start = start if start is not None else dialect.start
        self._parameter = dialect.parameter or (_AFTER if dialect.kind is ListKind.GRAPHQL else "")

    def list_in(self, body: Any) -> Any:
        """The list of an answer, or what is at its place instead."""
        dialect = self.dialect
        if dialect.kind is ListKind.ODATA and not dialect.items:
            return next(
                (found for path in _ODATA_ITEMS if (found := find(body, path)) is not MISSING), MISSING
            )
        found = find(body, dialect.items)
        if dialect.kind is ListKind.GRAPHQL and isinstance(found, dict):
            return _nodes(found)
        return found

    def first(self) -> PageRequest:
        """See Pages."""
        match self.dialect.kind:
            case ListKind.NUMBERED:
                return self._request(str(1 if self._start is None else self._start))
            case ListKind.OFFSET:
                return self._request(str(self._start or 0))
        return self._request(None)

    def following(self, request: PageRequest, page: Page) -> PageRequest | None:
        """See Pages."""
        if self.dialect.kind is ListKind.GRAPHQL:
            return self._after_connection(page)
        more = self._more(page)
        found = None if more is False else self._following(request, page, more)
        is_open = self._is_of_system and found is None and more is None and page.number == 1
        if is_open and (sign := _sign_of_more(page)) is not None:
            raise PaginationError(
                f"The list ends after its first page, but the answer says by {sign} that there is more: the dialect "
                "of its pages does not fit"
            )
        return found

    def _following(self, request: PageRequest, page: Page, more: bool | None) -> PageRequest | None:
        match self.dialect.kind:
            case ListKind.NUMBERED | ListKind.OFFSET:
                return self._counted(request, page, more)
            case ListKind.LAST_ID:
                return self._after_last_id(page, more)
            case ListKind.CURSOR:
                cursor = self._cursor(page, more)
                return None if cursor is None else self._request(cursor, is_first=False)
        url = self._link(page, more)
        return None if url is None else PageRequest(url=url, parameters=self.dialect.following.parameters)

    # --- whether there is more --------------------------------------------------------------------------

    def _more(self, page: Page) -> bool | None:
        """What the answer says: whether there are more pages; None where it does not say."""
        dialect = self.dialect
        if dialect.has_more:
            found = find(page.body, dialect.has_more)
            if found is MISSING and page.number == 1 and page.items and not dialect.absent_at_end:
                raise PaginationError(
                    f"{_has_no(page, 'field', dialect.has_more)}, which says whether there is more"
                )
            return _truth(found)
        if dialect.total_pages or dialect.total_pages_header:
            total = self._count(page, dialect.total_pages, dialect.total_pages_header)
            usual = 1 if dialect.start is None else dialect.start
            return page.number + (usual if self._start is None else self._start) - usual < total
        if dialect.total or dialect.total_header:
            before = (self._start or 0) if dialect.kind is ListKind.OFFSET else 0
            return before + page.received < self._count(page, dialect.total, dialect.total_header)
        return None

    def _count(self, page: Page, path: str, header: str) -> int:
        found = _whole(page.response.headers.get(header) if header else find(page.body, path))
        if found is None:
            what = f"header {header}" if header else f"number at {path!r}"
            raise PaginationError(f"The answer has no {what}, by which the end of the list is known")
        return found

    # --- what asks for the next page --------------------------------------------------------------------

    def _counted(self, request: PageRequest, page: Page, more: bool | None) -> PageRequest | None:
        # An empty page ends every list: else one whose total is wrong would have no end.
        if not page.items or (more is None and len(page.items) < (self._size or 1)):
            return None
        sent = request.body if self.dialect.in_body else request.parameters
        now = int(value_at(sent, self._parameter))
        step = len(page.items) if self.dialect.kind is ListKind.OFFSET else 1
        return self._request(str(now + step), is_first=False)

    def _after_last_id(self, page: Page, more: bool | None) -> PageRequest | None:
        if not page.items:
            return None
        if more is None and self._size is not None and len(page.items) < self._size:
            return None
        place = self.dialect.last_id or "id"
        identity = value_at(page.items[-1], place)
        if not isinstance(identity, str | int) or isinstance(identity, bool) or identity == "":
            raise PaginationError(
                f"The last item of a page has no id at {place!r}, by which the next page is asked for"
            )
        return self._request(str(identity), is_first=False)

    def _cursor(self, page: Page, more: bool | None) -> str | None:
        found, place = self._at_next(page, more)
        if found is None:
            return None
        if isinstance(found, bool) or not isinstance(found, str | int) or len(str(found)) > _LONGEST_CURSOR:
            raise PaginationError(f"The answer has no cursor at {place}: it is neither a text nor a number")
        if not self.dialect.next_is_url:
            return str(found)
        cursor = page.response.url.join(_url(found, place)).query.get(self._parameter)
        if not cursor:
            raise PaginationError(f"The URL at {place} has no parameter {self._parameter!r} with the cursor")
        return cursor

    def _link(self, page: Page, more: bool | None) -> str | None:
        found, place = self._at_next(page, more)
        return None if found is None else str(page.response.url.join(_url(found, place)))

    def _at_next(self, page: Page, more: bool | None) -> tuple[Any, str]:
        """The cursor or URL, and its place for messages; None at the end of the list."""
        found, place = self._found_next(page)
        is_end = found in (None, "", False) or (
            bool(self.dialect.end_value) and str(found) == self.dialect.end_value
        )
        if found is not MISSING and not is_end:
            return found, place
        if more:
            raise PaginationError(f"The answer says that there are more pages, and has nothing at {place}")
        if found is MISSING and not self._may_be_absent(page):
            raise PaginationError(
                f"{_has_no(page, 'cursor' if self.dialect.kind is ListKind.CURSOR else 'link', place)}. If the system "
                "leaves it out on the last page, set absentAtEnd of its dialect, or limit"
            )
        return None, place

    def _found_next(self, page: Page) -> tuple[Any, str]:
        dialect, headers = self.dialect, page.response.headers
        if dialect.next:
            return find(page.body, dialect.next), repr(dialect.next)
        if dialect.next_header:
            return headers.get(dialect.next_header, MISSING), f"header {dialect.next_header}"
        if dialect.kind is ListKind.ODATA:
            links = (find(page.body, path) for path in _ODATA)
            return next((link for link in links if link is not MISSING), None), repr(_ODATA[0])
        relation = dialect.next_relation or "next"
        # An answer without the header has no further pages: RFC 8288 knows no other way to say it.
        return target_of(headers.getall("Link", ()), relation), f"relation {relation} of header Link"

    def _may_be_absent(self, page: Page) -> bool:
        """Whether an answer without a cursor may be the last one; else the dialect has a wrong place."""
        if page.number > 1 or not page.items or self.dialect.absent_at_end:
            return True
        if self._size is not None and len(page.items) < self._size:
            return True
        return any(isinstance(find(page.body, path), dict) for path in prefixes(self.dialect.next))

    def _after_connection(self, page: Page) -> PageRequest | None:
        place = self.dialect.items
        info = value_at(page.body, f"{place}.pageInfo" if not place.startswith("/") else f"{place}/pageInfo")
        if not isinstance(info, dict) or "hasNextPage" not in info:
            raise PaginationError(
                f"The query does not ask for pageInfo {{ hasNextPage endCursor }} of {place!r}"
            )
        if not info["hasNextPage"]:
            return None
        cursor = info.get("endCursor")
        if not isinstance(cursor, str) or not cursor:
            raise PaginationError(f"The query does not ask for endCursor in pageInfo of {place!r}")
        return self._request(cursor, is_first=False)

    def _request(self, value: str | None, *, is_first: bool = True) -> PageRequest:
        dialect, following = self.dialect, self.dialect.following
        parameters: dict[str, Any] = {}
        if value is not None:
            parameters[self._parameter] = value
        if dialect.limit_parameter and self._size is not None:
            parameters[dialect.limit_parameter] = str(self._size)
        keep = None
        path = None
        if not is_first:
            keep, path = following.keep, following.path or None
            if keep is not None and dialect.limit_parameter not in keep:
                parameters.pop(dialect.limit_parameter, None)
            parameters = {**parameters, **following.parameters}
        if dialect.kind is ListKind.GRAPHQL:
            return PageRequest(body={"variables": _numbers(parameters, dialect.limit_parameter)})
        if dialect.in_body:
            counted = {dialect.limit_parameter, self._parameter if dialect.kind in _COUNTED else ""}
            return PageRequest(body=_nested(_numbers(parameters, *counted)), keep=keep, path=path)
        return PageRequest(parameters=parameters, keep=keep, path=path)


_COUNTED = (ListKind.NUMBERED, ListKind.OFFSET)


def _numbers(parameters: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """Fields of JSON: sizes and counts are numbers there."""
    return {name: int(value) if name in names else value for name, value in parameters.items()}


def _nested(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Fields with dots in their names as fields of nested objects.

    >>> _nested({"variables.page": 2, "variables.perPage": 50, "query": "…"})
    {'variables': {'page': 2, 'perPage': 50}, 'query': '…'}
    """
    made: dict[str, Any] = {}
    for path, value in fields.items():
        *above, last = path.split(".")
        place = made
        for name in above:
            place = place.setdefault(name, {})
        place[last] = value
    return made


def _nodes(connection: Mapping[str, Any]) -> Any:
    """The items of a connection: its nodes, or those of its edges."""
    if isinstance(connection.get("nodes"), list):
        return connection["nodes"]
    edges = connection.get("edges")
    if isinstance(edges, list):
        return [edge.get("node") for edge in edges if isinstance(edge, dict)]
    return MISSING


def _sign_of_more(page: Page) -> str | None:
    """What of an answer, beside its items, says that there are more of them; None for nothing."""
    link = target_of(page.response.headers.getall("Link", ()), "next")
    if link:
        return "the header Link"
    return next(_signs(page.body, page.items, "", 0), None)


def _signs(value: Any, items: Sequence[Any], path: str, depth: int) -> Iterator[str]:
    if not isinstance(value, dict) or depth > _DEEPEST:
        return
    for name, inner in list(value.items())[:100]:
        place = f"{path}.{name}" if path else str(name)
        plain = re.sub(r"[^a-z@]", "", str(name).lower())
        if inner is items:
            continue
        if isinstance(inner, str) and inner and _NEXT.fullmatch(plain):
            yield repr(place)
        if inner is True and _MORE.fullmatch(plain):
            yield repr(place)
        yield from _signs(inner, items, place, depth + 1)


def _has_no(page: Page, what: str, place: str) -> str:
    known = (
        ", ".join(repr(str(name)) for name in sorted(page.body)[:20]) if isinstance(page.body, dict) else ""
    )
    return f"The answer has no {what} at {place}" + (f" (there are: {known})" if known else "")


def _url(found: Any, place: str) -> URL:
    try:
        return URL(found)
    except (TypeError, ValueError):
        raise PaginationError(f"The answer has no URL at {place}: it cannot be read as one") from None


def _whole(value: Any) -> int | None:
    """A whole number from 0, given as a number or as text."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value if value >= 0 else None
    text = value.strip() if isinstance(value, str) else ""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= 15 else None


def _truth(value: Any) -> bool:
    """A boolean, which some systems write as text or number."""
    return (
        value.strip().lower() in ("true", "1", "yes", "y") if isinstance(value, str) else value in (True, 1)
    )
