"""The stored form of a result: compressed pieces, so that a page reads no more than it needs.

A *box* is a sequence of pieces. The first is the summary with an index of the rest; every other holds some
hundred items of one list as JSON Lines. Pieces are cut to parts that fit in ConfigMaps (``storage``).
"""

import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from tieline_core.connectors.results import ImportResult

Json = dict[str, Any]

LISTS = ("definitions", "actions", "triggers")
INDEX = "index"
_PIECE_BYTES = 512 * 1024
_PIECE_ITEMS = 500
_LEVEL = 6


@dataclass(frozen=True)
class Piece:
    """Some items of a list, compressed."""

    key: str
    content: bytes


def pack(result: ImportResult) -> list[Piece]:
    """The pieces of a result; the index comes first."""
    pieces: list[Piece] = []
    index: dict[str, list[list[Any]]] = {}
    for name in LISTS:
        index[name] = []
        for number, lines in enumerate(_groups(getattr(result, name))):
            key = f"{name}-{number:04d}"
            index[name].append([key, len(lines)])
            pieces.append(Piece(key, zlib.compress(b"\n".join(lines), _LEVEL)))
    head = orjson.dumps({**result.summary(), "index": index})
    return [Piece(INDEX, zlib.compress(head, _LEVEL)), *pieces]


def head_of(content: bytes) -> Json:
    """The summary, with the index."""
    found: Json = orjson.loads(zlib.decompress(content))
    return found


def lines_of(content: bytes) -> list[bytes]:
    """The items of a piece, each as JSON."""
    return zlib.decompress(content).split(b"\n")


def keys_for(head: Mapping[str, Any], name: str, start: int, count: int) -> tuple[list[str], int]:
    """The pieces with the items from ``start`` on, and how many items to skip in the first of them."""
    keys: list[str] = []
    skip, position = 0, 0
    for key, size in head["index"][name]:
        if position + size > start and position < start + count:
            if not keys:
                skip = start - position
            keys.append(key)
        position += size
    return keys, skip


def _groups(items: Iterable[Json]) -> Iterator[list[bytes]]:
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
