"""System: an external application and the ways to authenticate at it."""

from typing import Annotated, ClassVar, Literal

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
    list_set,
    rules,
)
from tieline_core.resources.kinds import READY_COLUMNS, Column, CustomResource, Kind, display_name
from tieline_core.resources.limits import SystemLimits
from tieline_core.resources.lists import Lists
from tieline_core.resources.system_inputs import SystemInputs

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
    """A version's name, latest, or default (the connector's default version). Default: default."""


CheckMethod = Literal["GET", "HEAD", "OPTIONS", "POST"]
CheckBody = Annotated[str, StringConstraints(min_length=1, max_length=4096)]
PATH_PATTERN = r"^/[^\s#\\]*$"
CheckPath = Annotated[str, StringConstraints(min_length=1, max_length=2048, pattern=PATH_PATTERN)]
GoodStatuses = Annotated[list[Annotated[int, Field(ge=200, le=599)]], Field(max_length=16)]
GoodText = Annotated[str, StringConstraints(max_length=200)]


class CheckExpectation(Shape):
    """What a good answer to a check request is."""

    statuses: Annotated[GoodStatuses, Field(json_schema_extra=list_set())] = []
    """Accepted statuses. Default: 200 to 299."""
    contains: GoodText = ""
    """Text that the body must contain, such as "ok":true, for systems that answer errors with 200."""


class ConnectionCheck(Shape):
    """A request that shows whether the system accepts a connection's credentials."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                "has(self.body) == (has(self.method) && self.method == 'POST')",
                "POST needs a body, and other methods have none",
            )
        )
    )

    method: CheckMethod = "GET"
    """GET, HEAD or OPTIONS. POST for systems whose reads have a body, such as GraphQL."""
    path: CheckPath
    """The path below the connection's base URL, such as /me. It must need the credentials; it may have a query, and
    variables in curly braces."""
    body: CheckBody | None = None
    """The JSON body of a POST. The request must not change anything in the system: it is sent often."""
    expect: CheckExpectation = CheckExpectation()
    """Criteria for a successful answer."""


class SystemSpec(Shape):
    """The desired state of the system."""

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
    """Domain of the application, such as shop.example."""
    template_base_url: Url | None = None
    """Base URL of the API. Connections can override it, and set its variables in curly braces."""
    variables: Variables = {}
    """Values of the variables in the URLs. Connections can override them."""
    inputs: SystemInputs = []
    """Variables that people fill in when they connect. The values are stored in the connection."""
    connector_ref: ConnectorReference | None = None
    """Version of a Connector. It provides what this spec leaves out: base URL, domain, variables, auth schemes."""
    limits: SystemLimits | None = None
    """Rate limits of each connection to the application."""
    lists: Lists | None = None
    """How the application's lists come in pages."""
    graphql_path: CheckPath | None = None
    """Path of its GraphQL endpoint below the base URL. Default: /graphql."""
    check: ConnectionCheck | None = None
    """The request that checks a connection before it counts as connected, and when a user tests it."""
    labels: Labels = {}
    """Labels for your own use."""
    auth_scheme_configs: AuthSchemes = []
    """Auth schemes that the application supports."""


class AuthSchemeStatus(Shape):
    """Findings about an auth scheme."""

    id: ItemId
    """The scheme's id."""
    validation_messages: Annotated[list[ValidationMessage], Field(max_length=16)] = []
    """Findings, the most severe first."""


class UrlVariable(Shape):
    """A variable of a base URL."""

    name: ShortText
    """Its name in curly braces."""
    value: Annotated[str, StringConstraints(max_length=2048)]
    """Its default."""


class FromConnector(Shape):
    """What the connector's version provides. Fields of the spec take precedence."""

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
    """The observed state of the system."""

    auth_schemes: Annotated[
        list[AuthSchemeStatus], Field(max_length=20, json_schema_extra=list_map("id"))
    ] = []
    """Findings about auth schemes. Schemes without findings are left out."""
    from_connector: FromConnector | None = None
    """What the connector of spec.connectorRef provides."""


class System(CustomResource):
    """An external application, with its base URL and the auth schemes that it supports."""

    kind_info: ClassVar = Kind(
        name="System",
        plural="systems",
        short_names=("tlsys",),
        columns=(
            Column(name="Domain", path=".spec.domain", description="The application's domain"),
            Column(name="URL", path=".spec.templateBaseUrl", description="Base URL of its API", priority=1),
            *READY_COLUMNS,
            display_name(".spec.name", "The application's name"),
        ),
    )

    spec: SystemSpec
    """The desired state of the system."""
    status: SystemStatus
    """The observed state of the system."""
