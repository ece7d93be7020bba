"""Lists of a system: how their pages follow each other."""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, StringConstraints

from tieline_core.resources.fields import Shape, list_map, list_set, rules
from tieline_core.resources.limits import AnswerPath, HeaderName
from tieline_protocol.list_dialects import LIST_PATH, MAX_LIMIT, MAX_NAMES, MAX_PATHS, MAX_TEXT, NAME

ListKind = Literal["cursor", "link", "numbered", "offset", "lastId", "odata", "graphql"]
ParameterPlace = Literal["query", "body"]
ParameterName = Annotated[str, StringConstraints(min_length=1, max_length=MAX_TEXT, pattern=NAME)]
ParameterNames = Annotated[list[ParameterName], Field(max_length=MAX_NAMES)]
ParameterValues = Annotated[
    dict[str, Annotated[str, StringConstraints(max_length=MAX_TEXT)]],
    Field(
        max_length=MAX_NAMES,
        json_schema_extra=rules(("self.all(key, size(key) <= 256)", "names have at most 256 letters")),
    ),
]
CursorText = Annotated[str, StringConstraints(max_length=MAX_TEXT)]
ListPath = Annotated[str, StringConstraints(min_length=1, max_length=MAX_TEXT, pattern=LIST_PATH)]
PageLimit = Annotated[int, Field(ge=1, le=MAX_LIMIT)]
FirstNumber = Annotated[int, Field(ge=0, le=MAX_LIMIT)]

_COMPLETE = (
    (
        "!(self.kind in ['cursor', 'numbered', 'offset', 'lastId']) || has(self.parameter)",
        "parameter is needed: the parameter of the request that takes the cursor, page number, offset or last id",
    ),
    (
        "self.kind != 'cursor' || has(self.next) || has(self.nextHeader) || has(self.nextRelation)",
        "next is needed: the place of the next cursor in an answer; or nextHeader, or nextRelation",
    ),
    (
        "[has(self.next), has(self.nextHeader), has(self.nextRelation)].filter(given, given).size() <= 1",
        "give one of next, nextHeader and nextRelation",
    ),
    (
        "self.kind != 'graphql' || has(self.items)",
        "items is needed: the place of the connection in an answer, such as data.orders",
    ),
)


class FollowingPages(Shape):
    """What differs in the requests for further pages."""

    path: ListPath | None = None
    """Their path below the base URL. Default: the path of the list."""
    keep: Annotated[ParameterNames | None, Field(json_schema_extra=list_set())] = None
    """Parameters of the first request that are sent again. Default: all."""
    parameters: ParameterValues = {}
    """Further parameters."""


class ListDialect(Shape):
    """How the pages of a list follow each other."""

    model_config = ConfigDict(json_schema_extra=rules(*_COMPLETE))

    kind: ListKind
    """What leads to the next page: cursor (a text in the answer), link (a URL in the answer), numbered (page numbers),
    offset, lastId (the id of the last item), odata (@odata.nextLink) or graphql (pageInfo of a connection)."""
    items: AnswerPath | None = None
    """Path of the list in an answer. For graphql, that of the connection. Default: value for odata, or else the answer
    itself."""
    parameter: ParameterName | None = None
    """Parameter that takes the cursor, page number, offset or last id. For graphql, the variable. Default: after for
    graphql."""
    parameter_in: ParameterPlace | None = None
    """Place of the parameters in the request: query, or body (fields of a JSON object; dots separate nested
    fields, as in variables.page). Default: query."""
    next: AnswerPath | None = None
    """Path of the next cursor, or of the next URL, in the answer's body."""
    next_header: HeaderName | None = None
    """Header of the answer that has it."""
    next_relation: ParameterName | None = None
    """Relation of the header Link that has it. Default for link: next."""
    next_is_url: bool = False
    """The cursor is the value of parameter in the query of a URL."""
    end_value: CursorText | None = None
    """Cursor that means that there are no more pages. Null, false and the empty text always mean it."""
    absent_at_end: bool = False
    """The last page has no cursor at all, so that a list of one page has none. By default a first page without one is
    an error, unless it is shorter than limit."""
    start: FirstNumber | None = None
    """First page number or offset. Default: 1 for page numbers, 0 for offsets."""
    limit_parameter: ParameterName | None = None
    """Parameter that takes limit. For graphql, the variable."""
    limit: PageLimit | None = None
    """Items to ask for in a page, or items that the system gives in a page. A page with fewer is the last one."""
    has_more: AnswerPath | None = None
    """Path of a boolean that says whether there are more pages."""
    total: AnswerPath | None = None
    """Path of the number of all items."""
    total_header: HeaderName | None = None
    """Header with the number of all items."""
    total_pages: AnswerPath | None = None
    """Path of the number of all pages."""
    total_pages_header: HeaderName | None = None
    """Header with the number of all pages."""
    last_id: AnswerPath | None = None
    """Path of an item's id, for lastId. Default: id."""
    following: FollowingPages | None = None
    """What differs in the requests for further pages."""


class ListPathDialect(ListDialect):
    """How the pages of the lists at a path follow each other."""

    path: ListPath
    """Path below the base URL. A segment * or {name} stands for any one segment."""


class Lists(Shape):
    """How a system's lists come in pages."""

    default: ListDialect | None = None
    """Lists at all other paths."""
    paths: Annotated[
        list[ListPathDialect], Field(max_length=MAX_PATHS, json_schema_extra=list_map("path"))
    ] = []
    """Lists at certain paths; the first that fits counts."""
