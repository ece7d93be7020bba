"""How a provider's OAuth 2.0 differs from the RFCs. Every field that is absent means what the RFCs say.

``docs/providers/dialects.md`` has a row for each field, with a provider that needs it. Nothing here is secret.
"""

from enum import StrEnum
from typing import Annotated

from pydantic import ConfigDict, Field, StringConstraints

from tieline_core.resources.fields import Params, Shape, ShortText, list_set, rules
from tieline_core.resources.limits import Per
from tieline_protocol.url_inputs import HOST_PATTERN

PATH_PATTERN = r"^(/\S*|[^\s./]+(\.[^\s./]+)*)$"
VARIABLE_PATTERN = r"^[A-Za-z0-9_-]{1,64}$"
PARAMETER_PATTERN = r"^[!#$%&'*+.^_`|~0-9A-Za-z:\[\]-]+$"
ENDPOINT_PATTERN = r"^https?://\S+$"

AnswerPath = Annotated[str, StringConstraints(min_length=1, max_length=256, pattern=PATH_PATTERN)]
"""A place in a JSON answer: ``authed_user.access_token``, ``0.id`` for lists, or a JSON pointer (RFC 6901)."""
VariableName = Annotated[str, StringConstraints(max_length=64, pattern=VARIABLE_PATTERN)]
Parameter = Annotated[str, StringConstraints(min_length=1, max_length=128, pattern=PARAMETER_PATTERN)]
HostPattern = Annotated[str, StringConstraints(min_length=1, max_length=253, pattern=HOST_PATTERN)]
Duration = Per
"""A whole number with s, m or h, such as 90s, 30m or 24h."""
Separator = Annotated[str, StringConstraints(min_length=1, max_length=4)]
Word = Annotated[str, StringConstraints(min_length=1, max_length=128)]
Words = Annotated[list[Word], Field(max_length=32, json_schema_extra=list_set())]
Headers = Annotated[dict[str, Annotated[str, StringConstraints(max_length=1024)]], Field(max_length=16)]
StepBody = Annotated[str, StringConstraints(min_length=1, max_length=4096)]
StepUrl = Annotated[str, StringConstraints(max_length=2048, pattern=ENDPOINT_PATTERN)]


class KeptAs(StrEnum):
    """A part of a connection that an answer can give."""

    BASE_URL = "baseUrl"
    ACCOUNT_ID = "accountId"
    ACCOUNT_NAME = "accountName"


class _Kept(Shape):
    as_: Annotated[KeptAs | None, Field(alias="as")] = None
    """What it is for the connection: baseUrl, accountId or accountName."""
    variable: VariableName | None = None
    """The connection's variable that has the value."""
    pattern: ShortText = ""
    """Regular expression (RE2) that the whole value must match. Default: letters, digits and -._~:@ for variables;
    a base URL must be one whose host is in hosts."""
    overrides: bool = False
    """Whether it replaces a value that the connection's spec has. Default: false."""


class KeptValue(_Kept):
    """A value of an answer that the connection keeps."""

    path: AnswerPath
    """The place in the answer, such as instance_url or 0.id."""


class KeptParameter(_Kept):
    """A parameter of the callback's query that the connection keeps."""

    parameter: Parameter
    """The parameter's name, such as realmId."""


class AnswerCondition(Shape):
    """A condition for an answer: its status, and a value in its JSON body."""

    status: Annotated[int | None, Field(ge=200, le=599)] = None
    """The answer's status. Default: any."""
    path: AnswerPath | None = None
    """The place in the answer. Without equals and in, there must be a value."""
    equals: ShortText | None = None
    """The value, as text: true, 0 or invalid_auth."""
    in_: Annotated[Words | None, Field(alias="in")] = None
    """The values, one of which must be there."""


class SignatureEncoding(StrEnum):
    """How a signature is written."""

    HEX = "hex"
    BASE64 = "base64"


class ExpectedParameter(Shape):
    """A parameter that the callback must have."""

    parameter: Parameter
    """The parameter's name, such as shop."""
    value: Annotated[str, StringConstraints(min_length=1, max_length=512)]
    """Its value. The connection's variables in curly braces are filled in, as in {shop}.myshopify.com."""


class CallbackSignature(Shape):
    """A signature in the callback: HMAC-SHA256, by the client secret, of the other parameters, sorted by name."""

    parameter: Parameter
    """The parameter with the signature, such as hmac."""
    encoding: SignatureEncoding = SignatureEncoding.HEX
    """How it is written: hex (the default) or base64."""
    unsigned: Words = []
    """Further parameters that are not signed."""
    expect: Annotated[list[ExpectedParameter], Field(max_length=16)] = []
    """Parameters that must have a value of the connection, such as the account's address."""
    timestamp_parameter: Parameter | None = None
    """The parameter with the time of the callback, in seconds since 1970."""
    max_age: Duration | None = None
    """How old that time may be. Default: any age."""


class OfflineAccess(StrEnum):
    """How a refresh token is asked for."""

    SCOPE = "scope"
    PARAMETERS = "parameters"
    NONE = "none"


class AuthorizationDialect(Shape):
    """The authorise URL, and the parameters with which the user returns."""

    offline_access: OfflineAccess | None = None
    """How a refresh token is requested: scope (offline_access), parameters (offlineParameters) or none. Default: scope
    if scopes or defaultScopes list offline_access, otherwise none."""
    offline_parameters: Params = ""
    """Form-encoded parameters that request a refresh token, such as access_type=offline."""
    prompts: Words = []
    """Values of prompt that the provider knows. Others are refused. Default: any."""
    prompt: ShortText = ""
    """The prompt that is sent, such as consent. Default: none."""
    client_id: Annotated[str, StringConstraints(max_length=1024)] = ""
    """The client id in the authorise URL, if it differs from the one in token requests."""
    client_id_parameter: Parameter = "client_id"
    """The parameter with the client id. Default: client_id."""
    scope_parameter: Parameter = "scope"
    """The parameter with the scopes. Default: scope."""
    code_parameter: Parameter = "code"
    """The callback's parameter with the code. Default: code."""
    error_parameters: Words = []
    """Parameters of the callback that say that access was denied, beside error."""
    omit: Words = []
    """Parameters that the provider refuses, such as response_type or scope."""
    keep: Annotated[list[KeptParameter], Field(max_length=16)] = []
    """Parameters of the callback that the connection keeps."""
    grants_per_account: Annotated[int | None, Field(ge=1, le=10000)] = None
    """How many authorisations of one account are valid at a time; one more ends the oldest. Default: unlimited."""
    callback_signature: CallbackSignature | None = None
    """The signature that the callback must have. Default: none is looked for."""


class TokenMethod(StrEnum):
    """The method of a request for tokens."""

    POST = "POST"
    GET = "GET"


class TokenFormat(StrEnum):
    """How a token request is written."""

    FORM = "form"
    JSON = "json"


class GrantTypes(Shape):
    """The values of grant_type."""

    authorization_code: ShortText = "authorization_code"
    """For a code. Default: authorization_code."""
    client_credentials: ShortText = "client_credentials"
    """For the client itself. Default: client_credentials."""
    password: ShortText = "password"  # noqa: S105  (the grant's name in RFC 6749)
    """For a user's name and password. Default: password."""
    refresh: ShortText = "refresh_token"
    """For a refresh. Default: refresh_token."""


class LongLivedExchange(Shape):
    """A request that exchanges the first, short-lived token for one that lasts."""

    url: StepUrl
    """Where it is sent."""
    method: TokenMethod = TokenMethod.GET
    """GET (the default) or POST."""
    grant_type: ShortText
    """The value of grant_type, such as ig_exchange_token."""
    token_parameter: Parameter = "access_token"  # noqa: S105  (a name)
    """The parameter with the short-lived token. Default: access_token."""
    omit: Words = []
    """Parameters that are not sent, such as client_id."""


class TokenRequestDialect(Shape):
    """The requests for tokens."""

    format: TokenFormat = TokenFormat.FORM
    """How the body is written: form (the default) or json."""
    client_id_parameter: Parameter = "client_id"
    """The parameter with the client id. Default: client_id."""
    client_secret_parameter: Parameter = "client_secret"  # noqa: S105  (a name)
    """The parameter with the client secret. Default: client_secret."""
    code_parameter: Parameter = "code"
    """The parameter with the code. Default: code."""
    headers: Headers = {}
    """Headers, such as Notion-Version. No secrets."""
    grant_types: GrantTypes | None = None
    """The values of grant_type, where they differ from RFC 6749."""
    code_parameters: Params = ""
    """Form-encoded parameters that are sent with a code only."""
    refresh_parameters: Params = ""
    """Form-encoded parameters that are sent with a refresh only."""
    omit: Words = []
    """Parameters that are not sent, such as redirect_uri or grant_type."""
    long_lived: LongLivedExchange | None = None
    """A second request, which exchanges the token of a code for one that lasts."""


class ExpiryUnit(StrEnum):
    """What the value at expiresIn means."""

    SECONDS = "seconds"
    MILLISECONDS = "milliseconds"
    EPOCH_SECONDS = "epochSeconds"
    EPOCH_MILLISECONDS = "epochMilliseconds"
    ISO8601 = "iso8601"
    JWT = "jwt"


class TokenAnswerDialect(Shape):
    """Where an answer has the tokens."""

    access_token: AnswerPath = "access_token"  # noqa: S105  (a name)
    """The access token. Default: access_token."""
    refresh_token: AnswerPath = "refresh_token"  # noqa: S105
    """The refresh token. Default: refresh_token."""
    scope: AnswerPath = "scope"
    """The granted scopes, a text or a list. Default: scope."""
    scope_separator: Separator | None = None
    """The text between granted scopes. Default: a space; a comma too, if no scope of the scheme has one."""
    expires_in: AnswerPath = "expires_in"
    """The expiry. Default: expires_in."""
    expires_unit: ExpiryUnit = ExpiryUnit.SECONDS
    """The unit of the expiry: seconds (the default), milliseconds, epochSeconds, epochMilliseconds, iso8601, or jwt
    (the claim exp of the access token)."""
    expires_after: Duration | None = None
    """The lifetime of a token whose answer has no expiry, such as 2h."""
    success: AnswerCondition | None = None
    """What every good answer has, such as ok: true. All other answers are errors."""
    error: AnswerPath = "error"
    """The error code. Default: error."""
    error_description: AnswerPath = "error_description"
    """The error's text for people. Default: error_description."""
    keep: Annotated[list[KeptValue], Field(max_length=16)] = []
    """Values that the connection keeps, such as its base URL."""


class RefreshToken(StrEnum):
    """Which token a refresh sends."""

    REFRESH_TOKEN = "refreshToken"  # noqa: S105  (a name)
    ACCESS_TOKEN = "accessToken"  # noqa: S105


class RefreshDialect(Shape):
    """When and how tokens are refreshed."""

    method: TokenMethod = TokenMethod.POST
    """POST (the default) or GET, with the parameters in the query."""
    token: RefreshToken = RefreshToken.REFRESH_TOKEN
    """The token that is sent: refreshToken (the default), or accessToken for providers without refresh tokens."""
    token_parameter: Parameter = "refresh_token"  # noqa: S105
    """The parameter with that token. Default: refresh_token."""
    omit: Words = []
    """Parameters that are not sent, such as client_secret."""
    retry_on: Words = []
    """Error codes, and statuses such as 400, that do not end the authorisation. The refresh is tried again later."""
    revoked_on: Words = []
    """Further error codes and statuses that end the authorisation, such as unauthorized_client."""
    earliest: Duration | None = None
    """How long before the token's end a refresh is allowed, such as 30m. Default: at any time."""
    minimum_age: Duration | None = None
    """How old a token must be for a refresh, such as 24h. Default: any age."""
    grace_for_old_token: Duration | None = None
    """How long the old refresh token is valid after a refresh. A lost answer is asked for again in this time."""


class TokenPlace(StrEnum):
    """Where in a request the access token is sent."""

    HEADER = "header"
    QUERY = "query"


class ClientSecretUse(Shape):
    """The client secret in each request to the API."""

    in_: Annotated[TokenPlace, Field(alias="in")] = TokenPlace.HEADER
    """Where it is sent: header (the default) or query."""
    name: Parameter
    """Name of the header or query parameter."""
    prefix: ShortText = ""
    """Text before it, such as "Bearer ". Empty by default."""


class TokenUse(Shape):
    """How requests to the API have the access token."""

    in_: Annotated[TokenPlace, Field(alias="in")] = TokenPlace.HEADER
    """Where it is sent: header (the default) or query."""
    name: Parameter | None = None
    """Name of the header or query parameter. Default: Authorization, or access_token in the query."""
    prefix: ShortText | None = None
    """Text before the token. Default: "Bearer " in the header Authorization, otherwise empty."""
    headers: Headers = {}
    """Further headers. {clientId} and the connection's variables in curly braces are filled in."""
    client_secret: ClientSecretUse | None = None
    """Sends the client secret with each request too. Pods get it then."""


class RejectionDialect(Shape):
    """Which answers of the API mean that the access token is not accepted."""

    expired: Annotated[list[AnswerCondition], Field(max_length=16)] = []
    """Answers after which the token is refreshed and the request sent again. Default: status 401."""
    revoked: Annotated[list[AnswerCondition], Field(max_length=16)] = []
    """Answers after which the connection has to be authorised again. Default: none."""


class AfterToken(Shape):
    """A request with the new access token, whose answer says which account it is for."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            ("!has(self.body) || (has(self.method) && self.method == 'POST')", "a body needs method POST")
        )
    )

    url: StepUrl
    """Where it is sent."""
    method: TokenMethod = TokenMethod.GET
    """GET (the default) or POST."""
    body: StepBody | None = None
    """The JSON body of a POST, such as a GraphQL query. No secrets."""
    headers: Headers = {}
    """Headers. No secrets."""
    keep: Annotated[list[KeptValue], Field(min_length=1, max_length=16)]
    """Values that the connection keeps."""
    required: bool = False
    """Whether the authorisation fails when the request does. Default: false."""


class Uninstall(Shape):
    """A DELETE on the callback URL, by which the provider reports that the application was removed."""

    client_id: AnswerPath = "client_id"
    """The place of the client id in the body. Default: client_id."""
    account_id: AnswerPath
    """The place of the account's id, as it was kept as accountId."""


class OAuth2Dialect(Shape):
    """What an auth scheme can say of its provider beyond the RFCs."""

    scope_separator: Separator = " "
    """The text between scopes in requests. Default: a space."""
    hosts: Annotated[list[HostPattern], Field(max_length=32, json_schema_extra=list_set())] = []
    """Hosts that kept values and variables may lead requests to, such as *.salesforce.com. Default: the hosts that the
    scheme's and the System's URLs name."""
    authorization: AuthorizationDialect | None = None
    """The authorise URL and the callback."""
    token_request: TokenRequestDialect | None = None
    """The requests for tokens."""
    token_answer: TokenAnswerDialect | None = None
    """The answers with tokens."""
    refresh: RefreshDialect | None = None
    """The refresh of tokens."""
    token: TokenUse | None = None
    """How requests to the API have the access token."""
    rejections: RejectionDialect | None = None
    """Answers of the API that mean that the access token is not accepted."""
    after_token: AfterToken | None = None
    """A request after the token."""
    uninstall: Uninstall | None = None
    """Uninstallations that the provider reports by a DELETE on the callback URL."""
