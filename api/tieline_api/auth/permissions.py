"""What one may need: a verb of Kubernetes RBAC on one of our kinds."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Permission:
    """A verb on a kind (its plural), in the organisation's namespace."""

    verb: str
    resource: str

    def __str__(self) -> str:
        return f"{self.verb} {self.resource}"


def permission(verb: str, resource: str) -> tuple[Permission, ...]:
    """The one permission that an operation needs."""
    return (Permission(verb, resource),)
