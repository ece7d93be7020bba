"""The HTTP server, and what those hear who do not speak HTTP."""

import logging
from typing import Any

import orjson
from aiohttp import web
from aiohttp.http_exceptions import LineTooLong

from tieline_api import errors
from tieline_api.http.middleware import STANDARD_HEADERS, set_standard_headers
from tieline_protocol import http_server

logger = logging.getLogger("tieline_api.requests")

# aiohttp answers longer ones by itself, before any operation; tokens alone may have 16 KiB.
# Bodies are decompressed in ``engine.encodings``.
_OPTIONS: dict[str, Any] = {"max_line_size": 32768, "max_field_size": 32768, "auto_decompress": False}


class _Connection(http_server.RequestHandlerWithTimeout):
    """A connection whose answers all have the contract's form."""

    __slots__ = ()

    late_headers = STANDARD_HEADERS

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """What is no HTTP is answered without a traceback, and without quoting it."""
        if status >= 500:
            return super().handle_error(request, status, exc, message)
        if request.writer.output_size > 0:
            raise ConnectionError("An answer was begun already")
        logger.info("Refused what is no HTTP", extra={"error": type(exc).__name__})
        error = errors.malformed("The request is no HTTP/1.1 that can be read")
        if isinstance(exc, LineTooLong):
            error = errors.ApiError(431, "too_large", "The request line or a header is too long")
        response = _response(error)
        response.force_close()
        return response

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        """What aiohttp refuses before any middleware, an unknown ``Expect``, has the contract's form as well."""
        if isinstance(resp, web.HTTPException):
            logger.info("Refused before any operation", extra={"status": resp.status})
            error = errors.ApiError(
                resp.status, "http_error", resp.reason or "The request cannot be answered"
            )
            if resp.status == 417:
                error = errors.ApiError(
                    417, "malformed", "Send the header Expect as 100-continue, or leave it out"
                )
            resp = _response(error)
        return await super().finish_response(request, resp, start_time)


class Runner(http_server.Runner):
    """Serves the API."""

    connection = _Connection

    def __init__(
        self,
        app: web.Application,
        *,
        shutdown_timeout: float,
        header_seconds: float = http_server.HEADER_SECONDS,
    ) -> None:
        super().__init__(
            app,
            header_seconds=header_seconds,
            access_log=None,
            shutdown_timeout=shutdown_timeout,
            **_OPTIONS,
        )


def _response(error: errors.ApiError) -> web.Response:
    response = web.Response(
        status=error.status, body=orjson.dumps(error.body()), content_type="application/json"
    )
    set_standard_headers(response)
    return response
