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
from tieline_core.resources.kinds import READY_COLUMNS, Column, CustomResource, Kind
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
    """One credential of a connection, and the auth scheme it is for."""

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
    """Unique in this connection."""
    name: ShortText = ""
    """The credential's name, for people."""
    credential_id: Annotated[str, StringConstraints(max_length=64)] = ""
    """The id of the credential in the REST API; derived from the connection's id when empty."""
    type: CredentialType
    """What the Secret holds: string, binary, basic-auth, oauth2-client, oauth2-token, certificate, …"""
    auth_scheme_config_id: ItemId | None = None
    """The id of one of the system's auth schemes."""
    auth_scheme_config: AuthSchemeConfig | None = None
    """An auth scheme of this connection's own, instead of one of the system's."""
    secret_ref: Reference | None = None
    """A Secret of type tieline.dev/credential with the values (value; username and password; accessToken; …)."""
    expires_at: Timestamp | None = None
    """When the credential expires: the platform stops using it and deletes what it stored for it."""


Credentials = Annotated[list[ConnectionCredential], Field(max_length=16, json_schema_extra=list_map("id"))]


class AgentTools(Shape):
    """What agents may call through a connection, by the Model Context Protocol. What is not named is closed to them."""

    read: bool = False
    """Whether they may call all operations of the system's connector whose method is GET or HEAD."""
    operations: Annotated[list[ShortText], Field(max_length=64, json_schema_extra=list_set())] = []
    """Names of further operations that they may call, whatever their method."""


class ConnectionSpec(Shape):
    """The connection as its users describe it."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                "has(self.endUserRef) == has(oldSelf.endUserRef)",
                "endUserRef cannot be changed; create a new object instead",
            )
        )
    )

    name: DisplayName
    """The connection's name, for people; unique for its system."""
    system_ref: Annotated[Reference, Field(json_schema_extra=immutable("systemRef"))]
    """The System that it connects to."""
    connection_template_ref: Reference | None = None
    """The ConnectionTemplate that it was created against."""
    end_user_ref: Annotated[Reference, Field(json_schema_extra=immutable("endUserRef"))] | None = None
    """The EndUser it belongs to; absent for an organisation's own connection."""
    base_url: Url | None = None
    """Overrides the system's base URL."""
    variables: Variables = {}
    """Values for the parts of the system's base URL in curly braces; those of the system where absent."""
    limits: Limits | None = None
    """What the system allows of requests through this connection; the system's limits where absent."""
    credentials: Credentials = []
    """Credentials, applied to each request in this order."""
    expose_to_code: bool = False
    """Whether code may read the credentials, where the connection template says exposeToCode too. Setting it needs the
    verb expose on connections. False by default."""
    tools: AgentTools | None = None
    """What agents may call through the connection. Absent: nothing."""


class CredentialStatus(Shape):
    """What was found about one credential."""

    id: ItemId
    """The credential's id in this connection."""
    errors: Annotated[list[Text], Field(max_length=16)] = []
    """What is wrong with it; empty when it was checked and is valid."""
    validation_messages: Annotated[list[ValidationMessage], Field(max_length=16)] = []
    """Findings about the auth scheme that the credential itself brings (authSchemeConfig)."""
    expired: bool = False
    """Whether its expiresAt has come: it is not used any more, and what the platform kept of it is deleted."""
    mtls_credential_id: Annotated[str, StringConstraints(max_length=64)] = ""
    """The certificate credential that mutual TLS at the token URL uses: the one named, or the one that was found."""


class ConnectionStatus(Status):
    """What the operator saw of the connection."""

    credentials: Annotated[
        list[CredentialStatus], Field(max_length=16, json_schema_extra=list_map("id"))
    ] = []
    """Findings per credential that was checked."""


class Connection(CustomResource):
    """Named credentials for a system. Their values live in Secrets of type tieline.dev/credential."""

    kind_info: ClassVar = Kind(
        name="Connection",
        plural="connections",
        short_names=("conn",),
        columns=(
            Column(name="Name", path=".spec.name", description="The connection's name"),
            Column(name="System", path=".spec.systemRef.name", description="What it connects to"),
            Column(
                name="Accepted",
                path='.status.conditions[?(@.type=="CredentialsAccepted")].status',
                description="Whether the system accepts its credentials; empty where it never refused them",
            ),
            *READY_COLUMNS,
        ),
        selectable=(".spec.systemRef.name", ".spec.endUserRef.name"),
    )

    spec: ConnectionSpec
    """The connection, as its users describe it."""
    status: ConnectionStatus
    """What the operator saw."""
