"""Connection: named credentials for a system. The values live in Secrets, never here."""

from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import ConfigDict, Field, StringConstraints

from tieline_core.resources.auth_schemes import AuthSchemeConfig
from tieline_core.resources.fields import (
    DisplayName,
    ItemId,
    Reference,
    Shape,
    ShortText,
    Status,
    Text,
    Timestamp,
    Url,
    ValidationMessage,
    immutable,
    list_map,
    list_set,
    rules,
)
from tieline_core.resources.kinds import READY_COLUMNS, Column, CustomResource, Kind, display_name
from tieline_core.resources.limits import Limits
from tieline_core.resources.systems import Variables


class CredentialType(StrEnum):
    """What a credential holds."""

    NONE = "none"
    STRING = "string"
    BINARY = "binary"
    BASIC_AUTH = "basic-auth"
    OAUTH2_CLIENT = "oauth2-client"
    OAUTH2_CODE = "oauth2-code"
    OAUTH2_PASSWORD = "oauth2-password"  # noqa: S105  (a name of the contract)
    OAUTH2_TOKEN = "oauth2-token"  # noqa: S105
    OAUTH1 = "oauth1"
    CERTIFICATE = "certificate"
    JWT_BEARER = "jwt-bearer"


class ConnectionCredential(Shape):
    """A credential of a connection, with its auth scheme."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                "has(self.authSchemeConfigId) != has(self.authSchemeConfig)",
                "name one of the system's schemes in authSchemeConfigId, or give one in authSchemeConfig",
            ),
            (
                "self.type == 'none' || has(self.secretRef)",
                "secretRef is needed: the values live in a Secret",
            ),
        )
    )

    id: ItemId
    """Identifier, unique in this connection."""
    name: ShortText = ""
    """The credential's name, for people."""
    credential_id: Annotated[str, StringConstraints(max_length=64)] = ""
    """The credential's id in the REST API. Default: derived from the connection's id."""
    type: CredentialType
    """Type of the credential: string, binary, basic-auth, oauth2-client, oauth2-token, certificate, …"""
    auth_scheme_config_id: ItemId | None = None
    """The id of an auth scheme of the System."""
    auth_scheme_config: AuthSchemeConfig | None = None
    """An auth scheme for this connection, instead of one of the System's."""
    secret_ref: Reference | None = None
    """A Secret of type tieline.dev/credential with the values (value; username and password; accessToken; …)."""
    expires_at: Timestamp | None = None
    """When the credential expires. The platform then stops using it, and deletes the tokens that it stored for it."""


Credentials = Annotated[list[ConnectionCredential], Field(max_length=16, json_schema_extra=list_map("id"))]


class AgentTools(Shape):
    """Operations that agents may call through a connection by the Model Context Protocol. Default: none."""

    read: bool = False
    """Allows all operations of the System's connector with the method GET or HEAD. Default: false."""
    operations: Annotated[list[ShortText], Field(max_length=64, json_schema_extra=list_set())] = []
    """Further operations that are allowed, by name and with any method."""


class ConnectionSpec(Shape):
    """The desired state of the connection."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                "has(self.endUserRef) == has(oldSelf.endUserRef)",
                "endUserRef cannot be changed; create a new object instead",
            )
        )
    )

    name: DisplayName
    """Display name, unique among the connections of the System."""
    system_ref: Annotated[Reference, Field(json_schema_extra=immutable("systemRef"))]
    """The System that it connects to."""
    connection_template_ref: Reference | None = None
    """The ConnectionTemplate that the connection was created for."""
    end_user_ref: Annotated[Reference, Field(json_schema_extra=immutable("endUserRef"))] | None = None
    """The EndUser that owns the connection. Absent for a connection of the organisation."""
    base_url: Url | None = None
    """Overrides the System's base URL."""
    variables: Variables = {}
    """Values of the variables in the System's URLs. Default: those of the System."""
    limits: Limits | None = None
    """Rate limits of this connection. Default: those of the System."""
    credentials: Credentials = []
    """Credentials, applied to each request in this order."""
    expose_to_code: bool = False
    """Lets code read the credentials where the ConnectionTemplate has exposeToCode too. Setting it requires the verb
    expose on connections. Default: false."""
    tools: AgentTools | None = None
    """Operations that agents may call through the connection. Default: none."""


class CredentialStatus(Shape):
    """Observed state of a credential."""

    id: ItemId
    """The credential's id in this connection."""
    errors: Annotated[list[Text], Field(max_length=16)] = []
    """Errors of the credential. Empty if it is valid."""
    warnings: Annotated[list[Text], Field(max_length=16)] = []
    """What may end the credential, such as further connections to the same account."""
    validation_messages: Annotated[list[ValidationMessage], Field(max_length=16)] = []
    """Findings about the auth scheme that the credential itself brings (authSchemeConfig)."""
    expired: bool = False
    """Whether the credential expired. It is not used any more, and its stored tokens are deleted."""
    mtls_credential_id: Annotated[str, StringConstraints(max_length=64)] = ""
    """The certificate credential for mutual TLS at the token URL, as named or as selected automatically."""


class ConnectionStatus(Status):
    """The observed state of the connection."""

    name: DisplayName | None = None
    """The name that the connection has. It keeps the name if another connection of the system claims it."""
    credentials: Annotated[
        list[CredentialStatus], Field(max_length=16, json_schema_extra=list_map("id"))
    ] = []
    """Findings per credential that was checked."""


class Connection(CustomResource):
    """Named credentials for a system. Their values live in Secrets of type tieline.dev/credential."""

    kind_info: ClassVar = Kind(
        name="Connection",
        plural="connections",
        short_names=("tlconn",),
        columns=(
            Column(name="System", path=".spec.systemRef.name", description="The System"),
            Column(
                name="State",
                path='.status.conditions[?(@.type=="CredentialsAccepted")].reason',
                description="Whether the system accepts its credentials: Works, Refused, NotChecked, NotAuthorised or "
                "Invalid",
            ),
            Column(
                name="Last success",
                path=r".metadata.annotations.tieline\.dev/last-success",
                type="date",
                description="When a request through it last succeeded",
                priority=1,
            ),
            *READY_COLUMNS,
            display_name(".spec.name", "The connection's name"),
        ),
        selectable=(".spec.systemRef.name", ".spec.endUserRef.name"),
    )

    spec: ConnectionSpec
    """The desired state of the connection."""
    status: ConnectionStatus
    """The observed state of the connection."""
