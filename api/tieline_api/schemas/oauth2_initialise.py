"""The start of an authorisation code flow in REST."""

from typing import Annotated

from pydantic import Field, StrictBool, StringConstraints

from tieline_api.schemas.auth_schemes import AuthSchemeConfig
from tieline_api.schemas.authorisations import Initialise
from tieline_api.schemas.base import Rest
from tieline_core.resources.fields import Params, Scope, Url


class OAuth2Initialise(Initialise):
    """How a user shall authorise."""

    authorize_url: Url
    """Where the user is sent to authorise."""
    client_id: Annotated[str, StringConstraints(min_length=1, max_length=1024)]
    """The client's id at the system."""
    scopes: Annotated[list[Scope], Field(max_length=512)] | None = None
    """Scopes to request."""
    disable_offline_access: StrictBool | None = None
    """Whether to leave out the scope offline_access, which is added otherwise."""
    prompt: Annotated[str, StringConstraints(max_length=256)] | None = None
    """none, login (the default), consent, select_account or any other value; several joined with +."""
    additional_params: Params | None = None
    """URL-encoded query string that joins the URL; it must not set what the service sets."""
    auth_scheme_config_id: Annotated[str, StringConstraints(min_length=1, max_length=64)] | None = None
    """The oauth2 auth scheme: one of the system's, or the credential's own. It decides whether PKCE is used. Without
    it, the one that the credential is for, or else the one of the system that agrees with the request."""
    auth_scheme_config: AuthSchemeConfig | None = None
    """The oauth2 auth scheme that a connection which is still to be made will bring along."""


class OAuth2Url(Rest):
    """Where to send the user."""

    url: str
    """The URL to redirect the user to; good for one authorisation, for minutes."""
