"""Configuration from the API's internal endpoint, by long poll with the pod's own token."""

import asyncio
import logging
from pathlib import Path

import aiohttp

from tieline.configuration.current import Publish
from tieline.configuration.pod_api import UNREACHABLE, PodApi
from tieline.configuration.snapshot import parse
from tieline.errors import ConfigurationError, reason
from tieline_common.authorities import Trust
from tieline_common.backoff import exponential, jitter

logger = logging.getLogger("tieline.configuration")

PATH = "/internal/v1/environment"
_WAIT = 25
# The API may hold the answer for _WAIT seconds; the rest is for connecting and reading.
_TIMEOUT = aiohttp.ClientTimeout(total=_WAIT + 15, connect=10)
# A server that answers at once, against the protocol, is not asked more often than this.
_SHORTEST_INTERVAL = 0.25
_FIRST_BACKOFF = 0.5
_LONGEST_BACKOFF = 30.0
# A pod that has nothing to serve with yet is not to be late when the API is back.
_LONGEST_BEFORE_THE_FIRST = 3.0

_HINTS = {
    401: "the API did not accept the pod's token",
    403: "the API does not know the pod's ServiceAccount as an environment's",
    404: "the API has no such endpoint; TIELINE_API_URL must name the internal one",
    503: "the API cannot reach Kubernetes",
}


class _NotObtainedError(Exception):
    """The API could not be asked, or did not answer with a configuration."""


class ApiSource:
    """Asks the API for the environment's configuration and for every change of it.

    When the API is away, what was last published stays; that it is away, and that it is back, is
    logged once each. ``version`` is what this pod runs: with it the API can tell which change of the project that is.
    """

    def __init__(
        self,
        *,
        api_url: str,
        token_file: Path,
        trust: Trust | None = None,
        version: str = "",
        first_backoff: float = _FIRST_BACKOFF,
    ) -> None:
        self._query = {"wait": str(_WAIT), **({"version": version} if version else {})}
        self._url, self._token_file, self._trust = api_url, token_file, trust
        self._first_backoff = first_backoff
        self._etag: str | None = None

    async def run(self, publish: Publish) -> None:
        """Poll until cancelled."""
        loop = asyncio.get_running_loop()
        failures = 0
        async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as client:
            api = PodApi(client, self._url, self._token_file, self._trust)
            while True:
                began = loop.time()
                try:
                    await self._poll(api, publish)
                except _NotObtainedError as error:
                    if not failures:
                        logger.warning("Lost the API, serving with the last configuration: %s", reason(error))
                    failures += 1
                    await asyncio.sleep(self._backoff(failures))
                    continue
                if failures:
                    logger.info("The API is back after %d failed attempts", failures)
                    failures = 0
                await asyncio.sleep(max(0.0, began + _SHORTEST_INTERVAL - loop.time()))

    async def _poll(self, api: PodApi, publish: Publish) -> None:
        url = f"{self._url}{PATH}"
        try:
            answer = await api.request("GET", PATH, query=self._query, etag=self._etag, limits=_TIMEOUT)
            if answer.status == 304:
                return
            if answer.status != 200:
                hint = _HINTS.get(answer.status, "unexpected")
                raise _NotObtainedError(f"{url} answered {answer.status}: {hint}")
            snapshot = parse(answer.json())
        except UNREACHABLE as error:
            if isinstance(error, OSError) and error.filename:
                raise _NotObtainedError(f"{error.filename} cannot be read: {error.strerror}") from error
            raise _NotObtainedError(f"{url}: {str(error) or type(error).__name__}") from error
        except (ConfigurationError, ValueError) as error:
            raise _NotObtainedError(f"{url} answered with what is no configuration: {error}") from error
        publish(snapshot)
        self._etag = answer.etag

    def _backoff(self, failures: int) -> float:
        cap = _LONGEST_BACKOFF if self._etag else _LONGEST_BEFORE_THE_FIRST
        return jitter(exponential(failures, first=self._first_backoff, cap=cap), 0.5, 1.0)
