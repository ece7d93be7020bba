"""Connect sessions in REST: tokens with which an end user's browser may call the API."""

from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, StrictBool, StringConstraints, WithJsonSchema

from tieline_api.origins import web_origin
from tieline_api.schemas.base import JsonObject, MaybeId, Page, Rest, TimeOut, UlidIn, UlidOut
from tieline_api.schemas.connections import Connection, ExternalId
from tieline_api.schemas.names import UserName
from tieline_api.schemas.templates import ConnectionTemplate
from tieline_api.schemas.url_variables import UrlVariable
from tieline_api.schemas.users import Activation
from tieline_core.resources.system_inputs import MAX_INPUTS, InputName
from tieline_protocol.url_inputs import MAX_VALUE

DEFAULT_SECONDS = 1800
LONGEST_SECONDS = 4 * 3600
MAX_TEMPLATES = 64


def _origin(text: str) -> str:
    origin = web_origin(text)
    if "[" in origin:  # browsers know no such origin in frame-ancestors
        raise ValueError("must name its host: an IPv6 address cannot be used here")
    return origin


def _return_url(text: str) -> str:
    try:
        parts = urlsplit(text)
        is_safe = parts.scheme == "https" or (
            parts.scheme == "http" and parts.hostname in ("localhost", "127.0.0.1", "::1")
        )
    except ValueError:
        is_safe = False
    if (
        not is_safe
        or not parts.hostname
        or "@" in parts.netloc
        or not (text.isascii() and text.isprintable())
    ):
        raise ValueError("must be a whole URL such as https://app.example/settings (http for localhost only)")
    return text


Origin = Annotated[
    str,
    StringConstraints(max_length=300),
    AfterValidator(_origin),
    WithJsonSchema(
        {"type": "string", "examples": ["https://app.example"], "pattern": "^https?://[a-z0-9.-]+$"}
    ),
]
ReturnUrl = Annotated[
    str,
    StringConstraints(max_length=2048),
    AfterValidator(_return_url),
    WithJsonSchema({"type": "string", "pattern": "^https://[a-z0-9.-]+(/[a-z0-9/-]*)?$"}),
]


class SessionUser(Rest):
    """The user whose session it is."""

    external_id: ExternalId
    """The user's id in your application. The user is created when it is new."""
    display_name: UserName = ""
    """The name of a new user, for people."""


class FixedVariable(Rest):
    """A value of an input that the user cannot change."""

    name: InputName
    """The input's name."""
    value: Annotated[str, StringConstraints(min_length=1, max_length=MAX_VALUE)]
    """The value of each connection that is made or connected again with the session."""
    hidden: StrictBool = False
    """Whether the page does not show it; it is shown when left out."""


class ConnectSessionCreate(Rest):
    """A new session."""

    user: SessionUser
    """The user."""
    environment_id: UlidIn
    """The environment that it is good for."""
    templates: Annotated[list[UlidIn], Field(max_length=MAX_TEMPLATES)] = Field(default_factory=list)
    """Ids of the environment's dynamic connection templates that it is good for; all of them when empty."""
    connection: Annotated[UlidIn | None, MaybeId] = None
    """The id of one connection of the user that is to be connected again; the session is good for nothing else."""
    allowed_origins: Annotated[list[Origin], Field(max_length=20)] = Field(default_factory=list)
    """Origins whose pages may use the token from a browser, such as https://app.example."""
    return_url: Annotated[ReturnUrl | None, MaybeId] = None
    """Where the user goes after the hosted page."""
    variables: Annotated[list[FixedVariable], Field(max_length=MAX_INPUTS)] = Field(default_factory=list)
    """Values of inputs of the systems, such as the user's shop. The user is not asked for them, and cannot change
    them."""
    inputs: Annotated[list[InputName], Field(max_length=MAX_INPUTS)] | None = None
    """Names of the inputs that the user is asked for; all that are not in variables when left out, none when empty."""
    expires_in: Annotated[int, Field(ge=60, le=LONGEST_SECONDS)] = DEFAULT_SECONDS
    """Seconds until it ends, 60 to 14,400: half an hour when left out."""


class ConnectSession(Rest):
    """A session of an end user. Its token is shown once, when it is created."""

    id: UlidOut
    """The session's id."""
    user: SessionUser
    """The user."""
    environment_id: UlidOut
    """The environment that it is good for."""
    templates: list[UlidOut]
    """The connection templates that it is good for; all dynamic ones of the environment when empty."""
    connection: UlidOut | None = None
    """The connection that is to be connected again; absent where new ones may be made."""
    allowed_origins: list[str]
    """Origins whose pages may use the token from a browser."""
    return_url: str | None = None
    """Where the user goes after the hosted page; absent for nowhere."""
    variables: list[FixedVariable]
    """Values of inputs that the user cannot change."""
    inputs: list[str] | None = None
    """Names of the inputs that the user is asked for; absent for all that are not in variables."""
    created_by: str
    """Who created it, as Kubernetes' RBAC knows it."""
    created_at: TimeOut
    """When it was created."""
    expires_at: TimeOut
    """When it ends."""


class NewConnectSession(Rest):
    """A new session with its token."""

    id: UlidOut
    """The session's id: revoke it by this."""
    token: str
    """The token, for ``Authorization: Bearer``. It is shown here alone."""
    url: str | None = None
    """The hosted page with the token in its fragment; absent where the API does not know its own public URL."""
    expires_at: TimeOut
    """When it ends."""


class ConnectSessionPage(Page):
    """A part of the list of sessions."""

    items: list[ConnectSession]
    """The sessions that have not ended, oldest first."""


class Named(Rest):
    """Something with a name."""

    id: UlidOut
    """Its id."""
    name: str
    """Its name."""


class ShownVariable(UrlVariable):
    """A value of an input that the application has set."""

    system_id: UlidOut
    """The system that has the input."""
    label: str | None = None
    """The input's name for people; absent where that is its name."""
    suffix: str | None = None
    """What follows the value in the URL."""


class CredentialHelp(Rest):
    """Where a user finds the credential of an auth scheme at the provider, as the catalogue says it."""

    scheme: str
    """The auth scheme's id."""
    steps: list[str]
    """What to do, one step an item, in English."""
    docs: str
    """The provider's page about it."""


class SessionSystem(Named):
    """A system that can be connected."""

    has_check: bool = False
    """Whether it names a check request, by which its connections can be tested."""
    catalogue: str | None = None
    """The key of the catalogue's entry that the system was made of."""
    help: list[CredentialHelp] | None = None
    """Where to find credentials that users enter, of systems that were made of an entry of the catalogue."""


class CurrentConnectSession(Rest):
    """The session that a request comes with, and what its user can connect: all that a page needs."""

    id: UlidOut
    """The session's id."""
    organisation_id: UlidOut
    """The organisation: the first part of the paths of all other operations."""
    user: SessionUser
    """The user."""
    project: Named
    """The project."""
    environment: Named
    """The environment."""
    connection: UlidOut | None = None
    """The connection that is to be connected again; absent where new ones may be made."""
    return_url: str | None = None
    """Where the user goes afterwards; absent for nowhere."""
    allowed_origins: list[str]
    """Origins whose pages may use the token, show the hosted page in a frame, and hear what it tells."""
    expires_at: TimeOut
    """When the session ends."""
    templates: list[ConnectionTemplate]
    """What the user can connect: the systems, with the ways to authenticate that they offer, and the inputs that the
    user is asked for."""
    variables: list[ShownVariable]
    """Values of inputs that the application has set for the session, to be shown. The user cannot change them."""
    systems: list[SessionSystem]
    """The systems of the templates, with their names for people."""
    connections: list[Connection]
    """The user's connections; each names its template in ``connectionTemplateId``."""
    activation: Activation | None = None
    """The user's activation on the environment; absent while there is none."""
    variables_schema: JsonObject
    """The JSON Schema of the variables that the user can set."""
