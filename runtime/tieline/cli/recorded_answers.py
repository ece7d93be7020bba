"""A client that gives the recorded answers of other systems, and sends nothing."""

import asyncio
from collections import defaultdict, deque
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import aiohttp
from aiohttp.client_reqrep import RequestInfo
from aiohttp.helpers import TimerNoop
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from tieline.errors import TielineError
from tieline.http_client.responses import Response
from tieline_protocol.recordings import RecordedAnswer

_REPEATED = frozenset((429, 502, 503, 504))
"""Statuses after which requests are sent again, so that nobody reads the body."""


class NotRecordedError(TielineError):
    """The code sends a request whose answer the recording does not have; nothing is sent."""


class RecordedClient:
    """Takes the place of the aiohttp.ClientSession of a process. Answers go by method, path and order."""

    def __init__(self, answers: Sequence[RecordedAnswer]) -> None:
        self._answers: dict[tuple[str, str], deque[tuple[int, RecordedAnswer]]] = defaultdict(deque)
        for number, one in enumerate(answers):
            self._answers[one.method, _path(one.url)].append((number, one))

    async def request(self, method: str, url: URL, **_options: Any) -> aiohttp.ClientResponse:
        """The next answer to such a request. Raises NotRecordedError."""
        left = self._answers.get((method.upper(), URL(url).raw_path))
        if not left:
            raise NotRecordedError(
                f"{method} {URL(url).raw_path} has no answer in the recording (any more), and nothing is sent. "
                "The code asks for something else than the run did, or the trace did not have it: add it to `answers`"
            )
        number, answer = left.popleft()
        if answer.body is None and answer.status not in _REPEATED:
            raise NotRecordedError(
                f"{method} {URL(url).raw_path} was answered with {answer.status}, but the body was not kept, and "
                f"nothing is sent. Add what it was as answers[{number}].body to the file"
            )
        return _response(method, URL(url), answer)


def _path(url: str) -> str:
    try:
        return URL(url, encoded=True).raw_path
    except ValueError:
        return url


def _response(method: str, url: URL, answer: RecordedAnswer) -> Response:
    headers = CIMultiDictProxy(CIMultiDict({"Content-Type": answer.content_type}))
    response = Response(
        method,
        url,
        writer=None,
        continue100=None,
        timer=TimerNoop(),
        request_info=RequestInfo(url, method, headers, url),
        traces=[],
        loop=asyncio.get_running_loop(),
        session=cast(Any, None),
        stream_writer=cast(Any, SimpleNamespace(output_size=0)),
    )
    response.status = answer.status
    response.reason = ""
    response._headers = headers
    response._raw_headers = ()
    response._body = (answer.body or "").encode()
    protocol = SimpleNamespace(_reading_paused=False, pause_reading=_nothing, resume_reading=_nothing)
    response.content = aiohttp.StreamReader(cast(Any, protocol), 2**16, loop=asyncio.get_running_loop())
    response.content.feed_data(response._body)
    response.content.feed_eof()
    return response


def _nothing(**_options: object) -> None:
    """Nothing is read from a socket."""
