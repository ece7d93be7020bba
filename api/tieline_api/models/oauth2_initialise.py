"""The start of an authorisation code flow in REST."""

from typing import Annotated

from pydantic import Field, StrictBool, StringConstraints

from tieline_api.models.base import Rest, UlidIn
from tieline_core.resources.fields import Params, Scope, Url


class CredentialOfOrganisation(Rest):
    """The credential that the authorisation is for."""

    id: Annotated[str, StringConstraints(min_length=1, max_length=64)]
    """The credential's id."""
    organisation_id: UlidIn
    """The organisation that owns it: the one in the path, or one that has granted it (CredentialGrant)."""


class OAuth2Initialise(Rest):
    """How a user shall authorise."""

    credential: CredentialOfOrganisation
    """The credential that the authorisation is for."""
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

    redirect_url: Url | None = None
    """A page of the application to return to instead of ours; it must be on the list TIELINE_REDIRECT_URLS."""


class OAuth2Url(Rest):
    """Where to send the user."""

    url: str
    """The URL to redirect the user to; good for one authorisation, for minutes."""
