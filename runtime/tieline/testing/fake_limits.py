"""Limits of connections in a test: nothing waits, and a test says when there is no room."""

from collections.abc import Callable, Iterable

from tieline.configuration.snapshot import Connection
from tieline.errors import LimitReachedError
from tieline.testing.fake_connections import FakeConnection


class FakeLimits:
    """A RequestGate. What the runtime would wait is noted in ``waits``, unless it is longer than a run may take."""

    def __init__(
        self,
        fakes: Callable[[], Iterable[FakeConnection]],
        *,
        clock: Callable[[], float],
        run_timeout: float,
        waits: list[float],
    ) -> None:
        self._fakes = fakes
        self._clock = clock
        self._run_timeout = run_timeout
        self._waits = waits

    async def enter(self, connection: Connection, *, is_hop: bool = False) -> Callable[[], None]:
        """See RequestGate. Raises LimitReachedError while there is no room, by the test's clock."""
        fake = self._fake(connection)
        left = fake.full_until - self._clock()
        paused, fake.paused_seconds = fake.paused_seconds, 0.0
        if left > 0 and not is_hop:
            raise LimitReachedError(
                template=connection.template,
                limits=str(connection.limits),
                waited=self._run_timeout,
                paused=left if fake.is_pause else 0.0,
                retry_after=left,
            )
        if paused:
            self._waits.append(paused)
        return _nothing

    def pause(self, connection: Connection, seconds: float) -> None:
        """See RequestGate."""
        fake = self._fake(connection)
        if seconds > self._run_timeout:
            fake.full_until, fake.is_pause = self._clock() + seconds, True
        else:
            fake.paused_seconds = max(fake.paused_seconds, seconds)

    def _fake(self, connection: Connection) -> FakeConnection:
        return next(fake for fake in self._fakes() if fake.url == connection.base_url)


def _nothing() -> None:
    """A fake does not count requests under way."""
