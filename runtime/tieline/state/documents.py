"""Documents: JSON values under a shelf and a key, changed by compare-and-swap. Here: in memory."""

import copy
import secrets
from dataclasses import dataclass
from typing import Any, Final, Protocol

from tieline.errors import TielineError


class AnyVersion:
    """The version that fits whatever is there."""


ANY_VERSION: Final = AnyVersion()
Expected = str | None | AnyVersion
"""The version that must be there; None: nothing may be there."""


class DocumentChangedError(Exception):
    """There is another version than the expected one."""


class StateUnavailableError(TielineError):
    """What is kept cannot be reached right now; trying again later may help.

    >>> async def sync(ctx: Context) -> str:
    ...     try:
    ...         return await ctx.state.get("since", "1970-01-01")
    ...     except StateUnavailableError:
    ...         return "1970-01-01"  # all of it again is better than nothing
    >>> run(sync)
    '1970-01-01'
    """


class StateRefusedError(TielineError):
    """The value cannot be kept: its key, its size or their number is over a limit. The message says which.

    >>> async def keep(ctx: Context) -> str:
    ...     try:
    ...         await ctx.state.set("orders", "x" * 20_000)
    ...     except StateRefusedError as error:
    ...         return str(error)
    >>> run(keep)
    "The state 'orders' has 20,002 bytes; at most 16,384 are kept, so keep a reference to it"
    """


@dataclass(frozen=True, kw_only=True)
class DocumentScope:
    """Where documents stand: a schedule's records, or the state of an activation."""

    kind: str
    """``schedules`` or ``state``."""
    external_id: str | None = None
    """The user whose activation it is; None for the environment's own."""


SCHEDULES: Final = DocumentScope(kind="schedules")


@dataclass(frozen=True, kw_only=True)
class Document:
    """A value, and the version that tells whether it is still that one."""

    value: Any
    version: str


class Documents(Protocol):
    """Where documents are kept. All of it raises StateUnavailableError and StateRefusedError."""

    async def get(self, shelf: DocumentScope, key: str) -> Document | None:
        """The document, or None."""

    async def put(self, shelf: DocumentScope, key: str, value: Any, *, expected: Expected) -> str:
        """Keep ``value``; returns its version. Raises DocumentChangedError."""

    async def delete(self, shelf: DocumentScope, key: str, *, expected: Expected) -> None:
        """Forget the document; nothing happens when there is none. Raises DocumentChangedError."""


class MemoryDocuments:
    """Keeps documents for as long as the process lives: for one's own desk, and for tests."""

    def __init__(self) -> None:
        self._kept: dict[tuple[DocumentScope, str], Document] = {}

    async def get(self, shelf: DocumentScope, key: str) -> Document | None:
        """See Documents."""
        found = self._kept.get((shelf, key))
        return Document(value=copy.deepcopy(found.value), version=found.version) if found else None

    async def put(self, shelf: DocumentScope, key: str, value: Any, *, expected: Expected) -> str:
        """See Documents."""
        self._compare(shelf, key, expected)
        version = secrets.token_hex(8)
        self._kept[shelf, key] = Document(value=copy.deepcopy(value), version=version)
        return version

    async def delete(self, shelf: DocumentScope, key: str, *, expected: Expected) -> None:
        """See Documents."""
        self._compare(shelf, key, expected)
        self._kept.pop((shelf, key), None)

    def _compare(self, shelf: DocumentScope, key: str, expected: Expected) -> None:
        found = self._kept.get((shelf, key))
        if not isinstance(expected, AnyVersion) and expected != (found.version if found else None):
            raise DocumentChangedError(key)
