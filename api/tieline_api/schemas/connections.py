"""Connections and credentials in REST."""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import AwareDatetime, BeforeValidator, Field, StrictBool, StringConstraints

from tieline_api.schemas.auth_schemes import AuthSchemeConfig
from tieline_api.schemas.base import MaybeId, NullableList, Page, Rest, SearchQuery, TimeOut, UlidIn, UlidOut
from tieline_api.schemas.credential_data import CredentialData
from tieline_api.schemas.limits import Limits
from tieline_api.schemas.names import DisplayName, ShortName
from tieline_api.schemas.url_variables import UrlVariable, UrlVariables
from tieline_core.credentials.connection_state import ConnectionState
from tieline_core.resources.connections import CredentialType
from tieline_core.resources.fields import URL_PATTERN, ItemId, Url


def _in_upper_case(value: object) -> object:
    return value.upper() if isinstance(value, str) else value


UrlOrEmpty = Annotated[str, StringConstraints(max_length=2048, pattern=rf"^$|{URL_PATTERN}")]


class CredentialSecret(Rest):
    """A Secret with the values of a credential, which REST does not manage."""

    name: str
    """Its name, in the organisation's namespace."""
    managed_by: str | None = None
    """Who manages it, such as Flux (Kustomization "apps"): change the values there. Absent if it does not exist."""


class Credential(Rest):
    """Secret material; its values go in and never come out."""

    id: Annotated[Annotated[str, StringConstraints(max_length=64)] | None, MaybeId] = None
    """The credential's id, a ULID in answers; derived from the connection's when left out."""
    organisation_id: Annotated[str, Field(json_schema_extra={"readOnly": True})] | None = None
    """The organisation that owns it."""
    type: CredentialType | None = None
    """none, string, binary, basic-auth, oauth2-client, oauth2-code, oauth2-password, oauth2-token, oauth1,
    certificate or jwt-bearer; when left out, what data says."""
    name: ShortName | None = None
    """Its name, for people."""
    errors: Annotated[list[str], Field(json_schema_extra={"readOnly": True})] | None = None
    """What is wrong with it; absent when it was not checked, empty when it is valid."""
    warnings: Annotated[list[str], Field(json_schema_extra={"readOnly": True})] | None = None
    """What may end it, such as further connections to the same account. Absent for nothing."""
    data: CredentialData | None = None
    """The values, in the sub-object of the type. Leaving them out keeps those stored. Secrets go in and never
    come out; of tokens, their scopes, type and end do."""
    expires_at: AwareDatetime | None = None
    """When the service deletes the credential."""
    secret: Annotated[CredentialSecret | None, Field(json_schema_extra={"readOnly": True})] = None
    """The Secret with its values, if that is managed in Git or with kubectl. Absent if REST stored them."""


class ConnectionCredential(Rest):
    """A credential of a connection, and the auth scheme it is for."""

    id: Annotated[ItemId | None, MaybeId] = None
    """Unique in the connection, a ULID in answers; made up when left out."""
    auth_scheme_config: AuthSchemeConfig | None = None
    """One of the system's auth schemes, or one of the connection's own."""
    auth_scheme_config_id: Annotated[ItemId | None, MaybeId] = None
    """The id of one of the system's auth schemes, in the place of authSchemeConfig, which counts where both are given.
    Answers have both; for a scheme of the connection's own it is absent."""
    credential: Credential | None = None
    """The credential."""


ExternalId = Annotated[str, StringConstraints(min_length=1, max_length=256, pattern=r"^[^\x00-\x1f\x7f]+$")]
Credentials = Annotated[list[ConnectionCredential], Field(max_length=16)]


class RefusedRequests(Rest):
    """Requests that the system did not let in."""

    status: int
    """What the last one was answered with: 401 or 403."""
    count: int
    """How many are known of at least."""
    since: TimeOut
    """When they began."""
    last_at: TimeOut
    """When the last one was reported, to about five minutes."""
    said: str | None = None
    """The beginning of the last answer's body, without secrets; absent where it is not known."""


class LastRefusal(RefusedRequests):
    """The last requests that the system refused."""

    accepted_at: TimeOut | None = None
    """When the system accepted a request again; absent while it refuses them."""


class ExpiryKind(StrEnum):
    """What expires in a connection."""

    CREDENTIAL = "credential"
    """The credential, by its expiresAt."""
    TOKEN = "token"  # noqa: S105  (a word)
    """An access token that cannot be renewed."""
    CERTIFICATE = "certificate"
    """A client certificate."""


class Expiry(Rest):
    """When a part of a connection expires."""

    what: ExpiryKind
    """credential (its expiresAt), token (an access token that cannot be renewed) or certificate."""
    at: TimeOut
    """When it expires, or expired."""
    credential_id: UlidOut
    """The credential, by its id in the connection."""


class AgentTools(Rest):
    """What agents may call through a connection. In a change, an empty object takes it away."""

    read: StrictBool = False
    """Whether they may call all operations whose method is GET or HEAD."""
    operations: Annotated[list[ShortName], Field(max_length=64, default_factory=list)]
    """Names of further operations that they may call, whatever their method."""

    def to_spec(self) -> dict[str, bool | list[str]]:
        """As custom resources have it; empty for none."""
        read = {"read": True} if self.read else {}
        names = list(dict.fromkeys(self.operations))
        return {**read, **({"operations": names} if names else {})}


class KeptValues(Rest):
    """What a connection keeps of its provider's answers."""

    account_id: str | None = None
    """The id of the account at the system."""
    account_name: str | None = None
    """The account's name."""
    base_url: str | None = None
    """The base URL of the account, which counts unless the connection has its own."""
    variables: list[UrlVariable]
    """Variables of the connection's URLs and headers."""


class Connection(Rest):
    """A named set of credentials for a system."""

    id: UlidOut
    """The connection's id."""
    name: str
    """Its name; unique for its system."""
    credentials: list[ConnectionCredential]
    """Credentials, applied to each request in this order."""
    created_at: TimeOut
    """When it was created."""
    updated_at: TimeOut
    """When it was last changed."""
    base_url: str | None = None
    """Overrides the system's base URL."""
    system_id: UlidOut | None = None
    """The system; absent when it does not exist."""
    variables: list[UrlVariable]
    """Values for the parts of the system's base URL in curly braces."""
    connection_template_id: UlidOut | None = None
    """The template that it was created against, or that it is used for."""
    limits: Limits | None = None
    """Its own limits, in the place of the system's."""
    expose_to_code: Literal[True] | None = None
    """True where code may read its credentials; absent otherwise."""
    tools: AgentTools | None = None
    """What agents may call through it; absent where that is nothing."""
    state: ConnectionState
    """Whether it works: not_authorised (a credential has not been given), invalid (see the credentials' errors),
    refused (see refused, or the errors), not_checked (no request has succeeded with these credentials), or works."""
    last_success_at: TimeOut | None = None
    """When a request last succeeded with these credentials, to about ten minutes; absent where none is known."""
    kept: KeptValues | None = None
    """What it keeps of the provider's answers; absent where that is nothing."""
    refused: RefusedRequests | None = None
    """The last requests that the system refused; absent while it accepts them, and once the credentials change."""
    last_refusal: LastRefusal | None = None
    """The same, also after the system accepts requests again; absent if it refused none with these credentials."""
    expires: list[Expiry]
    """What expires in it and is not renewed automatically, the earliest first."""


class ConnectionUpdate(Rest):
    """Changes of a connection; what is left out stays."""

    name: DisplayName | None = None
    """Its name; unique for its system."""
    credentials: Credentials | None = None
    """All its credentials, in their order; those not listed are removed."""
    base_url: UrlOrEmpty | None = None
    """Overrides the system's base URL; an empty string takes the override away."""
    variables: UrlVariables | None = None
    """All values for the parts of the system's base URL in curly braces; those not listed are removed."""
    limits: Limits | None = None
    """Its own limits, in the place of the system's."""
    expose_to_code: StrictBool | None = None
    """Whether code may read its credentials. True needs the permission to expose connections."""
    tools: AgentTools | None = None
    """What agents may call through it."""


class NewConnection(Rest):
    """A new connection."""

    name: DisplayName
    """Its name; unique for its system."""
    credentials: Annotated[Credentials, NullableList]
    """Its credentials, in the order in which they are applied."""
    base_url: Annotated[Url | None, MaybeId] = None
    """Overrides the system's base URL."""
    variables: UrlVariables | None = None
    """Values for the parts of the system's base URL in curly braces; those of the system where left out."""
    limits: Limits | None = None
    """Its own limits, in the place of the system's."""
    expose_to_code: StrictBool = False
    """Whether code may read its credentials. True needs the permission to expose connections."""
    tools: AgentTools | None = None
    """What agents may call through it; nothing when left out."""
    external_id: Annotated[ExternalId | None, MaybeId] = None
    """The user whose connection it is, by the id in your application; created when new. Absent: everybody's."""


class ConnectionCreate(Rest):
    """A new connection, and the template that it is created against."""

    connection_template_id: UlidIn
    """The template: it says which system. A static one without a connection is linked at once."""
    connection: NewConnection
    """The connection."""


class LinkBody(Rest):
    """The template to link with, or to unlink from."""

    connection_template_id: UlidIn
    """A static connection template of the connection's system."""


class ConnectionPage(Page):
    """A part of a list of connections."""

    items: list[Connection]
    """The connections, oldest first."""


class ConnectionsQuery(SearchQuery):
    """Which connections; ``search`` looks into their names."""

    system_id: Annotated[str, StringConstraints(max_length=64)] | None = None
    """Only those of this system."""
    end_user_id: Annotated[str, StringConstraints(max_length=256)] | None = None
    """Only those of this user."""
    unused: bool | None = None
    """Only those that no template and no activation uses (true), or that one does (false)."""
    expires_before: AwareDatetime | None = None
    """Only those with a credential, a certificate, or a token that cannot be renewed, that expires before this time."""


class UsingTemplate(Rest):
    """A static connection template that is linked to a connection."""

    connection_template_id: UlidOut
    """The template."""
    name: str
    """The name by which code refers to it."""
    project_id: UlidOut | None = None
    """Its project; absent where that does not exist."""
    project_name: str = ""
    """The project's name."""
    environment_id: UlidOut | None = None
    """Its environment; absent with the project."""
    environment_name: str
    """The environment's name."""


class UsingActivation(Rest):
    """An activation that has a connection."""

    id: UlidOut
    """The activation's id."""
    user_id: UlidOut | None = None
    """The user; absent for an environment's own activation, and for a user that does not exist."""
    external_id: str = ""
    """The user's id in your application."""
    display_name: str = ""
    """The user's name."""
    project_id: UlidOut | None = None
    """The project; absent where that does not exist."""
    project_name: str = ""
    """The project's name."""
    environment_name: str
    """The environment's name."""


class ConnectionUses(Rest):
    """What uses a connection."""

    templates: list[UsingTemplate]
    """The connection templates that are linked to it, oldest first: at most 100."""
    template_count: int
    """How many there are in all."""
    activations: list[UsingActivation]
    """The activations that have it, oldest first: at most 100."""
    activation_count: int
    """How many there are in all."""


class ConnectionTest(Rest):
    """A request that tests a connection."""

    method: Annotated[Literal["GET", "HEAD", "OPTIONS"] | None, BeforeValidator(_in_upper_case)] = None
    """The method: one that changes nothing. GET when left out."""
    path: Annotated[str, StringConstraints(max_length=8192)] | None = None
    """The path below the connection's base URL, such as /me; it may have a query. Without method and path, the test is
    the check request of the system, or a GET of the base URL where the system has none."""


class ConnectionTestResult(Rest):
    """What came of a test."""

    ok: bool
    """Whether the system accepts the credentials, by its check; without one, whether it did not refuse them."""
    status: int | None = None
    """The status that the system answered with; absent when it did not answer."""
    message: str
    """What that means, for people."""
    said: str | None = None
    """The beginning of the answer's body, without secrets, where the test failed."""
