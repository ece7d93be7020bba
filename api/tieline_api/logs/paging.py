"""Pages of logs, from several sources in the order of time. No I/O here."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Literal

from tieline_api.errors import malformed
from tieline_api.logs.lines import RANKS, Entry, Key, Line, entry
from tieline_api.page_tokens import seal, unseal

Order = Literal["asc", "desc"]

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z")


@dataclass(frozen=True, kw_only=True)
class LogFilter:
    """Which lines a page is made of. ``start`` is in, ``end`` is not; both in the form that sorts."""

    order: Order
    first: int
    start: str = ""
    end: str = ""
    search: str = ""
    severity: str = ""
    """The least severity; empty for all."""
    beyond: Key | None = None
    """The last line of the page before."""

    def takes(self, key: Key) -> bool:
        """Whether a line at ``key`` may be in the page."""
        if (self.start and key[0] < self.start) or (self.end and key[0] >= self.end):
            return False
        if self.beyond is None:
            return True
        return key > self.beyond if self.order == "asc" else key < self.beyond


@dataclass(frozen=True)
class Reading:
    """What was read of one source; ``more`` tells that later lines of it were not read."""

    lines: Sequence[Line]
    more: bool = False


@dataclass(frozen=True)
class EntryPage:
    """The entries of a page, and where it ended when there is more."""

    entries: list[Entry]
    last: Key | None


def page(readings: Iterable[Reading], wanted: LogFilter) -> EntryPage:
    """The page that ``wanted`` describes.

    Where a source has later lines that were not read, nothing after its last line is shown yet: it would
    come before its time. Then the page may be short, or empty, and still have a next one.
    """
    found = list(readings)
    horizon = min((one.lines[-1].key for one in found if one.more and one.lines), default=None)
    lines = [line for one in found for line in one.lines if wanted.takes(line.key)]
    if horizon is not None and wanted.order == "asc":
        lines = [line for line in lines if line.key <= horizon]
    lines.sort(key=attrgetter("key"), reverse=wanted.order == "desc")
    needle, least = wanted.search.casefold(), RANKS.get(wanted.severity, 0)
    entries: list[Entry] = []
    for number, line in enumerate(lines, 1):
        said = entry(line)
        if RANKS[said.severity] < least or (needle and not said.has(needle)):
            continue
        entries.append(said)
        if len(entries) == wanted.first:
            more = number < len(lines) or (horizon is not None and wanted.order == "asc")
            return EntryPage(entries, line.key if more else None)
    ended = horizon is None or wanted.order == "desc" or bool(wanted.end and horizon[0] >= wanted.end)
    return EntryPage(entries, None if ended else horizon)


def encode(scope: str, order: Order, key: Key) -> str:
    """The token of the page after ``key``; any replica understands it."""
    return seal("logs", scope, order, *key)


def decode(scope: str, order: Order, token: str) -> Key:
    """The key in a token of this list and this order; ApiError 400 for one that was not ours."""
    refused = malformed(
        "next_token is none of this list: pass the nextToken of the page before, unchanged, with the same order, "
        "environment and build"
    )
    match unseal(token, refused=refused):
        case ["logs", str(where), str(direction), str(time), str(source), int(number)] if (
            where,
            direction,
        ) == (
            scope,
            order,
        ) and _TIME.fullmatch(time) is not None:
            return time, source, number
    raise refused
