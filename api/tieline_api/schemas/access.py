"""Who may do what in an organisation, and who changed what, in REST."""

import re
from typing import Annotated, Literal, Self

from pydantic import AwareDatetime, Field, StringConstraints, model_validator

from tieline_api.schemas.base import NullableList, Page, Query, Rest, TimeOut, UlidOut
from tieline_core.resources.fields import ObjectName

KEY_USER_PATTERN = r"^[A-Za-z0-9]([A-Za-z0-9._@-]{0,126}[A-Za-z0-9])?$"
KeyUser = Annotated[str, StringConstraints(pattern=KEY_USER_PATTERN)]


class ApiKeyCreate(Rest):
    """A new API key."""

    user: KeyUser
    """The user that the key acts as, such as ci."""
    groups: Annotated[list[KeyUser], Field(max_length=32, default_factory=list), NullableList]
    """Groups of that user."""
    expires_at: AwareDatetime | None = None
    """When the key ends; absent: when it is deleted."""


class ApiKey(Rest):
    """An API key, without the key itself."""

    id: UlidOut
    """The API key's id."""
    user: str
    """The user that it acts as."""
    groups: list[str]
    """The groups of that user."""
    subject: str
    """The user's name in RBAC: the subject of role bindings."""
    role: Literal["viewer", "editor", "admin", "custom", "none"]
    """The role whose rights the user has; ``custom`` for other rights, ``none`` where it may not even list projects."""
    secret_name: str
    """The Kubernetes Secret that makes the key valid. It holds a hash, and who deletes it revokes the key."""
    created_at: TimeOut
    """When it was created."""
    expires_at: TimeOut | None = None
    """When it ends; absent for a key that ends when it is deleted."""
    last_used_at: TimeOut | None = None
    """When it was last used, exact to an hour; absent if no use is known."""


class NewApiKey(ApiKey):
    """A new API key, with the key."""

    key: str
    """The key, for the header ``X-API-Key``. This answer is the only one that has it."""


class ApiKeyPage(Page):
    """A part of the list of API keys."""

    items: list[ApiKey]
    """The API keys, oldest first."""


class Subject(Rest):
    """Whom a role is given to."""

    kind: Literal["User", "Group", "ServiceAccount"]
    """What it is."""
    name: str
    """Its name in RBAC."""
    namespace: str | None = None
    """The namespace of a ServiceAccount."""


class RoleBinding(Rest):
    """A role in the organisation's namespace, and who has it."""

    id: UlidOut
    """The binding's id."""
    name: str
    """The RoleBinding in Kubernetes."""
    role_kind: Literal["Role", "ClusterRole"]
    """What the role is in Kubernetes."""
    role_name: str
    """The role's name there."""
    role: Literal["viewer", "editor", "admin"] | None = None
    """The role of Tieline's that it gives; absent for roles that are not known to give one."""
    subjects: list[Subject]
    """Who has it."""
    by_rest: bool
    """Whether REST created it and can delete it. Delete others where they are managed."""
    created_at: TimeOut
    """When it was created."""


RESERVED = "system:"
SUBJECT_PATTERN = r"^[^\s\x00-\x1f\x7f]{1,253}$"


class NewSubject(Rest):
    """The subject of a role."""

    kind: Literal["User", "Group", "ServiceAccount"]
    """What it is."""
    name: Annotated[str, StringConstraints(pattern=SUBJECT_PATTERN)]
    """Its name in RBAC, such as login:ann; of an API key, its ``subject``."""
    namespace: ObjectName | None = None
    """The namespace of a ServiceAccount; the organisation's when left out."""

    @model_validator(mode="after")
    def _is_somebody(self) -> Self:
        if self.kind != "ServiceAccount":
            if self.namespace is not None:
                raise ValueError("namespace is for a ServiceAccount only: leave it out")
            if self.name.startswith(RESERVED):
                raise ValueError(
                    f"name must not begin with {RESERVED}, which is reserved for Kubernetes; "
                    "for a ServiceAccount, set kind"
                )
        elif not re.fullmatch(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?", self.name):
            raise ValueError("name must be that of a ServiceAccount: lower-case letters, digits, - and .")
        return self


class RoleBindingCreate(Rest):
    """A role to assign in the organisation's namespace."""

    role: Literal["viewer", "editor", "admin"]
    """The role."""
    subject: NewSubject
    """Who gets the role."""


class RoleBindingPage(Page):
    """A part of the list of role bindings."""

    items: list[RoleBinding]
    """The role bindings, oldest first."""


class ChangesQuery(Query):
    """Which changes."""

    first: Annotated[int, Field(ge=1, le=100)] = 30
    """How many, 1 to 100."""
    id: Annotated[str, StringConstraints(max_length=64)] | None = None
    """Only those of the object with this id."""


ChangedKind = Literal["System", "Connector", "Project", "ConnectionTemplate", "Connection", "Activation"]


class Change(Rest):
    """A change of an object, or an event about it."""

    type: Literal["change", "event"]
    """``change``: fields were set (``metadata.managedFields``). ``event``: the platform found something (a Kubernetes
    Event)."""
    kind: str
    """The object's kind in Kubernetes."""
    id: UlidOut | None = None
    """The object's id; absent when it is gone."""
    name: str
    """Its name, for people."""
    manager: str
    """Who did it: the field manager, such as ``tieline-api``, ``kubectl-client-side-apply`` or a GitOps tool; for an
    event, the controller."""
    external: bool = False
    """Whether the manager is another than REST: requests that change these fields are refused with 409."""
    fields: list[str]
    """The fields that the manager holds, at most 50; empty for events."""
    reason: str = ""
    """The reason of an event."""
    message: str = ""
    """The message of an event."""
    warning: bool = False
    """Whether the event tells of something wrong."""
    at: TimeOut
    """When it was."""


class ChangeList(Rest):
    """The newest changes."""

    items: list[Change]
    """The changes, newest first."""
