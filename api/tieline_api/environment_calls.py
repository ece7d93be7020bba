"""Requests to the webhooks of environments, inside the cluster: what may be sent, and the answers.

Where a request goes follows from the environment alone. The caller chooses path, query, headers and body; nothing of
the caller's own request to the API is passed on.
"""

import asyncio
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import quote, unquote, urlencode

import aiohttp
from aiohttp.abc import AbstractResolver
from multidict import CIMultiDictProxy
from yarl import URL

from tieline_api import errors
from tieline_common.backoff import exponential, jitter

MAX_ANSWER = 1024 * 1024
"""Bytes of an answer's body."""
# A webhook waits 10 s for its turn and runs for 60 s, unless the administrator sets other times.
TIMEOUT_SECONDS = 75.0
_CONNECT_SECONDS = 5.0
MOST = 64
"""Calls under way at a replica."""
MOST_EACH = 16
"""Of one organisation."""
_RETRY_SECONDS = 5.0
_SERVICE_PORT = 80
# A node learns of an environment's first pod within a second or so, and refuses connections until then.
_TRIES = 8
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 1.0

HOP_BY_HOP = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
"""Headers that are about one connection (RFC 9110, 7.6.1)."""
_OURS = frozenset({"host", "content-length", "accept-encoding", "expect"})
"""Headers that the request gets from us."""
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,256}")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_BROKEN_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_PATH_SAFE = "/%:@!$&'()*+,;=~"
_QUERY_SAFE = "/%:@!$&'()*+,;=~?"
MAX_HEADERS = 100
_MAX_HEADER_BYTES = 32 * 1024


@dataclass(frozen=True, kw_only=True)
class WebhookRequest:
    """A request to an environment's webhook."""

    method: str
    target: str
    """Path and query, as they are sent."""
    headers: Iterable[tuple[str, str]]
    body: bytes | None


@dataclass(frozen=True, kw_only=True)
class WebhookAnswer:
    """The answer of a webhook."""

    status: int
    headers: Mapping[str, list[str]]
    body: bytes


def request_target(path: str, query: Iterable[tuple[str, str]]) -> str:
    """Path and query for the request line. ApiError 422 for a path that could mean another one, or another server."""
    if _CONTROL.search(path):
        raise errors.invalid("urlPath", "has control characters: write them percent-encoded in the query")
    if "#" in path or "\\" in path:
        raise errors.invalid("urlPath", 'must have no "#" and no backslash: percent-encode them')
    before, mark, after = path.partition("?")
    if _BROKEN_ESCAPE.search(path):
        raise errors.invalid("urlPath", 'has a "%" without two hexadecimal digits: write it as %25')
    if "//" in before or before.split("/", 1)[0].find(":") >= 0:
        raise errors.invalid(
            "urlPath", 'must be a path such as /orders, without a server and without empty parts ("//")'
        )
    rooted = before if before.startswith("/") else f"/{before}"
    plain = unquote(rooted)
    if _CONTROL.search(plain) or "\\" in plain or any(part in (".", "..") for part in plain.split("/")):
        raise errors.invalid("urlPath", 'must have no "." or ".." as a part, and no control characters')
    parts = [quote(after, safe=_QUERY_SAFE)] if mark and after else []
    if more := urlencode(list(query)):
        parts.append(more)
    return quote(rooted, safe=_PATH_SAFE) + (f"?{'&'.join(parts)}" if parts else "")


def sendable_headers(given: Mapping[str, list[str]]) -> list[tuple[str, str]]:
    """The headers to send: without those about a connection. ApiError 422 for those that cannot be sent."""
    named = {
        name.strip().lower()
        for key, values in given.items()
        if key.lower() == "connection"
        for value in values
        for name in value.split(",")
    }
    found: list[tuple[str, str]] = []
    for name, values in given.items():
        if not _TOKEN.fullmatch(name):
            raise errors.invalid(
                "headers", "have a name that HTTP does not allow: use letters, digits and hyphens"
            )
        if name.lower() in HOP_BY_HOP | _OURS | named:
            continue
        for value in values:
            if _CONTROL.search(value.replace("\t", " ")):
                raise errors.invalid(f"headers.{name[:64]}", "has control characters such as line breaks")
            found.append((name, value))
    size = sum(len(name) + len(value.encode()) + 4 for name, value in found)
    if len(found) > MAX_HEADERS or size > _MAX_HEADER_BYTES:
        raise errors.invalid(
            "headers", f"must be at most {MAX_HEADERS}, with {_MAX_HEADER_BYTES // 1024} KiB together"
        )
    return found


class EnvironmentCalls:
    """Calls webhooks. Call it where an event loop runs."""

    def __init__(
        self,
        *,
        resolver: AbstractResolver | None = None,
        port: int = _SERVICE_PORT,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """``resolver`` and ``port`` say where Services are found; by default the cluster's own DNS, and port 80."""
        self._port = port
        self._pause = pause
        self._session = aiohttp.ClientSession(
            # A pod may end while a connection to it is idle: each call has its own.
            connector=aiohttp.TCPConnector(limit=MOST, resolver=resolver, force_close=True),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS),
        )
        self._calls: Counter[str] = Counter()

    async def close(self) -> None:
        """Ends the connections."""
        await self._session.close()

    async def call(
        self, namespace: str, workload: str, request: WebhookRequest, *, seconds: float = TIMEOUT_SECONDS
    ) -> WebhookAnswer:
        """The webhook's answer, whatever its status. Redirects are not followed.

        Raises ApiError: 429 (too many calls under way), 502 (no pod answers, or an answer that cannot be passed on),
        504 (no answer in ``seconds``).
        """
        url = URL(f"http://{workload}.{namespace}.svc:{self._port}{request.target}", encoded=True)
        with self._turn(namespace):
            try:
                async with asyncio.timeout(seconds):
                    return await self._answer(url, request)
            except aiohttp.ClientError as error:
                raise _unreachable(error) from None
            except TimeoutError:
                raise errors.ApiError(
                    504,
                    "environment_timeout",
                    f"The environment did not answer in {seconds:g} s. The webhook may still run: look at its runs",
                ) from None
            except OSError as error:
                raise _unreachable(error) from None

    async def _answer(self, url: URL, request: WebhookRequest) -> WebhookAnswer:
        """The answer. A connection that is refused is tried again, for a few seconds: nothing was sent by then."""
        for attempt in range(1, _TRIES):
            try:
                return await self._sent(url, request)
            except aiohttp.ClientConnectorDNSError:
                raise
            except aiohttp.ClientConnectorError:
                await self._pause(jitter(exponential(attempt, first=_FIRST_PAUSE, cap=_LONGEST_PAUSE)))
        return await self._sent(url, request)

    async def _sent(self, url: URL, request: WebhookRequest) -> WebhookAnswer:
        async with self._session.request(
            request.method,
            url,
            headers=[*request.headers, ("Accept-Encoding", "identity")],
            data=request.body,
            allow_redirects=False,
        ) as response:
            body = bytearray()
            async for chunk in response.content.iter_any():
                body += chunk
                if len(body) > MAX_ANSWER:
                    raise errors.ApiError(
                        502,
                        "answer_too_large",
                        f"The environment's answer has more than {MAX_ANSWER // 1024} KiB: call its public URL",
                    )
            return WebhookAnswer(
                status=response.status, headers=_passed_on(response.headers), body=bytes(body)
            )

    @contextmanager
    def _turn(self, namespace: str) -> Iterator[None]:
        if self._calls[namespace] >= MOST_EACH or self._calls.total() >= MOST:
            raise errors.too_many_requests(
                "Too many calls of webhooks are under way: try again in a moment", retry_after=_RETRY_SECONDS
            )
        self._calls[namespace] += 1
        try:
            yield
        finally:
            self._calls[namespace] -= 1
            if not self._calls[namespace]:
                del self._calls[namespace]


def _unreachable(error: Exception) -> errors.ApiError:
    return errors.ApiError(
        502,
        "environment_unreachable",
        f"The environment did not answer ({type(error).__name__}): look at its status and its logs",
        headers={"Retry-After": f"{_RETRY_SECONDS:.0f}"},
    )


def _passed_on(headers: CIMultiDictProxy[str]) -> dict[str, list[str]]:
    """The headers of an answer by their names in lower case."""
    named = {part.strip().lower() for value in headers.getall("connection", ()) for part in value.split(",")}
    result: dict[str, list[str]] = {}
    for name, value in headers.items():
        key = name.lower()
        if key not in HOP_BY_HOP and key not in named and key != "content-length":
            result.setdefault(key, []).append(value)
    return result
