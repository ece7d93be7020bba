"""Looking for secrets where none may be: as they are, and in the forms that they take on their way."""

from __future__ import annotations

import base64
import html
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import quote, quote_plus

SHORTEST = 8
"""What is shorter is found by chance."""


@dataclass(frozen=True)
class Leak:
    """A secret that was found."""

    secret: str
    """Its name, not its value."""
    form: str
    place: str
    around: str
    """What stands before it."""


def leaks(secrets: Mapping[str, str | bytes], places: Mapping[str, bytes | str]) -> list[Leak]:
    """Every secret (value by name) in every place (content by name) that holds it in some form."""
    found = []
    contents = {name: _bytes(content) for name, content in places.items()}
    for secret, value in secrets.items():
        for form, needle in forms(_bytes(value)).items():
            for place, content in contents.items():
                at = content.find(needle)
                if at >= 0:
                    around = content[max(0, at - 80) : at].decode(errors="replace")
                    found.append(Leak(secret, form, place, around))
    return found


def forms(value: bytes) -> dict[str, bytes]:
    """The forms of a secret, by name; those of a text with several lines are its lines' too.

    Base64 of a longer text that has the secret somewhere inside is one of three, by where it begins.
    """
    assert len(value) >= SHORTEST, "too short to be looked for"
    made = dict(_forms(value))
    lines = [line for line in value.splitlines() if len(line) >= SHORTEST and not line.startswith(b"-----")]
    if len(lines) > 1:
        for number, line in enumerate(lines):
            made |= {f"line {number + 1}, {form}": needle for form, needle in _forms(line)}
    return made


def _forms(value: bytes) -> Iterator[tuple[str, bytes]]:
    yield "as it is", value
    yield "in hexadecimal", value.hex().encode()
    yield "in hexadecimal of capitals", value.hex().upper().encode()
    for shift in range(3):
        # Of the characters at both ends some bits belong to the neighbours.
        inside = base64.b64encode(b"\0" * shift + value)
        begin, end = (0, 2, 3)[shift], (len(value) + shift) // 3 * 4
        yield f"in base64, shifted by {shift}", inside[begin:end]
        yield f"in base64url, shifted by {shift}", inside[begin:end].translate(_URL_SAFE)
    yield "twice in base64", base64.b64encode(base64.b64encode(value)).rstrip(b"=")[:-2]
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return
    yield "URL-encoded", quote(text, safe="").encode()
    yield "URL-encoded twice", quote(quote(text, safe="~"), safe="").encode()
    yield "form-encoded", quote_plus(text).encode()
    yield "as a path", quote(text).encode()
    yield "in JSON", json.dumps(text)[1:-1].encode()
    yield "in JSON with its letters", json.dumps(text, ensure_ascii=False)[1:-1].encode()
    yield "in JSON with escaped slashes", json.dumps(text)[1:-1].replace("/", r"\/").encode()
    yield "in HTML", html.escape(text).encode()
    yield "in Python", repr(text)[1:-1].encode()


_URL_SAFE = bytes.maketrans(b"+/", b"-_")


def _bytes(content: bytes | str) -> bytes:
    return content if isinstance(content, bytes) else content.encode()
