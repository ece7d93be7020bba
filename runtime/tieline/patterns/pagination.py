"""Lists that come in pages: by cursor, by page number, by offset, or by links."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import aiohttp
from yarl import URL

from tieline.errors import TielineError

MAX_PAGES = 10_000


class PaginationError(TielineError):
    """A list does not come as the code says: there is no list at the named place, or its pages have no end.

    >>> async def orders(ctx: Context) -> str:
    ...     orders = ctx.paginate("shop", "/orders", pages=CursorPages(), items="data")
    ...     try:
    ...         return str([order async for order in orders])
    ...     except PaginationError as error:
    ...         return str(error)
    >>> run(orders)
    "The answer of shop /orders has no list at 'data' (there are: 'id', 'orders')"
    """


@dataclass(frozen=True, kw_only=True)
class PageRequest:
    """What asks for a page: parameters of the query beside the author's own, or another URL."""

    parameters: Mapping[str, str]
    url: str | None = None
    """Takes the place of URL and query, where the answer before has named one."""

    @property
    def identity(self) -> tuple[object, ...]:
        """Two requests with the same one ask for the same page."""
        return (self.url, *sorted(self.parameters.items()))


class Pages(Protocol):
    """How a system's pages follow each other."""

    def first(self) -> PageRequest:
        """Asks for the first page."""

    def following(
        self, request: PageRequest, response: aiohttp.ClientResponse, body: Any, count: int
    ) -> PageRequest | None:
        """Asks for the page after the one that ``request`` brought, with ``count`` items; None at the end."""


@dataclass(frozen=True, kw_only=True)
class CursorPages:
    """Each answer has a cursor, which asks for the next page; the last one has none.

    >>> async def orders(ctx: Context) -> list[str]:
    ...     pages = CursorPages(parameter="after", next="meta.next")
    ...     return [order["id"] async for order in ctx.paginate("shop", "/orders", pages=pages, items="orders")]
    >>> run(orders)
    ['A-1', 'A-2']
    """

    parameter: str = "cursor"
    """The parameter of the query that takes the cursor."""
    next: str = "next"
    """Where the answer has the next cursor: names of fields, with dots between them."""

    def first(self) -> PageRequest:
        """See Pages."""
        return PageRequest(parameters={})

    def following(
        self, request: PageRequest, response: aiohttp.ClientResponse, body: Any, count: int
    ) -> PageRequest | None:
        """See Pages."""
        cursor = value_at(body, self.next)
        return None if cursor in (None, "") else PageRequest(parameters={self.parameter: str(cursor)})


@dataclass(frozen=True, kw_only=True)
class NumberedPages:
    """Pages have numbers; the first one with fewer than ``size`` items is the last.

    >>> async def orders(ctx: Context) -> list[str]:
    ...     pages = NumberedPages(parameter="page", size_parameter="per_page", size=50)
    ...     return [order["id"] async for order in ctx.paginate("shop", "/orders", pages=pages, items="orders")]
    >>> run(orders)
    ['A-1', 'A-2']
    >>> sent()
    'GET /orders?page=1&per_page=50'
    """

    parameter: str = "page"
    """The parameter of the query that takes the number."""
    start: int = 1
    """The number of the first page."""
    size_parameter: str | None = None
    """The parameter that takes ``size``; None where the system decides, and then an empty page is the end."""
    size: int = 100
    """Items to ask for."""

    def first(self) -> PageRequest:
        """See Pages."""
        return self._page(self.start)

    def following(
        self, request: PageRequest, response: aiohttp.ClientResponse, body: Any, count: int
    ) -> PageRequest | None:
        """See Pages."""
        if count < (self.size if self.size_parameter else 1):
            return None
        return self._page(int(request.parameters[self.parameter]) + 1)

    def _page(self, number: int) -> PageRequest:
        size = {self.size_parameter: str(self.size)} if self.size_parameter else {}
        return PageRequest(parameters={self.parameter: str(number), **size})


@dataclass(frozen=True, kw_only=True)
class OffsetPages:
    """Pages begin at an offset; the first one with fewer than ``limit`` items is the last.

    >>> async def orders(ctx: Context) -> list[str]:
    ...     pages = OffsetPages(limit=50)
    ...     return [order["id"] async for order in ctx.paginate("shop", "/orders", pages=pages, items="orders")]
    >>> run(orders)
    ['A-1', 'A-2']
    >>> sent()
    'GET /orders?offset=0&limit=50'
    """

    parameter: str = "offset"
    """The parameter of the query that takes how many items come before."""
    limit_parameter: str = "limit"
    """The parameter that takes ``limit``."""
    limit: int = 100
    """Items to ask for."""

    def first(self) -> PageRequest:
        """See Pages."""
        return self._page(0)

    def following(
        self, request: PageRequest, response: aiohttp.ClientResponse, body: Any, count: int
    ) -> PageRequest | None:
        """See Pages."""
        return None if count < self.limit else self._page(int(request.parameters[self.parameter]) + count)

    def _page(self, offset: int) -> PageRequest:
        return PageRequest(parameters={self.parameter: str(offset), self.limit_parameter: str(self.limit)})


@dataclass(frozen=True, kw_only=True)
class LinkPages:
    """Each answer has the URL of the next page: in the header ``Link`` (RFC 8288), or in its body.

    The URL must be of the connection's origin, or else ForeignOriginError is raised: credentials go nowhere else.

    >>> async def orders(ctx: Context) -> list[str]:
    ...     return [order["id"] async for order in ctx.paginate("shop", "/orders", pages=LinkPages(), items="orders")]
    >>> run(orders)
    ['A-1', 'A-2']
    """

    relation: str = "next"
    """The relation in the header."""
    next: str | None = None
    """Where the body has the URL: names of fields, with dots between them. None: it is in the header.

    A URL without a host is one of the system that answers, not of the connection's base URL, as in the header.
    """

    def first(self) -> PageRequest:
        """See Pages."""
        return PageRequest(parameters={})

    def following(
        self, request: PageRequest, response: aiohttp.ClientResponse, body: Any, count: int
    ) -> PageRequest | None:
        """See Pages."""
        if self.next is not None:
            return _linked(response.url, value_at(body, self.next), self.next)
        link = response.links.get(self.relation)
        return PageRequest(parameters={}, url=str(link["url"])) if link and link.get("url") else None


def _linked(base: URL, found: Any, place: str) -> PageRequest | None:
    """Asks for the page that a body names."""
    if not found:
        return None
    try:
        return PageRequest(parameters={}, url=str(base.join(URL(found))))
    except (TypeError, ValueError):
        raise PaginationError(f"The answer has no URL at {place!r}: it cannot be read as one") from None


Fetch = Callable[..., Awaitable[aiohttp.ClientResponse]]


class Pager:
    """Reads a list page by page."""

    def __init__(
        self,
        fetch: Fetch,
        template: str,
        url: str,
        *,
        pages: Pages,
        items: str = "",
        max_pages: int = MAX_PAGES,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        """``fetch`` is ``Context.fetch``; ``options`` are its own. ``items`` is where answers have the list."""
        self._fetch = fetch
        self._template = template
        self._url = url
        self._pages = pages
        self._items = items
        self._max_pages = max_pages
        self._options = dict(options or {})
        self._parameters = _parameters(self._options.pop("params", None))
        self._request: PageRequest | None = pages.first()
        self._asked: set[tuple[object, ...]] = set()

    async def next_page(self) -> Sequence[Any] | None:
        """The items of the next page; None at the end. Raises PaginationError and the errors of ``fetch``."""
        request = self._request
        if request is None:
            return None
        if request.identity in self._asked:
            raise PaginationError(
                f"{self._name} names a page again that it has given already: its pages have no end"
            )
        if len(self._asked) >= self._max_pages:
            raise PaginationError(
                f"{self._name} has more than {self._max_pages:,} pages; give max_pages, or filters"
            )
        self._asked.add(request.identity)
        if request.url is not None:
            response = await self._fetch(self._template, request.url, **self._options)
        else:
            parameters = {**self._parameters, **request.parameters}
            response = await self._fetch(self._template, self._url, **self._options, params=parameters)
        response.raise_for_status()
        body = await response.json(content_type=None)
        found = self._list_in(body)
        self._request = self._pages.following(request, response, body, len(found))
        return found

    async def all(self) -> AsyncIterator[Any]:
        """The items, one after the other."""
        while (items := await self.next_page()) is not None:
            for item in items:
                yield item

    @property
    def _name(self) -> str:
        return f"The answer of {self._template} {self._url}"

    def _list_in(self, body: Any) -> list[Any]:
        found = value_at(body, self._items) if self._items else body
        if isinstance(found, list):
            return found
        where = f"at {self._items!r}" if self._items else "itself: name its place in items="
        known = f" (there are: {', '.join(map(repr, sorted(body)))})" if isinstance(body, dict) else ""
        raise PaginationError(f"{self._name} has no list {where}{known}")


def value_at(body: Any, path: str) -> Any:
    """The value of nested objects; None where there is none.

    >>> value_at({"meta": {"next": "c2"}}, "meta.next")
    'c2'
    """
    for name in path.split("."):
        if not isinstance(body, dict):
            return None
        body = body.get(name)
    return body


def _parameters(given: Any) -> dict[str, Any]:
    if given is None or isinstance(given, Mapping):
        return dict(given or {})
    raise TypeError("params of a list in pages must be a mapping, such as {'state': 'open'}")
