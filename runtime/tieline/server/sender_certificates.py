"""Certificates that senders sign with, and publish at fixed hosts: fetched, and kept for a while.

A request names its certificate's URL, so anyone can write one there. Only the senders' own hosts and paths are asked,
by HTTPS, without redirects, and no more often than a budget allows. URLs that had a valid certificate have a budget of
their own, so that requests with made-up ones do not stop them.
"""

import asyncio
import logging
import re
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

import aiohttp
from yarl import URL

from tieline_common.bounded_dict import BoundedDict
from tieline_common.single_flight import SingleFlight

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.types import PublicKeyTypes

logger = logging.getLogger("tieline.inbound")

_SNS_HOST = r"https://sns\.[a-z0-9-]{4,32}\.amazonaws\.com(\.cn)?"
CERTIFICATE_URLS: Mapping[str, re.Pattern[str]] = {
    "sns": re.compile(_SNS_HOST + r"/SimpleNotificationService-[0-9a-f]{16,64}\.pem"),
    "paypal": re.compile(r"https://api\.paypal\.com/v1/notifications/certs/CERT-[A-Za-z0-9-]{1,128}"),
    "paypal-sandbox": re.compile(
        r"https://api\.sandbox\.paypal\.com/v1/notifications/certs/CERT-[A-Za-z0-9-]{1,128}"
    ),
}
"""The URLs at which each sender publishes certificates."""
CONFIRMATION_URL = re.compile(_SNS_HOST + r"/\?Action=ConfirmSubscription&[A-Za-z0-9%&=:._~-]{1,2048}")
MAX_BYTES = 64 * 1024
TIMEOUT = 5.0
KEPT_SECONDS = 3600.0
FAILURE_SECONDS = 30.0
REMEMBERED = 64
FETCHES_PER_MINUTE = 30

Fetch = Callable[[str], Awaitable[bytes]]


class CertificateError(Exception):
    """A certificate cannot be used; callers see the message."""


class SenderCertificates:
    """The keys of senders' certificates."""

    def __init__(self, fetch: Fetch, now: Callable[[], float] = time.time) -> None:
        self._fetch = fetch
        self._now = now
        self._keys: BoundedDict[str, tuple[float, PublicKeyTypes]] = BoundedDict(REMEMBERED)
        self._failed_until: BoundedDict[str, float] = BoundedDict(REMEMBERED)
        self._flights: SingleFlight[str, PublicKeyTypes | None] = SingleFlight()
        self._of_strangers: deque[float] = deque(maxlen=FETCHES_PER_MINUTE)
        self._of_senders: deque[float] = deque(maxlen=FETCHES_PER_MINUTE)

    async def key(self, sender: str, url: str) -> "PublicKeyTypes":
        """The key of the certificate at ``url``, if that is one of the sender's own. Raises CertificateError."""
        if not CERTIFICATE_URLS[sender].fullmatch(url):
            raise CertificateError("its certificate is not at one of the sender's own URLs")
        until, last = self._keys.get(url, (0.0, None))
        found = last
        if self._now() >= until:
            found = await self._flights.run(url, lambda: self._fetched(url, last))
        if found is None:
            raise CertificateError("its certificate cannot be fetched right now, or is not valid")
        return found

    async def confirm(self, url: str) -> bool:
        """Ask a URL of a verified request, which confirms a subscription of Amazon SNS; whether it was confirmed."""
        if not CONFIRMATION_URL.fullmatch(url) or not self._may_fetch(self._of_senders):
            return False
        try:
            await self._fetch(url)
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            logger.warning("A subscription of Amazon SNS was not confirmed: %s", type(error).__name__)
            return False
        return True

    async def _fetched(self, url: str, last: "PublicKeyTypes | None") -> "PublicKeyTypes | None":
        """The key there; ``last``, the one that was there before, while nothing may be fetched."""
        # Pods load no more than they need.
        from tieline.auth.public_keys import certificate_key  # noqa: PLC0415

        if self._now() < self._failed_until.get(url, 0.0):
            return None
        if not self._may_fetch(self._of_senders if last else self._of_strangers):
            return last
        try:
            found = certificate_key(await self._fetch(url), self._now())
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            logger.warning("The certificate %s cannot be used: %s", url, type(error).__name__)
            self._failed_until[url] = self._now() + FAILURE_SECONDS
            return None
        self._keys[url] = (self._now() + KEPT_SECONDS, found)
        return found

    def _may_fetch(self, fetches: deque[float]) -> bool:
        """Whether the budget allows another request now."""
        now = self._now()
        if len(fetches) == FETCHES_PER_MINUTE and now - fetches[0] < 60:
            return False
        fetches.append(now)
        return True


def fetch_by(client: aiohttp.ClientSession) -> Fetch:
    """Fetches small answers of status 200."""

    async def fetch(url: str) -> bytes:
        async with asyncio.timeout(TIMEOUT):
            async with client.get(URL(url, encoded=True), allow_redirects=False) as answer:
                if answer.status != 200:
                    raise ValueError(f"status {answer.status}")
                content = await answer.content.read(MAX_BYTES + 1)
                while len(content) <= MAX_BYTES and (more := await answer.content.read(MAX_BYTES)):
                    content += more
                if len(content) > MAX_BYTES:
                    raise ValueError("too large")
                return content

    return fetch
