"""ConnectionTemplate: a system under the name by which an environment's code refers to it."""

from typing import Annotated, ClassVar

from pydantic import ConfigDict, Field, StringConstraints

from tieline_core.resources.fields import (
    NAMED,
    EnvironmentName,
    ItemId,
    Reference,
    Shape,
    Status,
    Ulid,
    immutable,
    list_set,
    rules,
)
from tieline_core.resources.kinds import READY_COLUMNS, Column, CustomResource, Kind

TemplateName = Annotated[str, StringConstraints(min_length=1, max_length=100), Field(json_schema_extra=NAMED)]


class ConnectionTemplateSpec(Shape):
    """The template as its users describe it."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                "!(has(self.dynamic) && self.dynamic) || !has(self.connectionRef)",
                "connectionRef is for static templates; a dynamic one gets its connections from activations",
            )
        )
    )

    name: TemplateName
    """The name by which code refers to the system; unique in the environment."""
    project_ref: Annotated[Reference, Field(json_schema_extra=immutable("projectRef"))]
    """The Project."""
    environment: Annotated[EnvironmentName, Field(json_schema_extra=immutable("environment"))]
    """The name of the project's environment."""
    system_ref: Annotated[Reference, Field(json_schema_extra=immutable("systemRef"))]
    """The System."""
    dynamic: bool = False
    """True when each user brings a connection (through an Activation); false (the default) for one connection."""
    connection_ref: Reference | None = None
    """The Connection that a static template is linked to."""
    auth_scheme_config_ids: Annotated[list[ItemId], Field(max_length=20, json_schema_extra=list_set())] = []
    """Ids of the System's auth schemes that the template offers to those who connect; all when empty."""
    expose_to_code: bool = False
    """Whether code reads the credentials with ctx.credentials. The Connection must say exposeToCode too. False by
    default."""


class ConnectionTemplateStatus(Status):
    """What the operator saw of the template."""

    environment_id: Ulid | None = None
    """The id of the environment."""


class ConnectionTemplate(CustomResource):
    """A system in a project's environment, under the name by which the code refers to it."""

    kind_info: ClassVar = Kind(
        name="ConnectionTemplate",
        plural="connectiontemplates",
        short_names=("tmpl",),
        columns=(
            Column(name="Name", path=".spec.name", description="The name that code uses"),
            Column(name="Project", path=".spec.projectRef.name", description="The project"),
            Column(name="Environment", path=".spec.environment", description="The environment"),
            Column(name="System", path=".spec.systemRef.name", description="The system"),
            Column(
                name="Dynamic", path=".spec.dynamic", type="boolean", description="One connection per user"
            ),
            *READY_COLUMNS,
        ),
        selectable=(
            ".spec.projectRef.name",
            ".spec.environment",
            ".spec.systemRef.name",
            ".spec.connectionRef.name",
        ),
    )

    spec: ConnectionTemplateSpec
    """The template, as its users describe it."""
    status: ConnectionTemplateStatus
    """What the operator saw."""
