"""What the beginnings of all authorisations have in REST."""

from typing import Annotated

from pydantic import StringConstraints

from tieline_api.models.base import Rest, UlidIn
from tieline_core.resources.fields import Url


class CredentialOfOrganisation(Rest):
    """The credential that the authorisation is for."""

    id: Annotated[str, StringConstraints(min_length=1, max_length=64)]
    """The credential's id."""
    organisation_id: UlidIn
    """The organisation that owns it: the one in the path, or one that has granted it (CredentialGrant)."""


class Initialise(Rest):
    """How a user shall authorise."""

    credential: CredentialOfOrganisation
    """The credential that the authorisation is for."""
    redirect_url: Url | None = None
    """A page of the application to return to instead of ours; it must be on the list TIELINE_REDIRECT_URLS."""
