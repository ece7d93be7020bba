"""How an operation's pages follow each other, where its description says so plainly: parameters, and fields of answers.

Nothing is guessed from values: an operation is read in pages only if the names are those that most systems use.
"""

from collections.abc import Mapping
from typing import Any

from tieline.connectors.schemas import PREFIX

Json = dict[str, Any]
_CURSORS = (
    "cursor", "after", "starting_after", "page_token", "pageToken", "next_token", "nextToken", "continuation_token",
    "continuationToken", "marker",
)  # fmt: skip
_NEXT = (
    "next_cursor", "nextCursor", "next_page_token", "nextPageToken", "next_token", "nextToken", "next", "cursor",
    "after", "end_cursor", "endCursor", "continuation_token", "continuationToken", "next_marker", "nextMarker",
)  # fmt: skip
_NEXT_LINKS = ("next", "next_url", "nextUrl", "nextLink", "@odata.nextLink", "next_page_url")
_SIZES = ("per_page", "perPage", "page_size", "pageSize", "limit", "size", "count")
_NUMBERS = ("page", "page_number", "pageNumber")
_OFFSETS = ("offset", "skip", "start")
_INSIDE = (
    "meta",
    "pagination",
    "paging",
    "page",
    "page_info",
    "pageInfo",
    "links",
    "_links",
    "response_metadata",
)
_URLS = ("uri", "url", "uri-reference")
_MAX_SIZE = 100


def pages_of(operation: Json, schemas: Mapping[str, Any]) -> Json | None:
    """The description's word on an operation's pages; None where it has none."""
    has_links = operation.pop("links", False)
    if operation["method"] != "GET":
        return None
    answer = _answer(operation, schemas)
    where = _list_in(answer, schemas)
    if where is None:
        return None
    items, fields = where
    query = {item["name"]: item for item in operation.get("parameters", ()) if item["in"] == "query"}
    found = _cursor(query, fields) or _links(fields, has_links=has_links) or _numbers(query, schemas)
    return {**found, "items": items} if found else None


def resolved(schema: Any, schemas: Mapping[str, Any]) -> Mapping[str, Any]:
    """A schema with its references followed; ``{}`` where that ends in circles."""
    seen: set[str] = set()
    while isinstance(schema, Mapping) and isinstance(reference := schema.get("$ref"), str):
        if reference in seen:
            return {}
        seen.add(reference)
        schema = schemas.get(reference.removeprefix(PREFIX), {})
    return schema if isinstance(schema, Mapping) else {}


def _answer(operation: Json, schemas: Mapping[str, Any]) -> Mapping[str, Any]:
    answers = operation.get("answers", {})
    body = next((answers[key] for key in ("200", "2XX", "default") if answers.get(key)), None)
    return resolved((body or {}).get("schema"), schemas)


def _list_in(
    answer: Mapping[str, Any], schemas: Mapping[str, Any]
) -> tuple[str, Mapping[str, Mapping[str, Any]]] | None:
    """Where the one list of an answer is, and the answer's fields, with those of objects that tell of pages."""
    if answer.get("type") == "array":
        return "", {}
    properties = answer.get("properties") or {}
    fields: dict[str, Mapping[str, Any]] = {}
    lists: list[str] = []
    for name, schema in properties.items():
        if "." in name:
            fields[name] = {}
            continue
        part = resolved(schema, schemas)
        fields[name] = part
        if part.get("type") == "array":
            lists.append(name)
        elif name in _INSIDE:
            inner = part.get("properties") or {}
            fields |= {
                f"{name}.{key}": resolved(item, schemas) for key, item in inner.items() if "." not in key
            }
    return (lists[0], fields) if len(lists) == 1 else None


def _cursor(query: Mapping[str, Json], fields: Mapping[str, Mapping[str, Any]]) -> Json | None:
    parameter = next((name for name in _CURSORS if name in query), None)
    following = _field(_NEXT, fields)
    if parameter is None or following is None:
        return None
    return {"kind": "cursor", "parameter": parameter, "next": following}


def _links(fields: Mapping[str, Mapping[str, Any]], *, has_links: bool) -> Json | None:
    for path in (*_NEXT_LINKS, *(f"{part}.next" for part in _INSIDE)):
        if fields.get(path, {}).get("format") in _URLS and "." not in path.partition(".")[2]:
            return {"kind": "link", "next": path}
    return {"kind": "link"} if has_links else None


def _numbers(query: Mapping[str, Json], schemas: Mapping[str, Any]) -> Json | None:
    size = next((name for name in _SIZES if name in query), None)
    items = _size(query[size], schemas) if size else None
    number = next((name for name in _NUMBERS if name in query), None)
    if number is not None:
        start = resolved(query[number].get("schema"), schemas)
        first = 0 if 0 in (start.get("default"), start.get("minimum")) else 1
        found: Json = {"kind": "numbered", "parameter": number, "start": first}
        # Without a size, an empty page is the end.
        return found | ({"sizeParameter": size, "size": items} if size and items else {})
    offset = next((name for name in _OFFSETS if name in query), None)
    if offset is None or not items:
        return None
    return {"kind": "offset", "parameter": offset, "limitParameter": size, "limit": items}


def _size(parameter: Json, schemas: Mapping[str, Any]) -> int | None:
    """A size of pages that the system surely gives; None where the description says none.

    A system that gives fewer than it is asked for would end the list at its first page.
    """
    schema = resolved(parameter.get("schema"), schemas)
    for size in (schema.get("maximum"), schema.get("default")):
        if isinstance(size, int | float) and not isinstance(size, bool) and size >= 1:
            return min(int(size), _MAX_SIZE)
    return None


def _field(names: tuple[str, ...], fields: Mapping[str, Mapping[str, Any]]) -> str | None:
    paths = (*names, *(f"{part}.{name}" for part in _INSIDE for name in names))
    return next((path for path in paths if path in fields and _is_text(fields[path])), None)


def _is_text(schema: Mapping[str, Any]) -> bool:
    if schema.get("format") in _URLS:
        return False
    kinds = schema.get("type", "string")
    members = schema.get("anyOf") or schema.get("oneOf") or []
    return "string" in kinds if not members else any(_is_text(item) for item in members if item.get("type"))
