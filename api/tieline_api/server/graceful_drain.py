"""How long a replica that was asked to stop still takes requests.

Everybody who routes here has to notice first, and where the replica was the only one, the next one has to be ready:
until then Kubernetes goes on sending requests here, as long as it says that it is ready. So it takes them until none
has come for a while. Answers close their connections meanwhile, so that callers come back to another replica.
"""

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from tieline_common.silence import until_silent

LONGEST_SECONDS = 20.0
# Asked of each replica by its address, whether anybody is routed there or not.
_NOT_ROUTED = frozenset({"/healthz", "/readyz", "/metrics"})


class Leaving:
    """Whether the replica is on its way out, and whether anybody still counts on it."""

    def __init__(self) -> None:
        self._begun = False
        self._calls = 0

    def middleware(self) -> Middleware:
        """Goes around all others: it sees each request come, and each answer leave."""

        @web.middleware
        async def leaving(request: web.Request, handler: Handler) -> web.StreamResponse:
            if request.path not in _NOT_ROUTED:
                self._calls += 1
            response = await handler(request)
            if self._begun:
                response.force_close()
            return response

        return leaving

    async def wait(self, *, silence: float) -> None:
        """Begins to leave; returns when no request has come for ``silence`` seconds, or after LONGEST_SECONDS."""
        self._begun = True
        await until_silent(lambda: self._calls, seconds=silence, longest=LONGEST_SECONDS)
