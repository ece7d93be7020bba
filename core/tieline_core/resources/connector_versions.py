"""ConnectorVersion: the immutable result of one import."""

from typing import Annotated, ClassVar

from pydantic import Field, StringConstraints

from tieline_core.resources.connectors import VersionName
from tieline_core.resources.fields import (
    Digest,
    ObjectName,
    Reference,
    Shape,
    Status,
    Text,
    Timestamp,
    ValidationMessage,
    rules,
)
from tieline_core.resources.kinds import READY_COLUMNS, Column, CustomResource, Kind


class ConnectorVersionSpec(Shape):
    """The import's result. None of it can be changed."""

    connector_ref: Reference
    """The Connector."""
    name: VersionName
    """The version's name, unique in the connector."""
    description: Text = ""
    """Description of the changes."""
    format: Annotated[str, StringConstraints(pattern="^(openapi|graphql)$", max_length=16)]
    """The description's format: openapi or graphql."""
    digest: Digest
    """SHA-256 of the description."""
    published_at: Timestamp | None = None
    """When it was published."""
    config_maps: Annotated[
        list[Annotated[ObjectName, StringConstraints(max_length=253)]],
        Field(max_length=256),
    ]
    """ConfigMaps with the compressed result, in order."""


class ConnectorVersionStatus(Status):
    """The observed state of the version."""

    definitions: Annotated[int, Field(ge=0)] | None = None
    """Number of definitions."""
    actions: Annotated[int, Field(ge=0)] | None = None
    """Number of actions."""
    triggers: Annotated[int, Field(ge=0)] | None = None
    """Number of triggers."""
    messages: Annotated[list[ValidationMessage], Field(max_length=64)] = []
    """Findings of the import."""


class ConnectorVersion(CustomResource):
    """The immutable result of importing a description into a connector."""

    kind_info: ClassVar = Kind(
        name="ConnectorVersion",
        plural="connectorversions",
        short_names=("tlcntrver",),
        columns=(
            Column(name="Connector", path=".spec.connectorRef.name", description="The connector"),
            Column(name="Version", path=".spec.name", description="The version's name"),
            Column(name="Actions", path=".status.actions", type="integer", description="Number of actions"),
            *READY_COLUMNS,
        ),
    )

    spec: Annotated[
        ConnectorVersionSpec,
        Field(
            json_schema_extra=rules(
                ("self == oldSelf", "a ConnectorVersion cannot be changed; import a new one")
            )
        ),
    ]
    """The import's result. None of it can be changed."""
    status: ConnectorVersionStatus
    """The observed state of the version."""
