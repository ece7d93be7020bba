"""``ctx.state``: what an integration remembers between runs, for the activation that the run is for."""

import json
import re
from dataclasses import dataclass
from typing import Any, Final

from tieline.errors import TielineError
from tieline.state.documents import (
    ANY_VERSION,
    DocumentChangedError,
    Documents,
    DocumentScope,
    Expected,
    StateRefusedError,
)

MAX_VALUE_BYTES = 16 * 1024
MAX_KEYS = 64
MAX_TOTAL_BYTES = 64 * 1024
_KEY: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")


class StateChangedError(TielineError):
    """Somebody else changed the value since it was read: read it again, and decide anew.

    >>> async def late(ctx: Context) -> str:
    ...     entry = await ctx.state.entry("cursor")
    ...     await ctx.state.set("cursor", 1)  # meanwhile, another run
    ...     try:
    ...         await ctx.state.set("cursor", 2, version=entry.version)
    ...     except StateChangedError:
    ...         return f"it is {await ctx.state.get('cursor')}"
    >>> run(late)
    'it is 1'
    """

    span_type = "tieline.state.authors.StateChangedError"

    def __init__(self, key: str) -> None:
        super().__init__(
            f"The state {key!r} was changed since it was read (by another run); read it again with "
            "`ctx.state.entry(…)` and repeat the change"
        )


@dataclass(frozen=True, kw_only=True)
class StateEntry:
    """A value of the state, and its version for ``set`` and ``delete``.

    >>> async def count(ctx: Context) -> int:
    ...     entry: StateEntry = await ctx.state.entry("count")
    ...     await ctx.state.set("count", (entry.value or 0) + 1, version=entry.version)
    ...     return await ctx.state.get("count")
    >>> run(count)
    1
    """

    value: Any
    version: str | None
    """None when there is no value."""


class State:
    """Small JSON values that outlive runs, pods and versions; each activation has its own.

    Not for secrets (it is kept in ConfigMaps), and not for data: a value has up to 16 KiB, an activation 64
    values and 64 KiB. All of it raises StateUnavailableError when it cannot be reached, and StateRefusedError
    for what is over a limit.

    >>> async def sync(ctx: Context) -> str:
    ...     since = await ctx.state.get("since", "1970-01-01")
    ...     await ctx.state.set("since", "2026-01-01")
    ...     return since
    >>> run(sync), run(sync), run(sync, user="ann")
    ('1970-01-01', '2026-01-01', '1970-01-01')
    """

    __slots__ = ("_documents", "_shelf")

    def __init__(self, documents: Documents, external_id: str | None) -> None:
        self._documents = documents
        self._shelf = DocumentScope(kind="state", external_id=external_id)

    async def get(self, key: str, default: Any = None) -> Any:
        """The value of ``key``, or ``default``: ``since = await ctx.state.get("since", "1970-01-01")``."""
        found = await self._documents.get(self._shelf, _checked(key))
        return default if found is None else found.value

    async def entry(self, key: str) -> StateEntry:
        """The value (None when there is none) with its version."""
        found = await self._documents.get(self._shelf, _checked(key))
        if found is None:
            return StateEntry(value=None, version=None)
        return StateEntry(value=found.value, version=found.version)

    async def set(self, key: str, value: Any, *, version: Expected = ANY_VERSION) -> str:
        """Keep ``value``, which JSON must be able to hold; returns its version.

        With ``version`` only if that one is still there (None: if there is no value); else StateChangedError.
        """
        try:
            text = json.dumps(value, ensure_ascii=False, allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            raise StateRefusedError(f"The state {key!r} cannot be kept as JSON: {error}") from None
        if (size := len(text.encode())) > MAX_VALUE_BYTES:
            raise StateRefusedError(
                f"The state {key!r} has {size:,} bytes; at most {MAX_VALUE_BYTES:,} are kept, so keep a reference to it"
            )
        try:
            return await self._documents.put(self._shelf, _checked(key), value, expected=version)
        except DocumentChangedError:
            raise StateChangedError(key) from None

    async def delete(self, key: str, *, version: Expected = ANY_VERSION) -> None:
        """Forget the value; with ``version`` as in ``set``."""
        try:
            await self._documents.delete(self._shelf, _checked(key), expected=version)
        except DocumentChangedError:
            raise StateChangedError(key) from None


def _checked(key: str) -> str:
    if not _KEY.fullmatch(key):
        raise StateRefusedError(
            f"The state's key {key!r} must be 1 to 100 letters, digits, '-', '_' or '.', not starting with a mark"
        )
    return key
