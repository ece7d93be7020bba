"""Lists that come in pages: by cursor, by page number, by offset, or by links."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import aiohttp

from tieline.errors import TielineError
from tieline.patterns.list_pages import DialectPages, Page, PageRequest, Pages, PaginationError
from tieline_protocol.answer_paths import find
from tieline_protocol.list_dialects import ListDialect, ListKind

MAX_PAGES = 10_000
_SHOWN = 20
_LONGEST_ERROR = 200


class _DialectShorthand:
    """Pages that a few options of a dialect describe."""

    @property
    def dialect(self) -> ListDialect:
        """These pages as a dialect."""
        raise NotImplementedError

    def first(self) -> PageRequest:
        """See Pages."""
        return DialectPages(self.dialect).first()

    def following(self, request: PageRequest, page: Page) -> PageRequest | None:
        """See Pages."""
        return DialectPages(self.dialect).following(request, page)


@dataclass(frozen=True, kw_only=True)
class CursorPages(_DialectShorthand):
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

    @property
    def dialect(self) -> ListDialect:
        """These pages as a dialect."""
        return ListDialect(
            kind=ListKind.CURSOR,
            parameter=self.parameter,
            next=self.next,
            absent_at_end=True,
        )


@dataclass(frozen=True, kw_only=True)
class NumberedPages(_DialectShorthand):
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

    @property
    def dialect(self) -> ListDialect:
        """These pages as a dialect."""
        return ListDialect(
            kind=ListKind.NUMBERED,
            parameter=self.parameter,
            start=self.start,
            limit_parameter=self.size_parameter or "",
            limit=self.size if self.size_parameter else None,
        )


@dataclass(frozen=True, kw_only=True)
class OffsetPages(_DialectShorthand):
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

    @property
    def dialect(self) -> ListDialect:
        """These pages as a dialect."""
        return ListDialect(
            kind=ListKind.OFFSET,
            parameter=self.parameter,
            limit_parameter=self.limit_parameter,
            limit=self.limit,
        )


@dataclass(frozen=True, kw_only=True)
class LinkPages(_DialectShorthand):
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

    @property
    def dialect(self) -> ListDialect:
        """These pages as a dialect."""
        return ListDialect(
            kind=ListKind.LINK,
            next=self.next or "",
            next_relation="" if self.next else self.relation,
            absent_at_end=True,
        )


Fetch = Callable[..., Awaitable[aiohttp.ClientResponse]]


class NoDialectError(TielineError):
    """Neither the code nor the System says how a list comes in pages.

    >>> async def orders(ctx: Context) -> str:
    ...     try:
    ...         return str([order async for order in ctx.paginate("shop", "/orders")])
    ...     except NoDialectError as error:
    ...         return str(error)
    >>> run(orders)
    "The System of template 'shop' does not say how the list /orders comes in pages; set its lists (in a connections …"
    """

    def __init__(self, template: str, url: str) -> None:
        super().__init__(
            f"The System of template {template!r} does not say how the list {url} comes in pages; set its lists (in a "
            "connections file, those of the connection), or give pages= and items="
        )


class Pager:
    """Reads a list page by page."""

    def __init__(
        self,
        fetch: Fetch,
        template: str,
        url: str,
        *,
        pages: Pages | ListDialect,
        items: str | None = None,
        max_pages: int = MAX_PAGES,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        """``fetch`` is ``Context.fetch``; ``options`` are its own. ``items`` is where answers have the list."""
        self._fetch = fetch
        self._template = template
        self._url = url
        self._max_pages = max_pages
        self._options = dict(options or {})
        self._parameters = _mapping("params", self._options.pop("params", None))
        if isinstance(pages, ListDialect):
            pages = DialectPages(pages, {**self._parameters, **_body_of(self._options)})
        self._pages: Pages = pages
        self._items = items
        self._request: PageRequest | None = pages.first()
        self._asked: set[object] = set()
        self._received = 0
        self._before: Sequence[Any] = ()

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
        response = await self._sent(request)
        response.raise_for_status()
        body = await response.json(content_type=None)
        found = self._list_in(body)
        if found and found == self._before and isinstance(found[0], dict):
            raise PaginationError(
                f"{self._name} is the same page as the one before, so its pages have no end: the system does not know "
                "the parameter that asks for the next page"
            )
        self._before = found
        self._received += len(found)
        page = Page(
            response=response, body=body, items=found, number=len(self._asked), received=self._received
        )
        try:
            self._request = self._pages.following(request, page)
        except PaginationError as error:
            raise PaginationError(f"{self._template} {self._url}: {error}") from None
        return found

    async def all(self) -> AsyncIterator[Any]:
        """The items, one after the other."""
        while (items := await self.next_page()) is not None:
            for item in items:
                yield item

    async def _sent(self, request: PageRequest) -> aiohttp.ClientResponse:
        options = dict(self._options)
        if request.body or (request.keep is not None and "json" in options):
            given = _kept(_body_of(options), request.keep)
            options["json"] = {
                **given,
                **{name: _joined(given.get(name), value) for name, value in request.body.items()},
            }
        if request.url is not None:
            more = {"params": dict(request.parameters)} if request.parameters else {}
            return await self._fetch(self._template, request.url, **options, **more)
        parameters = {**_kept(self._parameters, request.keep), **request.parameters}
        return await self._fetch(self._template, request.path or self._url, **options, params=parameters)

    @property
    def _name(self) -> str:
        return f"The answer of {self._template} {self._url}"

    def _list_in(self, body: Any) -> list[Any]:
        if self._items is not None or not isinstance(self._pages, DialectPages):
            place = self._items or ""
            found = find(body, place)
        else:
            place = self._pages.dialect.items
            found = self._pages.list_in(body)
        if isinstance(found, list):
            return found
        where = f"at {place!r}" if place else "itself: name its place in items="
        known = (
            f" (there are: {', '.join(map(repr, sorted(body)[:_SHOWN]))})" if isinstance(body, dict) else ""
        )
        raise PaginationError(f"{self._name} has no list {where}{known}{_error_in(body)}")


def _error_in(body: Any) -> str:
    """What an answer says instead of a list, as some systems do with status 200."""
    texts = (find(body, path) for path in ("error", "error.message", "message"))
    said = next((text for text in texts if isinstance(text, str) and text), "")
    return f"; it says: {said[:_LONGEST_ERROR]}" if said else ""


def _mapping(name: str, given: Any) -> dict[str, Any]:
    if given is None or isinstance(given, Mapping):
        return dict(given or {})
    raise TypeError(f"{name} of a list in pages must be a mapping, such as {{'state': 'open'}}")


def _body_of(options: Mapping[str, Any]) -> dict[str, Any]:
    return _mapping("json", options.get("json"))


def _kept(given: dict[str, Any], keep: frozenset[str] | None) -> dict[str, Any]:
    return given if keep is None else {name: value for name, value in given.items() if name in keep}


def _joined(given: Any, value: Any) -> Any:
    """A field of the body: objects are merged, such as the variables of GraphQL."""
    if not isinstance(given, dict) or not isinstance(value, Mapping):
        return value
    return {**given, **{name: _joined(given.get(name), inner) for name, inner in value.items()}}
