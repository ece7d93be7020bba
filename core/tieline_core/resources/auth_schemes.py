"""How a system wants requests to be authenticated: the nine schemes of the specification.

An item has a ``type`` and the one sub-object that belongs to it. In REST the item's id sits inside the
sub-object; here it is the item's own, so that a list of schemes merges item by item. Nothing here is
secret: client secrets and keys live in Secrets.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated, Any

from pydantic import ConfigDict, Field, StringConstraints, WithJsonSchema

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
    list_map,
    rules,
)
from tieline_core.resources.oauth2_dialect import Headers, OAuth2Dialect
from tieline_protocol.signature_challenges import MAX_ANSWER, MAX_CHALLENGES, MAX_CONDITIONS, METHODS, PROOFS
from tieline_protocol.signature_fields import CONDITION_PATTERN, MAX_PATH, PLACE_PATTERN
from tieline_protocol.signature_presets import PRESETS
from tieline_protocol.signatures import (
    ALGORITHMS,
    BODY_HASH_PATTERN,
    ENCODINGS,
    FORMATS,
    INPUT_PATTERN,
    KEY_ENCODINGS,
    LOCATIONS,
    MAX_INPUT,
    MAX_INPUTS,
    MAX_NAMES,
    SET_BY_PRESET,
    SIGNATURE_NAME_PATTERN,
    TIMESTAMP_UNITS,
)

MAX_PLACE = 300
# Fields of an hmac scheme that are absent unless they are set; the others are empty texts.
_WITHOUT_DEFAULT = frozenset(
    (
        "name",
        "__in__",
        "otherNames",
        "algorithm",
        "digestInputs",
        "encoding",
        "signatureFormat",
        "timestampUnit",
        "keyEncoding",
        "bodyHash",
        "challenges",
    )
)

ParameterName = Annotated[
    str, StringConstraints(min_length=1, max_length=128, pattern=r"^[!#$%&'*+.^_`|~0-9A-Za-z\[\]-]+$")
]
# OAuth endpoints may be templated ("https://{shop}.example/oauth"), so they are checked as URLs when used.
# validationMessages say what is wrong with them.
Endpoint = Annotated[str, StringConstraints(max_length=2048, pattern=r"^https?://\S+$")]


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


KeyPrefix = Annotated[str, StringConstraints(max_length=32, pattern=r"^[ -~]*$")]


class ApiKey(Shape):
    """A key that is sent with every request."""

    name: ParameterName
    """Name of the query parameter, header or cookie that carries the key."""
    in_: Annotated[ParameterPlace, Field(alias="in")]
    """Where the key is sent: query, header or cookie."""
    prefix: KeyPrefix = ""
    """Text before the key, such as "Bearer ". Empty by default."""
    headers: Headers = {}
    """Further headers, such as the version of the API. A header that a request has wins. No secrets."""


class BasicAuth(Shape):
    """A user name and a password (RFC 7617)."""

    headers: Headers = {}
    """Further headers, such as the version of the API. A header that a request has wins. No secrets."""


DigestInput = Annotated[str, StringConstraints(min_length=1, max_length=MAX_INPUT, pattern=INPUT_PATTERN)]
FieldName = Annotated[str, StringConstraints(max_length=64)]
HeaderName = Annotated[str, StringConstraints(max_length=128)]
SignatureName = Annotated[
    str, StringConstraints(min_length=1, max_length=MAX_PATH, pattern=SIGNATURE_NAME_PATTERN)
]
FieldPath = Annotated[str, StringConstraints(max_length=MAX_PATH)]
RequestPlace = Annotated[str, StringConstraints(max_length=MAX_PLACE, pattern=PLACE_PATTERN)]
ChallengeCondition = Annotated[str, StringConstraints(max_length=500, pattern=CONDITION_PATTERN)]


def _one_of(choices: Iterable[str]) -> Any:
    """A text that is one of some choices, which ``signatures.problem_of`` checks."""
    return WithJsonSchema({"type": "string", "enum": list(choices)})


class FixedAnswer(Shape):
    """What is answered to a request."""

    status: Annotated[int, Field(ge=200, le=499)]
    """The HTTP status."""
    body: Annotated[str, StringConstraints(max_length=MAX_ANSWER)] = ""
    """The body. Empty by default."""
    content_type: Annotated[str, StringConstraints(max_length=128)] = ""
    """The body's content type. Default: application/json for a body that begins with {", else text/plain."""


class Challenge(Shape):
    """A request by which the sender checks the URL. It is answered before the code runs."""

    method: Annotated[str, _one_of(METHODS)] = "POST"
    """The request's method. Default: POST."""
    proof: Annotated[str, _one_of(PROOFS)] = "signature"
    """What the request has to show: signature (the default), secret (proofIn has the value of a credential of type
    secret for that place), key (proofIn has the signing secret) or none."""
    proof_in: RequestPlace | None = None
    """Where proof secret or key is shown, such as query:hub.verify_token."""
    when: Annotated[list[ChallengeCondition], Field(max_length=MAX_CONDITIONS)] = []
    """What makes a request a challenge: places that have a value, such as query:challenge, or a certain one, such as
    body:type=url_verification."""
    value: RequestPlace | None = None
    """Where the challenge is: query:NAME, header:NAME, body:PATH or form:NAME."""
    status: Annotated[int, Field(ge=200, le=299)] = 200
    """The HTTP status of the answer."""
    body: Annotated[str, StringConstraints(max_length=MAX_ANSWER)] = ""
    """The answer, in which {challenge} stands for the challenge, and {hmac} for its signature."""
    content_type: Annotated[str, StringConstraints(max_length=128)] = ""
    """The answer's content type. Default: application/json for a body that begins with {", else text/plain."""
    header: HeaderName = ""
    """A header of the answer that repeats the challenge."""


class Hmac(Shape):
    """A signature over the request; signs outbound requests and, more often, verifies inbound webhooks."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                "has(self.preset) || (has(self.name) && has(self.__in__) && has(self.algorithm))",
                "set name, in, algorithm and digestInputs, or a preset in their place",
            ),
            (
                "has(self.preset) || !has(self.algorithm) || has(self.digestInputs) || "
                "self.algorithm in ['token', 'basic'] || self.algorithm.startsWith('jwt-')",
                "set digestInputs, which all algorithms but token, basic and those of JWTs need",
            ),
            (
                "!has(self.preset) || !("
                + " || ".join(
                    f"has(self.{name})"
                    if name in _WITHOUT_DEFAULT
                    else f"(has(self.{name}) && self.{name} != '')"
                    for name in ("__in__" if name == "in" else name for name in SET_BY_PRESET)
                )
                + ")",
                "a preset sets all fields but toleranceSeconds, answer and refusal: leave the others out, or preset",
            ),
        )
    )

    preset: Annotated[str, _one_of(PRESETS)] | None = None
    """The sender, in place of all fields but toleranceSeconds, answer and refusal, such as github, slack or stripe."""
    name: SignatureName | None = None
    """Name of the header, query parameter or cookie that carries the signature, or the path of a field of the body.
    Needed without a preset."""
    in_: Annotated[Annotated[str, _one_of(LOCATIONS)] | None, Field(alias="in")] = None
    """Where the signature is carried: query, header, cookie or body. Needed without a preset."""
    other_names: Annotated[list[HeaderName] | None, Field(max_length=MAX_NAMES - 1)] = None
    """Further headers that can carry a signature, of senders that send several while a secret is rotated."""
    algorithm: Annotated[str, _one_of(ALGORITHMS)] | None = None
    """HMAC with sha1, sha256, sha384 or sha512; a hash with the secret among digestInputs: hash-sha1, hash-sha256 or
    hash-sha512; the sender's public key: rsa-sha1, rsa-sha256, rsa-sha512, rsa-pss-sha256, ecdsa-sha256 or ed25519;
    a JWT: jwt-hs256, jwt-hs384, jwt-hs512, jwt-rs256 or jwt-es256; the secret itself: token, or basic for user name
    and password. Needed without a preset."""
    digest_inputs: Annotated[list[DigestInput] | None, Field(min_length=1, max_length=MAX_INPUTS)] = None
    """What is signed, in this order: body (the exact bytes), url, decodedUrl, method, path (with the query),
    timestamp, id, secret, form (sorted fields), header:NAME, signedHeaders:NAME (those that a header lists),
    field:PATH (of the body), phpForm:NAME (a form as PHP serialises it, without a field), jsonLines:NAMES,
    bodyHash:HASH and literal:TEXT."""
    encoding: Annotated[str, _one_of(ENCODINGS)] | None = None
    """How the signature is written: hex (the default), base64 or base64url."""
    signature_format: Annotated[str, _one_of(FORMATS)] | None = None
    """How the value carries signatures: plain (the default) is one signature, fields is t=…,v1=…, list is several
    signatures, and timedList is the time and then signatures. One of several signatures has to match."""
    signature_field: FieldName = ""
    """The field with the signature where signatureFormat is fields, such as v1."""
    separator: Annotated[str, StringConstraints(max_length=4)] = ""
    """The characters that separate fields or signatures. Default: a comma; of a list, a space."""
    prefix: ShortText = ""
    """Prefix of the signature, such as "sha256=", or before each one of a list. Empty by default."""
    timestamp_header: ShortText = ""
    """Header with the time of an inbound request; when set, old requests are refused."""
    timestamp_field: FieldName = ""
    """The field with that time, where signatureFormat is fields, such as t."""
    timestamp_path: FieldPath = ""
    """The path of that time in the body."""
    timestamp_unit: Annotated[str, _one_of(TIMESTAMP_UNITS)] | None = None
    """How that time is written: seconds (the default) or milliseconds since 1970, iso8601 or httpDate."""
    tolerance_seconds: Annotated[int, Field(ge=1, le=86400)] = 300
    """Maximum difference of the time of an inbound request from now, in seconds. Default: the preset's, or 300."""
    id_header: HeaderName = ""
    """Header with the sender's id of an inbound request, to detect repeated requests."""
    id_path: FieldPath = ""
    """The path of that id in the body."""
    key_encoding: Annotated[str, _one_of(KEY_ENCODINGS)] | None = None
    """How a credential of type string holds the key: text (the default), whose bytes are the key, base64, hex, or sha1
    for the SHA-1 of the text."""
    key_prefix: Annotated[str, StringConstraints(max_length=32)] = ""
    """Text before the key that is not part of it, such as "whsec_"."""
    body_hash: Annotated[str | None, StringConstraints(max_length=MAX_PLACE, pattern=BODY_HASH_PATTERN)] = (
        None
    )
    """Where the SHA-256 of the body is, for signatures that do not cover the body itself: claim:NAME of a JWT,
    query:NAME or header:NAME."""
    query_hash_claim: FieldName = ""
    """The claim of a JWT with the hash of method, path and query, such as qsh."""
    challenges: Annotated[list[Challenge] | None, Field(max_length=MAX_CHALLENGES)] = None
    """Requests by which the sender checks the URL, which are answered before the code runs."""
    answer: FixedAnswer | None = None
    """What a queued webhook answers in place of 202 with the run's id."""
    refusal: FixedAnswer | None = None
    """What is answered to a request that does not verify, in place of 401 with the reason."""


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


class OAuth2(OAuth2Dialect):
    """OAuth 2.0, where client id and secret are part of the system's configuration."""

    token_url: Endpoint
    """Where access tokens are issued."""
    authorize_url: Endpoint | None = None
    """Where the user is sent to authorise. Needed for authorizationCode."""
    refresh_url: Endpoint | None = None
    """Where tokens are refreshed. Default: tokenUrl."""
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
    client_authentication: Annotated[
        str, StringConstraints(pattern="^(header|body|both|none)$", max_length=6)
    ] = "header"
    """How the client authenticates at the token URL: header (HTTP basic, the default), body, both, or none (its id
    alone)."""
    mtls_enabled: bool = False
    """Whether mutual TLS is used towards the token URL."""
    mtls_credential_id: Annotated[str, StringConstraints(max_length=64)] = ""
    """The credential with the client certificate. Default: the one of a certificate scheme."""
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
    """Whether the parameter is required."""
    modifiable: bool = False
    """Whether the user may change it."""
    value: ShortText = ""
    """The value that is sent if the user gives none or may not change it. Not secret."""
    target_name: ShortText = ""
    """The parameter's name in requests, if it differs."""
    usages: OAuth1Usage = OAuth1Usage.UNKNOWN
    """The request it is for. USAGE_UNKNOWN (the default): every request to its endpoint."""


class OAuth1Endpoint(Shape):
    """One of the three endpoints of OAuth 1.0."""

    url: Endpoint
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
    basic_auth: BasicAuth | None = None
    """For type basic-auth."""
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
