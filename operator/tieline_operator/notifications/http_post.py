"""A POST to an address that a user has written: bounded in time and size, never redirected, within the egress rules."""

import math
import ssl
from collections.abc import Mapping

import aiohttp
from yarl import URL

from tieline_operator.notifications.errors import DeliveryError
from tieline_protocol.egress import EgressRefusedError

TIMEOUT = aiohttp.ClientTimeout(total=20.0, connect=10.0)
USER_AGENT = "tieline-notifications"
_OK = range(200, 300)
_REDIRECTS = range(300, 400)
_MAX_RETRY_AFTER = 3600.0
_GONE = 410
_URL_WRONG = "The URL cannot be used; correct it"


async def post(session: aiohttp.ClientSession, url: str, body: bytes, headers: Mapping[str, str]) -> None:
    """Posts JSON. Raises DeliveryError unless the answer is a 2xx."""
    host = _host(url)
    try:
        async with session.post(
            url,
            data=body,
            headers={"Content-Type": "application/json", "User-Agent": USER_AGENT, **headers},
            allow_redirects=False,
            timeout=TIMEOUT,
        ) as response:
            status, pause = response.status, response.headers.get("Retry-After")
    except aiohttp.InvalidURL:
        raise DeliveryError("UrlWrong", _URL_WRONG) from None
    except aiohttp.ClientConnectorError as error:
        if isinstance(error.os_error, EgressRefusedError):
            raise DeliveryError("AddressRefused", f"{host} may not be reached: {error.os_error}") from None
        if isinstance(error.os_error, ssl.SSLCertVerificationError):
            raise DeliveryError("CertificateRefused", _certificate_refused(host)) from None
        raise DeliveryError(
            "Unreachable", f"{host} cannot be connected to; check the URL, and that the receiver runs"
        ) from None
    except TimeoutError:
        raise DeliveryError(
            "TimedOut",
            f"{host} did not answer within {TIMEOUT.total:g} s; it must answer before it does slow work",
        ) from None
    except (aiohttp.ClientError, OSError):
        raise DeliveryError("Unreachable", f"The connection to {host} broke; check the receiver") from None
    except ValueError:
        raise DeliveryError("UrlWrong", _URL_WRONG) from None
    if status not in _OK:
        raise DeliveryError("Refused", _refusal(host, status), retry_after=_seconds(pause))


def _refusal(host: str, status: int) -> str:
    if status in _REDIRECTS:
        return f"{host} answered with a redirect ({status}), which is not followed; set the final URL"
    if status == _GONE:
        return f"{host} answered 410 (gone): it wants no more notifications; correct the URL, or delete the channel"
    return f"{host} answered {status}; look at the receiver's log, and correct the URL or the secret"


def _certificate_refused(host: str) -> str:
    return (
        f"The certificate of {host} is not trusted, or is for another name; correct the URL, or the receiver"
    )


def _host(url: str) -> str:
    try:
        return URL(url).host or "The host"
    except ValueError:
        return "The host"


def _seconds(text: str | None) -> float | None:
    try:
        seconds = float(text or "")
    except ValueError:
        return None
    return None if math.isnan(seconds) else min(max(seconds, 0.0), _MAX_RETRY_AFTER)
