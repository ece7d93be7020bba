"""System: an external application and the ways to authenticate at it."""

from typing import Annotated, ClassVar

from pydantic import Field, StringConstraints

from tieline_core.resources.auth_schemes import AuthSchemeConfig
from tieline_core.resources.fields import (
    DisplayName,
    ItemId,
    Labels,
    Shape,
    Status,
    Url,
    ValidationMessage,
    list_map,
)
from tieline_core.resources.kinds import READY_COLUMNS, Column, CustomResource, Kind

Domain = Annotated[str, StringConstraints(min_length=1, max_length=253)]
AuthSchemes = Annotated[list[AuthSchemeConfig], Field(max_length=20, json_schema_extra=list_map("id"))]


class SystemSpec(Shape):
    """The external application as its users describe it."""

    name: DisplayName
    """The application's name, for people."""
    domain: Domain
    """The application's domain, such as "shop.example"."""
    template_base_url: Url
    """Base URL of its API; a connection may override it, and parts in curly braces are filled per connection."""
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


class SystemStatus(Status):
    """What the operator saw of the system."""

    auth_schemes: Annotated[
        list[AuthSchemeStatus], Field(max_length=20, json_schema_extra=list_map("id"))
    ] = []
    """Findings per auth scheme; schemes without any are left out."""


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
