"""The start of an authorisation by OAuth 1.0 in REST."""

from typing import Annotated

from pydantic import Field, StringConstraints

from tieline_api.models.base import Rest
from tieline_api.models.oauth2_initialise import CredentialOfOrganisation
from tieline_core.resources.fields import Url

_Name = Annotated[str, StringConstraints(min_length=1, max_length=256)]
_Value = Annotated[str, StringConstraints(max_length=1024)]


class OAuth1Initialise(Rest):
    """How a user shall authorise."""

    credential: CredentialOfOrganisation
    """The credential that the authorisation is for; of this organisation."""
    auth_scheme_config_id: Annotated[str, StringConstraints(min_length=1, max_length=64)] | None = None
    """The system's oauth1 auth scheme; may be left out where there is one only."""
    params: Annotated[dict[_Name, _Value], Field(max_length=32)] | None = None
    """Values for the scheme's modifiable additional parameters, by their parameterName."""

    redirect_url: Url | None = None
    """A page of the application to return to instead of ours; it must be on the list TIELINE_REDIRECT_URLS."""


class OAuth1Url(Rest):
    """Where to send the user, and what tells the answer from others."""

    url: str
    """The URL to redirect the user to; good for one authorisation, for minutes."""
    state: str
    """The state that comes back in the callback's URL; this URL does not have it."""
