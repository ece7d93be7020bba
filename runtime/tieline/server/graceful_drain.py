"""How long a pod that was asked to stop still takes requests.

Everybody who routes here has to notice first, and where the pod was the only one, the next one has to be ready:
until then Kubernetes keeps sending requests here, as the pod says that it still serves. So it takes them until none
has come for a while. Answers close their connections meanwhile, so that callers come back to somebody else.
"""

from tieline_common.silence import until_silent


class GracefulDrain:
    """Whether the pod is on its way out, and whether anybody still counts on it."""

    def __init__(self) -> None:
        self.begun = False
        """Set when the server was asked to stop: connections are closed after their answer."""
        self.closed = False
        """Set when no more requests are taken."""
        self._calls = 0

    def request_arrived(self) -> None:
        """A request has come."""
        self._calls += 1

    async def wait(self, *, silence: float, longest: float) -> None:
        """Begin to leave; returns when no request has come for ``silence`` seconds, or after ``longest``."""
        self.begun = True
        await until_silent(lambda: self._calls, seconds=silence, longest=max(silence, longest))
        self.closed = True
