"""Reading only what is new: a cursor for each activation, which is kept when a run has taken everything in."""

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Self

from tieline.state.activation_state import State, StateChangedError
from tieline.state.documents import StateRefusedError, StateUnavailableError

PREFIX = "sync."


class IncrementalSync:
    """One run of an incremental sync. Use it with ``async with``.

    The cursor is kept in ``ctx.state`` under ``sync.<name>``, with when the last run began and ended, how many items it
    had, and what it failed with. It is kept at the end of the block, unless that ends with an error: then the next run
    begins where this one began, or at its last ``checkpoint``.

    >>> async def orders(ctx: Context) -> object:
    ...     async with ctx.incremental("orders", start="1970-01-01") as sync:
    ...         async for order in ctx.paginate(
    ...             "shop", "/orders", pages=CursorPages(), items="orders", params={"since": sync.cursor}
    ...         ):
    ...             sync.advance(order["id"])
    ...     return (await ctx.state.get("sync.orders"))["cursor"]
    >>> run(orders)
    'A-2'
    """

    def __init__(
        self,
        state: State,
        name: str,
        *,
        start: Any = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._state = state
        self._key = f"{PREFIX}{name}"
        self._now = now
        self._version: str | None = None
        self._began = ""
        self._kept: Any = start
        self.cursor: Any = start
        """Where the run is: what the last one kept, or ``start``. Set it yourself for cursors without an order."""
        self.items = 0
        """How often ``advance`` was called."""

    async def __aenter__(self) -> Self:
        entry = await self._state.entry(self._key)
        self._version = entry.version
        self._began = self._time()
        if isinstance(entry.value, dict) and "cursor" in entry.value:
            self._kept = self.cursor = entry.value["cursor"]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self._kept = self.cursor
            await self._write(None)
        elif isinstance(error, Exception):
            # Only the type: texts of errors may have what must not be kept. What the code raised counts, as a Reject
            # does, also where it cannot be kept.
            with suppress(StateChangedError, StateUnavailableError, StateRefusedError):
                await self._write(type(error).__name__)

    def advance(self, cursor: Any) -> None:
        """An item was taken in. The greatest of all cursors is kept, so the items need not come in their order.

        Raises TypeError for values that cannot be compared.
        """
        self.items += 1
        if self.cursor is None or cursor > self.cursor:
            self.cursor = cursor

    async def checkpoint(self) -> None:
        """Keep the cursor now: a run that fails later begins here again.

        Only right where items come in the order of their cursors. Raises StateChangedError if another run of the same
        sync has kept its own meanwhile.
        """
        self._kept = self.cursor
        await self._write(None, ended=False)

    async def _write(self, error: str | None, *, ended: bool = True) -> None:
        value = {
            "cursor": self._kept,
            "startedAt": self._began,
            "endedAt": self._time() if ended else None,
            "items": self.items,
            "error": error,
        }
        self._version = await self._state.set(self._key, value, version=self._version)

    def _time(self) -> str:
        return self._now().isoformat(timespec="seconds").replace("+00:00", "Z")
