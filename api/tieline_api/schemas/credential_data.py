"""The values of credentials: one sub-object a type, and how each is kept in a Secret.

The keys of a Secret are the field names here (people write such Secrets by hand as well): text as it is,
lists separated by spaces, truth as ``true`` or ``false``. ``valueBase64`` is the exception: its bytes are
kept under ``value``.
"""

import base64
import binascii
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field, StringConstraints, field_validator

from tieline_api.schemas.base import Rest
from tieline_core.resources.connections import CredentialType

Value = Annotated[str, StringConstraints(max_length=262144)]
_WRITE_ONLY: dict[str, Any] = {"writeOnly": True}
_IN = Field(json_schema_extra=_WRITE_ONLY)
ShortValue = Annotated[str, StringConstraints(max_length=8192)]
Scopes = Annotated[list[Annotated[str, StringConstraints(max_length=256)]], Field(max_length=512)]


class NoData(Rest):
    """Nothing."""


class StringData(Rest):
    """A text, such as an API key."""

    value: Value | None = None
    """The text."""


class BinaryData(Rest):
    """Bytes."""

    value_base64: Annotated[str, StringConstraints(max_length=700000)] | None = None
    """The bytes in base64."""

    @field_validator("value_base64")
    @classmethod
    def _is_base64(cls, value: str | None) -> str | None:
        if value is not None:
            try:
                base64.b64decode(value, validate=True)
            except binascii.Error:
                raise ValueError("must be base64 (RFC 4648, with padding)") from None
        return value


class UserPassword(Rest):
    """A user name and a password."""

    username: ShortValue | None = None
    """The user name."""
    password: ShortValue | None = None
    """The password."""


class OAuth2ClientData(Rest):
    """A client of its own, for the client credentials grant."""

    client_id: ShortValue | None = None
    """The client id."""
    client_secret: ShortValue | None = None
    """The client secret."""
    token_url: ShortValue | None = None
    """Where tokens are issued."""
    scopes: Scopes | None = None
    """Scopes to request."""
    additional_params: ShortValue | None = None
    """More parameters of the token request, form-encoded."""
    m_tls_enabled: Annotated[bool | None, Field(alias="mTLSEnabled")] = None
    """Whether mutual TLS is used towards the token URL."""
    m_tls_credential_id: Annotated[ShortValue | None, Field(alias="mTLSCredentialId")] = None
    """The credential with the client certificate."""


class OAuth2TokenData(Rest):
    """Tokens."""

    scopes: Scopes | None = None
    """Scopes that were granted."""
    refresh_token: Annotated[Value | None, _IN] = None
    """The refresh token."""
    access_token: Annotated[Value | None, _IN] = None
    """The access token."""
    token_type: ShortValue | None = None
    """Bearer."""
    expires_at: ShortValue | None = None
    """When the access token expires (RFC 3339)."""


class OAuth2CodeData(Rest):
    """The result of an authorisation, to be exchanged for tokens."""

    code: ShortValue | None = None
    """The authorisation code."""
    state: ShortValue | None = None
    """The state that came back with it."""
    callback: ShortValue | None = None
    """The query string with which the user returned. Needed if the scheme keeps parameters of it, or checks its
    signature."""


class CertificateData(Rest):
    """A client certificate."""

    certificate: Value | None = None
    """The certificate, in PEM."""
    key: Value | None = None
    """Its private key, in PEM."""
    ca: Value | None = None
    """The authority that the other side's certificate is checked against, in PEM."""


class OAuth1Data(Rest):
    """The result of an OAuth 1.0 authorisation."""

    state: ShortValue | None = None
    """The state that came back."""
    oauth_token: ShortValue | None = None
    """The token."""
    oauth_verifier: ShortValue | None = None
    """The verifier."""


class JwtBearerData(Rest):
    """The key that JWTs are signed with."""

    key: Value | None = None
    """A private key in PEM, or the shared secret for HS algorithms."""
    key_id: ShortValue | None = None
    """The key's id (the header kid)."""


class CredentialData(Rest):
    """The values of a credential, in the sub-object of its type.

    They go in and never come out, except for what of tokens is no secret.
    """

    none: Annotated[NoData | None, _IN] = None
    """For type none."""
    string: Annotated[StringData | None, _IN] = None
    """For type string."""
    binary: Annotated[BinaryData | None, _IN] = None
    """For type binary."""
    basic_auth: Annotated[UserPassword | None, _IN] = None
    """For type basic-auth."""
    oauth2_client: Annotated[
        OAuth2ClientData | None, Field(alias="oauth2Client", json_schema_extra={"writeOnly": True})
    ] = None
    """For type oauth2-client."""
    oauth2_code: Annotated[
        OAuth2CodeData | None, Field(alias="oauth2Code", json_schema_extra={"writeOnly": True})
    ] = None
    """For type oauth2-code."""
    oauth2_password: Annotated[
        UserPassword | None, Field(alias="oauth2Password", json_schema_extra={"writeOnly": True})
    ] = None
    """For type oauth2-password."""
    oauth2_token: Annotated[OAuth2TokenData | None, Field(alias="oauth2Token")] = None
    """For type oauth2-token."""
    oauth1: Annotated[OAuth1Data | None, Field(alias="oauth1")] = None
    """For type oauth1."""
    certificate: Annotated[CertificateData | None, _IN] = None
    """For type certificate."""
    jwt_bearer: Annotated[JwtBearerData | None, _IN] = None
    """For type jwt-bearer."""

    def given(self) -> Mapping[CredentialType, Rest]:
        """The sub-objects that were given, by the type they are for."""
        found = {kind: getattr(self, attribute(kind)) for kind in CredentialType}
        return {kind: value for kind, value in found.items() if value is not None}


def attribute(kind: CredentialType) -> str:
    """The Python name of a type's sub-object."""
    return kind.value.replace("-", "_")


def data_model(kind: CredentialType) -> type[Rest]:
    """The model of a type's sub-object."""
    return _MODELS[kind]


_MODELS: dict[CredentialType, type[Rest]] = {
    CredentialType.NONE: NoData,
    CredentialType.STRING: StringData,
    CredentialType.BINARY: BinaryData,
    CredentialType.BASIC_AUTH: UserPassword,
    CredentialType.OAUTH2_CLIENT: OAuth2ClientData,
    CredentialType.OAUTH2_CODE: OAuth2CodeData,
    CredentialType.OAUTH2_PASSWORD: UserPassword,
    CredentialType.OAUTH2_TOKEN: OAuth2TokenData,
    CredentialType.OAUTH1: OAuth1Data,
    CredentialType.CERTIFICATE: CertificateData,
    CredentialType.JWT_BEARER: JwtBearerData,
}
