"""Connectors in REST: what an external API offers."""

from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import Field, StringConstraints

from tieline_api.schemas.base import PageQuery, Rest, SearchQuery, TimeOut, UlidOut
from tieline_api.schemas.names import DisplayName, VersionName
from tieline_core.resources.fields import ValidationMessage

T = TypeVar("T")


class Part(Rest, Generic[T]):
    """A part of a list."""

    total_count: int
    """How many there are."""
    items: list[T]
    """This part."""
    next: str | None = None
    """Cursor to the part after it."""
    prev: str | None = None
    """Cursor to the part before it."""


class ImportMetadata(Rest):
    """What is imported."""

    format: Literal["openapi", "graphql"]
    """openapi: Swagger 2.0, OpenAPI 3.0, 3.1 or 3.2, in JSON or YAML. graphql: a schema in SDL, or the answer to an
    introspection query."""
    version: VersionName
    """The name of the new version; latest and default are reserved."""
    name: DisplayName | None = None
    """The name of a new connector; default: the description's title."""


class Variable(Rest):
    """A variable of the base URL."""

    name: str
    """Its name in curly braces."""
    value: str
    """Its default."""


class ConnectorAuthScheme(Rest):
    """A way to authenticate, as the description has it; it may need to be completed (see its messages)."""

    id: str
    """The security scheme's name, with the flow where it has several."""
    description: str = ""
    """What the description says of it."""
    validation_messages: list[ValidationMessage]
    """What was found about it."""
    scheme_type: str
    """The type of an AuthSchemeConfig."""
    none: dict[str, Any] | None = None
    """For type none."""
    api_key: dict[str, Any] | None = None
    """For type api-key."""
    basic_auth: dict[str, Any] | None = None
    """For type basic-auth."""
    oauth2: Annotated[dict[str, Any] | None, Field(alias="oauth2")] = None
    """For type oauth2."""
    certificate: dict[str, Any] | None = None
    """For type certificate."""


class ConnectorVersion(Rest):
    """The result of one import."""

    id: UlidOut
    """The version's id."""
    name: str
    """Its name."""
    description: str
    """What is in it."""
    is_latest: bool
    """Whether it is the newest."""
    is_default: bool
    """Whether it is used when none is named."""
    created_at: TimeOut
    """When it was imported."""
    updated_at: TimeOut
    """The same: versions never change."""
    published_at: TimeOut
    """When it was published."""
    messages: list[ValidationMessage] | None = None
    """What was found; only where one version or connector is asked for."""


class Connector(Rest):
    """What an external API offers."""

    id: UlidOut
    """The connector's id."""
    organisation_id: UlidOut
    """The organisation that owns it."""
    name: str
    """Its name, for people."""
    public: bool
    """Whether other organisations may see it."""
    documentation_url: Annotated[str | None, Field(alias="documentationURL")] = None
    """Where the API is documented."""
    image_url: Annotated[str | None, Field(alias="imageURL")] = None
    """A picture of it."""
    tags: dict[str, str]
    """Tags for your own use."""
    protocol: Literal["http"] = "http"
    """http."""
    auth_scheme_configs: list[ConnectorAuthScheme]
    """The ways to authenticate of the version that is shown (the default one)."""
    connection_variables: list[Variable]
    """Variables of the base URL."""
    connections: list[dict[str, Any]]
    """Connections belong to systems here: always empty."""
    versions: list[ConnectorVersion]
    """Its versions, newest first."""
    created_at: TimeOut
    """When it was made."""
    updated_at: TimeOut
    """When it was last changed."""
    base_url: str
    """The base URL, perhaps with variables in curly braces; empty when the description names none."""
    project_id: UlidOut | None = None
    """The project that it belongs to: its webhooks are the triggers, its openapi.json has the actions."""


class ConnectorPage(Part[Connector]):
    """A part of the list of connectors."""


class ConnectorVersionPage(Part[ConnectorVersion]):
    """A part of the list of versions."""


class Referrer(Rest):
    """A definition that refers to another."""

    type: Literal["definition"]
    """definition."""
    id: UlidOut
    """Its id."""
    name: str
    """Its name."""


class Definition(Rest):
    """A schema: a named one of the description, or the body of a request or an answer."""

    id: UlidOut
    """The same for the same bytes of a description."""
    name: str
    """Its name."""
    accept: list[str]
    """The media types of bodies that it describes."""
    description: str
    """What the description says of it."""
    url: str
    """Where in the description it stands."""
    referenced_by: list[Referrer]
    """The definitions that refer to it."""


class OperationsQuery(SearchQuery):
    """Which operations."""

    connector_id: Annotated[str, StringConstraints(max_length=64)] | None = None
    """Only those of this connector."""


class FoundOperation(Rest):
    """An operation of a connector's default version, as a search finds it."""

    id: UlidOut
    """The id of the action."""
    name: str
    """Unique in the version: the operationId, or one that is made."""
    method: str
    """The HTTP method."""
    path: str
    """The path below the base URL."""
    summary: str
    """What it does, in at most 200 letters."""
    graphql: Literal["query", "mutation"] | None = None
    """The kind of operation; only of a GraphQL schema."""
    connector_id: UlidOut
    """The connector."""
    connector_name: str
    """Its name."""
    version_id: UlidOut
    """The version that was searched: the connector's default one."""
    version: str
    """Its name."""


class FoundOperationPage(Part[FoundOperation]):
    """A part of what a search finds."""


class DefinitionsQuery(PageQuery):
    """Which definitions, and how much of each."""

    schemas: bool = False
    """Whether each has its JSON Schema."""


class DefinitionWithSchema(Definition):
    """A definition with its JSON Schema."""

    schema_: Annotated[Any, Field(alias="schema")] = None
    """The schema as the description has it; references are not expanded. In lists only with ``schemas=true``."""


class ActionError(Rest):
    """What was found about an action or a trigger."""

    field: str
    """The field that it is about."""
    message: str
    """A sentence."""
    severity: Literal["info", "warning", "error"]
    """How much it matters."""


class TriggerParameter(Rest):
    """A parameter of a trigger."""

    name: str
    """Its name."""
    in_: Annotated[str, Field(alias="in")]
    """path, query, header, cookie or querystring."""
    required: bool
    """Whether the parameter is required."""
    type: str
    """Its JSON type."""
    default: Any = None
    """Its default, where it has one."""


class ActionParameter(TriggerParameter):
    """A parameter of an action."""

    completion: list[str]
    """Values to choose from, where the description lists them."""
    schema_: Annotated[Any, Field(alias="schema")] = None
    """Its JSON Schema as the description has it, where that says more."""
    style: str | None = None
    """How lists and objects are written into it, where that is not form; as in OpenAPI."""
    explode: bool | None = None
    """Whether each item of a list is a parameter of its own, where the description says so; as in OpenAPI."""


class BodyDefinition(Rest):
    """The definition of a body."""

    id: UlidOut
    """The definition's id."""
    definition: dict[str, Any]
    """A schema that refers to it: {"$ref": its url}."""
    media_types: list[str] | None = None
    """The media types of the body."""
    example: Any = None
    """An example of the body, where the description has one of at most 16 KiB."""


class RequestBody(Rest):
    """The body of a request."""

    required: bool
    """Whether there must be one."""
    definitions: list[BodyDefinition]
    """What it may be."""


class Response(Rest):
    """An answer."""

    status: int
    """The HTTP status; 400 for the range 4XX, and 0 for all others (default)."""
    range: bool | None = None
    """True for a range of statuses, such as 4XX."""
    headers: list[str] | None = None
    """The names of its headers, where the description has any."""
    id: UlidOut
    """The same for the same bytes of a description."""
    definitions: list[BodyDefinition]
    """What it may be."""


class Trigger(Rest):
    """A webhook or a callback."""

    id: UlidOut
    """The same for the same bytes of a description."""
    errors: list[ActionError]
    """What was found about it."""
    type: Literal["http"]
    """http."""
    name: str
    """Unique among the triggers: the operationId, or one that is made."""
    summary: str
    """In a few words."""
    description: str
    """In more."""
    method: str
    """The HTTP method."""
    parameters: list[TriggerParameter]
    """Its parameters."""
    request_body: RequestBody | None = None
    """Its body."""
    responses: list[Response]
    """Its answers."""


class GraphQLArgument(Rest):
    """An argument of a field of Query or Mutation, and the variable of the same name."""

    name: str
    """Its name."""
    type: str
    """Its type, such as [ID!]!."""
    required: bool
    """Whether there must be a value."""
    description: str
    """What the schema says of it, in at most 200 letters."""


class GraphQLPages(Rest):
    """How the pages of a connection are read."""

    items: str
    """Where the connection stands in the data."""
    parameter: str
    """The variable that takes the cursor."""


class GraphQLOperation(Rest):
    """A field of Query or Mutation, with a document that calls it."""

    kind: Literal["query", "mutation"]
    """query or mutation."""
    document: str
    """An operation of the action's name: it passes all arguments on as variables, and selects the answer's leaves."""
    arguments: list[GraphQLArgument]
    """The field's arguments."""
    answer: str
    """The field's type."""
    pages: GraphQLPages | None = None
    """How its pages follow each other; only of a connection that has the argument after."""


class Action(Trigger):
    """An operation that can be called."""

    path: str
    """The path below the base URL; empty for GraphQL, whose endpoint is the base URL."""
    parameters: list[ActionParameter]  # type: ignore[assignment]  # more than a trigger's
    """Its parameters."""
    graphql: GraphQLOperation | None = None
    """The operation; only of a GraphQL schema. The body is its variables, and the answer its data."""


class ImportResult(Rest):
    """All that an import found."""

    connector: Connector
    """The connector, as it is with the new version."""
    definitions: list[Definition]
    """Schemas."""
    actions: list[Action]
    """What can be called."""
    triggers: list[Trigger]
    """Webhooks and callbacks."""
    messages: list[ValidationMessage]
    """What was found, the gravest first."""


class ActionPage(Part[Action]):
    """A part of the list of actions."""


class TriggerPage(Part[Trigger]):
    """A part of the list of triggers."""


class DefinitionPage(Part[DefinitionWithSchema]):
    """A part of the list of definitions."""
