"""The caller itself in REST."""

from typing import Literal

from tieline_api.schemas.base import Rest, UlidOut

Role = Literal["viewer", "editor", "admin", "custom", "endUser"]


class ReachedOrganisation(Rest):
    """An organisation that a caller reaches."""

    id: UlidOut
    """The organisation's id."""
    name: str
    """Its name, for people: that of the namespace, or the id for an end user."""
    namespace: str
    """Its namespace; empty for an end user."""
    role: Role
    """The role ``tieline-viewer``, ``tieline-editor`` or ``tieline-admin`` whose rights the caller has there;
    ``custom`` for other rights, ``endUser`` for an end user, who reaches what is their own."""


class Me(Rest):
    """Who sends a request, as Kubernetes' RBAC knows it."""

    id: str
    """The user's name in RBAC: the subject of role bindings."""
    name: str
    """The name, for people."""
    kind: Literal["user", "serviceAccount", "apiKey", "endUser"]
    """What the credentials belong to."""
    groups: list[str]
    """The groups in RBAC."""
    organisations: list[ReachedOrganisation]
    """The organisations in which the caller may at least list projects, by name."""
    more: bool | None = None
    """True where there may be more organisations than were looked at; absent otherwise."""
    external_id: str | None = None
    """Of an end user: the id in the customer's application."""
