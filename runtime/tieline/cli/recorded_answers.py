"""A client that gives the recorded answers of other systems, and sends nothing to them."""

import tempfile
from collections import defaultdict, deque
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web
from multidict import CIMultiDict
from yarl import URL

from tieline.errors import TielineError
from tieline.http_client.responses import Response
from tieline_protocol.recordings import RecordedAnswer

_REPEATED = frozenset((429, 502, 503, 504))
"""Statuses after which requests are sent again, so that nobody reads the body."""
_NUMBER = "X-Tieline-Recorded"
_LEFT_OUT = frozenset(("middlewares", "proxy", "proxy_auth", "proxy_headers", "ssl", "timeout"))
"""Options of requests that say how other systems are reached."""


class NotRecordedError(TielineError):
    """The code sends a request whose answer the recording does not have; nothing is sent."""


class RecordedClient:
    """Takes the place of the aiohttp.ClientSession of a process. Answers go by method, path and order."""

    def __init__(self, client: aiohttp.ClientSession, answers: Sequence[RecordedAnswer]) -> None:
        """``client`` reaches nothing but the server that has the answers by their numbers."""
        self._client = client
        self._answers: dict[tuple[str, str], deque[tuple[int, RecordedAnswer]]] = defaultdict(deque)
        for number, one in enumerate(answers):
            self._answers[one.method, _path(one.url)].append((number, one))

    async def request(self, method: str, url: URL, **options: Any) -> aiohttp.ClientResponse:
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
        headers = CIMultiDict(options.pop("headers", None) or {})
        headers[_NUMBER] = str(number)
        kept = {name: value for name, value in options.items() if name not in _LEFT_OUT}
        return await self._client.request(method, url, headers=headers, **kept)


@asynccontextmanager
async def recorded_client(answers: Sequence[RecordedAnswer]) -> AsyncGenerator[RecordedClient, None]:
    """The client, with a server on a Unix socket behind it."""

    async def answer(request: web.Request) -> web.Response:
        await request.read()
        one = answers[int(request.headers[_NUMBER])]
        body = (one.body or "").encode()
        return web.Response(status=one.status, body=body, headers={"Content-Type": one.content_type})

    application = web.Application(client_max_size=0)
    application.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    try:
        with tempfile.TemporaryDirectory(prefix="tieline-") as folder:
            socket = str(Path(folder, "socket"))
            await web.UnixSite(runner, socket).start()
            # It takes no TLS for https either.
            connector = aiohttp.UnixConnector(socket)
            async with aiohttp.ClientSession(
                connector=connector,
                timeout=aiohttp.ClientTimeout(),
                cookie_jar=aiohttp.DummyCookieJar(),
                response_class=Response,
            ) as client:
                yield RecordedClient(client, answers)
    finally:
        await runner.cleanup()


def _path(url: str) -> str:
    try:
        return URL(url, encoded=True).raw_path
    except ValueError:
        return url
