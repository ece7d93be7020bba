"""HTTP answers: from what webhooks return, and the server's own errors."""

from collections.abc import Mapping
from enum import Enum
from typing import Any

from aiohttp import web

from tieline.errors import ReturnValueError
from tieline.plain_json import encode
from tieline_protocol.signature_challenges import FixedAnswer

EXECUTION_ID_HEADER = "X-Tieline-Execution-Id"
# As headers: aiohttp takes three times as long to write a content type from its parts.
_JSON = {"Content-Type": "application/json; charset=utf-8"}


def answer(value: Any) -> web.StreamResponse:
    """The HTTP answer for what a webhook returned; raises ReturnValueError for what has no form as one."""
    if value is None:
        return web.Response(status=204)
    if isinstance(value, web.StreamResponse):
        return value
    if isinstance(value, str) and not isinstance(value, Enum):
        return web.Response(text=value)
    if isinstance(value, bytes | bytearray | memoryview):
        return web.Response(body=bytes(value), content_type="application/octet-stream")
    try:
        body = encode(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise ReturnValueError(
            f"A webhook returned a {type(value).__name__} that cannot be written as JSON ({error}); return None, "
            "a str, bytes, an aiohttp response, or JSON-like data"
        ) from error
    return web.Response(body=body.encode(), headers=_JSON)


def fixed_answer(content: FixedAnswer, headers: Mapping[str, str] | None = None) -> web.Response:
    """The answer that an auth scheme or a webhook sets."""
    return web.Response(
        status=content.status,
        # A challenge that it repeats can hold half a character.
        body=content.body.encode("utf-8", "replace") if content.body else None,
        content_type=content.media_type if content.body else None,
        charset="utf-8" if content.body else None,
        headers={"X-Content-Type-Options": "nosniff", **(headers or {})},
    )


def error_answer(
    status: int,
    code: str,
    message: str,
    *,
    execution_id: str | None = None,
    headers: dict[str, str] | None = None,
) -> web.Response:
    """An error in the form that all of Tieline's answers have."""
    body = {"code": code, "message": message}
    if execution_id:
        body["executionId"] = execution_id
    return web.json_response(body, status=status, headers=headers)
