"""Messages of JSON-RPC as the protocol allows them. Pure, and nothing of the SDK is here.

The SDK answers some malformed messages with codes of other errors and texts of its own, and some not at all.
"""

import json
from dataclasses import dataclass, field
from typing import Any

VERSIONS = ("2025-06-18", "2025-11-25", "2026-07-28")
"""Earlier ones require batches, which the endpoint does not read."""
_HANDSHAKE = "2025-11-25"
"""What a client gets that asks for an earlier one: the newest version with a handshake."""
_PARSE_ERROR, _INVALID_REQUEST, _UNSUPPORTED_VERSION = -32700, -32600, -32022


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """The error for something that is no message."""

    code: int
    message: str
    id: str | int | None = None
    data: dict[str, Any] = field(default_factory=dict)

    def body(self) -> bytes:
        """As JSON-RPC has it."""
        error = {
            "code": self.code,
            "message": self.message,
            **({"data": self.data} if self.data else {}),
        }
        # Texts may have half a pair of UTF-16, which only escapes can write.
        return json.dumps({"jsonrpc": "2.0", "id": self.id, "error": error}).encode()


def checked(raw: bytes, version: str | None) -> bytes | Refusal:
    """The message as the SDK gets it, or what is wrong with it. ``version`` is the header's."""
    try:
        message = json.loads(raw)
    except (ValueError, RecursionError):
        return Refusal(code=_PARSE_ERROR, message="The body is not JSON")
    if isinstance(message, list):
        return _invalid("Batches are not supported: send each message by itself")
    if not isinstance(message, dict):
        return _invalid("A message is a JSON object")
    identifier = message.get("id")
    if "id" in message and (isinstance(identifier, bool) or not isinstance(identifier, str | int)):
        return _invalid("The id must be a string or a whole number")
    problem = _problem(message)
    if problem:
        return _invalid(problem, identifier)
    if version is not None and version not in VERSIONS:
        return Refusal(
            code=_UNSUPPORTED_VERSION,
            message=f"This version of the protocol is not supported; these are: {', '.join(VERSIONS)}",
            id=identifier,
            data={"supported": list(VERSIONS), "requested": version[:64]},
        )
    return _negotiated(message) or raw


def _problem(message: dict[str, Any]) -> str:
    if message.get("jsonrpc") != "2.0":
        return 'jsonrpc must be "2.0"'
    if "result" in message or "error" in message:
        return ""
    if not isinstance(message.get("method"), str):
        return "The method must be a string"
    if not isinstance(message.get("params"), dict | None):
        return "The params must be an object"
    return ""


def _invalid(message: str, identifier: str | int | None = None) -> Refusal:
    return Refusal(code=_INVALID_REQUEST, message=message, id=identifier)


def _negotiated(message: dict[str, Any]) -> bytes | None:
    """A handshake that asks for a version that is not spoken, asking for one that is; None for all else."""
    params = message.get("params") or {}
    if message.get("method") != "initialize" or params.get("protocolVersion") in (None, *VERSIONS):
        return None
    return json.dumps({**message, "params": {**params, "protocolVersion": _HANDSHAKE}}).encode()
