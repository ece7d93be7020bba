"""Changes of Connections, and whether each of them opens credentials to code.

The admission policy and the API decide it, each in its own language: both are tested with this table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.harness.inputs.reference_changes import connection, key, oauth2, own

Spec = dict[str, Any]
ONE = connection(key())
OPEN = connection(key(), exposeToCode=True)


@dataclass(frozen=True)
class Case:
    """A spec before (None: a new object) and after, and whether it needs the verb expose."""

    id: str
    before: Spec | None
    after: Spec
    opens: bool


CASES = (
    Case("a new connection that is not open", None, ONE, opens=False),
    Case("a new connection that says so", None, connection(key(), exposeToCode=False), opens=False),
    Case("a new open connection", None, OPEN, opens=True),
    Case("a new open connection without credentials", None, connection(exposeToCode=True), opens=True),
    Case("opening", ONE, OPEN, opens=True),
    Case("closing", OPEN, ONE, opens=False),
    Case("what was open stays so", OPEN, {**OPEN, "name": "Another"}, opens=False),
    Case("another base URL", OPEN, {**OPEN, "baseUrl": "https://other.example"}, opens=False),
    Case("another Secret", OPEN, connection(key(secret="other"), exposeToCode=True), opens=True),
    Case("one more credential", OPEN, connection(key(), key("two"), exposeToCode=True), opens=True),
    Case("one credential less", OPEN, connection(exposeToCode=True), opens=False),
    Case("another type", OPEN, connection(key(type="basic-auth"), exposeToCode=True), opens=True),
    Case(
        "another scheme",
        connection(own(oauth2()), exposeToCode=True),
        connection(own(oauth2(url="https://elsewhere.example/token")), exposeToCode=True),
        opens=True,
    ),
    Case("another Secret of one that is closed", ONE, connection(key(secret="other")), opens=False),
)
