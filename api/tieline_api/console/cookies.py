"""The console's cookies: their names and flags, and values that are too long for one.

All have the prefix ``__Host-``: browsers take them from this host alone, over HTTPS (or from the machine itself),
and send them to no other. So no neighbour's page and no subdomain can set them.
"""

from collections.abc import Iterable, Iterator, Mapping

SESSION = "__Host-tieline"
SEEN = "__Host-tieline-seen"
LOGIN = "__Host-tieline-login"

PIECE = 3800
"""Characters of one cookie; browsers keep 4,096 with its name and attributes."""
MOST_PIECES = 4
"""Of a session. Together they stay below the 16 KiB of headers that proxies allow."""


class TooLargeError(ValueError):
    """A value does not fit into the cookies."""


def received(header: Iterable[str]) -> dict[str, str]:
    """The console's cookies in the headers ``Cookie``. One that comes twice is left out: one of the two is not ours."""
    found: dict[str, str] = {}
    twice = set()
    for pair in ";".join(header).split(";"):
        name, _, value = pair.strip().partition("=")
        if not name.startswith(SESSION):
            continue
        if name in found:
            twice.add(name)
        found[name] = value
    return {name: value for name, value in found.items() if name not in twice}


def joined(cookies: Mapping[str, str]) -> str | None:
    """The session's value out of its pieces; None where there is none, or a piece is missing."""
    count, _, first = cookies.get(SESSION, "").partition(".")
    if not (count.isascii() and count.isdigit() and 1 <= int(count[:2]) <= MOST_PIECES and len(count) == 1):
        return None
    pieces = [first, *(cookies.get(_piece(number), "") for number in range(1, int(count)))]
    return "".join(pieces) if all(pieces) else None


def split(value: str) -> dict[str, str]:
    """The cookies that hold the session's value. Raises TooLargeError."""
    pieces = [value[start : start + PIECE] for start in range(0, len(value), PIECE)]
    if len(pieces) > MOST_PIECES:
        raise TooLargeError(f"The session takes {len(value)} characters, and {PIECE * MOST_PIECES} fit")
    return {
        _piece(number): f"{len(pieces)}.{piece}" if number == 0 else piece
        for number, piece in enumerate(pieces)
    }


def set_cookie(name: str, value: str, *, seconds: int, strict: bool = True) -> str:
    """A header ``Set-Cookie``."""
    site = "Strict" if strict else "Lax"
    return f"{name}={value}; Path=/; Max-Age={max(0, seconds)}; Secure; HttpOnly; SameSite={site}"


def replacing(value: str, cookies: Mapping[str, str], *, seconds: int) -> Iterator[str]:
    """The headers that set the session, and remove pieces of one before it. Raises TooLargeError."""
    pieces = split(value)
    for name, piece in pieces.items():
        yield set_cookie(name, piece, seconds=seconds)
    for name in _session_names():
        if name in cookies and name not in pieces:
            yield set_cookie(name, "", seconds=0)


def removing(cookies: Mapping[str, str]) -> Iterator[str]:
    """The headers that remove the session."""
    for name in (*_session_names(), SEEN):
        if name in cookies or name == SESSION:
            yield set_cookie(name, "", seconds=0)


def _session_names() -> list[str]:
    return [_piece(number) for number in range(MOST_PIECES)]


def _piece(number: int) -> str:
    return f"{SESSION}-{number}" if number else SESSION
