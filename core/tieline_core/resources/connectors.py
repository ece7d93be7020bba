"""Connector: what an external API offers, built from its description."""

from typing import Annotated, ClassVar

from pydantic import ConfigDict, Field, StringConstraints

from tieline_core.identity.display_names import READABLE
from tieline_core.resources.fields import (
    NOT_BLANK,
    DisplayName,
    ObjectName,
    Reference,
    Shape,
    Status,
    Url,
    ValidationMessage,
    immutable,
    rules,
)
from tieline_core.resources.kinds import READY_COLUMNS, Column, CustomResource, Kind, display_name
from tieline_core.resources.projects import ConfigMapKey

VersionName = Annotated[str, StringConstraints(min_length=1, max_length=128)]


class DescriptionPart(Shape):
    """A ConfigMap's key that holds (a part of) the description."""

    name: ObjectName
    """The ConfigMap's name."""
    key: ConfigMapKey
    """The key in it."""


class ConnectorDescription(Shape):
    """A description of the API that the operator imports."""

    format: Annotated[str, StringConstraints(pattern="^(openapi|graphql)$", max_length=16)] = "openapi"
    """The description's format: openapi (Swagger 2.0, OpenAPI 3.0, 3.1 and 3.2), or graphql (SDL or introspection)."""
    version: Annotated[
        VersionName,
        Field(
            json_schema_extra={
                **READABLE,
                **rules(NOT_BLANK, ("!(self in ['.', '..'])", 'a version cannot be called "." or ".."')),
            }
        ),
    ]
    """The name of the ConnectorVersion that the import makes."""
    config_maps: Annotated[list[DescriptionPart], Field(min_length=1, max_length=64)]
    """ConfigMaps with the description, joined in this order."""


class ConnectorSpec(Shape):
    """The desired state of the connector."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                "!has(self.description) || !has(self.projectRef)",
                "a project's connector is made from its files; leave out description",
            )
        )
    )

    name: DisplayName
    """The connector's name, for people."""
    public: bool = False
    """Whether other organisations can see it. Default: false."""
    documentation_url: Url | None = None
    """Where the API is documented."""
    image_url: Url | None = None
    """A picture of it."""
    base_url: Url | None = None
    """Overrides the base URL of the description."""
    tags: Annotated[dict[str, Annotated[str, StringConstraints(max_length=256)]], Field(max_length=64)] = {}
    """Tags for your own use."""
    default_version: VersionName | None = None
    """The version to use if none is named. Default: the latest."""
    description: ConnectorDescription | None = None
    """A description that the operator imports."""
    project_ref: Annotated[Reference, Field(json_schema_extra=immutable("projectRef"))] | None = None
    """The project whose webhooks and openapi.json it has; the operator makes such connectors."""


class ConnectorStatus(Status):
    """The observed state of the connector."""

    latest_version: VersionName | None = None
    """The name of the newest version."""
    default_version: VersionName | None = None
    """Of a project's connector: the version of what the project serves."""
    messages: Annotated[list[ValidationMessage], Field(max_length=64)] = []
    """Findings of the last import."""


class Connector(CustomResource):
    """What an external API offers: actions, triggers and definitions, in versions."""

    kind_info: ClassVar = Kind(
        name="Connector",
        plural="connectors",
        short_names=("tlcntr",),
        columns=(
            Column(name="Latest", path=".status.latestVersion", description="The newest version"),
            *READY_COLUMNS,
            display_name(".spec.name", "The connector's name"),
        ),
    )

    spec: ConnectorSpec
    """The desired state of the connector."""
    status: ConnectorStatus
    """The observed state of the connector."""
