"""Activation: a project's environment, running for one user (or, without a user, for itself)."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import ConfigDict, Field

from tieline_core.resources.fields import (
    EnvironmentName,
    JsonObject,
    ObjectName,
    Reference,
    Shape,
    Status,
    Text,
    Ulid,
    immutable,
    list_map,
    rules,
)
from tieline_core.resources.kinds import READY_COLUMNS, Column, CustomResource, Kind


class ActivationConnection(Shape):
    """The connection of this activation for a dynamic template."""

    connection_template: ObjectName
    """The name of the ConnectionTemplate object."""
    connection_ref: Reference
    """The Connection."""


class ActivationSpec(Shape):
    """The desired state of the activation."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                "has(self.endUserRef) == has(oldSelf.endUserRef)",
                "endUserRef cannot be changed; create a new object instead",
            )
        )
    )

    project_ref: Annotated[Reference, Field(json_schema_extra=immutable("projectRef"))]
    """The Project."""
    environment: Annotated[EnvironmentName, Field(json_schema_extra=immutable("environment"))]
    """The name of the project's environment."""
    end_user_ref: Annotated[Reference, Field(json_schema_extra=immutable("endUserRef"))] | None = None
    """The EndUser. Absent for the environment's static activation."""
    variables: JsonObject = {}
    """Values of the project's dynamic variables, validated by its dynamicVariablesSchema."""
    connections: Annotated[
        list[ActivationConnection], Field(max_length=64, json_schema_extra=list_map("connectionTemplate"))
    ] = []
    """The user's connection for each dynamic template."""


class ActivationStatus(Status):
    """The observed state of the activation."""

    environment_id: Ulid | None = None
    """The id of the environment."""
    variable_errors: Annotated[list[Text], Field(max_length=32)] = []
    """Why the variables do not match the project's schema."""
    last_valid_variables: JsonObject | None = None
    """The last variables that matched the schema. Running code keeps them while the current ones do not match."""


class Activation(CustomResource):
    """A project's environment for one end user, with the user's connections and variables."""

    kind_info: ClassVar = Kind(
        name="Activation",
        plural="activations",
        short_names=("tlactiv",),
        columns=(
            Column(name="Project", path=".spec.projectRef.name", description="The project"),
            Column(name="Environment", path=".spec.environment", description="The environment"),
            Column(name="User", path=".spec.endUserRef.name", description="The user"),
            *READY_COLUMNS,
        ),
        selectable=(".spec.projectRef.name", ".spec.environment", ".spec.endUserRef.name"),
    )

    spec: ActivationSpec
    """The desired state of the activation."""
    status: ActivationStatus
    """The observed state of the activation."""


def in_effect(activation: Mapping[str, Any], *, fit: bool) -> dict[str, Any]:
    """The variables that code runs with for an Activation (the object, as Kubernetes has it).

    Those of its spec when they ``fit`` the project's schema, and else the last ones that did, which the operator
    keeps in its status. So neither a change of the schema nor one of the values breaks what runs.
    """
    if fit:
        return dict(activation["spec"].get("variables") or {})
    return dict((activation.get("status") or {}).get("lastValidVariables") or {})
