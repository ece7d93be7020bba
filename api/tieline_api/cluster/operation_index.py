"""A search index over the operations of connectors: a text for each version, made when it is first searched."""

import asyncio
import zlib
from collections.abc import Mapping, Sequence
from sys import getsizeof
from typing import Any

import orjson
from cachetools import LRUCache

from tieline_api.cluster.connector_results import ConnectorResults
from tieline_api.errors import ApiError
from tieline_common.single_flight import SingleFlight
from tieline_core.resources.objects import ConnectorVersionObject

_KEPT_BYTES = 64 * 1024 * 1024
_AT_ONCE = 500
"""Operations of a version that are read at once."""
_SUMMARY = 200
_FIELDS = ("id", "name", "method", "path", "summary", "graphql")


class VersionIndex:
    """The operations of one version: what a search looks into, and what its hits are."""

    def __init__(self, operations: Sequence[Mapping[str, str]]) -> None:
        """``operations`` have id, name, method, path, summary (of GraphQL also a kind), in the description's order."""
        self._lines = [_line(operation) for operation in operations]
        rows = [[operation.get(field, "") for field in _FIELDS] for operation in operations]
        self._packed = zlib.compress(orjson.dumps(rows), 1)
        self.size = len(self._packed) + sum(map(getsizeof, self._lines))
        """In bytes."""

    def find(self, words: Sequence[bytes]) -> list[int]:
        """The numbers of the operations that have all words, in order; all without words."""
        found = list(range(len(self._lines)))
        lines = self._lines
        # The longest word leaves the fewest.
        for word in sorted(words, key=len, reverse=True):
            found = [number for number in found if word in lines[number]]
        return found

    def rows(self, numbers: Sequence[int]) -> list[dict[str, str]]:
        """The operations of those numbers."""
        rows = orjson.loads(zlib.decompress(self._packed))
        return [_row(rows[number]) for number in numbers]


def words_of(search: str) -> list[bytes]:
    """The words of a search, as they are looked for: in upper or lower case."""
    return [word.encode("utf-8", "replace") for word in search.casefold().split()]


class OperationIndex:
    """The indexes of the versions that were searched last, within 64 MiB."""

    def __init__(self, results: ConnectorResults) -> None:
        self._results = results
        self._kept: LRUCache[str, VersionIndex] = LRUCache(_KEPT_BYTES, getsizeof=lambda index: index.size)
        self._building: SingleFlight[str, VersionIndex] = SingleFlight()

    async def get(self, version: ConnectorVersionObject) -> VersionIndex:
        """The index of a version; an empty one for a version whose result is not there."""
        key = version["metadata"]["uid"]
        found = self._kept.get(key)
        if found is not None:
            return found
        try:
            found = await self._building.run(key, lambda: self._build(version))
        except ApiError:
            # A part of the result was deleted: its condition says so. The others can be searched.
            return VersionIndex([])
        if found.size <= _KEPT_BYTES:
            self._kept[key] = found
        return found

    async def _build(self, version: ConnectorVersionObject) -> VersionIndex:
        head = await self._results.head(version)
        operations: list[dict[str, str]] = []
        for start in range(0, int(head["actions"]), _AT_ONCE):
            lines = await self._results.lines(version, head, "actions", start, start + _AT_ONCE)
            operations += await asyncio.to_thread(lambda part: list(map(_operation, part)), lines)
        return await asyncio.to_thread(VersionIndex, operations)


def _operation(line: bytes) -> dict[str, str]:
    action: dict[str, Any] = orjson.loads(line)
    text = action.get("summary") or action.get("description") or ""
    return {
        **{field: str(action[field]) for field in ("id", "name", "method", "path")},
        "summary": text[:_SUMMARY],
        "graphql": (action.get("graphql") or {}).get("kind", ""),
    }


def _row(values: Sequence[str]) -> dict[str, str]:
    row = dict(zip(_FIELDS, values, strict=True))
    if not row["graphql"]:
        del row["graphql"]
    return row


def _line(operation: Mapping[str, str]) -> bytes:
    """What a search looks into. Nothing in it ends a line."""
    words = " ".join(operation.get(field, "") for field in _FIELDS[1:])
    return " ".join(words.casefold().split()).encode("utf-8", "replace")
