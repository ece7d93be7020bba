"""Documents: JSON values under a shelf and a key, changed by compare-and-swap. Here: in memory."""

import copy
import json
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
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
    ...         await ctx.state.set("orders", "x" * 300_000)
    ...     except StateRefusedError as error:
    ...         return str(error)
    >>> run(keep)
    "The state 'orders' has 300,002 bytes; at most 262,144 are kept, so keep a reference to it"
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
    expires_at: datetime | None = None
    """When it is deleted; None: it stays."""


class Documents(Protocol):
    """Where documents are kept. All of it raises StateUnavailableError and StateRefusedError."""

    async def get(self, shelf: DocumentScope, key: str) -> Document | None:
        """The document, or None."""

    async def put(
        self, shelf: DocumentScope, key: str, value: Any, *, expected: Expected, expires: float | None = None
    ) -> str:
        """Keep ``value``, for ``expires`` seconds where they are given; returns its version.

        Raises DocumentChangedError.
        """

    async def delete(self, shelf: DocumentScope, key: str, *, expected: Expected) -> None:
        """Forget the document; nothing happens when there is none. Raises DocumentChangedError."""

    async def keys(self, shelf: DocumentScope, prefix: str) -> list[str]:
        """The keys that begin with ``prefix``, in order."""


class MemoryDocuments:
    """Keeps documents for as long as the process lives: for your own machine, and for tests."""

    def __init__(self, *, clock: Callable[[], float] = time.time) -> None:
        """``clock`` returns seconds since 1970."""
        self._clock = clock
        self._kept: dict[tuple[DocumentScope, str], Document] = {}

    async def get(self, shelf: DocumentScope, key: str) -> Document | None:
        """See Documents."""
        found = self._found(shelf, key)
        return replace(found, value=copy.deepcopy(found.value)) if found else None

    async def put(
        self, shelf: DocumentScope, key: str, value: Any, *, expected: Expected, expires: float | None = None
    ) -> str:
        """See Documents."""
        self._compare(shelf, key, expected)
        document = Document(
            # As it comes back from the API: with texts as keys, and lists for tuples.
            value=json.loads(json.dumps(value)),
            version=secrets.token_hex(8),
            expires_at=None if expires is None else datetime.fromtimestamp(self._clock() + expires, UTC),
        )
        self._kept[shelf, key] = document
        return document.version

    async def delete(self, shelf: DocumentScope, key: str, *, expected: Expected) -> None:
        """See Documents."""
        self._compare(shelf, key, expected)
        self._kept.pop((shelf, key), None)

    async def keys(self, shelf: DocumentScope, prefix: str) -> list[str]:
        """See Documents."""
        names = [key for there, key in self._kept if there == shelf and key.startswith(prefix)]
        return sorted(key for key in names if self._found(shelf, key))

    def _found(self, shelf: DocumentScope, key: str) -> Document | None:
        found = self._kept.get((shelf, key))
        if found and found.expires_at and found.expires_at.timestamp() <= self._clock():
            del self._kept[shelf, key]
            return None
        return found

    def _compare(self, shelf: DocumentScope, key: str, expected: Expected) -> None:
        found = self._found(shelf, key)
        if not isinstance(expected, AnyVersion) and expected != (found.version if found else None):
            raise DocumentChangedError(key)
