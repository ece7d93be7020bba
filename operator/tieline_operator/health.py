"""``/healthz`` and ``/readyz``, on the event loop that works: one that hangs does not answer.

Healthy is a replica whose watches live; one that still reads the cluster, or waits for the Lease, is. Ready is one
that knows the cluster and could work, whether it leads or not.
"""

from typing import Protocol

from aiohttp import web


class Replica(Protocol):
    """What the probes ask."""

    @property
    def started(self) -> bool:
        """Whether every watch has listed."""

    @property
    def leading(self) -> bool:
        """Whether this replica is the one at work."""

    def dead(self) -> list[str]:
        """The resources whose watch is dead."""


def application(replica: Replica) -> web.Application:
    """The two probes, each with a sentence for people."""

    def state() -> tuple[bool, bool, str]:
        if not replica.started:
            return True, False, "Still reading the cluster"
        if dead := replica.dead():
            return False, False, f"Nothing is heard of {', '.join(dead)}"
        return True, True, "Leading" if replica.leading else "Waiting for the Lease"

    async def healthz(_request: web.Request) -> web.Response:
        healthy, _, told = state()
        return web.Response(text=f"{told}\n", status=200 if healthy else 503)

    async def readyz(_request: web.Request) -> web.Response:
        _, ready, told = state()
        return web.Response(text=f"{told}\n", status=200 if ready else 503)

    app = web.Application()
    app.router.add_get("/healthz", healthz)
    app.router.add_get("/readyz", readyz)
    return app
