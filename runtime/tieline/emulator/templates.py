"""Answers that an entry writes literally, with ``$accessToken`` and the like where values stand."""

import re
from collections.abc import Mapping
from typing import Any

_VARIABLE = re.compile(r"\$([A-Za-z][A-Za-z0-9_]*)")


def filled(template: Any, values: Mapping[str, Any]) -> Any:
    """The template with its values. A field whose value does not exist is left out.

    >>> filled({"token": "$accessToken", "url": "https://$shop.example", "refresh": "$none"},
    ...        {"accessToken": "a1", "shop": "s1"})
    {'token': 'a1', 'url': 'https://s1.example'}
    """
    if isinstance(template, Mapping):
        return {name: filled(value, values) for name, value in template.items() if not _absent(value, values)}
    if isinstance(template, list):
        return [filled(value, values) for value in template if not _absent(value, values)]
    if not isinstance(template, str):
        return template
    if whole := _VARIABLE.fullmatch(template):
        return values[whole[1]]
    return _VARIABLE.sub(lambda found: str(values.get(found[1], found[0])), template)


def _absent(value: Any, values: Mapping[str, Any]) -> bool:
    whole = _VARIABLE.fullmatch(value) if isinstance(value, str) else None
    return whole is not None and whole[1] not in values


def put(body: Any, path: str, value: Any) -> Any:
    """``body`` with a value at a dotted path (``authed_user.access_token``, ``0.id``) or JSON pointer.

    >>> put({}, "data.0.id", 7)
    {'data': [{'id': 7}]}
    """
    return _put(body, _parts(path), value)


def get(body: Any, path: str) -> Any:
    """The value at such a path, where ``*`` is the first item of a list; None for nothing.

    >>> get({"data": [{"id": 7}]}, "data.*.id"), get([], "0")
    (7, None)
    """
    for part in _parts(path):
        if isinstance(body, list):
            index = 0 if part == "*" else int(part) if part.isdigit() else len(body)
            body = body[index] if index < len(body) else None
        else:
            body = body.get(part) if isinstance(body, dict) else None
    return body


def literal_at(body: Any, path: str) -> str:
    """The text or number at such a path; empty where there is none, or one with variables.

    >>> literal_at({"data": [{"id": 7}]}, "data.0.id"), literal_at({"url": "$baseUrl"}, "url")
    ('7', '')
    """
    found = get(body, path)
    is_literal = isinstance(found, str | int) and not isinstance(found, bool) and "$" not in str(found)
    return str(found) if is_literal else ""


def _parts(path: str) -> list[str]:
    if path.startswith("@"):
        return [path]  # a field of OData, such as @odata.nextLink
    pointer = [part.replace("~1", "/").replace("~0", "~") for part in path[1:].split("/")]
    return pointer if path.startswith("/") else path.split(".")


def _put(body: Any, parts: list[str], value: Any) -> Any:
    if not parts:
        return value
    first, rest = parts[0], parts[1:]
    if first.isdigit() and not isinstance(body, dict):
        items = list(body) if isinstance(body, list) else []
        items += [{}] * (int(first) + 1 - len(items))
        items[int(first)] = _put(items[int(first)], rest, value)
        return items
    found = dict(body) if isinstance(body, dict) else {}
    found[first] = _put(found.get(first), rest, value)
    return found
