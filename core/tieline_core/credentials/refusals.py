"""What pods have reported of requests through a connection that its system refused: an annotation of the Connection.

The API writes it for the pods; the operator makes the condition ``CredentialsAccepted`` of it.
"""

import hashlib
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson

from tieline_core.identity.ids import format_time, parse_time
from tieline_core.objects import ObjectView

ANNOTATION = "tieline.dev/refused-requests"
CONDITION = "CredentialsAccepted"
"""The type of the Connection's condition."""
REPORTER = "tieline-api-reports"
"""The field manager that writes the annotation."""
REFUSALS = frozenset({401, 403})
"""The statuses that say that a system does not accept the credentials."""
MAX_SAID = 500
"""Characters of an answer that are kept."""
_MOST = 2**53


@dataclass(frozen=True, kw_only=True)
class Refusals:
    """Requests that were refused, one after the other, and when one was accepted again."""

    status: int
    """The last answer's."""
    count: int
    """How many are known of at least."""
    since: datetime
    last: datetime
    said: str = ""
    """The beginning of the last answer's body, without secrets; empty where it is not known."""
    of: str = ""
    """The fingerprint of the credentials that were refused."""
    accepted: datetime | None = None
    """When a request was accepted after them; None while they are refused."""

    def to_annotation(self) -> str:
        """The annotation's text."""
        found: dict[str, Any] = {
            "status": self.status,
            "count": self.count,
            "since": format_time(self.since),
            "last": format_time(self.last),
        }
        if self.said:
            found["said"] = self.said[:MAX_SAID]
        if self.of:
            found["of"] = self.of
        if self.accepted:
            found["accepted"] = format_time(self.accepted)
        return orjson.dumps(found).decode()


def fingerprint(connection: ObjectView) -> str:
    """Changes with the credentials of a Connection, and with where they are sent. It holds no secret.

    Values that change inside a Secret of somebody's own do not change it.
    """
    spec = connection["spec"]
    parts = [spec.get("credentials") or [], spec.get("baseUrl") or "", spec.get("variables") or {}]
    return hashlib.sha256(orjson.dumps(parts, option=orjson.OPT_SORT_KEYS)).hexdigest()[:16]


def refusals_of(obj: ObjectView) -> Refusals | None:
    """What is known of refused requests with the credentials that a Connection has now.

    None where there are none, or somebody wrote something else.

    >>> text = '{"status": 401, "count": 3, "since": "2026-11-25T10:00:00Z", "last": "2026-11-25T10:05:00Z"}'
    >>> refusals_of({"metadata": {"annotations": {"tieline.dev/refused-requests": text}}}).count
    3
    >>> refusals_of({"metadata": {"annotations": {"tieline.dev/refused-requests": "[]"}}})
    """
    text = (obj["metadata"].get("annotations") or {}).get(ANNOTATION)
    if not text:
        return None
    try:
        found = orjson.loads(text)
        known = Refusals(
            status=int(found["status"]),
            count=int(found["count"]),
            since=parse_time(found["since"]),
            last=parse_time(found["last"]),
            said=printable(found.get("said")),
            of=str(found.get("of", "")),
            accepted=parse_time(found["accepted"]) if "accepted" in found else None,
        )
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
    if not (100 <= known.status <= 599 and 0 <= known.count <= _MOST):
        return None  # JSON has no place for some numbers
    return None if known.of and known.of != fingerprint(obj) else known


def printable(text: object) -> str:
    """What may be shown of an answer's text: one line, without control characters, of at most ``MAX_SAID`` letters.

    >>> printable(" invalid\\n key\\x1b[0m ")
    'invalid key [0m'
    """
    if not isinstance(text, str):
        return ""
    shown = "".join(letter if letter.isprintable() else " " for letter in text[: 4 * MAX_SAID])
    return " ".join(shown.split())[:MAX_SAID]
