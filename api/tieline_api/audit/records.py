"""A record of one write: who, what, when, from where, and what came of it. It never has a value that may be secret.

Of objects, it has the names of the fields that changed, and values of those alone that ``SHOWN`` lists. Of a body, it
has the names of fields that the contract declares.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import orjson

from tieline_api.cluster.revisions import ObjectChange, SentRequest
from tieline_core.engine.audit_streams import MAX_RECORD_BYTES, AuditPart
from tieline_core.identity.ids import object_id

END_USER = "endUser"
PROVIDER = "provider"
"""A provider that calls us as the client of an auth scheme."""
MOST_CHANGES = 20
MOST_FIELDS = 50
_MAX_TEXT = 256
_OF_MANY = frozenset({"", END_USER, PROVIDER})
SHOWN: Mapping[str, frozenset[str]] = {
    "activations": frozenset({"environment"}),
    "connections": frozenset({"name", "exposeToCode"}),
    "connectiontemplates": frozenset({"name", "environment", "dynamic", "exposeToCode"}),
    "connectors": frozenset({"name", "public", "defaultVersion"}),
    "connectorversions": frozenset({"name", "format"}),
    "credentialgrants": frozenset(),
    "endusers": frozenset(),
    "environments": frozenset({"environment", "replicas"}),
    "notificationchannels": frozenset({"name", "type"}),
    "notifications": frozenset({"name", "environment"}),
    "projects": frozenset({"name"}),
    "projectversions": frozenset({"versionName"}),
    "systems": frozenset({"name"}),
}
"""Fields of a spec whose values are shown where they are scalars, by kind. Kinds that are not here, such as Secrets,
whose very names can be digests, are left out."""


@dataclass(frozen=True, kw_only=True)
class AuditRecord:
    """One write, as the engine keeps it."""

    id: str
    at: datetime
    """When the request ended, in UTC."""
    organisation: str
    subject: str
    """Who, in the words of Kubernetes' authorisation, a provider by its client id; empty for an anonymous caller."""
    caller: str
    """The kind of the subject: user, serviceAccount, apiKey, endUser, provider; empty without credentials."""
    via: str
    """rest, console, page or agent."""
    session: str = ""
    """The id of the connect session on whose token the request came."""
    address: str = ""
    user_agent: str = ""
    request: str = ""
    """The id of the request, as in the API's log."""
    operation: str
    kind: str = ""
    object: str = ""
    """The id of what it is about."""
    outcome: str
    """allowed, refused, or failed: something was written before it went wrong."""
    status: int = 0
    code: str = ""
    """The reason, as the error's code."""
    fields: Sequence[str] = ()
    """Declared fields that the body had."""
    changes: Sequence[Mapping[str, Any]] = field(default_factory=tuple)
    sent: Sequence[Mapping[str, Any]] = field(default_factory=tuple)
    """Requests that went through connections."""
    cut: bool = False
    """Whether there was more than a record takes."""

    @property
    def part(self) -> AuditPart:
        """The stream that it goes to: what anybody can cause in any number pushes out nobody's changes."""
        is_of_many = self.caller in _OF_MANY or (self.sent and not self.changes)
        return AuditPart.ACCESS if is_of_many else AuditPart.CHANGES

    def encoded(self) -> bytes:
        """The record as a message, within MAX_RECORD_BYTES."""
        content = orjson.dumps(self.content())
        if len(content) <= MAX_RECORD_BYTES:
            return content
        return orjson.dumps(self.content() | {"fields": [], "changes": [], "sent": [], "cut": True})

    def content(self) -> dict[str, Any]:
        """The record, with untrusted text cleaned and cut."""
        return {
            "id": self.id,
            "at": self.at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "organisation": self.organisation,
            "subject": cleaned(self.subject),
            "caller": self.caller,
            "via": self.via,
            "session": cleaned(self.session),
            "address": cleaned(self.address),
            "userAgent": cleaned(self.user_agent),
            "request": cleaned(self.request),
            "operation": self.operation,
            "kind": self.kind,
            "object": cleaned(self.object),
            "outcome": self.outcome,
            "status": self.status,
            "code": self.code,
            "fields": list(self.fields[:MOST_FIELDS]),
            "changes": list(self.changes[:MOST_CHANGES]),
            "sent": list(self.sent[:MOST_CHANGES]),
            "cut": self.cut
            or len(self.fields) > MOST_FIELDS
            or max(len(self.changes), len(self.sent)) > MOST_CHANGES,
        }


def cleaned(text: str) -> str:
    """Untrusted text on one line, printable and short."""
    shown = "".join(letter if letter.isprintable() else " " for letter in text[:_MAX_TEXT])
    return shown.encode("utf-8", "replace").decode()


def redacted(changes: Iterable[ObjectChange]) -> list[Mapping[str, Any]]:
    """What changed of objects, without values that may be secret."""
    return [_redacted(change) for change in changes if change.plural in SHOWN]


def sent_through(requests: Iterable[SentRequest]) -> list[Mapping[str, Any]]:
    """Requests through connections: no query, no header, no body."""
    return [
        {"method": cleaned(one.method), "host": cleaned(one.host), "path": cleaned(one.path)}
        for one in requests
    ]


def _redacted(change: ObjectChange) -> Mapping[str, Any]:
    obj = change.after or change.before or {}
    before, after = _spec(change.before), _spec(change.after)
    names = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
    action = "changed" if change.before and change.after else "created" if change.after else "deleted"
    return {
        "kind": change.plural,
        "object": object_id(obj),
        "action": action,
        "fields": [_field(change.plural, name, before, after) for name in names[:MOST_FIELDS]],
    }


def _field(plural: str, name: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> Mapping[str, Any]:
    if name not in SHOWN[plural]:
        return {"name": name}
    shown = {"before": before.get(name), "after": after.get(name)}
    return {"name": name} | {
        side: cleaned(value) if isinstance(value, str) else value
        for side, value in shown.items()
        if isinstance(value, str | bool | int)
    }


def _spec(obj: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """The spec, whose fields the custom resource declares."""
    found = (obj or {}).get("spec")
    return found if isinstance(found, Mapping) else {}
