"""Periodic garbage collection."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from tieline_common.backoff import jitter
from tieline_core.kubernetes.errors import KubeError

logger = logging.getLogger(__name__)


async def run_periodically(sweep: Callable[[], Awaitable[int]], *, seconds: float, what: str) -> None:
    """Calls ``sweep`` about every ``seconds``, until cancelled. No failure of a sweep ends the loop.

    ``sweep`` returns how many objects it deleted; ``what`` names them in the log. Replicas may sweep concurrently.
    """
    while True:
        await asyncio.sleep(jitter(seconds))
        try:
            count = await sweep()
        except KubeError as error:
            logger.warning("Cannot sweep %s, trying again later: %s", what, error.reason)
            continue
        except Exception:
            logger.exception("Cannot sweep %s, trying again later", what)
            continue
        if count:
            logger.info("Swept %s", what, extra={"count": count})
