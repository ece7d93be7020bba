"""What the beginnings of all authorisations have in REST."""

from typing import Annotated

from pydantic import StringConstraints

from tieline_api.schemas.base import MaybeId, Rest, UlidIn
from tieline_core.resources.fields import Url


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
