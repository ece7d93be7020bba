"""How the lists of an external system come in pages: the dialect of ``spec.lists`` of a System."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Self

from tieline_protocol.answer_paths import MAX_PATH

MAX_PATHS = 64
MAX_LIMIT = 100_000
MAX_NAMES = 32
MAX_TEXT = 256
NAME = r"^[!#$%&'*+.^_`|~0-9A-Za-z\[\]-]+$"
"""The form of a parameter's or a header's name."""
LIST_PATH = r"^/[^\s#\\]*$"
"""The form of a path below the base URL."""


class ListKind(StrEnum):
    """What leads from a page to the next one."""

    CURSOR = "cursor"
    LINK = "link"
    NUMBERED = "numbered"
    OFFSET = "offset"
    LAST_ID = "lastId"
    ODATA = "odata"
    GRAPHQL = "graphql"


def _nothing() -> Mapping[str, str]:
    return MappingProxyType({})


@dataclass(frozen=True, kw_only=True)
class Following:
    """What differs in the requests for further pages."""

    path: str = ""
    """Their path; empty: the list's own."""
    keep: frozenset[str] | None = None
    """The parameters of the first request that are sent again; None: all."""
    parameters: Mapping[str, str] = field(default_factory=_nothing)
    """Further parameters."""

    @classmethod
    def parse(cls, content: Any) -> Self:
        """From ``{path, keep, parameters}``. Raises ValueError."""
        given = _object(content, "following")
        keep = given.get("keep")
        parameters = given.get("parameters") or {}
        if keep is not None and not _are_texts(keep):
            raise ValueError("following.keep must be a list of names")
        if not isinstance(parameters, Mapping) or not _are_texts(list(parameters.values())):
            raise ValueError("following.parameters must be texts by their names")
        return cls(
            path=_text(given, "path", LIST_PATH),
            keep=None if keep is None else frozenset(keep),
            parameters=MappingProxyType(dict(parameters)),
        )


@dataclass(frozen=True, kw_only=True)
class ListDialect:
    """How the pages of one list, or of all lists of a system, follow each other."""

    kind: ListKind
    items: str = ""
    """Where an answer has the list; empty: the answer is the list."""
    parameter: str = ""
    """The parameter that takes the cursor, page number, offset or last id; for GraphQL, the variable."""
    in_body: bool = False
    """Whether parameters are fields of the JSON body, and not of the query."""
    next: str = ""
    """Where an answer has the next cursor, or the URL of the next page."""
    next_header: str = ""
    """The header of an answer that has the next cursor, or the URL of the next page."""
    next_relation: str = ""
    """The relation of the header Link that has the next cursor, or the URL of the next page."""
    next_is_url: bool = False
    """Whether the cursor is the value of ``parameter`` in a URL."""
    end_value: str = ""
    """A cursor that means that there are no more pages, beside null and the empty text."""
    absent_at_end: bool = False
    """Whether answers leave the cursor out on the last page, so that the first page may lack it."""
    start: int | None = None
    """The first page number or offset; None: 1 for page numbers, 0 for offsets."""
    limit_parameter: str = ""
    """The parameter that takes ``limit``."""
    limit: int | None = None
    """Items in a page."""
    has_more: str = ""
    """Where an answer says whether there are more pages."""
    total: str = ""
    """Where an answer has the number of all items."""
    total_header: str = ""
    """The header that has it."""
    total_pages: str = ""
    """Where an answer has the number of all pages."""
    total_pages_header: str = ""
    """The header that has it."""
    last_id: str = ""
    """Where an item has its id; empty: id."""
    following: Following = Following()

    @classmethod
    def parse(cls, content: Any) -> Self:
        """From the object that ``spec.lists.default`` is. Raises ValueError that names the field."""
        given = _object(content, "a dialect")
        kind = _kind(given.get("kind"))
        dialect = cls(
            kind=kind,
            items=_path(given, "items"),
            parameter=_text(given, "parameter", NAME),
            in_body=_choice(given, "parameterIn", ("query", "body")) == "body",
            next=_path(given, "next"),
            next_header=_text(given, "nextHeader", NAME),
            next_relation=_text(given, "nextRelation", NAME),
            next_is_url=_flag(given, "nextIsUrl"),
            end_value=_text(given, "endValue", ""),
            absent_at_end=_flag(given, "absentAtEnd"),
            start=_number(given, "start", least=0),
            limit_parameter=_text(given, "limitParameter", NAME),
            limit=_number(given, "limit", least=1),
            has_more=_path(given, "hasMore"),
            total=_path(given, "total"),
            total_header=_text(given, "totalHeader", NAME),
            total_pages=_path(given, "totalPages"),
            total_pages_header=_text(given, "totalPagesHeader", NAME),
            last_id=_path(given, "lastId"),
            following=Following.parse(given.get("following") or {}),
        )
        if problem := dialect.problem:
            raise ValueError(problem)
        return dialect

    @property
    def problem(self) -> str:
        """What the dialect lacks; empty where it is complete."""
        places = [name for name in (self.next, self.next_header, self.next_relation) if name]
        if len(places) > 1:
            return "give one of next, nextHeader and nextRelation"
        if self.kind in _WITH_PARAMETER and not self.parameter:
            return f"parameter is needed: the parameter of the request that takes the {_TAKES[self.kind]}"
        pair = sorted((self.parameter, self.limit_parameter), key=len)
        if self.in_body and pair[0] and f"{pair[1]}.".startswith(f"{pair[0]}."):
            return f"{pair[1]} is inside {pair[0]}: parameter and limitParameter are fields of their own"
        if self.kind is ListKind.CURSOR and not places:
            return "next is needed: the place of the next cursor in an answer; or nextHeader, or nextRelation"
        if self.kind is ListKind.GRAPHQL and not self.items:
            return "items is needed: the place of the connection in an answer, such as data.orders"
        return ""


DIALECT_FIELDS = frozenset(
    {
        "kind", "items", "parameter", "parameterIn", "next", "nextHeader", "nextRelation", "nextIsUrl",
        "endValue", "absentAtEnd", "start", "limitParameter", "limit", "hasMore", "total", "totalHeader",
        "totalPages", "totalPagesHeader", "lastId", "following",
    }
)  # fmt: skip
"""The fields of a dialect. Further ones are ignored, as those of a later release must be."""
FOLLOWING_FIELDS = frozenset({"path", "keep", "parameters"})
_TAKES = {
    ListKind.CURSOR: "cursor",
    ListKind.NUMBERED: "page number",
    ListKind.OFFSET: "offset",
    ListKind.LAST_ID: "id of the last item",
}
_WITH_PARAMETER = frozenset(_TAKES)


@dataclass(frozen=True, kw_only=True)
class PathDialect:
    """The dialect of the lists at some paths."""

    path: str
    dialect: ListDialect

    def matches(self, path: str) -> bool:
        """Whether ``path``, below the base URL, is among them: ``*`` and ``{name}`` stand for one segment."""
        ours, theirs = self.path.strip("/").split("/"), path.strip("/").split("/")
        return len(ours) == len(theirs) and all(
            mine in ("*", other) or (mine[:1] == "{" and mine[-1:] == "}" and bool(other))
            for mine, other in zip(ours, theirs, strict=True)
        )


@dataclass(frozen=True, kw_only=True)
class ListDialects:
    """``spec.lists`` of a System: the usual dialect, and those of some paths."""

    default: ListDialect | None = None
    paths: tuple[PathDialect, ...] = ()

    @classmethod
    def parse(cls, content: Any) -> Self:
        """From ``{default, paths}``. Raises ValueError that names the field."""
        given = _object(content, "lists")
        paths = given.get("paths") or ()
        if not isinstance(paths, Sequence) or isinstance(paths, str) or len(paths) > MAX_PATHS:
            raise ValueError(f"paths must be a list of at most {MAX_PATHS} items")
        with _at("default"):
            default = ListDialect.parse(given["default"]) if given.get("default") else None
        return cls(
            default=default, paths=tuple(_path_dialect(index, item) for index, item in enumerate(paths))
        )

    def at(self, path: str) -> ListDialect | None:
        """The dialect of the list at ``path``, below the base URL: the first of ``paths`` that fits, or the default.

        >>> lists = ListDialects.parse({"paths": [{"path": "/shops/*/orders", "kind": "odata"}]})
        >>> lists.at("/shops/7/orders").kind, lists.at("/orders")
        (<ListKind.ODATA: 'odata'>, None)
        """
        return next((one.dialect for one in self.paths if one.matches(path)), self.default)


NO_DIALECTS = ListDialects()


@contextmanager
def _at(name: str) -> Iterator[None]:
    """Names the field of a ValueError."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def _path_dialect(index: int, content: Any) -> PathDialect:
    with _at(f"paths[{index}]"):
        given = _object(content, "an item")
        path = _text(given, "path", LIST_PATH)
        if not path:
            raise ValueError("path is needed")
        return PathDialect(path=path, dialect=ListDialect.parse(given))


def _object(content: Any, what: str) -> Mapping[str, Any]:
    if not isinstance(content, Mapping):
        raise ValueError(f"{what} must be an object")
    return content


def _kind(value: Any) -> ListKind:
    try:
        return ListKind(value)
    except ValueError:
        raise ValueError(f"kind must be one of {', '.join(ListKind)}, not {value!r}") from None


def _text(content: Mapping[str, Any], name: str, pattern: str) -> str:
    value = content.get(name)
    if value is None or value == "":
        return ""
    if not isinstance(value, str) or len(value) > MAX_TEXT or not re.search(pattern, value):
        raise ValueError(f"{name} cannot be {value!r}")
    return value


def _path(content: Mapping[str, Any], name: str) -> str:
    value = content.get(name, "")
    if value is None:
        return ""
    if not isinstance(value, str) or len(value) > MAX_PATH:
        raise ValueError(f"{name} must be a path, such as paging.next")
    return value


def _choice(content: Mapping[str, Any], name: str, known: tuple[str, ...]) -> str:
    value = content.get(name, known[0])
    if value not in known:
        raise ValueError(f"{name} must be one of {', '.join(known)}, not {value!r}")
    return str(value)


def _flag(content: Mapping[str, Any], name: str) -> bool:
    value = content.get(name, False)
    if not isinstance(value, bool):
        raise ValueError(f"{name} must be true or false")
    return value


def _number(content: Mapping[str, Any], name: str, *, least: int) -> int | None:
    value = content.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= MAX_LIMIT:
        raise ValueError(f"{name} must be a whole number from {least} to {MAX_LIMIT}")
    return value


def _are_texts(values: Any) -> bool:
    return (
        isinstance(values, list)
        and len(values) <= MAX_NAMES
        and all(isinstance(value, str) and len(value) <= MAX_TEXT for value in values)
    )
