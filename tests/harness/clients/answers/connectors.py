"""Types of answers about connectors and the catalogue."""

from typing import Any, Literal

from tests.harness.clients.answers.base import Json, Message, Page, Strict, Time, Ulid
from tests.harness.clients.answers.connections import Scheme, Variable


class ConnectorScheme(Scheme):
    scheme_type: Literal[
        "none", "api-key", "basic-auth", "oauth2", "hmac", "jwt-bearer", "certificate", "oauth1", "secret"
    ]


class ConnectorVersion(Strict):
    id: Ulid
    name: str
    description: str
    is_latest: bool
    is_default: bool
    created_at: Time
    updated_at: Time
    published_at: Time
    messages: list[Message] | None = None


class Connector(Strict):
    id: Ulid
    organisation_id: Ulid
    name: str
    public: bool
    tags: dict[str, str]
    protocol: Literal["http"]
    auth_scheme_configs: list[ConnectorScheme]
    connection_variables: list[Variable]
    connections: list[Json]
    versions: list[ConnectorVersion]
    created_at: Time
    updated_at: Time
    base_url: str


class Referrer(Strict):
    type: Literal["definition"]
    id: Ulid
    name: str


class Definition(Strict):
    id: Ulid
    name: str
    accept: list[str]
    description: str
    url: str
    referenced_by: list[Referrer]


class Parameter(Strict):
    name: str
    required: bool
    type: str


class BodyDefinition(Strict):
    id: Ulid
    definition: Json


class RequestBody(Strict):
    required: bool
    definitions: list[BodyDefinition]


class Response(Strict):
    status: int
    id: Ulid
    definitions: list[BodyDefinition]


class ActionError(Strict):
    field: str
    message: str
    severity: Literal["info", "warning", "error"]


class Trigger(Strict):
    id: Ulid
    errors: list[ActionError]
    type: Literal["http"]
    name: str
    summary: str
    description: str
    method: str
    parameters: list[Parameter]
    request_body: RequestBody | None = None
    responses: list[Response]


class GraphQLArgument(Strict):
    name: str
    type: str
    required: bool
    description: str


class GraphQLOperation(Strict):
    kind: Literal["query", "mutation"]
    document: str
    arguments: list[GraphQLArgument]
    answer: str


class Action(Trigger):
    path: str
    graphql: GraphQLOperation | None = None


class ImportResult(Strict):
    connector: Connector
    definitions: list[Definition]
    actions: list[Action]
    triggers: list[Trigger]
    messages: list[Message]


class Connectors(Page):
    items: list[Connector]


class ConnectorVersions(Page):
    items: list[ConnectorVersion]


class Actions(Page):
    items: list[Action]


class FoundOperation(Strict):
    id: Ulid
    name: str
    method: str
    path: str
    summary: str
    graphql: Literal["query", "mutation"] | None = None
    connector_id: Ulid
    connector_name: str
    version_id: Ulid
    version: str


class FoundOperations(Page):
    items: list[FoundOperation]


class Triggers(Page):
    items: list[Trigger]


class Definitions(Page):
    items: list[Definition]


class CatalogueItem(Strict):
    key: str
    name: str
    summary: str
    categories: list[str]
    auth: list[str]
    proven: list[str]


class CataloguePage(Page):
    items: list[CatalogueItem]


class CatalogueScheme(Strict):
    id: str
    type: str
    description: str
    needs_client: bool
    steps: list[str]
    scopes: list[dict[str, Any]]
    templates: list[dict[str, Any]]


class CatalogueEntry(CatalogueItem):
    website: str
    docs: str
    spec: dict[str, Any]
    schemes: list[CatalogueScheme]
    inputs: list[dict[str, str]]
    sources: list[dict[str, Any]]
