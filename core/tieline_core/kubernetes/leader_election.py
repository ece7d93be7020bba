"""Leadership by a Lease: of several replicas one works, and another takes over when it falls silent.

As in client-go: a holder that has not renewed for ``lease_duration`` seconds (by the observer's own clock, so
that clocks need not agree) is replaced; a leader that could not renew for ``renew_deadline`` stops first.
With the usual durations that is 16 s after a leader's death at most: ``lease_duration``, and the ``retry_period``
after which the last renewal was seen.
``kubernetes.aio.leaderelection`` was read and not taken: it does not notice that the work has ended, does not
release the lease on shutdown, and writes times without a zone.
"""

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from tieline_common.backoff import jitter
from tieline_core.kubernetes.client import Kube, Object
from tieline_core.kubernetes.errors import AlreadyExists, Conflict, KubeError, NotFound
from tieline_core.kubernetes.resources import LEASES

logger = logging.getLogger(__name__)


class LeadershipLostError(Exception):
    """The lease could not be renewed in time: another replica may be at work."""


class Lease:
    """One candidate's view of a Lease."""

    def __init__(
        self,
        kube: Kube,
        *,
        name: str,
        namespace: str,
        identity: str,
        lease_duration: float = 13.0,
        renew_deadline: float = 10.0,
        retry_period: float = 2.0,
    ) -> None:
        """Durations are in seconds; ``renew_deadline`` must be shorter than ``lease_duration``."""
        self._kube = kube
        self._name = name
        self._namespace = namespace
        self._identity = identity
        self._lease_duration = lease_duration
        self._renew_deadline = renew_deadline
        self._retry_period = retry_period
        self._seen: tuple[str, str] | None = None
        self._seen_at = 0.0
        self._renewed_at = -math.inf

    @property
    def left(self) -> float:
        """Seconds for which this candidate may be sure to lead, unless it renews; not above zero when it may not.

        A process that was stopped for a while goes on where it was: what must not be done twice asks here first.
        """
        return self._renewed_at + self._renew_deadline - _clock()

    async def acquire(self) -> None:
        """Waits until this candidate leads."""
        while not await self._attempt():
            pause = jitter(self._retry_period, 1.0, 1.2)
            # An expired lease is taken at once, not at the next look.
            expires = self._seen_at + self._lease_duration - _clock()
            await asyncio.sleep(min(pause, expires) if expires > 0 else pause)
        logger.info("Leading", extra={"lease": self._name, "identity": self._identity})

    async def keep(self) -> None:
        """Renews for ever; raises LeadershipLostError when that fails for too long, or another one leads."""
        while True:
            await asyncio.sleep(self._retry_period)
            # An attempt may hang for longer than the deadline: it is cut off there.
            with suppress(TimeoutError):
                async with asyncio.timeout(self.left):
                    if await self._attempt():
                        continue
            if self._seen and self._seen[0] not in ("", self._identity):
                raise LeadershipLostError(f"The lease {self._name} was taken by {self._seen[0]}")
            if self.left <= 0:
                raise LeadershipLostError(f"The lease {self._name} was not renewed in time")

    async def release(self) -> None:
        """Gives the lease back, so that another candidate need not wait for it to expire."""
        self._renewed_at = -math.inf
        with suppress(KubeError):
            lease = await self._kube.get(LEASES, self._name, self._namespace)
            if lease["spec"].get("holderIdentity") == self._identity:
                lease["spec"].update(holderIdentity="", leaseDurationSeconds=1, renewTime=_now())
                await self._kube.replace(LEASES, lease)

    async def _attempt(self) -> bool:
        """Whether this candidate holds the lease now."""
        # The time before the write: nobody else can have seen it earlier.
        began = _clock()
        held = await self._try()
        if held:
            self._renewed_at = began
        return held

    async def _try(self) -> bool:
        try:
            lease = await self._kube.get(LEASES, self._name, self._namespace)
        except NotFound:
            return await self._create()
        except KubeError as error:
            logger.warning("Cannot read the lease, trying again: %s", error)
            return False
        spec = lease.get("spec", {})
        holder = spec.get("holderIdentity") or ""
        seen = (holder, spec.get("renewTime") or "")
        if seen != self._seen:
            self._seen, self._seen_at = seen, _clock()
        if holder not in ("", self._identity) and _clock() - self._seen_at < self._lease_duration:
            return False
        return await self._take(lease, changed=holder != self._identity)

    async def _create(self) -> bool:
        lease = {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.kind,
            "metadata": {"name": self._name, "namespace": self._namespace},
            "spec": self._spec(acquired=_now(), transitions=0),
        }
        return await _done(self._kube.create(LEASES, lease), "create")

    async def _take(self, lease: Object, *, changed: bool) -> bool:
        spec = lease.get("spec", {})
        lease["spec"] = self._spec(
            acquired=_now() if changed else spec.get("acquireTime") or _now(),
            transitions=(spec.get("leaseTransitions") or 0) + int(changed),
        )
        return await _done(self._kube.replace(LEASES, lease), "renew")

    def _spec(self, *, acquired: str, transitions: int) -> dict[str, Any]:
        return {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": math.ceil(self._lease_duration),
            "acquireTime": acquired,
            "renewTime": _now(),
            "leaseTransitions": transitions,
        }


async def lead(lease: Lease, work: Callable[[], Awaitable[None]]) -> None:
    """Runs ``work`` while this candidate leads, and releases the lease when the work has ended.

    Raises LeadershipLostError, after the work was cancelled, when the lease could not be kept.
    """
    await lease.acquire()
    working = asyncio.ensure_future(work())
    keeping = asyncio.create_task(lease.keep())
    try:
        await asyncio.wait({working, keeping}, return_when=asyncio.FIRST_COMPLETED)
        if keeping.done():
            working.cancel()
            await asyncio.wait({working})
            await keeping
        await working
    finally:
        for task in (working, keeping):
            task.cancel()
        await asyncio.gather(working, keeping, return_exceptions=True)
        if not (keeping.done() and not keeping.cancelled() and keeping.exception()):
            await lease.release()


async def _done(write: Awaitable[Object], what: str) -> bool:
    """Whether the lease was written; not where another candidate was first, or the API server fails."""
    try:
        await write
    except (AlreadyExists, Conflict):
        return False
    except KubeError as error:
        logger.warning("Cannot %s the lease, trying again: %s", what, error)
        return False
    return True


def _clock() -> float:
    """Seconds that go on while the machine sleeps, where the system has such a clock."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
