"""Reports the run in whose middle a process ends that is blocked, from another thread than that of its event loop."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

from tieline.configuration.pod_api import PodApi
from tieline.errors import TielineError, reason
from tieline.events.run_reports import RunReports
from tieline.events.run_store import Interruption
from tieline.http_client.session import new_client
from tieline.server.settings import Settings
from tieline.server.watchdog import Blocked
from tieline_common.cancellation import cancel_and_wait
from tieline_protocol.event_streams import EventStreams
from tieline_protocol.run_records import RunRecord, encode

logger = logging.getLogger("tieline")


class BlockedError(TielineError):
    """The code blocked the event loop, so that its process ended."""


@dataclass(frozen=True, kw_only=True)
class InterruptionReport:
    """Call it in a thread of its own. The blocked loop has the connections, so it makes new ones."""

    settings: Settings
    event: Callable[[str, str], Interruption | None]
    """Of a run that is tried again, by its id and the reason."""
    direct: Callable[[str, BaseException], RunRecord | None]
    """Of a direct run, by its id and the reason."""

    def __call__(self, blocked: Blocked) -> None:
        if blocked.run is None:
            return
        text = str(blocked)
        try:
            if (interruption := self.event(blocked.run, text)) is not None:
                asyncio.run(_keep(self.settings, blocked.run, interruption))
            elif (record := self.direct(blocked.run, BlockedError(text))) is not None:
                asyncio.run(_send(self.settings, record))
        except Exception as error:
            logger.warning("The run does not show why it ended: %s", reason(error))


async def _keep(settings: Settings, run: str, interruption: Interruption) -> None:
    """The next attempt reads it, and reports it."""
    if not settings.engine_urls:
        return
    # Pods that do not use the event engine do without its client.
    from tieline.events.engine.connection import EngineConnection  # noqa: PLC0415
    from tieline.events.engine.run_storage import RunStorage  # noqa: PLC0415
    from tieline.events.engine.stored_messages import StoredMessages  # noqa: PLC0415

    streams = EventStreams(settings.organisation_id, settings.environment_id)
    connection = EngineConnection(
        urls=settings.engine_urls,
        credentials_file=settings.engine_credentials_file,
        streams=streams,
        trust=settings.engine_trust,
    )
    connecting = asyncio.create_task(connection.run())
    try:
        await RunStorage(StoredMessages(connection)).save_interruption(run, interruption)
    finally:
        await cancel_and_wait(connecting)


async def _send(settings: Settings, record: RunRecord) -> None:
    if settings.api_url is None:
        return
    async with new_client() as client:
        await RunReports(PodApi(client, settings.api_url, settings.token_file, settings.api_trust)).write(
            encode([record])
        )
