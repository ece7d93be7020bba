"""System: an external application and the ways to authenticate at it."""

from typing import Annotated, ClassVar

from pydantic import ConfigDict, Field, StringConstraints

from tieline_core.resources.auth_schemes import AuthSchemeConfig
from tieline_core.resources.connectors import VersionName
from tieline_core.resources.fields import (
    DisplayName,
    ItemId,
    JsonObject,
    Labels,
    ObjectName,
    Shape,
    ShortText,
    Status,
    Url,
    ValidationMessage,
    list_map,
    rules,
)
from tieline_core.resources.kinds import READY_COLUMNS, Column, CustomResource, Kind
from tieline_core.resources.limits import Limits

Domain = Annotated[str, StringConstraints(min_length=1, max_length=253)]
Variables = Annotated[
    dict[str, Annotated[str, StringConstraints(max_length=2048)]],
    Field(
        max_length=64,
        json_schema_extra=rules(("self.all(key, size(key) <= 256)", "names have at most 256 letters")),
    ),
]
AuthSchemes = Annotated[list[AuthSchemeConfig], Field(max_length=20, json_schema_extra=list_map("id"))]


class ConnectorReference(Shape):
    """A version of a Connector in the same namespace."""

    name: ObjectName
    """The Connector's name (metadata.name)."""
    version: VersionName | None = None
    """A version's name, latest, or default (the version that the connector says, when absent)."""


class SystemSpec(Shape):
    """The external application as its users describe it."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                "has(self.connectorRef) || (has(self.domain) && has(self.templateBaseUrl))",
                "domain and templateBaseUrl are needed, unless connectorRef names a connector that has them",
            )
        )
    )

    name: DisplayName
    """The application's name, for people."""
    domain: Domain | None = None
    """The application's domain, such as "shop.example"."""
    template_base_url: Url | None = None
    """Base URL of its API; a connection may override it, and parts in curly braces are filled per connection."""
    variables: Variables = {}
    """Values for the parts of the base URL in curly braces; a connection may have others."""
    connector_ref: ConnectorReference | None = None
    """A connector's version: what this spec leaves out (base URL, domain, variables, auth schemes) comes from it."""
    limits: Limits | None = None
    """What the application allows of requests through each of its connections."""
    labels: Labels = {}
    """Labels for your own use."""
    auth_scheme_configs: AuthSchemes = []
    """The ways to authenticate that the application supports."""


class AuthSchemeStatus(Shape):
    """What was found about one auth scheme."""

    id: ItemId
    """The scheme's id."""
    validation_messages: Annotated[list[ValidationMessage], Field(max_length=16)] = []
    """Findings, the gravest first."""


class UrlVariable(Shape):
    """A variable of a base URL."""

    name: ShortText
    """Its name in curly braces."""
    value: Annotated[str, StringConstraints(max_length=2048)]
    """Its default."""


class FromConnector(Shape):
    """What the connector's version gives; the spec's own fields count before it."""

    version: VersionName
    """The version."""
    base_url: Url | None = None
    """Base URL."""
    domain: Domain | None = None
    """The base URL's host."""
    variables: Annotated[list[UrlVariable], Field(max_length=64)] = []
    """Variables of the base URL with their defaults."""
    auth_scheme_configs: Annotated[list[JsonObject], Field(max_length=20)] = []
    """Auth schemes, as a spec has them."""


class SystemStatus(Status):
    """What the operator saw of the system."""

    auth_schemes: Annotated[
        list[AuthSchemeStatus], Field(max_length=20, json_schema_extra=list_map("id"))
    ] = []
    """Findings per auth scheme; schemes without any are left out."""
    from_connector: FromConnector | None = None
    """What the connector of spec.connectorRef gives."""


class System(CustomResource):
    """An external application that integrations talk to, with the ways to authenticate that it supports."""

    kind_info: ClassVar = Kind(
        name="System",
        plural="systems",
        short_names=("sys",),
        columns=(
            Column(name="Name", path=".spec.name", description="The application's name"),
            Column(name="Domain", path=".spec.domain", description="The application's domain"),
            Column(name="URL", path=".spec.templateBaseUrl", description="Base URL of its API", priority=1),
            *READY_COLUMNS,
        ),
    )

    spec: SystemSpec
    """The application, as its users describe it."""
    status: SystemStatus
    """What the operator saw."""
