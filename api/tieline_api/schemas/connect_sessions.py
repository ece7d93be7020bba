"""Connect sessions in REST: tokens with which an end user's browser may call the API."""

from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, StringConstraints, WithJsonSchema

from tieline_api.schemas.base import JsonObject, MaybeId, Page, Rest, TimeOut, UlidIn, UlidOut
from tieline_api.schemas.connections import Connection, ExternalId
from tieline_api.schemas.names import UserName
from tieline_api.schemas.templates import ConnectionTemplate
from tieline_api.schemas.users import Activation

DEFAULT_SECONDS = 1800
LONGEST_SECONDS = 4 * 3600
MAX_TEMPLATES = 64
_DEFAULT_PORTS = {"https": 443, "http": 80}


def _origin(text: str) -> str:
    """An origin as browsers send it: in lower case, without the usual port."""
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    bare = not (parts.path.strip("/") or parts.query or parts.fragment or "@" in parts.netloc)
    if parts.scheme not in _DEFAULT_PORTS or not parts.hostname or not bare:
        raise ValueError("must be an origin such as https://app.example")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{parts.scheme}://{host}" + (
        f":{port}" if port not in (None, _DEFAULT_PORTS[parts.scheme]) else ""
    )


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
    """What the user can connect: the systems, with the ways to authenticate that they offer."""
    systems: list[Named]
    """The systems of the templates, with their names for people."""
    connections: list[Connection]
    """The user's connections; each names its template in ``connectionTemplateId``."""
    activation: Activation | None = None
    """The user's activation on the environment; absent while there is none."""
    variables_schema: JsonObject
    """The JSON Schema of the variables that the user can set."""
