"""Configuration from the API's internal endpoint, by long poll with the pod's own token."""

import asyncio
import json
import logging
import random
from pathlib import Path

import aiohttp

from tieline.configuration.current import Publish
from tieline.configuration.snapshot import parse
from tieline.errors import ConfigurationError, reason

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
        self, *, api_url: str, token_file: Path, version: str = "", first_backoff: float = _FIRST_BACKOFF
    ) -> None:
        self._asked = {"wait": str(_WAIT), **({"version": version} if version else {})}
        self._url = f"{api_url}{PATH}"
        self._token_file = token_file
        self._first_backoff = first_backoff
        self._etag: str | None = None

    async def run(self, publish: Publish) -> None:
        """Poll until cancelled."""
        loop = asyncio.get_running_loop()
        failures = 0
        async with aiohttp.ClientSession(timeout=_TIMEOUT, cookie_jar=aiohttp.DummyCookieJar()) as client:
            while True:
                asked = loop.time()
                try:
                    await self._poll(client, publish)
                except _NotObtainedError as error:
                    if not failures:
                        logger.warning("Lost the API, serving with the last configuration: %s", reason(error))
                    failures += 1
                    await asyncio.sleep(self._backoff(failures))
                    continue
                if failures:
                    logger.info("The API is back after %d failed attempts", failures)
                    failures = 0
                await asyncio.sleep(max(0.0, asked + _SHORTEST_INTERVAL - loop.time()))

    async def _poll(self, client: aiohttp.ClientSession, publish: Publish) -> None:
        headers = {"Authorization": f"Bearer {self._token()}"}
        if self._etag:
            headers["If-None-Match"] = self._etag
        try:
            # No redirects: the token is for this address alone.
            async with client.get(
                self._url, params=self._asked, headers=headers, allow_redirects=False
            ) as response:
                if response.status == 304:
                    return
                if response.status != 200:
                    hint = _HINTS.get(response.status, "unexpected")
                    raise _NotObtainedError(f"{self._url} answered {response.status}: {hint}")
                snapshot = parse(json.loads(await response.read()))
                etag = response.headers.get("ETag")
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise _NotObtainedError(f"{self._url}: {str(error) or type(error).__name__}") from error
        except (ConfigurationError, ValueError) as error:
            raise _NotObtainedError(f"{self._url} answered with what is no configuration: {error}") from error
        publish(snapshot)
        self._etag = etag

    def _token(self) -> str:
        """Read anew for each request: the kubelet replaces the file before the token expires."""
        try:
            return self._token_file.read_text().strip()
        except OSError as error:
            raise _NotObtainedError(f"{self._token_file} cannot be read: {error.strerror}") from error

    def _backoff(self, failures: int) -> float:
        most = _LONGEST_BACKOFF if self._etag else _LONGEST_BEFORE_THE_FIRST
        longest = min(self._first_backoff * 2 ** (min(failures, 16) - 1), most)
        return random.uniform(longest / 2, longest)  # noqa: S311  (spreads retries, hides nothing)
