"""What a provider documents of its own side: the block ``emulator`` of an entry in the catalogue."""

from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints
from pydantic.alias_generators import to_camel

ANY = "*"
"""In a list of scopes: any scope exists."""

Name = Annotated[str, StringConstraints(min_length=1, max_length=256)]
Values = Annotated[dict[str, str], Field(max_length=32)]
"""Texts by their names. Of a header or parameter that must be there, an empty text is any value."""
Names = Annotated[list[Name], Field(max_length=512)]
Template = dict[str, Any] | list[Any]
"""JSON with ``$accessToken`` and the like in the place of values."""
Seconds = Annotated[int, Field(ge=0, le=366 * 86400)]
Path = Annotated[str, StringConstraints(pattern=r"^/\S*$", max_length=512)]
Status = Annotated[int, Field(ge=200, le=599)]


class Part(BaseModel):
    """A part of the block: camelCase in YAML, and no unknown field."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        extra="forbid",
        frozen=True,
    )


class Pkce(StrEnum):
    """Whether the provider takes a code challenge (RFC 7636)."""

    REQUIRED = "required"
    OPTIONAL = "optional"
    REFUSED = "refused"


class ErrorsAt(StrEnum):
    """Where a wrong authorise request ends."""

    CALLBACK = "callback"
    PAGE = "page"


class Given(StrEnum):
    """When there is a refresh token."""

    ALWAYS = "always"
    NEVER = "never"
    SCOPE = "scope"
    OFFLINE = "offline"


class RefreshTokenFacts(Part):
    """Refresh tokens."""

    given: Given | None = None
    """always, never, scope (``scope`` is asked for) or offline (the auth scheme's offlineParameters are sent). Default:
    what the auth scheme's offlineAccess says, or always."""
    scope: Name = "offline_access"
    """The scope that asks for one."""
    again: Literal["", "consent"] = ""
    """consent: after the first consent, only with prompt=consent."""
    rotates: bool = False
    """Whether a refresh gives a new refresh token, and ends the old one."""
    grace_seconds: Seconds = 0
    """Seconds for which the old one is still valid."""
    earliest_seconds: Seconds = 0
    """A refresh of a younger access token is refused."""


class AnswerFacts(Part):
    """An answer."""

    status: Status = 200
    """Its status."""
    headers: Values = {}
    """Its headers."""
    body: Template | str | None = None
    """Its body: JSON, or text."""


class ErrorFacts(AnswerFacts):
    """The form of an error, with ``$error`` and ``$description``."""

    status: Status = 400
    """Its status. Default: 400."""
    body: Template | str | None = {"error": "$error", "error_description": "$description"}
    """Its body. Default: RFC 6749."""


class EndpointFacts(AnswerFacts):
    """An endpoint of the API, and its answer."""

    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE"] = "GET"
    """The method."""
    host: Name | None = None
    """The host. Default: that of the base URL, and the path is below that."""
    path: Path
    """The path. ``{name}`` stands for one segment."""


class ListFacts(Part):
    """A list of the API."""

    path: Path
    """The path below the base URL."""
    items: Annotated[int, Field(ge=1, le=1000)] = 5
    """How many items it has."""
    item: Annotated[dict[str, Any], Field(max_length=32)] = {}
    """What each item has; its id is made different."""
    link_always: bool = False
    """Whether the last page also has a Link to a next page, with ``results="false"``."""


class ProviderFacts(Part):
    """The block. What is absent follows from the System, and from RFC 6749."""

    inputs: Values = {}
    """Sample values of inputs and variables. Default: the examples and defaults of the System."""

    scopes: Names | None = None
    """Scopes that exist; "*" for any. Default: those of the auth scheme."""
    scopes_needed: bool = False
    """Whether an authorise request without scopes is refused."""
    parameters: Names = []
    """Documented parameters of authorise requests, beside those of RFC 6749 and 7636 and those that the System sends.
    All others are refused."""
    parameters_required: Names = []
    """Those that must be there."""
    prompts: Names | None = None
    """Values of prompt that exist. Default: those of the auth scheme; without any, prompt is refused."""
    pkce: Pkce | None = None
    """Default: required if the auth scheme has pkce, otherwise refused."""
    callback: Values = {}
    """Further parameters of the callback's query."""
    denied: Values | None = None
    """The callback's query after a denial. Default: error=access_denied. Empty: there is no callback."""
    errors_at: ErrorsAt = ErrorsAt.CALLBACK
    """Where a wrong request ends: at the callback (the default, RFC 6749) or on a page of the provider."""

    client: Annotated[list[Literal["header", "body", "both", "none"]], Field(min_length=1)] | None = None
    """Ways in which a client authenticates. Default: the auth scheme's."""
    formats: Annotated[list[Literal["form", "json", "query"]], Field(min_length=1)] | None = None
    """Ways to write a token request. Default: the auth scheme's."""
    token_headers: Values = {}
    """Headers that a token request must have."""
    token_answer: Template | None = None
    """The whole answer with tokens if ``$accessToken`` is in it, otherwise what it has beside the tokens."""
    refresh_answer: Template | None = None
    """The whole answer to a refresh. Default: as ``token_answer``."""
    form_unless_accepted: bool = False
    """Whether answers are form-encoded, unless the request accepts JSON."""
    token_error: ErrorFacts | None = None
    """The form of errors. Default: RFC 6749, or made from the auth scheme's tokenAnswer."""
    error_codes: Values = {}
    """The provider's names for the error codes of RFC 6749."""
    refresh_error: Name | None = None
    """The error code for a refresh token that is not valid. Default: invalid_grant."""
    expires_in: Annotated[int, Field(ge=1)] | Literal["none"] = 3600
    """Seconds for which an access token is valid, or none: for ever."""
    code_seconds: Annotated[int, Field(ge=1)] = 600
    """Seconds for which a code is valid."""
    scope_separator: Annotated[str, StringConstraints(max_length=4)] | None = None
    """The text between scopes in answers. Default: the auth scheme's, or a space."""
    refresh_tokens: RefreshTokenFacts = RefreshTokenFacts()
    """Refresh tokens."""

    api_headers: Values = {}
    """Headers that each request to the API must have."""
    expired: AnswerFacts | None = None
    """The answer to an expired access token. Default: made from the auth scheme's rejections, or 401."""
    revoked: AnswerFacts | None = None
    """The answer to a revoked one. Default: made from the auth scheme's rejections, or as ``expired``."""
    limited: AnswerFacts | None = None
    """The answer to too many requests. Default: made from the System's limits, or 429 with Retry-After."""
    check: Template | str | None = None
    """The answer to the System's check request."""
    after_token: Template | None = None
    """The answer to the auth scheme's request after the token."""
    answers: Annotated[list[EndpointFacts], Field(max_length=64)] = []
    """Further endpoints."""
    list_: Annotated[ListFacts | None, Field(alias="list")] = None
    """A list."""
    lists: Annotated[list[ListFacts], Field(max_length=16)] = []
    """Further lists."""
