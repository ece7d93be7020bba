"""The port that answers for environments without pods.

It holds a request, has the environment woken, and sends it to the first ready pod. What it answers itself has
``Retry-After`` where trying again helps.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterator

import aiohttp
from aiohttp import web
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from tieline_api import errors
from tieline_api.activator.held_requests import Held, HeldRequests, starting
from tieline_api.activator.ready_pods import ReadyPods
from tieline_api.activator.targets import Target, target_by_host
from tieline_api.activator.wakes import Wakes
from tieline_api.cluster.cluster_cache import ClusterCache
from tieline_api.environment_calls import HOP_BY_HOP, TIMEOUT_SECONDS
from tieline_core.kubernetes import KubeError

logger = logging.getLogger("tieline.activator")

HOLD_SECONDS = 30.0
"""How long a request is held until a pod is ready: many senders give up after this."""
BODY_SECONDS = 30.0
ANSWER_SECONDS = 2 * TIMEOUT_SECONDS
"""Seconds until the caller has the pod's whole answer. Until then the request counts as one that is held."""
POD_PORT = 8080
_CONNECT_SECONDS = 3.0
_PIECE = 64 * 1024
_OWN = frozenset({"content-length", "expect"})
_BODILESS = frozenset({"GET", "HEAD"})
_EMPTY_ANSWERS = frozenset({204, 304})


class Activator:
    """Holds requests, and passes them on. Call it where an event loop runs."""

    def __init__(
        self,
        cluster: ClusterCache,
        wakes: Wakes,
        pods: ReadyPods,
        *,
        hold_seconds: float = HOLD_SECONDS,
        answer_seconds: float = ANSWER_SECONDS,
        pod_port: int = POD_PORT,
    ) -> None:
        self._cluster = cluster
        self._wakes = wakes
        self._pods = pods
        self._held = HeldRequests()
        self._hold_seconds = hold_seconds
        self._answer_seconds = answer_seconds
        self._pod_port = pod_port
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, force_close=True),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
            timeout=aiohttp.ClientTimeout(
                total=None, sock_connect=_CONNECT_SECONDS, sock_read=TIMEOUT_SECONDS
            ),
        )

    @property
    def held(self) -> int:
        """Requests that are held, or passed on, now."""
        return self._held.count

    async def close(self) -> None:
        """Ends the connections."""
        await self._session.close()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """The pod's answer. The connection ends with it: the next one leads to the pod itself."""
        try:
            self._cluster.require_sync()
            target = target_by_host(self._cluster, request.host)
            if target is None:
                raise errors.ApiError(404, "not_found", "No environment that sleeps has this host")
            with self._held.hold(target.namespace, target.id) as held:
                return await self._hold(request, target, held)
        except errors.ApiError as error:
            answer = web.json_response(error.body(), status=error.status, headers=error.headers)
            answer.force_close()
            return answer

    async def _hold(self, request: web.Request, target: Target, held: Held) -> web.StreamResponse:
        until = time.monotonic() + self._hold_seconds
        body = await _body(request, held)
        try:
            await self._wakes.wake(target)
        except KubeError as error:
            logger.warning("An environment cannot be woken: %s", error)
            raise starting("The environment sleeps, and cannot be woken right now") from None
        while True:
            address = await self._pods.one(target.namespace, target.id, until=until)
            if address is None:
                raise starting("The environment is starting")
            try:
                return await self._pass_on(request, address, body)
            except aiohttp.ClientConnectorError:
                # The pod has just gone: nothing was sent to it.
                if time.monotonic() >= until:
                    raise starting("The environment is starting") from None
                await asyncio.sleep(0.1)

    async def _pass_on(self, request: web.Request, address: str, body: bytes) -> web.StreamResponse:
        host = f"[{address}]" if ":" in address else address
        url = URL(f"http://{host}:{self._pod_port}{_target(request)}", encoded=True)
        data = None if not body and request.method in _BODILESS else body
        response: web.StreamResponse | None = None
        try:
            async with (
                asyncio.timeout(self._answer_seconds),
                self._session.request(
                    request.method,
                    url,
                    headers=CIMultiDict(_headers(request.headers, _OWN)),
                    data=data,
                    allow_redirects=False,
                ) as answer,
            ):
                response = web.StreamResponse(status=answer.status, reason=answer.reason)
                response.headers.extend(_headers(answer.headers, frozenset()))
                response.force_close()
                await response.prepare(request)
                if request.method != "HEAD" and answer.status not in _EMPTY_ANSWERS:
                    async for piece in answer.content.iter_chunked(_PIECE):
                        await response.write(piece)
                await response.write_eof()
                return response
        except aiohttp.ClientConnectorError:
            raise
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            if response is not None and response.prepared:
                raise  # the caller sees that the answer ends early
            logger.info("A pod did not answer: %s", type(error).__name__)
            raise errors.ApiError(
                502, "environment_unreachable", "The environment did not answer: its webhook may still run"
            ) from None


def activator_application(make: Callable[[], Activator]) -> web.Application:
    """Takes every request."""
    application = web.Application(client_max_size=0)
    activators: list[Activator] = []

    async def run(_application: web.Application) -> AsyncIterator[None]:
        activators.append(make())
        yield
        await activators.pop().close()

    async def answer(request: web.Request) -> web.StreamResponse:
        return await activators[-1].answer(request)

    application.cleanup_ctx.append(run)
    application.router.add_route("*", "/{path:.*}", answer)
    return application


async def _body(request: web.Request, held: Held) -> bytes:
    pieces: list[bytes] = []
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for piece in request.content.iter_any():
                held.add(len(piece))
                pieces.append(piece)
    except TimeoutError:
        raise errors.ApiError(408, "timeout", f"The body did not arrive within {BODY_SECONDS:g} s") from None
    except web.RequestPayloadError:
        raise errors.malformed("The body cannot be read") from None
    return b"".join(pieces)


def _target(request: web.Request) -> str:
    """Path and query as they came."""
    raw = request.raw_path
    return raw if raw.startswith("/") else str(URL(raw, encoded=True).relative())


def _headers(
    headers: CIMultiDictProxy[str] | CIMultiDict[str], without: frozenset[str]
) -> Iterator[tuple[str, str]]:
    """Those that are not about one connection."""
    named = {part.strip().lower() for value in headers.getall("Connection", ()) for part in value.split(",")}
    for name, value in headers.items():
        if name.lower() not in HOP_BY_HOP | without | named:
            yield name, value
