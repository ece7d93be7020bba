"""AuthSchemeConfig in REST: the id sits in the sub-object, secrets go in and never come out."""

from collections.abc import Mapping
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, StringConstraints, TypeAdapter, model_validator

from tieline_api.schemas.base import MADE_UP, IdOrEmpty, MaybeId, Rest, is_no_id
from tieline_api.schemas.oauth2_dialect import OAuth2Dialect
from tieline_core.identity.ids import new_id
from tieline_core.resources import auth_schemes as core
from tieline_core.resources.fields import ItemId, Text, Ulid, ValidationMessage
from tieline_protocol import signatures
from tieline_protocol.signature_presets import specified_fields

FOREIGN = "\u0000foreign:"
"""Marks a sub-object of another type, so that it is reported and dropped with the unknown fields."""

SUB_OBJECTS: Mapping[str, str] = {str(kind): core.sub_object(kind) for kind in core.AuthSchemeType}

_PLACEHOLDERS = frozenset(
    {core.AuthSchemeType.NONE, core.AuthSchemeType.BASIC_AUTH, core.AuthSchemeType.CERTIFICATE}
)
"""Types whose sub-object has nothing but the common fields: it may be null."""

WriteOnly = Annotated[
    str,
    StringConstraints(max_length=8192),
    Field(json_schema_extra={"writeOnly": True, "format": "password"}),
]


class SchemeFields(Rest):
    """What every sub-object carries."""

    id: Annotated[ItemId, Field(default_factory=new_id), MADE_UP]
    """Chosen by the client; unique in its list. Made up when empty."""
    description: Text = ""
    """Tells several schemes of one type apart."""
    validation_messages: Annotated[
        list[ValidationMessage], Field(default_factory=list, json_schema_extra={"readOnly": True})
    ]
    """Findings of the service; ignored in requests."""

    @model_validator(mode="before")
    @classmethod
    def _ignore_messages(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        ignored = {"validationMessages"} | ({"id"} if is_no_id(data.get("id")) else set())
        return {key: value for key, value in data.items() if key not in ignored}


class PlaceholderScheme(SchemeFields):
    """Nothing to configure beyond the common fields."""


class ApiKeyScheme(SchemeFields, core.ApiKey):
    """A key that is sent with every request."""


class BasicAuthScheme(SchemeFields, core.BasicAuth):
    """A user name and a password (RFC 7617)."""


class HmacScheme(SchemeFields, core.Hmac):
    """A signature over the request."""

    @model_validator(mode="before")
    @classmethod
    def _without_what_answers_repeat(cls, given: Any) -> Any:
        """Answers show a preset's fields to clients that need them, and clients send back what they have read."""
        if not isinstance(given, Mapping) or not isinstance(given.get("preset"), str):
            return given
        shown = specified_fields(given["preset"])
        return {name: value for name, value in given.items() if name not in shown or value != shown[name]}

    @model_validator(mode="after")
    def _is_complete(self) -> Self:
        options = self.model_dump(mode="json", by_alias=True, exclude_unset=True, exclude_none=True)
        if problem := signatures.problem_of(options):
            raise ValueError(problem)
        return self

    def with_specified_fields(self) -> Self:
        """With the fields that its preset stands for, which clients of the specification need."""
        if self.preset is None:
            return self
        shown = specified_fields(self.preset)
        return self.model_copy(
            update={
                "name": shown["name"],
                "in_": core.ParameterPlace(shown["in"]),
                "algorithm": shown["algorithm"],
                "digest_inputs": shown["digestInputs"],
            }
        )


class JwtBearerScheme(SchemeFields, core.JwtBearer):
    """A JWT that is signed for each request."""


class SecretScheme(SchemeFields, core.SharedSecret):
    """A secret value that is sent under a name."""


class GrantClient(Rest):
    """The OAuth client that is used for a grant."""

    credential_id: Annotated[str, StringConstraints(max_length=64), IdOrEmpty] = ""
    """Id of the credential that holds the client's id and secret; of a client given here, the one made for it."""
    organisation_id: Annotated[Ulid, IdOrEmpty] = ""
    """The organisation that owns that credential."""
    client_id: Annotated[str, StringConstraints(max_length=1024)] = ""
    """The client id. Not sensitive."""
    client_secret: WriteOnly | None = None
    """The client secret: stored, never shown. Leaving it out keeps the stored one."""


class Grant(Rest):
    """Which OAuth 2.0 flow, with the sub-object that belongs to it."""

    type: core.OAuth2GrantType
    """authorizationCode, clientCredentials or password."""
    authorization_code: GrantClient | None = None
    """The client for the authorisation code flow."""
    client_credentials: core.Placeholder | None = None
    """Empty: the client is part of the connection's credential."""
    password: GrantClient | None = None
    """The client for the password flow."""

    @model_validator(mode="after")
    def _has_its_client(self) -> "Grant":
        if self.type == core.OAuth2GrantType.AUTHORIZATION_CODE and self.authorization_code is None:
            raise ValueError("a grant of type authorizationCode needs authorizationCode")
        if self.type == core.OAuth2GrantType.PASSWORD and self.password is None:
            raise ValueError("a grant of type password needs password")
        return self

    def client(self) -> GrantClient | None:
        """The client of the grant's own type."""
        match self.type:
            case core.OAuth2GrantType.AUTHORIZATION_CODE:
                return self.authorization_code
            case core.OAuth2GrantType.PASSWORD:
                return self.password
        return None


MtlsCredentialId = Annotated[str, StringConstraints(max_length=64)]


class _Lenient(Rest):
    """Takes null for what has a default, in a part that custom resources have as well."""


class OAuth2Scope(_Lenient, core.OAuth2Scope):
    """A scope that the application supports."""


Usages = list[core.OAuth1Usage]
_USAGES = TypeAdapter(Usages)


def _one_usage(value: object) -> object:
    """A list of usages as the one that stands for all of them."""
    if not isinstance(value, list):
        return value
    distinct = set(_USAGES.validate_python(value))
    return distinct.pop() if len(distinct) == 1 else core.OAuth1Usage.UNKNOWN


class OAuth1Parameter(_Lenient, core.OAuth1Parameter):
    """An extra parameter of an OAuth 1.0 endpoint."""

    usages: Annotated[
        core.OAuth1Usage,
        BeforeValidator(_one_usage, json_schema_input_type=core.OAuth1Usage | Usages),
    ] = core.OAuth1Usage.UNKNOWN
    """The request it is for. USAGE_UNKNOWN (the default): every request to its endpoint. Requests may have a list."""


class OAuth1Endpoint(_Lenient, core.OAuth1Endpoint):
    """One of the three endpoints of OAuth 1.0."""

    additional_param_configs: Annotated[  # type: ignore[assignment]
        list[OAuth1Parameter], Field(max_length=32, default_factory=list)
    ]
    """Extra parameters."""


class OAuth2Scheme(SchemeFields, OAuth2Dialect, core.OAuth2):
    """OAuth 2.0, where client id and secret are part of the system's configuration."""

    scopes: Annotated[list[OAuth2Scope], Field(max_length=512, default_factory=list)]  # type: ignore[assignment]
    """All scopes that the application supports; the user chooses among them."""
    mtls_credential_id: Annotated[MtlsCredentialId | None, MaybeId] = None  # type: ignore[assignment]
    """The credential with the client certificate; found by itself among the certificate schemes when absent."""
    grant: Grant  # type: ignore[assignment]  # the same, with the secret's value instead of a reference
    """The flow."""


class OAuth1Scheme(SchemeFields):
    """OAuth 1.0 (RFC 5849)."""

    consumer_key: Annotated[str, StringConstraints(max_length=1024)] = ""
    """The consumer key. Not sensitive."""
    consumer_secret: WriteOnly | None = None
    """The consumer secret: stored, never shown. Leaving it out keeps the stored one."""
    signature_method: Annotated[
        str,
        StringConstraints(
            pattern="^(HMAC-SHA1|HMAC-SHA256|HMAC-SHA512|RSA-SHA1|RSA-SHA256|RSA-SHA512|PLAINTEXT)$",
            max_length=16,
        ),
    ] = "HMAC-SHA1"
    """HMAC-SHA1 (the default), HMAC-SHA256, HMAC-SHA512, RSA-SHA1, RSA-SHA256, RSA-SHA512 or PLAINTEXT."""
    credential_id: Annotated[str, StringConstraints(max_length=64), IdOrEmpty] = ""
    """Id of the credential that holds the consumer's key and secret; of a consumer given here, the one made for it."""
    temp_credential_endpoint: OAuth1Endpoint | None = None
    """Where temporary credentials are issued."""
    resource_owner_authorization_endpoint: OAuth1Endpoint | None = None
    """Where the user authorises."""
    token_endpoint: OAuth1Endpoint | None = None
    """Where token credentials are issued."""


class AuthSchemeConfig(Rest):
    """One way to authenticate at a system: a type, and the sub-object that is named after it."""

    type: core.AuthSchemeType
    """none, api-key, basic-auth, oauth2, hmac, jwt-bearer, certificate, oauth1 or secret."""
    none: PlaceholderScheme | None = None
    """For type none."""
    api_key: ApiKeyScheme | None = None
    """For type api-key."""
    basic_auth: BasicAuthScheme | None = None
    """For type basic-auth."""
    oauth2: Annotated[OAuth2Scheme | None, Field(alias="oauth2")] = None
    """For type oauth2."""
    hmac: HmacScheme | None = None
    """For type hmac."""
    jwt_bearer: JwtBearerScheme | None = None
    """For type jwt-bearer."""
    certificate: PlaceholderScheme | None = None
    """For type certificate."""
    oauth1: Annotated[OAuth1Scheme | None, Field(alias="oauth1")] = None
    """For type oauth1."""
    secret: SecretScheme | None = None
    """For type secret."""

    @model_validator(mode="before")
    @classmethod
    def _set_foreign_aside(cls, data: Any) -> Any:
        """Only the sub-object that matches the type is meaningful: others may even be malformed."""
        if not isinstance(data, dict) or not isinstance(kind := data.get("type"), str):
            return data
        own = SUB_OBJECTS.get(kind)
        if own is None:
            return data
        foreign = set(SUB_OBJECTS.values()) - {own}
        kept = {
            FOREIGN + key if key in foreign else key: value
            for key, value in data.items()
            if key not in foreign or value is not None
        }
        if kind in _PLACEHOLDERS and kept.get(own, ...) is None:
            kept[own] = {}
        return kept

    @model_validator(mode="after")
    def _has_its_sub_object(self) -> "AuthSchemeConfig":
        if self.sub_object() is None:
            raise ValueError(f"an auth scheme of type {self.type} needs {SUB_OBJECTS[self.type]}")
        return self

    def sub_object(self) -> SchemeFields | None:
        """The sub-object of the scheme's own type."""
        found = getattr(self, _attribute(self.type))
        return found if isinstance(found, SchemeFields) else None

    @property
    def id(self) -> str:
        """The scheme's id, which sits in its sub-object."""
        found = self.sub_object()
        return found.id if found else ""

    @property
    def has_own_id(self) -> bool:
        """Whether the client has given the id; it is made up otherwise."""
        found = self.sub_object()
        return found is not None and "id" in found.model_fields_set

    def with_id(self, identifier: str) -> Self:
        """The same scheme under another id."""
        found = self.sub_object()
        if found is None:
            return self
        return self.model_copy(update={_attribute(self.type): found.model_copy(update={"id": identifier})})


def _attribute(kind: core.AuthSchemeType) -> str:
    return kind.value.replace("-", "_")
