"""JSON of the API server, read without trusting how deep people's objects nest.

Kubernetes keeps JSON of any depth up to 10,000 in fields whose schema is open. Parsers stop earlier, and so does what
walks an object; one such object in a list must not keep anybody from reading the others. What lies deeper than
MAX_DEPTH is left out (it reads as null). Bodies of REST have 64 levels at most, so nothing of ours is lost.
"""

import re
from typing import Any

import orjson

MAX_DEPTH = 230
"""Objects and arrays inside each other in one object of Kubernetes."""
# A list and an event hold objects two levels down.
_READ_DEPTH = MAX_DEPTH + 2
# orjson writes 254 levels: what is read can be written again, also inside of something else.
_WRITTEN_DEPTH = 254
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*+"|[\[\]{}]', re.DOTALL)


def loads(text: bytes) -> Any:
    """The document. Raises orjson.JSONDecodeError."""
    try:
        document = orjson.loads(text)
        # With fewer brackets nothing is deep, which is true of most events.
        if text.count(b"{") + text.count(b"[") > _READ_DEPTH:
            _refuse_deep(document)
    except (orjson.JSONDecodeError, orjson.JSONEncodeError):
        return orjson.loads(cut(text))
    return document


def _refuse_deep(document: Any) -> None:
    """Raises orjson.JSONEncodeError when the document is deeper than is read; orjson counts fastest."""
    for _ in range(_WRITTEN_DEPTH - _READ_DEPTH):
        document = [document]
    orjson.dumps(document)


def cut(text: bytes) -> bytes:
    """The document with null for what lies deeper than is read."""
    depth, copied = 0, 0
    kept: list[bytes] = []
    for found in _TOKEN.finditer(text):
        sign = text[found.start()]
        if sign in b"[{":
            depth += 1
            if depth == _READ_DEPTH + 1:
                kept += (text[copied : found.start()], b"null")
        elif sign in b"]}":
            if depth == _READ_DEPTH + 1:
                copied = found.end()
            depth -= 1
    return b"".join((*kept, text[copied:]))
