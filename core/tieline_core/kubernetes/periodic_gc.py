"""Deleting what has had its time, now and then, for ever."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from tieline_common.backoff import jitter
from tieline_core.kubernetes.errors import KubeError

logger = logging.getLogger(__name__)


async def run_periodically(sweep: Callable[[], Awaitable[int]], *, seconds: float, what: str) -> None:
    """Sweeps about every ``seconds``. Replicas may do it at once: what is gone is gone.

    ``sweep`` returns how many it has deleted; ``what`` they are, in words for the log.
    """
    while True:
        await asyncio.sleep(jitter(seconds))
        try:
            count = await sweep()
        except KubeError as error:
            logger.warning("Cannot sweep %s, trying again later: %s", what, error.reason)
            continue
        if count:
            logger.info("Swept %s", what, extra={"count": count})
