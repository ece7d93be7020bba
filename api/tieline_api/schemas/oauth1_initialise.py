"""The start of an authorisation by OAuth 1.0 in REST."""

from typing import Annotated

from pydantic import Field, StringConstraints

from tieline_api.schemas.auth_schemes import AuthSchemeConfig
from tieline_api.schemas.authorisations import Initialise
from tieline_api.schemas.base import Rest

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
