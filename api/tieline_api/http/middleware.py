"""What happens around every request, from the outside in.

1. ``request_log``: request id, one log line, metrics. Sees every answer, also those of routing (404, 405).
2. ``cors``: CORS headers for origins on the list, and the answers to preflights.
3. ``error_handling``: turns whatever is raised into the contract's error form.
4. ``failure_limiting``: counts failed authentications by address, and lets no more of them through than that.
5. the route's handler (authentication and all the rest: ``engine.dispatch``).
"""

import logging
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import orjson
from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.typedefs import Handler, Middleware

from tieline_api import errors
from tieline_api.auth.rate_limits import FailureLimiter, credential_of
from tieline_api.client_address import Network, origin
from tieline_api.http.compression import add_vary
from tieline_api.http.dispatcher import credentials_of
from tieline_api.http.metrics import Metrics
from tieline_api.http.request_keys import OPERATION, ORGANISATION, ORIGINS, REQUEST_ID, SESSION, USER, WRITES
from tieline_core.identity.ids import new_id
from tieline_core.kubernetes import KubeError, Unauthorized

logger = logging.getLogger("tieline_api.requests")

_SANE_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")
_EXPOSED = "ETag, Link, Retry-After, WWW-Authenticate, Warning, X-Tieline-Revision, X-Tieline-Stale"
# Those of the Model Context Protocol are sent by its clients in a browser.
_ALLOWED_HEADERS = (
    "Authorization, Content-Type, If-Match, If-None-Match, Last-Event-ID, Mcp-Method, Mcp-Name, Mcp-Protocol-Version, "
    "Mcp-Session-Id, X-API-Key, X-Tieline-Revision"
)
_PREFLIGHT_SECONDS = "600"
_QUIET = frozenset({"healthz", "readyz", "metrics"})
_CODES = {404: "not_found", 405: "method_not_allowed", 413: "too_large", 400: "malformed", 408: "timeout"}
STANDARD_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    # Answers are for one caller, and the header that says so may be one that caches do not know (X-API-Key).
    "Cache-Control": "private, no-cache",
}
"""What an answer gets that says nothing else. The pages of the API set a policy of their own."""


def request_log(metrics: Metrics, *, header: str) -> Middleware:
    """Gives each request an id (or takes that in ``header``), writes a line and counts when it is answered."""

    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        given = request.headers.get(header, "")
        request[REQUEST_ID] = given if _SANE_ID.fullmatch(given) else new_id()
        began = time.perf_counter()
        status = 499  # the client went away
        metrics.in_flight.inc()
        try:
            response = await handler(request)
            status = response.status
            response.headers[header] = request[REQUEST_ID]
            return response
        finally:
            metrics.in_flight.dec()
            seconds = time.perf_counter() - began
            operation = request.get(OPERATION, "unmatched")
            metrics.count(operation=operation, status=status, seconds=seconds)
            if operation not in _QUIET or status >= 400:
                _log(request, operation=operation, status=status, seconds=seconds)

    return middleware


def cors(
    origins: frozenset[str],
    *,
    request_id_header: str,
    session_origins: Callable[[str], bool] = lambda _: False,
) -> Middleware:
    """CORS by an allow-list; credentials travel in headers only, so cookies are never allowed.

    A token of a connect session brings a list of its own. Which it is shows with the request itself, so ``origins``
    and those of all sessions (``session_origins``) may ask beforehand, and learn that a token is not good.
    """
    allowed_headers, exposed = f"{_ALLOWED_HEADERS}, {request_id_header}", f"{_EXPOSED}, {request_id_header}"

    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        origin = request.headers.get("Origin")
        listed = origin is not None and origin.lower() in origins
        allowed = listed or (origin is not None and session_origins(origin.lower()))
        if allowed and request.method == "OPTIONS" and "Access-Control-Request-Method" in request.headers:
            request[OPERATION] = "preflight"
            response: web.StreamResponse = web.Response(status=204)
            response.headers["Access-Control-Allow-Methods"] = "GET, POST, PUT, PATCH, DELETE"
            response.headers["Access-Control-Allow-Headers"] = allowed_headers
            response.headers["Access-Control-Max-Age"] = _PREFLIGHT_SECONDS
        else:
            response = await handler(request)
            if ORIGINS in request:
                allowed = origin is not None and origin.lower() in request[ORIGINS]
            else:
                allowed = listed or (allowed and response.status == 401)
        if allowed and origin is not None:
            response.headers["Access-Control-Allow-Origin"] = origin
            response.headers["Access-Control-Expose-Headers"] = exposed
        if origins or allowed:
            add_vary(response, "Origin")
        return response

    return middleware


def failure_limiting(failures: FailureLimiter, *, trusted: Sequence[Network]) -> Middleware:
    """429 for addresses from which too many authentications have failed; ``trusted`` are our own proxies."""

    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        address = origin(request.remote, request.headers.getall("X-Forwarded-For", ()), trusted=trusted)
        with counting_failures(failures, address, credentials_of(request)) as credential:
            try:
                return await handler(request)
            finally:
                if USER in request:
                    failures.succeeded(credential)

    return middleware


@contextmanager
def counting_failures(
    failures: FailureLimiter, address: str, headers: Mapping[str, str]
) -> Iterator[bytes | None]:
    """Counts a 401 that is raised inside as a failure of these credentials; 429 where there were too many."""
    credential = credential_of(headers)
    failures.check(address, credential)
    try:
        yield credential
    except errors.ApiError as error:
        if error.status == 401:
            failures.failed(address, credential)
        raise


@web.middleware
async def error_handling(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Every error in the contract's form; what nobody foresaw is a 500 that tells its request id."""
    try:
        return await handler(request)
    except errors.ApiError as error:
        return error_response(error)
    except KubeError as error:
        if isinstance(error, Unauthorized):
            logger.error("Kubernetes does not accept the API's own credentials")
        return error_response(errors.from_kube(error))
    except HttpProcessingError:
        return error_response(errors.malformed("The body is not what its Content-Type says"))
    except web.HTTPException as error:
        return error_response(_from_routing(request, error))
    except Exception:
        logger.exception("An unforeseen error", extra={"request_id": request.get(REQUEST_ID, "")})
        return error_response(
            errors.ApiError(
                500,
                "internal",
                f"Internal error; report the request id to the administrators: {request.get(REQUEST_ID, '')}",
            )
        )


def error_response(error: errors.ApiError) -> web.Response:
    """The answer for an error."""
    return web.Response(
        status=error.status,
        body=orjson.dumps(error.body()),
        content_type="application/json",
        charset="utf-8",
        headers=error.headers,
    )


def _from_routing(request: web.Request, error: web.HTTPException) -> errors.ApiError:
    code = _CODES.get(error.status, "http_error")
    if error.status == 404:
        return errors.ApiError(404, code, "There is no such path; see /docs for those that there are")
    if isinstance(error, web.HTTPMethodNotAllowed):
        allowed = ", ".join(sorted(error.allowed_methods))
        return errors.ApiError(
            405,
            code,
            f"{request.method[:16]} is not allowed here, only {allowed}",
            headers={"Allow": allowed},
        )
    return errors.ApiError(error.status, code, error.reason or "The request cannot be answered")


def _log(request: web.Request, *, operation: str, status: int, seconds: float) -> None:
    resource = request.match_info.route.resource
    logger.info(
        "Answered",
        extra={
            "request_id": request[REQUEST_ID],
            "method": request.method[:16],
            "route": resource.canonical if resource else "",
            "operation": operation,
            "status": status,
            "milliseconds": round(seconds * 1000, 1),
            "user": request.get(USER, ""),
            "organisation": request.get(ORGANISATION, ""),
            **({"session": session} if (session := request.get(SESSION)) else {}),
            **(writes.log_fields() if (writes := request.get(WRITES)) else {}),
        },
    )


async def add_standard_headers(_request: web.BaseRequest, response: web.StreamResponse) -> None:
    """For ``on_response_prepare``."""
    set_standard_headers(response)


def set_standard_headers(response: web.StreamResponse) -> None:
    """Adds the headers that are missing, and does not name the server's software and its version."""
    for name, value in STANDARD_HEADERS.items():
        response.headers.setdefault(name, value)
    response.headers["Server"] = "tieline"
