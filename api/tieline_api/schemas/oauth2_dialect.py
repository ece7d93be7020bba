"""The dialect of an OAuth 2.0 scheme in REST: as in custom resources, and null means absent."""

from typing import Annotated

from pydantic import Field

from tieline_api.schemas.base import Rest
from tieline_core.resources import oauth2_dialect as core


class KeptValue(Rest, core.KeptValue):
    """A value of an answer that the connection keeps."""


class KeptParameter(Rest, core.KeptParameter):
    """A parameter of the callback's query that the connection keeps."""


class AnswerCondition(Rest, core.AnswerCondition):
    """A condition for an answer: its status, and a value in its JSON body."""


class ExpectedParameter(Rest, core.ExpectedParameter):
    """A parameter that the callback must have."""


class CallbackSignature(Rest, core.CallbackSignature):
    """A signature in the callback: HMAC-SHA256, by the client secret, of the other parameters, sorted by name."""

    expect: Annotated[list[ExpectedParameter], Field(max_length=16, default_factory=list)]  # type: ignore[assignment]
    """Parameters that must have a value of the connection, such as the account's address."""


class AuthorizationDialect(Rest, core.AuthorizationDialect):
    """The authorise URL, and the parameters with which the user returns."""

    keep: Annotated[list[KeptParameter], Field(max_length=16, default_factory=list)]  # type: ignore[assignment]
    """Parameters of the callback that the connection keeps."""
    callback_signature: CallbackSignature | None = None
    """The signature that the callback must have. Default: none is looked for."""


class GrantTypes(Rest, core.GrantTypes):
    """The values of grant_type."""


class LongLivedExchange(Rest, core.LongLivedExchange):
    """A request that exchanges the first, short-lived token for one that lasts."""


class TokenRequestDialect(Rest, core.TokenRequestDialect):
    """The requests for tokens."""

    grant_types: GrantTypes | None = None
    """The values of grant_type, where they differ from RFC 6749."""
    long_lived: LongLivedExchange | None = None
    """A second request, which exchanges the token of a code for one that lasts."""


class TokenAnswerDialect(Rest, core.TokenAnswerDialect):
    """Where an answer has the tokens."""

    success: AnswerCondition | None = None
    """What every good answer has, such as ok: true. All other answers are errors."""
    keep: Annotated[list[KeptValue], Field(max_length=16, default_factory=list)]  # type: ignore[assignment]
    """Values that the connection keeps, such as its base URL."""


class RefreshDialect(Rest, core.RefreshDialect):
    """When and how tokens are refreshed."""


class ClientSecretUse(Rest, core.ClientSecretUse):
    """The client secret in each request to the API."""


class TokenUse(Rest, core.TokenUse):
    """How requests to the API have the access token."""

    client_secret: ClientSecretUse | None = None
    """Sends the client secret with each request too. Pods get it then."""


class RejectionDialect(Rest, core.RejectionDialect):
    """Which answers of the API mean that the access token is not accepted."""

    expired: Annotated[list[AnswerCondition], Field(max_length=16, default_factory=list)]  # type: ignore[assignment]
    """Answers after which the token is refreshed and the request sent again. Default: status 401."""
    revoked: Annotated[list[AnswerCondition], Field(max_length=16, default_factory=list)]  # type: ignore[assignment]
    """Answers after which the connection has to be authorised again. Default: none."""


class AfterToken(Rest, core.AfterToken):
    """A request with the new access token, whose answer says which account it is for."""

    keep: Annotated[list[KeptValue], Field(min_length=1, max_length=16)]  # type: ignore[assignment]
    """Values that the connection keeps."""


class Uninstall(Rest, core.Uninstall):
    """A DELETE on the callback URL, by which the provider reports that the application was removed."""


class OAuth2Dialect(Rest, core.OAuth2Dialect):
    """What an auth scheme can say of its provider beyond the RFCs."""

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
