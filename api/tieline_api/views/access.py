"""API keys, role bindings and changes between Kubernetes and REST."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import orjson

from tieline_api.auth.api_keys import KeySecret
from tieline_api.auth.memberships import Role
from tieline_api.cluster.field_managers import MANAGER
from tieline_api.conversion.times import created_at, in_utc
from tieline_api.schemas import access as rest
from tieline_core.identity.ids import format_time, object_id, parse_time
from tieline_core.objects import ObjectView

ROLES: Mapping[str, Any] = {
    "tieline-viewer": "viewer",
    "tieline-editor": "editor",
    "tieline-admin": "admin",
    "view": "viewer",
    "edit": "editor",
    "admin": "admin",
    "cluster-admin": "admin",
}
"""What Kubernetes' own roles give comes by aggregation: see ``deploy/base/roles.yaml``."""
BY_REST = {"app.kubernetes.io/managed-by": "tieline"}
"""The labels of role bindings that REST made, and may delete."""
MOST_FIELDS = 50
_OPERATOR = "tieline-operator"
_CHANGED_PARTS = ("f:spec", "f:metadata")


def api_key(secret: KeySecret, role: Role | None, used: datetime | None) -> rest.ApiKey:
    """The REST form of an API key, whose user has ``role`` here; ``used`` is when it last was."""
    return rest.ApiKey(
        id=object_id(secret.obj),
        user=secret.user,
        groups=list(secret.groups),
        subject=secret.subject,
        role=role or "none",
        secret_name=secret.obj["metadata"]["name"],
        created_at=created_at(secret.obj),
        expires_at=_end(secret),
        last_used_at=format_time(used) if used else None,
    )


def _end(secret: KeySecret) -> str | None:
    """When a key ends. One whose end cannot be read never worked."""
    if secret.expires_at is None:
        return None
    end = in_utc(secret.expires_at)
    return format_time(end) if end else created_at(secret.obj)


def is_by_rest(binding: ObjectView) -> bool:
    """Whether REST made a RoleBinding."""
    labels = binding["metadata"].get("labels") or {}
    return all(labels.get(name) == value for name, value in BY_REST.items())


def role_binding(obj: ObjectView) -> rest.RoleBinding:
    """The REST form of a RoleBinding."""
    reference = obj["roleRef"]
    of_cluster = reference["kind"] == "ClusterRole"
    return rest.RoleBinding(
        id=object_id(obj),
        name=obj["metadata"]["name"],
        role_kind=reference["kind"],
        role_name=reference["name"],
        role=ROLES.get(reference["name"]) if of_cluster else None,
        subjects=[
            rest.Subject(kind=one["kind"], name=one["name"], namespace=one.get("namespace"))
            for one in obj.get("subjects") or ()
        ],
        by_rest=is_by_rest(obj),
        created_at=created_at(obj),
    )


def changes(obj: ObjectView) -> Iterator[rest.Change]:
    """Who set which fields of an object as read from Kubernetes; what the operator noted is left out."""
    for entry in obj["metadata"].get("managedFields") or ():
        fields = [*_paths(_changed(entry.get("fieldsV1") or {}))]
        if entry.get("subresource") or entry.get("manager") == _OPERATOR or not fields:
            continue
        yield rest.Change(
            type="change",
            kind=obj["kind"],
            id=object_id(obj),
            name=display_name(obj),
            manager=entry.get("manager", ""),
            external=entry.get("manager") != MANAGER or entry.get("operation") != "Apply",
            fields=fields[:MOST_FIELDS],
            at=entry.get("time") or created_at(obj),
        )


def event(obj: ObjectView, regarding: ObjectView | None) -> rest.Change:
    """A Kubernetes Event, and the object that it is about, where that is still there."""
    about = obj["regarding"]
    series = obj.get("series") or {}
    at = series.get("lastObservedTime") or obj.get("eventTime") or created_at(obj)
    return rest.Change(
        type="event",
        kind=about.get("kind", ""),
        id=object_id(regarding) if regarding else None,
        name=display_name(regarding) if regarding else about.get("name", ""),
        manager=obj.get("reportingController") or "",
        fields=[],
        reason=obj.get("reason") or "",
        message=obj.get("note") or "",
        warning=obj.get("type") == "Warning",
        at=format_time(parse_time(at)),
    )


def display_name(obj: ObjectView) -> str:
    """What people call an object."""
    spec = obj.get("spec") or {}
    return str(spec.get("name") or spec.get("displayName") or obj["metadata"]["name"])


def _changed(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    return {name: fields[name] for name in _CHANGED_PARTS if name in fields}


def _paths(fields: Mapping[str, Any], before: str = "") -> Iterator[str]:
    """The leaves of a FieldsV1 tree, as people write them: ``spec.environments[name=production].suspended``."""
    for name, below in fields.items():
        kind, _, rest_of_name = name.partition(":")
        if name == ".":
            continue
        path = f"{before}.{rest_of_name}" if kind == "f" and before else rest_of_name
        if kind != "f":
            path = f"{before}[{_key(kind, rest_of_name)}]"
        deeper = {key: child for key, child in below.items() if key != "."} if below else {}
        if deeper:
            yield from _paths(deeper, path)
        else:
            yield path


def _key(kind: str, text: str) -> str:
    if kind != "k":
        return text
    keys: Mapping[str, Any] = orjson.loads(text)
    return ",".join(f"{name}={value}" for name, value in keys.items())


def newest(found: Sequence[rest.Change], first: int) -> list[rest.Change]:
    """The newest of them, newest first."""
    return sorted(found, key=lambda one: parse_time(one.at), reverse=True)[:first]
