"""The start of an authorisation, by OAuth 2.0 or OAuth 1.0, in REST."""

from typing import Annotated

from pydantic import Field, StrictBool, StringConstraints

from tieline_api.schemas.auth_schemes import AuthSchemeConfig
from tieline_api.schemas.base import MaybeId, Rest, UlidIn
from tieline_api.schemas.url_variables import UrlVariables
from tieline_core.resources.auth_schemes import Endpoint
from tieline_core.resources.fields import Params, Scope, Url


class CredentialOfOrganisation(Rest):
    """The credential that the authorisation is for."""

    id: Annotated[str, StringConstraints(min_length=1, max_length=64)]
    """The credential's id."""
    organisation_id: Annotated[UlidIn | None, MaybeId]
    """The organisation that owns it: the one in the path, or one that has granted it (CredentialGrant)."""


class Initialise(Rest):
    """How a user shall authorise."""

    credential: CredentialOfOrganisation
    """The credential that the authorisation is for."""
    redirect_url: Url | None = None
    """Where the user returns to instead of our page: a page that is listed in TIELINE_REDIRECT_URLS, or (unless
    TIELINE_LOOPBACK_REDIRECTS is off) http://127.0.0.1, http://[::1] or http://localhost with any port and path,
    where a native application listens."""


_Name = Annotated[str, StringConstraints(min_length=1, max_length=256)]
_Value = Annotated[str, StringConstraints(max_length=1024)]


class OAuth1Initialise(Initialise):
    """How a user shall authorise; the credential is one of this organisation."""

    auth_scheme_config_id: Annotated[str, StringConstraints(min_length=1, max_length=64)] | None = None
    """The oauth1 auth scheme: one of the system's, or the credential's own. Without it, the one that the
    credential is for, or that names the credential as its consumer, or the only one that the system has."""
    auth_scheme_config: AuthSchemeConfig | None = None
    """The oauth1 auth scheme that a connection which is still to be made will bring along."""
    params: Annotated[dict[_Name, _Value], Field(max_length=32)] | None = None
    """Values for the scheme's modifiable additional parameters, by their parameterName."""


class OAuth1Url(Rest):
    """Where to send the user, and what tells the answer from others."""

    url: str
    """The URL to redirect the user to; good for one authorisation, for minutes."""
    state: str
    """The state that comes back in the callback's URL; this URL does not have it."""


class OAuth2Initialise(Initialise):
    """How a user shall authorise."""

    authorize_url: Endpoint
    """Where the user is sent to authorise."""
    client_id: Annotated[str, StringConstraints(min_length=1, max_length=1024)]
    """The client's id at the system."""
    scopes: Annotated[list[Scope], Field(max_length=512)] | None = None
    """Scopes to request."""
    disable_offline_access: StrictBool | None = None
    """Whether to leave out the scope offline_access, which is added otherwise."""
    prompt: Annotated[str, StringConstraints(max_length=256)] | None = None
    """none, login (the default), consent, select_account or any other value; several joined with +."""
    follow_scheme: StrictBool | None = None
    """Whether offline access, prompt and additional parameters come from the auth scheme where the request has none,
    in place of the defaults. Default: false."""
    additional_params: Params | None = None
    """URL-encoded query string that joins the URL; it must not set what the service sets."""
    variables: UrlVariables | None = None
    """Values of the system's inputs, for variables in curly braces in authorizeUrl and in the scheme's other URLs.
    Others are those of the connection, and then those of the system. Where the service finishes the authorisation, it
    stores them in the connection."""
    auth_scheme_config_id: Annotated[str, StringConstraints(min_length=1, max_length=64)] | None = None
    """The oauth2 auth scheme: one of the system's, or the credential's own. It decides whether PKCE is used. Without
    it, the one that the credential is for, or else the one of the system that agrees with the request."""
    auth_scheme_config: AuthSchemeConfig | None = None
    """The oauth2 auth scheme that a connection which is still to be made will bring along."""


class OAuth2Url(Rest):
    """Where to send the user."""

    url: str
    """The URL to redirect the user to; good for one authorisation, for minutes."""
