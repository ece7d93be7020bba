"""Reports of direct runs to the API, which stores them in the event engine: not every pod has a connection to it."""

import aiohttp

from tieline.configuration.pod_api import UNREACHABLE, PodApi
from tieline.errors import TielineError, reason
from tieline.events.queue import EventsUnavailableError, MessageTooLargeError

PATH = "/internal/v1/runs"
LINGER = 1.0
"""How long a record waits for others, in seconds: as long as a span."""
_TIMEOUT = aiohttp.ClientTimeout(total=15, connect=2)
_MALFORMED, _TOO_LARGE = 400, 413


class RecordsRefusedError(TielineError):
    """Records that will never be taken."""


class RunReports:
    """Sends messages of records to the API."""

    def __init__(self, api: PodApi) -> None:
        self._api = api

    async def write(self, content: bytes) -> None:
        """Returns once the engine has the records.

        Raises EventsUnavailableError where they may be taken later, MessageTooLargeError and RecordsRefusedError.
        """
        try:
            answer = await self._api.request("POST", PATH, content=content, limits=_TIMEOUT)
        except UNREACHABLE as error:
            raise EventsUnavailableError(f"the API cannot be reached: {reason(error)}") from None
        if answer.status < 300:
            return
        if answer.status == _TOO_LARGE:
            raise MessageTooLargeError("the API takes no message of this size")
        if answer.status == _MALFORMED:
            raise RecordsRefusedError("the API finds no records in the message")
        raise EventsUnavailableError(f"the API answers {answer.status}")
