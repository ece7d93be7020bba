"""Which requests are sent again, and when: only what is safe to repeat, a few times, for a short while."""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Mapping
from email.utils import parsedate_to_datetime
from typing import Any

import aiohttp

from tieline_common.backoff import exponential, jitter
from tieline_protocol.egress import EgressRefusedError

RETRIES = 2
"""How often a request is sent again when its author says nothing else."""

# RFC 9110, section 9.2.2. TRACE is not sent by anyone here.
_IDEMPOTENT = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PUT"})
_TEMPORARY = frozenset({429, 502, 503, 504})
PAUSING = frozenset({429, 503})
"""With ``Retry-After`` they ask for a pause of everybody."""
_FIRST_WAIT = 0.25
_PLAIN = (str, bytes, int, float)
# What asks for more patience than this is for the code to decide about: a run has a time-out.
_LONGEST_WAIT = 10.0

Send = Callable[[], Awaitable[aiohttp.ClientResponse]]


async def pause(seconds: float) -> None:
    """Wait before a request is sent again. Of its own, so that tests need not wait."""
    await asyncio.sleep(seconds)


async def send_again(
    send: Send, *, method: str, options: Mapping[str, Any], retries: int, is_held: bool = False
) -> aiohttp.ClientResponse:
    """The answer of ``send``, which is called up to ``retries`` more times.

    An idempotent method is repeated after 429, 502, 503 and 504, lost connections and cut bodies; any method when
    there was no connection at all, since nothing was sent. A body that can be read only once is never
    repeated. The wait is what ``Retry-After`` says (an answer that asks for more than 10 seconds is
    returned), or else doubles from a quarter of a second, give or take a half, up to 10 seconds. With ``is_held``
    it is ``send`` that waits for as long as ``Retry-After`` says.
    """
    for attempt in range(retries):
        try:
            response = await send()
        except aiohttp.ClientError as error:
            wait = _after_error(error, method, attempt, is_held)
            if wait > _LONGEST_WAIT or not _repeatable(options):
                raise
        else:
            wait = _after_answer(response.status, response.headers, method, attempt, is_held)
            if wait > _LONGEST_WAIT or not _repeatable(options):
                return response
            response.release()
        await pause(wait)
    return await send()


def _after_error(error: aiohttp.ClientError, method: str, attempt: int, is_held: bool) -> float:
    """How long to wait after a failure; infinite when the request must not be sent again, or in vain."""
    match error:
        case aiohttp.ClientConnectorCertificateError() | aiohttp.InvalidURL():
            return math.inf
        case aiohttp.ClientConnectorError() | aiohttp.ConnectionTimeoutError():
            refused = isinstance(getattr(error, "os_error", None), EgressRefusedError)
            return math.inf if refused else _backoff(attempt)
        case aiohttp.ClientConnectionError() | aiohttp.ClientPayloadError():
            return _backoff(attempt) if _idempotent(method) else math.inf
        case aiohttp.ClientResponseError():  # with raise_for_status=True
            return _after_answer(error.status, error.headers, method, attempt, is_held)
    return math.inf


def _after_answer(
    status: int, headers: Mapping[str, str] | None, method: str, attempt: int, is_held: bool
) -> float:
    """How long to wait after an answer; infinite when another time would be no better."""
    if status not in _TEMPORARY or not _idempotent(method):
        return math.inf
    asked = (headers or {}).get("Retry-After")
    if asked is None:
        return _backoff(attempt)
    seconds = retry_after(asked)
    return 0.0 if is_held and status in PAUSING and seconds < math.inf else seconds


def _idempotent(method: str) -> bool:
    return method.upper() in _IDEMPOTENT


def _repeatable(options: Mapping[str, Any]) -> bool:
    """Whether the body is there again for a second time: files, forms with files and generators are not."""
    match options.get("data"):
        case None | bytes() | str():
            return True
        case Mapping() as fields:
            return all(isinstance(value, _PLAIN) for value in fields.values())
        case list() | tuple() as pairs:
            return all(
                isinstance(pair, tuple) and all(isinstance(part, _PLAIN) for part in pair) for pair in pairs
            )
    return False


def _backoff(attempt: int) -> float:
    return min(jitter(exponential(attempt + 1, first=_FIRST_WAIT, cap=_LONGEST_WAIT)), _LONGEST_WAIT)


def retry_after(text: str) -> float:
    """Retry-After as seconds from now (RFC 9110, section 10.2.3); infinite for what is neither form."""
    if text.strip().isdecimal():
        return float(text)
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time())
    except ValueError:
        return math.inf
