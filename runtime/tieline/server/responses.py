"""HTTP answers: from what webhooks return, and the server's own errors."""

import dataclasses
import json
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

from aiohttp import web

from tieline.errors import ReturnValueError

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
        body = _encode(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise ReturnValueError(
            f"A webhook returned a {type(value).__name__} that cannot be written as JSON ({error}); return None, "
            "a str, bytes, an aiohttp response, or JSON-like data"
        ) from error
    return web.Response(body=body.encode(), headers=_JSON)


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


def _plain(value: Any) -> Any:
    """JSON-like data for the objects that plain Python code commonly returns."""
    if callable(dump := getattr(value, "model_dump", None)):
        return dump(mode="json")
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {item.name: getattr(value, item.name) for item in dataclasses.fields(value)}
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, UUID | Decimal):
        return str(value)
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, set | frozenset):
        return list(value)
    raise TypeError(f"{type(value).__name__} has no form in JSON")


# Made once: json.dumps makes a new encoder on each call that is given options.
_encode = json.JSONEncoder(default=_plain, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
