"""How a system wants requests to be authenticated: the nine schemes of the specification.

An item has a ``type`` and the one sub-object that belongs to it. In REST the item's id sits inside the
sub-object; here it is the item's own, so that a list of schemes merges item by item. Nothing here is
secret: client secrets and keys live in Secrets.
"""

from enum import StrEnum
from typing import Annotated

from pydantic import ConfigDict, Field, StringConstraints

from tieline_core.resources.fields import (
    ItemId,
    JsonObject,
    Params,
    Reference,
    Scope,
    Shape,
    ShortText,
    Text,
    Ulid,
    Url,
    list_map,
    rules,
)
from tieline_protocol.signatures import INPUT_PATTERN, MAX_INPUTS

ParameterName = Annotated[
    str, StringConstraints(min_length=1, max_length=128, pattern=r"^[!#$%&'*+.^_`|~0-9A-Za-z\[\]-]+$")
]
# OAuth endpoints may be templated ("https://{shop}.example/oauth"), so they are checked as URLs when used.
Endpoint = Url


class AuthSchemeType(StrEnum):
    """The kinds of authentication that a system can ask for."""

    NONE = "none"
    API_KEY = "api-key"
    BASIC_AUTH = "basic-auth"
    OAUTH2 = "oauth2"
    HMAC = "hmac"
    JWT_BEARER = "jwt-bearer"
    CERTIFICATE = "certificate"
    OAUTH1 = "oauth1"
    SECRET = "secret"  # noqa: S105  (a name of the specification)


class ParameterPlace(StrEnum):
    """Where in a request a value is carried."""

    QUERY = "query"
    HEADER = "header"
    COOKIE = "cookie"


class SecretPlace(StrEnum):
    """Where in a request a shared secret is carried."""

    HEADER = "header"
    QUERY = "query"
    COOKIE = "cookie"
    BODY = "body"


class Placeholder(Shape):
    """Nothing to configure."""


class ApiKey(Shape):
    """A key that is sent with every request."""

    name: ParameterName
    """Name of the query parameter, header or cookie that carries the key."""
    in_: Annotated[ParameterPlace, Field(alias="in")]
    """Where the key is sent: query, header or cookie."""


class HmacAlgorithm(StrEnum):
    """The hash of an HMAC signature."""

    SHA1 = "sha1"
    SHA256 = "sha256"
    SHA512 = "sha512"


DigestInput = Annotated[str, StringConstraints(min_length=1, max_length=136, pattern=INPUT_PATTERN)]


class SignaturePreset(StrEnum):
    """A sender whose way to sign requests is known."""

    GITHUB = "github"
    META = "meta"
    SHOPIFY = "shopify"
    SLACK = "slack"
    STANDARD_WEBHOOKS = "standard-webhooks"
    STRIPE = "stripe"


class SignatureEncoding(StrEnum):
    """How the signature's bytes are written."""

    HEX = "hex"
    BASE64 = "base64"
    BASE64URL = "base64url"


class SignatureFormat(StrEnum):
    """How a value carries signatures."""

    PLAIN = "plain"
    FIELDS = "fields"
    LIST = "list"


class KeyEncoding(StrEnum):
    """How the key is written in its credential."""

    TEXT = "text"
    BASE64 = "base64"


FieldName = Annotated[str, StringConstraints(max_length=64)]
HeaderName = Annotated[str, StringConstraints(max_length=128)]


class Hmac(Shape):
    """A signature over the request; signs outbound requests and, more often, verifies inbound webhooks."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                "has(self.preset) || (has(self.name) && has(self.__in__) && has(self.algorithm) && "
                "has(self.digestInputs))",
                "set name, in, algorithm and digestInputs, or a preset in their place",
            ),
            (
                "!has(self.preset) || !(has(self.name) || has(self.__in__) || has(self.algorithm) || "
                "has(self.digestInputs) || has(self.encoding) || has(self.signatureFormat) || has(self.keyEncoding) || "
                + " || ".join(
                    f"(has(self.{name}) && self.{name} != '')"
                    for name in (
                        "signatureField",
                        "prefix",
                        "timestampHeader",
                        "timestampField",
                        "idHeader",
                        "keyPrefix",
                    )
                )
                + ")",
                "a preset sets all fields but toleranceSeconds: leave those out, or leave out preset",
            ),
        )
    )

    preset: SignaturePreset | None = None
    """The sender, in place of the fields below but toleranceSeconds: github, meta, shopify, slack, standard-webhooks
    or stripe."""
    name: ParameterName | None = None
    """Name of the query parameter, header or cookie that carries the signature. Needed without a preset."""
    in_: Annotated[ParameterPlace | None, Field(alias="in")] = None
    """Where the signature is carried: query, header or cookie. Needed without a preset."""
    algorithm: HmacAlgorithm | None = None
    """Hash algorithm: sha1, sha256 or sha512. Needed without a preset."""
    digest_inputs: Annotated[list[DigestInput] | None, Field(min_length=1, max_length=MAX_INPUTS)] = None
    """What is signed, in this order: body (the exact bytes), url, timestamp, id, header:NAME (a header's value) and
    literal:TEXT. Needed without a preset."""
    encoding: SignatureEncoding | None = None
    """How the signature is written: hex (the default), base64 or base64url."""
    signature_format: SignatureFormat | None = None
    """How the value carries signatures: plain (the default) is one signature, fields is t=…,v1=…, and list is
    signatures with spaces between them. One of several signatures has to match."""
    signature_field: FieldName = ""
    """The field with the signature where signatureFormat is fields, such as v1."""
    prefix: ShortText = ""
    """Text before the signature, such as "sha256=", or before each one of a list. Empty by default."""
    timestamp_header: ShortText = ""
    """Header with the time of an inbound request in seconds; when set, old requests are refused."""
    timestamp_field: FieldName = ""
    """The field with that time, where signatureFormat is fields, such as t."""
    tolerance_seconds: Annotated[int, Field(ge=1, le=86400)] = 300
    """How far the time of an inbound request may be away. 300 by default."""
    id_header: HeaderName = ""
    """Header with the sender's id of an inbound request, by which repeated ones are noticed."""
    key_encoding: KeyEncoding | None = None
    """How a credential of type string holds the key: text (the default), whose bytes are the key, or base64."""
    key_prefix: Annotated[str, StringConstraints(max_length=32)] = ""
    """Text before the key that is not part of it, such as "whsec_"."""


class OAuth2Scope(Shape):
    """A scope that the application supports."""

    name: Scope
    """The scope as it is requested."""
    description: Text = ""
    """What it allows."""


class OAuth2GrantType(StrEnum):
    """The OAuth 2.0 flow."""

    AUTHORIZATION_CODE = "authorizationCode"
    CLIENT_CREDENTIALS = "clientCredentials"
    PASSWORD = "password"  # noqa: S105  (the grant's name in RFC 6749)


class OAuth2Client(Shape):
    """The OAuth client that is used for a grant."""

    credential_id: Annotated[str, StringConstraints(max_length=64)] = ""
    """Id of the credential that holds the client's id and secret."""
    organisation_id: Ulid = ""
    """The organisation that owns that credential; the System's own when empty."""
    client_id: Annotated[str, StringConstraints(max_length=1024)] = ""
    """The client id. Not sensitive."""
    secret_ref: Reference | None = None
    """A Secret of type tieline.dev/credential with the key clientSecret."""


class OAuth2Grant(Shape):
    """Which OAuth 2.0 flow, with the sub-object that belongs to it."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                "self.type != 'authorizationCode' || has(self.authorizationCode)",
                "a grant of type authorizationCode needs authorizationCode",
            ),
            ("self.type != 'password' || has(self.password)", "a grant of type password needs password"),
        )
    )

    type: OAuth2GrantType
    """authorizationCode, clientCredentials or password."""
    authorization_code: OAuth2Client | None = None
    """The client for the authorisation code flow."""
    client_credentials: Placeholder | None = None
    """Empty: the client is part of the connection's credential."""
    password: OAuth2Client | None = None
    """The client for the password flow."""


class OAuth2(Shape):
    """OAuth 2.0, where client id and secret are part of the system's configuration."""

    token_url: Endpoint
    """Where access tokens are issued."""
    authorize_url: Endpoint | None = None
    """Where the user is sent to authorise. Needed for authorizationCode."""
    refresh_url: Endpoint | None = None
    """Where tokens are refreshed, when that is not tokenUrl."""
    scopes: Annotated[list[OAuth2Scope], Field(max_length=512, json_schema_extra=list_map("name"))] = []
    """All scopes that the application supports; the user chooses among them."""
    default_scopes: Annotated[list[Scope], Field(max_length=512)] = []
    """Scopes that are requested by default."""
    grant: OAuth2Grant
    """The flow."""
    additional_authorize_params: Params = ""
    """URL-encoded query string for the authorise URL. A default for user interfaces only."""
    additional_token_params: Params = ""
    """Form-encoded string that is sent in the body of token requests."""
    client_authentication: Annotated[str, StringConstraints(pattern="^(header|body)$", max_length=6)] = (
        "header"
    )
    """How the client authenticates at the token URL: header (HTTP basic, the default) or body."""
    mtls_enabled: bool = False
    """Whether mutual TLS is used towards the token URL."""
    mtls_credential_id: Annotated[str, StringConstraints(max_length=64)] = ""
    """The credential with the client certificate; found by itself among the certificate schemes when empty."""
    pkce: bool = False
    """Whether the authorisation code flow uses PKCE (S256)."""


class JwtAlgorithm(StrEnum):
    """Signature algorithms of RFC 7518."""

    HS256 = "HS256"
    HS384 = "HS384"
    HS512 = "HS512"
    RS256 = "RS256"
    RS384 = "RS384"
    RS512 = "RS512"
    ES256 = "ES256"
    ES384 = "ES384"
    ES512 = "ES512"


class JwtBearer(Shape):
    """A JWT that is signed for each request."""

    algorithm: JwtAlgorithm
    """Signature algorithm: HS, RS or ES with 256, 384 or 512."""
    payload: JsonObject = {}
    """Claims of every token; iat, exp and jti are added."""
    expires_in: Annotated[int, Field(ge=1, le=86400)] = 300
    """Lifetime of a token in seconds. 300 by default."""
    authorization_header_prefix: ShortText = "Bearer"
    """The word before the token in the Authorization header. Bearer by default."""


class OAuth1Transmission(StrEnum):
    """How OAuth 1.0 parameters travel (RFC 5849, section 3.5)."""

    HEADER = "AUTH_STYLE_AUTHORIZATION_HEADER"
    FORM = "AUTH_STYLE_FORM"
    QUERY = "AUTH_STYLE_QUERY"


class OAuth1Location(StrEnum):
    """Where an additional OAuth 1.0 parameter goes."""

    IGNORE = "LOCATION_IGNORE"
    BODY = "LOCATION_BODY"
    HEADER = "LOCATION_HEADER"
    QUERY = "LOCATION_QUERY"
    ENDPOINT = "LOCATION_ENDPOINT"
    HEADER_PARAMETER = "LOCATION_HEADER_PARAMETER"


class OAuth1Usage(StrEnum):
    """Which request an additional OAuth 1.0 parameter is for."""

    UNKNOWN = "USAGE_UNKNOWN"
    TEMP_CREDENTIAL_ENDPOINT = "USAGE_TEMP_CREDENTIAL_ENDPOINT"
    TOKEN_REQUEST_ENDPOINT = "USAGE_TOKEN_REQUEST_ENDPOINT"  # noqa: S105  (a name of the specification)


class OAuth1Parameter(Shape):
    """An extra parameter of an OAuth 1.0 endpoint."""

    parameter_name: ShortText
    """Key of the parameter."""
    location: OAuth1Location = OAuth1Location.IGNORE
    """Where it goes."""
    required: bool = False
    """Whether it must be given."""
    modifiable: bool = False
    """Whether the user may change it."""
    value: ShortText = ""
    """What is sent when the user gives, or may give, no other value. Not secret."""
    target_name: ShortText = ""
    """Its name in requests, when that differs."""
    usages: Annotated[list[OAuth1Usage], Field(max_length=8)] = []
    """The requests it is for."""


class OAuth1Endpoint(Shape):
    """One of the three endpoints of OAuth 1.0."""

    url: Url
    """The URL; may hold templated values in curly braces."""
    additional_param_configs: Annotated[list[OAuth1Parameter], Field(max_length=32)] = []
    """Extra parameters."""
    parameter_transmission: OAuth1Transmission = OAuth1Transmission.HEADER
    """How the OAuth parameters travel."""


class OAuth1(Shape):
    """OAuth 1.0 (RFC 5849)."""

    consumer_key: Annotated[str, StringConstraints(max_length=1024)] = ""
    """The consumer key. Not sensitive."""
    signature_method: Annotated[
        str,
        StringConstraints(
            pattern="^(HMAC-SHA1|HMAC-SHA256|HMAC-SHA512|RSA-SHA1|RSA-SHA256|RSA-SHA512|PLAINTEXT)$",
            max_length=16,
        ),
    ] = "HMAC-SHA1"
    """HMAC-SHA1 (the default), HMAC-SHA256, HMAC-SHA512, RSA-SHA1, RSA-SHA256, RSA-SHA512 or PLAINTEXT."""
    credential_id: Annotated[str, StringConstraints(max_length=64)] = ""
    """Id of the credential that holds the consumer's key and secret."""
    secret_ref: Reference | None = None
    """A Secret of type tieline.dev/credential with the key consumerSecret."""
    temp_credential_endpoint: OAuth1Endpoint | None = None
    """Where temporary credentials are issued."""
    resource_owner_authorization_endpoint: OAuth1Endpoint | None = None
    """Where the user authorises."""
    token_endpoint: OAuth1Endpoint | None = None
    """Where token credentials are issued."""


class SharedSecret(Shape):
    """A secret value that is sent under a name, for what is no standard scheme."""

    name: ParameterName
    """Name of the header, query parameter, cookie or body field."""
    in_: Annotated[SecretPlace, Field(alias="in")]
    """Where it is sent: header, query, cookie or body."""


_SUB_OBJECTS = {
    AuthSchemeType.NONE: "none",
    AuthSchemeType.API_KEY: "apiKey",
    AuthSchemeType.BASIC_AUTH: "basicAuth",
    AuthSchemeType.OAUTH2: "oauth2",
    AuthSchemeType.HMAC: "hmac",
    AuthSchemeType.JWT_BEARER: "jwtBearer",
    AuthSchemeType.CERTIFICATE: "certificate",
    AuthSchemeType.OAUTH1: "oauth1",
    AuthSchemeType.SECRET: "secret",
}
_PLACEHOLDERS = {AuthSchemeType.NONE, AuthSchemeType.BASIC_AUTH, AuthSchemeType.CERTIFICATE}


def sub_object(scheme: AuthSchemeType) -> str:
    """The key of the sub-object that belongs to a type (``api-key`` has ``apiKey``)."""
    return _SUB_OBJECTS[scheme]


def _union_rules() -> list[tuple[str, str]]:
    needed = [
        (f"self.type != '{scheme}' || has(self.{key})", f"an auth scheme of type {scheme} needs {key}")
        for scheme, key in _SUB_OBJECTS.items()
        if scheme not in _PLACEHOLDERS
    ]
    foreign = [
        (f"self.type == '{scheme}' || !has(self.{key})", f"{key} belongs to an auth scheme of type {scheme}")
        for scheme, key in _SUB_OBJECTS.items()
    ]
    return needed + foreign


class AuthSchemeConfig(Shape):
    """One way to authenticate at a system: a type, and the sub-object that belongs to it."""

    model_config = ConfigDict(json_schema_extra=rules(*_union_rules()))

    id: ItemId
    """Chosen by the author; unique in its list."""
    type: AuthSchemeType
    """none, api-key, basic-auth, oauth2, hmac, jwt-bearer, certificate, oauth1 or secret."""
    description: Text = ""
    """Tells several schemes of one type apart."""
    none: Placeholder | None = None
    """For type none: nothing."""
    api_key: ApiKey | None = None
    """For type api-key."""
    basic_auth: Placeholder | None = None
    """For type basic-auth: nothing."""
    oauth2: Annotated[OAuth2 | None, Field(alias="oauth2")] = None
    """For type oauth2."""
    hmac: Hmac | None = None
    """For type hmac."""
    jwt_bearer: JwtBearer | None = None
    """For type jwt-bearer."""
    certificate: Placeholder | None = None
    """For type certificate (mutual TLS): nothing."""
    oauth1: Annotated[OAuth1 | None, Field(alias="oauth1")] = None
    """For type oauth1."""
    secret: SharedSecret | None = None
    """For type secret."""
