"""Paths into JSON answers: names with dots between them, or JSON pointers (RFC 6901)."""

from collections.abc import Iterator
from typing import Any, Final

MAX_PATH = 256
"""Characters of a path."""


class Missing:
    """The type of MISSING."""

    def __bool__(self) -> bool:
        return False


MISSING: Final = Missing()
"""What ``find`` returns where an answer has no such place; a null is not missing."""


def find(body: Any, path: str) -> Any:
    """The value at ``path``, or MISSING. An empty path is the answer itself.

    A name with dots in it is found as it is: an answer's own field ``@odata.nextLink`` needs no pointer.

    >>> find({"meta": {"next": "c2"}}, "meta.next"), find([{"id": 7}], "0.id"), find({"a.b": 1}, "a.b")
    ('c2', 7, 1)
    >>> find({"a/b": {"c": 1}}, "/a~1b/c"), find({"meta": None}, "meta.next") is MISSING
    (1, True)
    """
    if path.startswith("/"):
        names = [name.replace("~1", "/").replace("~0", "~") for name in path[1:].split("/")]
        for name in names:
            body = _member(body, name)
        return body
    while path:
        if isinstance(body, dict) and path in body:
            return body[path]
        name, _, path = path.partition(".")
        body = _member(body, name)
    return body


def value_at(body: Any, path: str) -> Any:
    """The value at ``path``; None where there is none.

    >>> value_at({"meta": {"next": "c2"}}, "meta.next"), value_at({}, "meta.next")
    ('c2', None)
    """
    found = find(body, path)
    return None if found is MISSING else found


def prefixes(path: str) -> Iterator[str]:
    """The places above ``path``, the closest first; without the answer itself.

    >>> list(prefixes("paging.next.after")), list(prefixes("/paging/next"))
    (['paging.next', 'paging'], ['/paging'])
    """
    separator = "/" if path.startswith("/") else "."
    while separator in path.removeprefix("/"):
        path = path.rpartition(separator)[0]
        yield path


def _member(body: Any, name: str) -> Any:
    if isinstance(body, dict):
        return body.get(name, MISSING)
    if isinstance(body, list) and name.isascii() and name.isdecimal() and len(name) <= 6:
        index = int(name)
        return body[index] if index < len(body) else MISSING
    return MISSING
