"""Schemas of variables as text, with what can be known of them without a validator."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from cachetools import LRUCache

from tieline_protocol.schema_limits import is_linear
from tieline_protocol.variables import InvalidSchema, text_of

MAX_LINEAR_BYTES = 2 * 1024
"""Bytes of the largest schema of which small values are checked on the event loop."""
_PREPARED_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True)
class PreparedSchema:
    """A schema, and what is known of it without a validator."""

    source: Mapping[str, Any]
    text: bytes = b""
    digest: bytes = b""
    problem: str | None = None
    linear: bool = False
    """Whether small values may be checked at once."""


class PreparedSchemas:
    """Schemas as text, with what can be said of them at once; those that were asked for last."""

    def __init__(self) -> None:
        self._kept: LRUCache[int, PreparedSchema] = LRUCache(_PREPARED_BYTES, _size)

    def of(self, schema: Mapping[str, Any]) -> PreparedSchema:
        found = self._kept.get(id(schema))
        # The object is kept with it, so its id is not another one's.
        if found is not None and found.source is schema:
            return found
        found = _prepare(schema)
        with suppress(ValueError):  # larger than the cache
            self._kept[id(schema)] = found
        return found


def _size(prepared: PreparedSchema) -> int:
    # The object is kept too: small ones cost more than their text.
    return len(prepared.text) + 8 * 1024


def _prepare(schema: Mapping[str, Any]) -> PreparedSchema:
    try:
        text = text_of(schema)
    except InvalidSchema as error:
        return PreparedSchema(schema, problem=str(error))
    linear = len(text) <= MAX_LINEAR_BYTES and is_linear(schema)
    return PreparedSchema(schema, text=text, digest=digest_of(text), linear=linear)


def digest_of(text: bytes) -> bytes:
    """What a text is remembered by."""
    return blake2b(text, digest_size=16).digest()
