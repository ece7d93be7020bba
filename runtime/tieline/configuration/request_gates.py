"""What keeps requests within the limits of connections, as the context and sessions see it."""

from collections.abc import Callable
from typing import Protocol

from tieline.configuration.snapshot import Connection


class RequestOutcomes(Protocol):
    """Who learns how systems answer, for the state of connections' credentials."""

    def answered(self, connection: Connection, status: int, said: str = "") -> None:
        """A request through a connection was answered with a status that stands. Neither waits nor raises.

        ``said`` is the beginning of the body of a request that was refused, without secrets.
        """


class RequestGate(Protocol):
    """Where requests through connections with limits wait for their turn."""

    async def enter(self, connection: Connection, *, is_hop: bool = False) -> Callable[[], None]:
        """Wait until one request may be sent; what it returns is to be called when the request has ended.

        ``is_hop``: it follows from a request that is under way (a redirect, the repetition after a 401), so it goes
        before others and needs no other permit. Raises LimitReachedError when the run's time is over before.
        """

    def pause(self, connection: Connection, seconds: float) -> None:
        """The system asks for ``seconds`` without requests: nobody sends any meanwhile."""
