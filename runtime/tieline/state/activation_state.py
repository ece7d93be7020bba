"""``ctx.state``: what an integration remembers between runs, for the activation that the run is for."""

import json
import math
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from tieline.errors import TielineError
from tieline.state.documents import (
    ANY_VERSION,
    DocumentChangedError,
    Documents,
    DocumentScope,
    Expected,
    StateRefusedError,
)

MAX_VALUE_BYTES = 256 * 1024
MAX_KEY_BYTES = 512
MAX_DEPTH = 200
"""Of lists and objects in others."""
MAX_EXPIRY_SECONDS = 10 * 366 * 24 * 3600


class StateChangedError(TielineError):
    """Another run or client changed the value since it was read: read it again, and decide anew.

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
    expires_at: datetime | None = None
    """When the value is deleted; None when it stays."""


class State:
    """JSON values that outlive runs, pods and versions; each activation has its own.

    Not for secrets, and not for bulk data: a value has up to 256 KiB, and an activation 1,000 values. All of it raises
    StateUnavailableError when it cannot be reached, and StateRefusedError for what is over a limit.

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
        return StateEntry(value=found.value, version=found.version, expires_at=found.expires_at)

    async def set(
        self,
        key: str,
        value: Any,
        *,
        version: Expected = ANY_VERSION,
        expires: float | timedelta | None = None,
    ) -> str:
        """Keep ``value``, which JSON must be able to hold; returns its version.

        With ``version`` only if that one is still there (None: if there is no value); else StateChangedError.
        ``expires``, a timedelta or seconds, is how long the value is kept, in whole seconds, rounded up; without it,
        until it is deleted.
        """
        try:
            size = len(json.dumps(value, ensure_ascii=False, allow_nan=False).encode())
        except (TypeError, ValueError, RecursionError) as error:
            raise StateRefusedError(f"The state {key!r} cannot be kept as JSON: {error}") from None
        if size > MAX_VALUE_BYTES:
            raise StateRefusedError(
                f"The state {key!r} has {size:,} bytes; at most {MAX_VALUE_BYTES:,} are kept, so keep a reference to it"
            )
        if _nests_too_deep(value):
            raise StateRefusedError(
                f"The state {key!r} has values in more than {MAX_DEPTH} others; keep it flatter, or as a text of JSON"
            )
        try:
            return await self._documents.put(
                self._shelf, _checked(key), value, expected=version, expires=_seconds(key, expires)
            )
        except DocumentChangedError:
            raise StateChangedError(key) from None

    async def keys(self, prefix: str = "") -> list[str]:
        """The keys of all values, or of those whose keys begin with ``prefix``, in order.

        >>> async def open_orders(ctx: Context) -> list[str]:
        ...     await ctx.state.set("orders/A-2", "open")
        ...     await ctx.state.set("orders/A-1", "open", expires=timedelta(days=7))
        ...     return await ctx.state.keys("orders/")
        >>> run(open_orders)
        ['orders/A-1', 'orders/A-2']
        """
        return await self._documents.keys(self._shelf, _text(prefix, "prefix of keys"))

    async def count(self, prefix: str = "") -> int:
        """How many values there are, or how many whose keys begin with ``prefix``."""
        return len(await self.keys(prefix))

    async def delete(self, key: str, *, version: Expected = ANY_VERSION) -> None:
        """Forget the value; with ``version`` as in ``set``."""
        try:
            await self._documents.delete(self._shelf, _checked(key), expected=version)
        except DocumentChangedError:
            raise StateChangedError(key) from None


def _checked(key: str) -> str:
    size = len(_text(key, "key").encode())
    parts = key.split("/")
    if (
        not 1 <= size <= MAX_KEY_BYTES
        or not key.isprintable()
        or any(part in ("", ".", "..") for part in parts)
    ):
        raise StateRefusedError(
            f"The state's key {key!r} must be printable text of 1 to {MAX_KEY_BYTES} bytes, whose parts between "
            'slashes are not empty, "." or ".."'
        )
    return key


def _text(value: Any, what: str) -> str:
    """``value``; StateRefusedError where it is no text that UTF-8 can hold."""
    try:
        value.encode()
    except (AttributeError, UnicodeEncodeError):
        raise StateRefusedError(f"The state's {what} must be text in UTF-8, not {value!r}") from None
    return str(value)


def _nests_too_deep(value: Any) -> bool:
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        level = [
            inner
            for one in level
            if isinstance(one, dict | list | tuple)
            for inner in (one.values() if isinstance(one, dict) else one)
        ]
        if not level:
            return False
    return True


def _seconds(key: str, expires: float | timedelta | None) -> float | None:
    if expires is None:
        return None
    seconds = expires.total_seconds() if isinstance(expires, timedelta) else expires
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds > 0:
        raise StateRefusedError(
            f"The state {key!r} must expire after some time, a timedelta or seconds: expires={expires!r} is none"
        )
    if seconds > MAX_EXPIRY_SECONDS:
        raise StateRefusedError(
            f"The state {key!r} must expire within ten years: expires={expires!r} is longer"
        )
    return float(math.ceil(seconds))
