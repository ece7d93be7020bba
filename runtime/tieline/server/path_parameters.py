"""Path parameters of webhooks: which values reach the code."""

import re
from urllib.parse import unquote_to_bytes

from aiohttp import web

from tieline.server.refused_error import RefusedError
from tieline_protocol.webhook_names import USER_PARAMETER

MAX_VALUE = 512
_UNREADABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


def check_path(request: web.Request) -> None:
    """Refuse values that no sender means, and that code may take for something else. Raises RefusedError.

    A value may hold a slash, which was sent as ``%2F``.
    """
    parameters = {name: value for name, value in request.match_info.items() if name != USER_PARAMETER}
    if not parameters:
        return
    readable = _is_utf_8(request.raw_path)
    for name, value in parameters.items():
        if not (readable and _is_usable(value)):
            raise RefusedError(
                400,
                "invalid_request",
                f"The path parameter {name} must be 1 to {MAX_VALUE} characters in UTF-8, without control characters, "
                "and without the segments '.' and '..'",
            )


def _is_usable(value: str) -> bool:
    is_relative = any(part in (".", "..") for part in value.split("/"))
    return 0 < len(value) <= MAX_VALUE and not is_relative and not _UNREADABLE.search(value)


def _is_utf_8(raw_path: str) -> bool:
    try:
        unquote_to_bytes(raw_path.partition("?")[0].encode("utf-8", "surrogateescape")).decode()
    except UnicodeDecodeError:
        return False
    return True
