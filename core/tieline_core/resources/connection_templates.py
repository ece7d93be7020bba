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
    """The desired state of the template."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                "!(has(self.dynamic) && self.dynamic) || !has(self.connectionRef)",
                "connectionRef is for static templates; a dynamic one gets its connections from activations",
            )
        )
    )

    name: TemplateName
    """The name that code uses for the system. Unique in the environment."""
    project_ref: Annotated[Reference, Field(json_schema_extra=immutable("projectRef"))]
    """The Project."""
    environment: Annotated[EnvironmentName, Field(json_schema_extra=immutable("environment"))]
    """The name of the project's environment."""
    system_ref: Annotated[Reference, Field(json_schema_extra=immutable("systemRef"))]
    """The System."""
    dynamic: bool = False
    """Gives each end user a connection, set by an Activation, instead of one for all. Default: false."""
    connection_ref: Reference | None = None
    """The Connection of a static template."""
    auth_scheme_config_ids: Annotated[list[ItemId], Field(max_length=20, json_schema_extra=list_set())] = []
    """Ids of the System's auth schemes to offer to end users. Default: all."""
    expose_to_code: bool = False
    """Lets code read the credentials with ctx.credentials. The Connection must have exposeToCode too. Default:
    false."""


class ConnectionTemplateStatus(Status):
    """The observed state of the template."""

    environment_id: Ulid | None = None
    """The id of the environment."""
    name: TemplateName | None = None
    """The name that the template has. It keeps the name if another template of the environment claims it."""


class ConnectionTemplate(CustomResource):
    """A system in a project's environment, with the name that code uses for it."""

    kind_info: ClassVar = Kind(
        name="ConnectionTemplate",
        plural="connectiontemplates",
        short_names=("tltmpl",),
        columns=(
            Column(name="Name-In-Code", path=".spec.name", description="The name that code uses"),
            Column(name="Project", path=".spec.projectRef.name", description="The project"),
            Column(name="Environment", path=".spec.environment", description="The environment"),
            Column(name="System", path=".spec.systemRef.name", description="The system"),
            Column(
                name="Dynamic",
                path=".spec.dynamic",
                type="boolean",
                description="One connection per user",
                priority=1,
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
    """The desired state of the template."""
    status: ConnectionTemplateStatus
    """The observed state of the template."""
