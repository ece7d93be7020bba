"""The stored form of a result: compressed pieces, so that a page reads no more than it needs.

A *piece* holds some hundred items of one list as JSON Lines. Pieces lie in maps that each fit in a ConfigMap
(``storage``); the first map has nothing but the summary, with an index of the pieces.
"""

import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from tieline_core.connectors.descriptions.findings import DescriptionTooLarge
from tieline_core.connectors.descriptions.import_result import ImportResult
from tieline_core.objects import Json

LISTS = ("definitions", "schemas", "actions", "triggers")
INDEX = "index"
# Kubernetes refuses a ConfigMap with more than 1 MiB of values.
MAP_BYTES = 900 * 1024
MAX_MAPS = 256
"""The most ConfigMaps that a ConnectorVersion refers to."""
_PIECE_BYTES = 512 * 1024
_PIECE_ITEMS = 500
_LEVEL = 3

Map = dict[str, bytes]
"""What one ConfigMap holds: parts of pieces, by the piece's key and the part's number."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """Consecutive items of a list, in one piece."""

    key: str
    items: int
    maps: range
    """The numbers of the ConfigMaps with the piece's parts; the index alone is in the first."""


def pack(result: ImportResult) -> list[Map]:
    """A result, laid out over ConfigMaps. Raises DescriptionTooLarge when its summary does not fit in one."""
    lists = {name: getattr(result, name) for name in LISTS if name != "schemas"}
    lists["schemas"] = [item["schema"] for item in result.definitions]
    lists["definitions"] = [
        {key: value for key, value in item.items() if key != "schema"} for item in result.definitions
    ]
    shelf = _Shelf()
    index = {
        name: [shelf.put(f"{name}-{number:04d}", lines) for number, lines in enumerate(_groups(lists[name]))]
        for name in LISTS
    }
    return [_first({**result.summary(), "index": index}), *shelf.maps]


def _first(head: Json) -> Map:
    content = zlib.compress(orjson.dumps(head), _LEVEL)
    if len(content) > MAP_BYTES:
        raise DescriptionTooLarge("The description has too many auth schemes and findings: split it")
    return {f"{INDEX}.0": content}


def extended(maps: Sequence[Map], *, triggers: Sequence[Json], messages: Sequence[Json]) -> list[Map]:
    """The same result with more triggers and messages. Raises DescriptionTooLarge if it does not fit."""
    head = head_of(maps[0])
    shelf = _Shelf(maps[1:])
    start = len(head["index"]["triggers"])
    more = [
        shelf.put(f"triggers-{number:04d}", lines) for number, lines in enumerate(_groups(triggers), start)
    ]
    head["index"]["triggers"] += more
    head["triggers"] += len(triggers)
    head["messages"] = [*messages, *head["messages"]]
    return [_first(head), *shelf.maps]


def all_lines(maps: Sequence[Map], name: str) -> list[bytes]:
    """All items of a list of a result that is at hand as a whole, each as JSON."""
    known = dict(enumerate(maps))
    return [line for run in runs(head_of(maps[0]), name) for line in lines_of(run, known)]


def head_of(first: Map) -> Json:
    """The summary, with the index, from what the first ConfigMap holds."""
    found: Json = orjson.loads(zlib.decompress(first[f"{INDEX}.0"]))
    return found


def runs(head: Mapping[str, Any], name: str) -> list[Run]:
    """The pieces of a list, in order."""
    return [
        Run(key=key, items=items, maps=range(first, last + 1))
        for key, items, first, last in head["index"][name]
    ]


def runs_between(found: Iterable[Run], start: int, end: int) -> tuple[list[Run], int]:
    """The pieces with the items from ``start`` to before ``end``, and how many items stand before them."""
    wanted: list[Run] = []
    before = position = 0
    for run in found:
        if position < end and position + run.items > start:
            if not wanted:
                before = position
            wanted.append(run)
        position += run.items
    return wanted, before


def lines_of(run: Run, maps: Mapping[int, Map]) -> list[bytes]:
    """The items of a piece, each as JSON, from what the ConfigMaps of its parts hold."""
    return _content(run, maps).split(b"\n")


def array_of(maps: Sequence[Map], head: Mapping[str, Any], name: str) -> Iterator[bytes]:
    """A list of a result that is at hand as a whole, as a JSON array: bytes to be sent one after the other."""
    known, opening = dict(enumerate(maps)), b"["
    for run in runs(head, name):
        yield opening
        # JSON on one line has no line break inside.
        yield _content(run, known).replace(b"\n", b",")
        opening = b","
    yield b"]" if opening == b"," else b"[]"


def _content(run: Run, maps: Mapping[int, Map]) -> bytes:
    return zlib.decompress(b"".join(maps[number].get(f"{run.key}.{number}", b"") for number in run.maps))


class _Shelf:
    """Fills ConfigMaps one after the other; a piece that does not fit goes on in the next."""

    def __init__(self, maps: Sequence[Map] = ()) -> None:
        self.maps: list[Map] = [dict(content) for content in maps]
        self._room = 0

    def put(self, key: str, lines: list[bytes]) -> tuple[str, int, int, int]:
        """How the index tells of the piece: key, items, first and last ConfigMap."""
        content = zlib.compress(b"\n".join(lines), _LEVEL)
        if len(content) > self._room:
            self._open()
        first = len(self.maps)
        for start in range(0, len(content), MAP_BYTES):
            if start:
                self._open()
            part = content[start : start + MAP_BYTES]
            # A part carries the number of its ConfigMap; the index is number 0.
            self.maps[-1][f"{key}.{len(self.maps)}"] = part
            self._room -= len(part)
        return key, len(lines), first, len(self.maps)

    def _open(self) -> None:
        self.maps.append({})
        self._room = MAP_BYTES


def _groups(items: Iterable[Any]) -> Iterator[list[bytes]]:
    group: list[bytes] = []
    size = 0
    for item in items:
        line = orjson.dumps(item)
        if group and (size + len(line) > _PIECE_BYTES or len(group) >= _PIECE_ITEMS):
            yield group
            group, size = [], 0
        group.append(line)
        size += len(line)
    if group:
        yield group
