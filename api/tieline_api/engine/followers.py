"""Reads a stream of each organisation into a store of this replica, from where it was read before."""

import asyncio
import logging
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Protocol

from nats.js.errors import NotFoundError

from tieline_api.engine.connection import Engine
from tieline_api.engine.errors import EngineUnavailableError
from tieline_api.engine.stream_reader import read_stream, stream_state
from tieline_api.errors import ApiError
from tieline_api.sqlite_files import TooSlowError
from tieline_common.backoff import exponential, jitter
from tieline_common.cancellation import cancel_and_wait, finish_in_thread
from tieline_core.engine.stored_messages import StoredMessage

logger = logging.getLogger("tieline.engine")

_DISCOVER_SECONDS = 60.0
_RETRY_SECONDS = 1.0
_LONGEST_PAUSE = 30.0
_STALLED_ATTEMPTS = 5
"""A reader that has ended so often at the same message, while the engine was there, does not advance."""
_CATCH_UP_SECONDS = 5.0
_SEEN_SECONDS = 1.0
_TRIES = 3
_TRY_SECONDS = 0.1
_OF_VALUES = (
    sqlite3.DataError,
    sqlite3.IntegrityError,
    sqlite3.InterfaceError,
    sqlite3.NotSupportedError,
    sqlite3.ProgrammingError,
)
"""Errors of SQLite that a value causes."""


class StreamStore(Protocol):
    """Where a replica keeps what it has read. Methods run in threads; raise sqlite3.Error, OSError, TooSlowError."""

    @property
    def name(self) -> str:
        """What it keeps, for the log."""

    def begin(self, organisation: str, created: str) -> int:
        """How far the organisation's stream was read, 0 for one that was made since then."""

    def forget(self, organisation: str) -> None:
        """The organisation has no such stream."""

    def take(self, organisation: str, messages: Sequence[StoredMessage]) -> None:
        """Keeps messages that follow each other, and how far the stream was read."""

    def skip(self, organisation: str, message: StoredMessage) -> None:
        """Counts a message that can never be kept as malformed, and keeps that the stream was read beyond it."""

    def sweep(self, organisation: str, first: int) -> None:
        """Removes what the stream, whose oldest message is ``first``, has not any more."""

    def failed(self) -> None:
        """Something could not be kept; it is read again."""

    def bound(self) -> None:
        """Removes what is too much."""

    def close(self) -> None:
        """Closes files."""


class Follower:
    """Reads one organisation's stream until it is cancelled, or there is none any more."""

    def __init__(self, engine: Engine, store: StreamStore, organisation: str, stream: str) -> None:
        self._engine = engine
        self._store = store
        self._organisation = organisation
        self._stream = stream
        self._position = 0
        self._has_skipped = False
        self._attempts = 0
        """How often reading has ended since it last advanced."""
        self._moved = asyncio.Condition()
        self.caught_up = asyncio.Event()
        """Set once all that the stream had was read, and where there is no stream."""

    @property
    def stalled(self) -> bool:
        """Whether it does not advance although the engine is there and the stream has more."""
        return self._attempts >= _STALLED_ATTEMPTS

    async def run(self) -> None:
        """Follows the stream."""
        failures = 0
        while True:
            try:
                if not await self._follow():
                    self.caught_up.set()
                    return
            except (EngineUnavailableError, NotFoundError):
                failures = 0
                self._ended()
            except Exception as error:  # what is wrong with the store may pass
                failures += 1
                self._store.failed()
                if failures == 1:
                    logger.error("Cannot keep %s from the event engine: %s", self._store.name, error)
            attempts = max(failures, self._attempts, 1)
            await asyncio.sleep(jitter(exponential(attempts, first=_RETRY_SECONDS, cap=_LONGEST_PAUSE)))

    def _ended(self) -> None:
        """Reading has ended. While the engine is away, that says nothing about the stream."""
        if not self._engine.connected:
            self._attempts = 0
            return
        self._attempts += 1
        if self._attempts == _STALLED_ATTEMPTS:
            logger.error(
                "The stream %s cannot be read beyond message %d: its %s are missing here. The next attempts follow",
                self._stream,
                self._position,
                self._store.name,
            )

    async def reached(self, sequence: int) -> None:
        """Waits a moment until the message with this number was read."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_SEEN_SECONDS), self._moved:
                await self._moved.wait_for(lambda: self._position >= sequence)

    async def sweep(self) -> None:
        """Removes from the store what the stream has not any more."""
        state = await stream_state(self._engine, self._stream)
        if state is not None:
            await asyncio.to_thread(self._store.sweep, self._organisation, state.first)

    async def _follow(self) -> bool:
        """Reads until something is wrong; False when there is no stream."""
        state = await stream_state(self._engine, self._stream)
        if state is None:
            await asyncio.to_thread(self._store.forget, self._organisation)
            return False
        position = await asyncio.to_thread(self._store.begin, self._organisation, state.created)
        if position > state.last:
            # The engine was restored from an older copy.
            await asyncio.to_thread(self._store.forget, self._organisation)
            position = await asyncio.to_thread(self._store.begin, self._organisation, state.created)
        self._position = position
        async for batch in read_stream(self._engine, self._stream, after=position):
            if batch.messages:
                self._attempts = 0
                await self._keep(batch.messages)
                async with self._moved:
                    self._position = batch.messages[-1].sequence
                    self._moved.notify_all()
            if batch.pending == 0:
                self._attempts = 0
                self.caught_up.set()
        return True

    async def _keep(self, messages: Sequence[StoredMessage]) -> None:
        """Keeps messages, and skips those that can never be kept. Raises what may pass."""
        for attempt in range(1, _TRIES + 1):
            try:
                await finish_in_thread(self._store.take, self._organisation, messages)
                return
            except Exception as error:  # whatever a message holds, the next ones are read
                if _may_pass(error):
                    raise
                if len(messages) > 1:
                    break
                if attempt == _TRIES:
                    await self._skip(messages[0], error)
                    return
            await asyncio.sleep(_TRY_SECONDS)
        # Which of them it is: one half or the other.
        middle = len(messages) // 2
        await self._keep(messages[:middle])
        await self._keep(messages[middle:])

    async def _skip(self, message: StoredMessage, error: Exception) -> None:
        await finish_in_thread(self._store.skip, self._organisation, message)
        if not self._has_skipped:
            self._has_skipped = True
            # The error's text may have what the message says.
            logger.error(
                "Message %d of stream %s cannot be kept (%s): it is skipped and counted as malformed, as are others "
                "after it",
                message.sequence,
                self._stream,
                type(error).__name__,
            )


def _may_pass(error: Exception) -> bool:
    """Whether it is the store, which is full, locked or damaged, rather than what a message says."""
    if isinstance(error, sqlite3.Error):
        return not isinstance(error, _OF_VALUES)
    return isinstance(error, OSError | TooSlowError | MemoryError | ApiError)


class Followers:
    """A follower for each organisation that this API serves and that has the stream ``<prefix>_<organisation>``."""

    def __init__(
        self, engine: Engine, store: StreamStore, *, prefix: str, serves: Callable[[str], bool]
    ) -> None:
        self._engine = engine
        self._store = store
        self._prefix = prefix
        self._serves = serves
        self._followers: dict[str, tuple[Follower, asyncio.Task[None]]] = {}
        self._discovering: asyncio.Task[None] | None = None

    @property
    def organisations(self) -> int:
        """How many streams are followed."""
        return len(self._followers)

    @property
    def stalled(self) -> int:
        """How many of them cannot be read further."""
        return sum(follower.stalled for follower, _ in self._followers.values())

    def is_stalled(self, organisation: str) -> bool:
        """Whether the stream of an organisation cannot be read further."""
        known = self._followers.get(organisation)
        return known is not None and known[0].stalled

    async def start(self) -> None:
        """Begins to look for streams."""
        self._discovering = asyncio.create_task(
            self._discover_periodically(), name=f"streams of {self._prefix}"
        )

    async def stop(self) -> None:
        """Ends all followers, and closes the store."""
        tasks = [task for _, task in self._followers.values()]
        if self._discovering is not None:
            tasks.append(self._discovering)
        await cancel_and_wait(*tasks)
        self._followers.clear()
        await asyncio.to_thread(self._store.close)

    async def require(self, organisation: str) -> Follower:
        """The follower of an organisation, once it has read all that there is. Raises EngineUnavailableError.

        While the engine is away, one that has read it before.
        """
        known = self._followers.get(organisation)
        if known is not None and known[0].caught_up.is_set():
            return known[0]
        if not self._engine.connected:
            raise EngineUnavailableError
        follower = known[0] if known else self._follow(organisation)
        try:
            async with asyncio.timeout(_CATCH_UP_SECONDS):
                await follower.caught_up.wait()
        except TimeoutError:
            raise EngineUnavailableError(
                f"The {self._store.name} are still being read from the event engine: try again in a moment"
            ) from None
        return follower

    def follow(self, organisation: str) -> None:
        """Follows the stream of an organisation, if it is not followed yet."""
        if organisation not in self._followers:
            self._follow(organisation)

    async def catches_up(self, organisation: str) -> bool:
        """Whether the stream had to be waited for. Raises EngineUnavailableError."""
        known = self._followers.get(organisation)
        if known is not None and known[0].caught_up.is_set():
            return False
        await self.require(organisation)
        return True

    async def reached(self, organisation: str, sequence: int) -> None:
        """Waits a moment until this replica has what was just written."""
        known = self._followers.get(organisation)
        await (known[0] if known else self._follow(organisation)).reached(sequence)

    def _follow(self, organisation: str) -> Follower:
        follower = Follower(self._engine, self._store, organisation, f"{self._prefix}_{organisation}")
        task = asyncio.create_task(follower.run(), name=f"{self._prefix} of {organisation}")
        self._followers[organisation] = (follower, task)

        def ended(_task: asyncio.Task[None]) -> None:
            if self._followers.get(organisation, (None,))[0] is follower:
                del self._followers[organisation]

        task.add_done_callback(ended)
        return follower

    async def _discover_periodically(self) -> None:
        while True:
            pause = _DISCOVER_SECONDS
            try:
                await self._discover()
            except ApiError:
                pause = jitter(_RETRY_SECONDS)
            except Exception as error:  # without another round no new stream would be followed
                self._warn("Cannot look for streams of", error)
            else:
                await self._try_sweep()
            await asyncio.sleep(pause)

    async def _try_sweep(self) -> None:
        try:
            await self.sweep()
        except ApiError:
            return  # the next round does it
        except Exception as error:
            self._warn("Cannot remove old", error)

    def _warn(self, what: str, error: Exception) -> None:
        logger.warning("%s %s: %s", what, self._store.name, str(error) or type(error).__name__)

    async def _discover(self) -> None:
        """Follows the streams of organisations that are served, and of no others."""
        prefix = f"{self._prefix}_"
        names = await self._engine.stream_names(f"{self._prefix}.>")
        found = {name.removeprefix(prefix) for name in names if name.startswith(prefix)}
        for organisation in sorted(found):
            if organisation not in self._followers and self._serves(organisation):
                self._follow(organisation)
        for organisation, (_, task) in list(self._followers.items()):
            if not self._serves(organisation):
                await cancel_and_wait(task)
                await asyncio.to_thread(self._store.forget, organisation)

    async def sweep(self) -> None:
        """Removes from the store what streams have not any more, and what is too much.

        Raises the first error once it has tried all of it.
        """
        failed: Exception | None = None
        for follower, _ in list(self._followers.values()):
            try:
                await follower.sweep()
            except Exception as error:
                failed = failed or error
        if self._followers:
            await asyncio.to_thread(self._store.bound)
        if failed is not None:
            raise failed
