"""What one may need: a verb of Kubernetes RBAC on one of our kinds, or on one Secret."""

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
