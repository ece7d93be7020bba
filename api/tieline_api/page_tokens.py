"""Tokens that clients pass back unchanged: where a list goes on. They hold no secret, and any replica reads them."""

import base64
import binascii
from typing import Any

import orjson

from tieline_api.errors import ApiError, malformed

_VERSION = 1
_LONGEST = 2048


def seal(*parts: Any) -> str:
    """The token that ``parts`` come out of again.

    >>> unseal(seal("logs", 7), refused=ApiError(400, "malformed", "It is none of ours"))
    ['logs', 7]
    """
    return base64.urlsafe_b64encode(orjson.dumps([_VERSION, *parts])).decode().rstrip("=")


def refused_cursor() -> ApiError:
    """The error for a cursor of another list."""
    return malformed("The cursor is not one of this list: pass next as after, or prev as before, unchanged")


def unseal(token: str, *, refused: ApiError) -> list[Any]:
    """The parts of a token, which are still to be looked at: anybody can write one. ``refused`` where it is none."""
    if len(token) > _LONGEST or not token.isascii():
        raise refused
    try:
        text = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
        content = orjson.loads(text)
    except (binascii.Error, ValueError) as error:
        raise refused from error
    match content:
        case [int(version), *parts] if version == _VERSION:
            return parts
    raise refused
