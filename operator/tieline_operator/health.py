"""``/healthz`` and ``/readyz``, on the event loop that reconciles, so that a blocked loop fails them.

A replica is healthy while its watches are alive, also during the first lists and while it waits for the Lease. It is
ready once its caches have synced, whether it leads or not.
"""

from typing import Protocol

from aiohttp import web


class Replica(Protocol):
    """What the probes need of the manager."""

    started: bool
    """Whether every watch has listed."""
    leading: bool
    """Whether this replica leads."""

    def dead(self) -> list[str]:
        """The resources whose watch is dead."""


def application(replica: Replica) -> web.Application:
    """The two probes, each with a message."""

    def state() -> tuple[bool, bool, str]:
        if not replica.started:
            return True, False, "Still reading the cluster"
        if dead := replica.dead():
            return False, False, f"Nothing is heard of {', '.join(dead)}"
        return True, True, "Leading" if replica.leading else "Waiting for the Lease"

    async def healthz(_request: web.Request) -> web.Response:
        healthy, _, message = state()
        return web.Response(text=f"{message}\n", status=200 if healthy else 503)

    async def readyz(_request: web.Request) -> web.Response:
        _, ready, message = state()
        return web.Response(text=f"{message}\n", status=200 if ready else 503)

    app = web.Application()
    app.router.add_get("/healthz", healthz)
    app.router.add_get("/readyz", readyz)
    return app
