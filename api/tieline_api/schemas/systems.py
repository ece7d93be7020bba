"""Systems in REST."""

from typing import Annotated, Any, Self

import orjson
from pydantic import AfterValidator, Field, StringConstraints, model_validator

from tieline_api.schemas.auth_schemes import AuthSchemeConfig
from tieline_api.schemas.base import MaybeId, NullableList, Page, Rest, UlidIn, UlidOut
from tieline_api.schemas.limits import SystemLimits
from tieline_api.schemas.lists import Lists
from tieline_api.schemas.names import DisplayName
from tieline_api.schemas.system_inputs import SystemInput, SystemInputs
from tieline_api.schemas.url_variables import UrlVariable, UrlVariables
from tieline_core.resources.connectors import VersionName
from tieline_core.resources.fields import URL_PATTERN, Labels, Url, ValidationMessage
from tieline_core.resources.systems import (
    PATH_PATTERN,
    CheckBody,
    CheckMethod,
    CheckPath,
    Domain,
    GoodStatuses,
    GoodText,
)

AuthSchemeConfigs = Annotated[list[AuthSchemeConfig], Field(max_length=20)]
DomainOrEmpty = Annotated[str, StringConstraints(max_length=253)]
GraphqlPathOrEmpty = Annotated[str, StringConstraints(max_length=2048, pattern=rf"^$|{PATH_PATTERN}")]
UrlOrEmpty = Annotated[str, StringConstraints(max_length=2048, pattern=rf"^$|{URL_PATTERN}")]


def _json(text: str) -> str:
    try:
        orjson.loads(text)
    except ValueError:
        raise ValueError('must be JSON, such as \'{"query": "{ viewer { id } }"}\'') from None
    return text


class ConnectorRef(Rest):
    """The connector's version of a system: its operations, and what the system does not say itself."""

    id: Annotated[UlidIn | None, MaybeId] = None
    """The connector's id; absent in answers about a connector that does not exist."""
    version: VersionName | None = None
    """A version's name, latest, or default (the connector's default version; also if absent)."""


class CheckExpectation(Rest):
    """What a good answer to a check request is."""

    statuses: GoodStatuses | None = None
    """Accepted statuses. Default: 200 to 299."""
    contains: GoodText | None = None
    """Text that its body contains, for systems that answer errors with 200."""


class ConnectionCheck(Rest):
    """A request that shows whether the system accepts a connection's credentials. In a change, one without a path takes
    it away."""

    method: CheckMethod | None = None
    """GET (the default), HEAD or OPTIONS. POST for systems whose reads have a body, such as GraphQL."""
    path: CheckPath | None = None
    """The path below the connection's base URL, such as /me. It must need the credentials; it may have a query."""
    body: Annotated[CheckBody, AfterValidator(_json)] | None = None
    """The JSON body of a POST. The request must not change anything in the system: it is sent often."""
    expect: CheckExpectation | None = None
    """Criteria for a successful answer."""

    @model_validator(mode="after")
    def _body_belongs_to_post(self) -> Self:
        if (self.body is not None) != (self.method == "POST"):
            raise ValueError("POST needs a body, and other methods have none")
        return self

    def to_spec(self) -> dict[str, Any]:
        """As custom resources have it; empty for none."""
        if self.path is None:
            return {}
        return self.model_dump(exclude_none=True, by_alias=True)


class System(Rest):
    """An external application, with the ways to authenticate that it supports."""

    id: UlidOut
    """The system's id."""
    name: str
    """Its name, for people."""
    domain: str
    """Its domain, such as shop.example."""
    auth_scheme_configs: list[AuthSchemeConfig]
    """The ways to authenticate that it supports."""
    template_base_url: str
    """Base URL of its API."""
    variables: list[UrlVariable]
    """Values of the variables in the URLs."""
    inputs: list[SystemInput] | None = None
    """Variables that people fill in when they connect; absent where there are none."""
    connector_ref: ConnectorRef | None = None
    """The connector's version that it refers to; absent where it refers to none."""
    labels: dict[str, str] | None = None
    """Labels, where there are any."""
    limits: SystemLimits | None = None
    """What it allows of requests through each of its connections."""
    lists: Lists | None = None
    """How its lists come in pages."""
    graphql_path: str | None = None
    """Path of its GraphQL endpoint below the base URL; absent for /graphql."""
    check: ConnectionCheck | None = None
    """The request that checks its connections; absent where it names none."""


class SystemCreate(Rest):
    """A new system."""

    name: DisplayName
    """Its name, for people."""
    domain: DomainOrEmpty
    """Its domain, such as shop.example. With connectorRef, an empty string takes the connector's."""
    template_base_url: UrlOrEmpty
    """Base URL of its API. With connectorRef, an empty string takes the connector's."""
    auth_scheme_configs: Annotated[AuthSchemeConfigs, NullableList]
    """The ways to authenticate that it supports. Those of the connector join them."""
    variables: UrlVariables | None = None
    """Values of the variables in the URLs; a connection may have others."""
    inputs: SystemInputs | None = None
    """Variables that people fill in when they connect. The values are stored in the connection."""
    connector_ref: ConnectorRef | None = None
    """A connector's version. Agents and code may call its operations, and what the system leaves out comes from it."""
    labels: Labels | None = None
    """Labels for your own use."""
    limits: SystemLimits | None = None
    """What it allows of requests through each of its connections."""
    lists: Lists | None = None
    """How its lists come in pages."""
    graphql_path: CheckPath | None = None
    """Path of its GraphQL endpoint below the base URL; /graphql when left out."""
    check: ConnectionCheck | None = None
    """The request that checks its connections."""

    @model_validator(mode="after")
    def _says_where_it_is(self) -> Self:
        if self.connector_ref is None or self.connector_ref.id is None:
            for name, value in (("domain", self.domain), ("templateBaseUrl", self.template_base_url)):
                if not value:
                    raise ValueError(
                        f"{name} must not be empty, unless connectorRef names a connector that has it"
                    )
        return self


class SystemFromVersion(Rest):
    """What is to be otherwise than a connector's version says."""

    name: DisplayName | None = None
    """The system's name; the connector's when absent."""
    domain: Domain | None = None
    """Its domain; the base URL's host when absent."""
    template_base_url: Url | None = None
    """Base URL of its API."""
    labels: Labels | None = None
    """Labels for your own use."""


class SystemWithMessages(System):
    """A new system, and what of the connector's version could not be taken."""

    messages: list[ValidationMessage]
    """What is missing, with what to do."""


class SystemUpdate(Rest):
    """Changes of a system; what is left out stays."""

    name: DisplayName | None = None
    """Its name, for people."""
    domain: DomainOrEmpty | None = None
    """Its domain, such as shop.example. With connectorRef, an empty string takes the connector's."""
    template_base_url: UrlOrEmpty | None = None
    """Base URL of its API. With connectorRef, an empty string takes the connector's."""
    variables: UrlVariables | None = None
    """All values of the variables in the URLs; those not listed are removed."""
    inputs: SystemInputs | None = None
    """All variables that people fill in when they connect; those not listed are removed."""
    connector_ref: ConnectorRef | None = None
    """A connector's version; an empty object takes the reference away."""
    labels: Labels | None = None
    """All labels; those not listed are removed."""
    limits: SystemLimits | None = None
    """What it allows of requests through each of its connections."""
    lists: Lists | None = None
    """How its lists come in pages."""
    graphql_path: GraphqlPathOrEmpty | None = None
    """Path of its GraphQL endpoint below the base URL; an empty string takes it away."""
    check: ConnectionCheck | None = None
    """The request that checks its connections."""


class SystemPage(Page):
    """A part of the list of systems."""

    items: list[System]
    """The systems, oldest first."""
