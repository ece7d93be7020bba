"""The forms in which a secret is written: as it is, encoded, and escaped."""

import base64
import html
import json
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import quote, quote_plus

SHORTEST = 6
"""Shorter values would blank out ordinary words, and say nothing about where they came from."""
# The same for a line of a longer secret, and for what is left of an encoded one between its neighbours.
_SHORTEST_PART = 8
_MAX_LINES = 1000
_COMPARED = 300
_LINE_BREAKS = re.compile(r"\r\n|\r|\n|\\r\\n|\\n")
_REMEMBERED = 2000


class Forms(NamedTuple):
    """The texts by which a secret is recognised."""

    all: frozenset[str] = frozenset()
    minimal: frozenset[str] = frozenset()
    """Those that contain no other one: a text without these has none of them."""


@lru_cache(maxsize=_REMEMBERED)
def forms_of(secret: str | bytes) -> Forms:
    """The forms of a secret without the whitespace at both ends, which is often lost on the way."""
    value = secret.strip() if isinstance(secret, str) else secret
    if len(value) < SHORTEST:
        return Forms()
    if isinstance(value, bytes):
        colons = value.hex(":")
        found = {*_written(repr(value)[2:-1]), *_encoded(value), colons, colons.upper()}
    else:
        # Of a JSON text in base64 the secret is what JSON makes of it.
        inner = (
            {variant.encode() for variant in (_escaped(value), json.dumps(value)[1:-1])}
            if "\\" in json.dumps(value)
            else ()
        )
        encoded = (form for variant in inner for form in _encoded(variant))
        own = _encoded(value.encode(errors="surrogatepass"))
        found = {*own, *_written(value), *encoded, *_of_lines(value)}
    forms = sorted(found, key=len)
    minimal: list[str] = []
    for form in forms:
        # Comparing each with each is for few of them.
        if len(forms) > _COMPARED or not any(other in form for other in minimal):
            minimal.append(form)
    return Forms(frozenset(found), frozenset(minimal))


def _of_lines(text: str) -> Iterator[str]:
    """The forms of each line by itself, and of all together without breaks: keys in PEM are printed so.

    Line breaks may be escaped already, as in a JSON file that holds such a key.
    """
    lines = [line.strip() for line in _LINE_BREAKS.split(text, maxsplit=_MAX_LINES)[:_MAX_LINES]]
    if len(lines) < 2:
        return
    # What stands around a key in PEM is no secret.
    inner = [line for line in lines if line and not line.startswith("-----")]
    for part in (*inner, "".join(inner)):
        if len(part) >= _SHORTEST_PART:
            yield from _written(part)


def _written(text: str) -> Iterator[str]:
    """``text`` as it is, and as JSON, Python, HTML and URLs write it."""
    path = quote(text, safe="")
    variants = {
        text,
        _escaped(text),
        json.dumps(text)[1:-1],
        # PHP escapes slashes, Go what HTML would take for its own.
        json.dumps(text)[1:-1].replace("/", r"\/"),
        _escaped(text).replace("&", r"\u0026").replace("<", r"\u003c").replace(">", r"\u003e"),
        repr(text)[1:-1],
        ascii(text)[1:-1],
        repr(text.encode(errors="surrogatepass"))[2:-1],
        repr(repr(text)[1:-1])[1:-1],
        repr(repr(text))[2:-2],
        html.escape(text),
        path,
        re.sub("%..", lambda found: found[0].lower(), path),
        quote(text),
        quote_plus(text),
        quote(path, safe=""),  # OAuth 1.0's PLAINTEXT signatures
    }
    # Log lines are JSON themselves: each form also as it looks within a line.
    for variant in variants:
        yield variant
        yield _escaped(variant)
        yield _escaped(_escaped(variant))


def _encoded(content: bytes) -> Iterator[str]:
    """In hexadecimal and base64; the latter as it is, and as it is inside of a longer encoded text."""
    if len(content) >= SHORTEST:
        yield content.hex()
        yield content.hex().upper()
    for shift in range(3):
        whole = base64.b64encode(bytes(shift) + content).decode()
        # Of the letters at both ends some bits belong to the neighbours.
        begin, size = (0, 2, 3)[shift], shift + len(content)
        forms = {whole[begin : size // 3 * 4], whole[begin : size * 8 // 6], *([] if shift else [whole])}
        for form in forms:
            if len(form) >= _SHORTEST_PART:
                yield form
                yield form.replace("+", "-").replace("/", "_")


def _escaped(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]
