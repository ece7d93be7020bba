"""Which requests are sent again, and when: only what is safe to repeat, a few times, for a short while."""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import aiohttp

from tieline.errors import RateLimitedError
from tieline.http_client.responses import Response
from tieline_common.backoff import exponential, jitter
from tieline_protocol.egress import EgressRefusedError
from tieline_protocol.limit_answers import USUAL, LimitAnswers, LimitSignal, wait_of

RETRIES = 2
"""How often a request is sent again when its author says nothing else."""

# RFC 9110, section 9.2.2. TRACE is not sent by anyone here.
_IDEMPOTENT = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PUT"})
_TEMPORARY = frozenset({429, 502, 503, 504})
_FIRST_WAIT = 0.25
_PLAIN = (str, bytes, int, float)
# What asks for more patience than this is for the code to decide about: a run has a time-out.
_LONGEST_WAIT = 10.0

Send = Callable[[], Awaitable[aiohttp.ClientResponse]]


async def pause(seconds: float) -> None:
    """Wait before a request is sent again. Of its own, so that tests need not wait."""
    await asyncio.sleep(seconds)


async def send_again(
    send: Send,
    *,
    method: str,
    options: Mapping[str, Any],
    retries: int,
    answers: LimitAnswers = USUAL,
    is_held: bool = False,
) -> aiohttp.ClientResponse:
    """The answer of ``send``, which is called up to ``retries`` more times.

    An idempotent method is repeated after 429, 502, 503 and 504, after other answers that mean "too many requests"
    (by ``answers``), lost connections and cut bodies; any method when there was no connection at all, since nothing
    was sent. A body that can be read only once is never repeated. The wait is what the answer says (one that asks for
    more than 10 seconds is returned), or else doubles from a quarter of a second, give or take a half, up to 10
    seconds. With ``is_held`` it is ``send`` that waits for as long as the answer says.
    """
    for attempt in range(retries):
        try:
            response = await send()
        except aiohttp.ClientError as error:
            wait = _after_error(error, method, attempt, answers, is_held)
            if wait > _LONGEST_WAIT or not _repeatable(options):
                raise
        else:
            signal = limit_signal(response, answers)
            wait = _after_answer(response.status, response.headers, signal, method, attempt, is_held)
            if wait > _LONGEST_WAIT or not _repeatable(options):
                return response
            response.release()
        await pause(wait)
    return await send()


def limit_signal(
    answer: aiohttp.ClientResponse | aiohttp.ClientResponseError, answers: LimitAnswers
) -> LimitSignal | None:
    """What an answer, or the error about one, says about limits."""
    match answer:
        case Response() | RateLimitedError():
            return answer.limit
    return answers.read(answer.status, answer.headers or {}, now=time.time())


def _after_error(
    error: aiohttp.ClientError, method: str, attempt: int, answers: LimitAnswers, is_held: bool
) -> float:
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
            signal = limit_signal(error, answers)
            return _after_answer(error.status, error.headers or {}, signal, method, attempt, is_held)
    return math.inf


def _after_answer(
    status: int,
    headers: Mapping[str, str],
    signal: LimitSignal | None,
    method: str,
    attempt: int,
    is_held: bool,
) -> float:
    """How long to wait after an answer; infinite when another time would be no better."""
    refused = signal is not None and signal.refused
    if not (refused or status in _TEMPORARY) or not _idempotent(method):
        return math.inf
    asked = signal.seconds if signal is not None else wait_of(headers.get("Retry-After"), time.time())
    if asked is None:
        return _backoff(attempt)
    return 0.0 if is_held and signal is not None else asked


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
