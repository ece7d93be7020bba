"""Permissions: a verb of Kubernetes RBAC on one of our kinds, or on one Secret; and the roles that grant them."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from tieline_core.resources.kinds import GROUP


@dataclass(frozen=True)
class Permission:
    """A verb on a kind (its plural), in the organisation's namespace."""

    verb: str
    resource: str
    group: str = GROUP
    """The kind's API group; empty for Kubernetes' core kinds."""
    name: str = ""
    """The one object that it is about; empty for all of the kind."""

    def __str__(self) -> str:
        return f"{self.verb} {self.resource}"


def permission(verb: str, resource: str) -> tuple[Permission, ...]:
    """The one permission that an operation needs."""
    return (Permission(verb, resource),)


_READ = frozenset({"get", "list", "watch"})
_WRITE = _READ | {"create", "update", "patch", "delete"}
_EDITABLE = (
    "projects",
    "projectversions",
    "connectiontemplates",
    "connections",
    "activations",
    "endusers",
    "notificationchannels",
    "notifications",
)
_ADMINISTERED = (
    *_EDITABLE,
    "systems",
    "connectors",
    "connectorversions",
    "credentialgrants",
    "apikeys",
    "rolebindings",
)
_SCALABLE = ("environments", "environments/scale")
_SCALED = _READ | {"update", "patch"}
"""On environments, which Projects make and delete."""
CHANGE_PROJECTS = Permission("patch", "projects")
ROLES: Mapping[str, Mapping[str, frozenset[str]]] = {
    "tieline-viewer": {"*": _READ},
    "tieline-editor": {
        **dict.fromkeys(_EDITABLE, _WRITE),
        **dict.fromkeys(frozenset(_ADMINISTERED) - frozenset(_EDITABLE), _READ),
        **dict.fromkeys(_SCALABLE, _SCALED),
    },
    "tieline-admin": {
        **dict.fromkeys(_ADMINISTERED, _WRITE),
        "connections": _WRITE | {"expose"},
        **dict.fromkeys(_SCALABLE, _SCALED),
    },
}
"""The verbs on our kinds of each ClusterRole in ``deploy/``, from the fewest rights to the most; a test compares."""


def permissions_of(role: str) -> tuple[Permission, ...]:
    """All that a ClusterRole of ``deploy/`` grants on kinds that are known, each by itself."""
    rules = ROLES[role]
    named = {resource: verbs for resource, verbs in rules.items() if resource != "*"}
    everywhere = rules.get("*", frozenset())
    return tuple(
        Permission(verb, resource)
        for resource in (*_ADMINISTERED, *_SCALABLE)
        for verb in sorted(named.get(resource, frozenset()) | everywhere)
    )


def roles_granting(permissions: Collection[Permission]) -> list[str]:
    """The roles of ``deploy/`` that grant every one of ``permissions``, from the fewest rights to the most."""
    return [
        role
        for role, rules in ROLES.items()
        if all(
            one.group == GROUP and one.verb in rules.get(one.resource, rules.get("*", frozenset()))
            for one in permissions
        )
    ]
