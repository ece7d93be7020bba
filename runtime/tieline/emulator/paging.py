"""Lists of the API, in the provider's paging. A cursor that the provider never gave is an error."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tieline.emulator.facts import ListFacts
from tieline.emulator.messages import Asked, Reply
from tieline.emulator.scheme import Raw
from tieline.emulator.templates import get, put

PAGE = 2
"""Items in a page: few, so that a list of five has several pages."""


@dataclass(frozen=True)
class _Page:
    items: list[Any]
    start: int
    total: int
    more: bool


@dataclass
class EmulatedList:
    """A list, paged as a dialect of the System says."""

    facts: ListFacts
    dialect: Raw
    size: int = PAGE
    _cursors: dict[str, int] = field(default_factory=dict)

    @property
    def path(self) -> str:
        """The path below the base URL."""
        return self.facts.path.partition("?")[0]

    @property
    def kind(self) -> str:
        """What leads from a page to the next one."""
        return str(self.dialect.get("kind") or "link")

    @property
    def is_posted(self) -> bool:
        """Whether it is read by POST, with the cursor in the body."""
        return self.dialect.get("parameterIn") == "body"

    @property
    def following(self) -> str:
        """The path of further pages, where that is another one."""
        return str((self.dialect.get("following") or {}).get("path") or "")

    @property
    def _ends_by_length(self) -> bool:
        """Whether a page that is not full is the last one: pages are as long as they are asked to be then."""
        counted = ("total", "totalHeader", "totalPages", "totalPagesHeader", "hasMore")
        known = any(self.dialect.get(name) for name in counted)
        return self.kind in ("numbered", "offset", "lastId") and not known

    @property
    def total(self) -> int:
        """How many items there are: some pages of them."""
        limit = self.dialect.get("limit")
        full = self._ends_by_length and isinstance(limit, int)
        return 2 * int(limit) + 1 if full else self.facts.items  # type: ignore[arg-type]

    def items(self) -> list[dict[str, Any]]:
        """All items, each with an id of its own."""
        place = str(self.dialect.get("lastId") or "id")
        made = []
        for number in range(1, self.total + 1):
            value: Any = f"item-{number}"
            made.append(put(dict(self.facts.item), place, value))
        return made

    def serve(self, asked: Asked) -> Reply | None:
        """The page that a request asks for; None for a method that has no list."""
        if asked.method not in ("GET", "POST"):
            return None
        fields = self._fields(asked)
        try:
            size = self._size(fields)
            start = self._start(fields, size)
        except _UnknownCursorError as error:
            return Reply.of({"error": "invalid_request", "message": str(error)}, status=400)
        items = self.items()
        page = _Page(items[start : start + size], start, len(items), start + size < len(items))
        return self._reply(asked, page, size)

    def _fields(self, asked: Asked) -> Mapping[str, Any]:
        if self.kind == "graphql":
            content = asked.json
            found = content.get("variables") if isinstance(content, dict) else None
            return found or {}
        if self.dialect.get("parameterIn") == "body":
            names = (self._parameter, str(self.dialect.get("limitParameter") or ""))
            found = {name: get(asked.json, name) for name in names if name}
            return {name: value for name, value in found.items() if value is not None}
        return asked.url.query

    def _size(self, fields: Mapping[str, Any]) -> int:
        asked = fields.get(str(self.dialect.get("limitParameter")))
        try:
            wanted = max(int(asked), 1) if asked is not None else self.size
        except (TypeError, ValueError):
            return self.size
        return wanted if self._ends_by_length else min(self.size, wanted)

    # Where a page begins

    def _start(self, fields: Mapping[str, Any], size: int) -> int:
        value = fields.get(self._parameter)
        if self.kind in ("numbered", "offset"):
            return self._counted(value, size)
        if value is None or value == "":
            return 0
        if self.kind == "lastId":
            ids = [get(item, str(self.dialect.get("lastId") or "id")) for item in self.items()]
            if str(value) in map(str, ids):
                return [str(one) for one in ids].index(str(value)) + 1
        elif str(value) in self._cursors:
            return self._cursors[str(value)]
        raise _UnknownCursorError(f"{self._parameter} is no cursor of this list")

    def _counted(self, value: Any, size: int) -> int:
        first = self.dialect.get("start")
        first = int(first) if first is not None else int(self.kind == "numbered")
        try:
            number = int(value) if value is not None else first
        except (TypeError, ValueError):
            raise _UnknownCursorError(f"{self._parameter} is no number") from None
        if number < first:
            raise _UnknownCursorError(f"{self._parameter} begins at {first}")
        return (number - first) * size if self.kind == "numbered" else number - first

    @property
    def _parameter(self) -> str:
        usual = {"odata": "$skiptoken", "link": "page_token", "graphql": "after"}
        return str(self.dialect.get("parameter") or usual.get(self.kind, "cursor"))

    # What a page says

    def _reply(self, asked: Asked, page: _Page, size: int) -> Reply:
        if self.kind == "graphql":
            return self._graphql(page)
        headers: dict[str, str] = {}
        place = str(self.dialect.get("items") or "")
        if self.kind == "odata" and not place:
            place = "value"
        body: Any = put({}, place, page.items) if place else page.items
        body = self._totals(body, page, headers, size)
        if self.kind in ("cursor", "link", "odata"):
            body = self._next(body, asked, page, headers)
        return Reply.of(body, headers=headers)

    def _totals(self, body: Any, page: _Page, headers: dict[str, str], size: int) -> Any:
        pages = -(-page.total // size)
        if path := self.dialect.get("hasMore"):
            body = put(body, path, page.more)
        if path := self.dialect.get("total"):
            body = put(body, path, page.total)
        if path := self.dialect.get("totalPages"):
            body = put(body, path, pages)
        if name := self.dialect.get("totalHeader"):
            headers[str(name)] = str(page.total)
        if name := self.dialect.get("totalPagesHeader"):
            headers[str(name)] = str(pages)
        return body

    def _next(self, body: Any, asked: Asked, page: _Page, headers: dict[str, str]) -> Any:
        cursor = self._cursor(page)
        url = str(asked.url.update_query({self._parameter: cursor})) if page.more else ""
        wants_url = self.kind in ("link", "odata") or self.dialect.get("nextIsUrl")
        value = url if wants_url else cursor
        if name := self.dialect.get("nextHeader"):
            headers.update({str(name): value} if page.more else {})
            return body
        place = self.dialect.get("next") or ("@odata.nextLink" if self.kind == "odata" else "")
        if not place or self.dialect.get("nextRelation"):
            if self.facts.link_always:
                url = str(asked.url.update_query({self._parameter: cursor}))
                headers["Link"] = f'<{url}>; rel="next"; results="{str(page.more).lower()}"'
                return body
            headers.update(self._link(asked, url) if page.more else {})
            return body
        if page.more:
            return put(body, str(place), value)
        if self.kind == "odata" or self.dialect.get("absentAtEnd"):
            return body
        return put(body, str(place), self.dialect.get("endValue", None) if self.kind == "cursor" else None)

    def _link(self, asked: Asked, url: str) -> dict[str, str]:
        relation = str(self.dialect.get("nextRelation") or "next")
        first = asked.url.with_query({k: v for k, v in asked.url.query.items() if k != self._parameter})
        return {"Link": f'<{first}>; rel="first", <{url}>; rel="{relation}"'}

    def _cursor(self, page: _Page) -> str:
        value = f"cursor-{page.start + len(page.items)}"
        self._cursors[value] = page.start + len(page.items)
        return value

    def _graphql(self, page: _Page) -> Reply:
        cursor = self._cursor(page)
        place = str(self.dialect.get("items") or "data.items")
        info = {"hasNextPage": page.more, "endCursor": cursor if page.items else None}
        edges = [{"node": item, "cursor": f"cursor-{page.start + n}"} for n, item in enumerate(page.items, 1)]
        return Reply.of(put({}, place, {"nodes": page.items, "edges": edges, "pageInfo": info}))


class _UnknownCursorError(Exception):
    """A cursor that the provider never gave."""


def matching(system: Raw, path: str) -> Raw | None:
    """The dialect of the list at a path."""
    lists = system.get("lists") or {}
    for one in lists.get("paths") or ():
        pattern = re.sub(r"\\\*|\\\{[^}]*\\\}", "[^/]+", re.escape(str(one["path"]).strip("/")))
        if re.fullmatch(pattern, path.partition("?")[0].strip("/")):
            return {name: value for name, value in one.items() if name != "path"}
    default: Raw | None = lists.get("default")
    return default
