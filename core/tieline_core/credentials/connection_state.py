"""Whether a connection works, as far as requests through it have shown."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from tieline_core.credentials.refusals import fingerprint, refusals_of
from tieline_core.identity.ids import parse_time
from tieline_core.objects import ObjectView
from tieline_core.resources.auth_schemes import AuthSchemeType
from tieline_core.resources.connections import CredentialType

LAST_SUCCESS = "tieline.dev/last-success"
"""The annotation with the time of the last request that is known to have succeeded."""
LAST_SUCCESS_OF = "tieline.dev/last-success-of"
"""The annotation with the fingerprint of the credentials that it succeeded with."""


class ConnectionState(StrEnum):
    """What is known of a connection."""

    NOT_AUTHORISED = "not_authorised"
    """A credential has not been given yet: nobody has signed in, or entered it."""
    INVALID = "invalid"
    """A credential cannot be used; its errors say why."""
    REFUSED = "refused"
    """The system refused the last request, or the provider refuses to renew the access."""
    NOT_CHECKED = "not_checked"
    """No request has succeeded with these credentials yet."""
    WORKS = "works"
    """The last request that says something about the credentials succeeded."""


@dataclass(frozen=True, kw_only=True)
class CredentialFacts:
    """What is known of one credential."""

    is_given: bool = True
    is_refused: bool = False
    """Whether its provider refuses to issue or renew tokens."""
    has_errors: bool = False


def is_given(scheme: str | None, credential: str, *, has_tokens: bool) -> bool:
    """Whether a credential has what its auth scheme needs: values, or tokens that came of an authorisation.

    >>> is_given("oauth2", "none", has_tokens=False), is_given("none", "none", has_tokens=False)
    (False, True)
    """
    if scheme is None or scheme == AuthSchemeType.NONE:
        return True
    if credential == CredentialType.OAUTH2_CODE:
        return has_tokens
    return credential != CredentialType.NONE


def last_success(connection: ObjectView) -> datetime | None:
    """When a request last succeeded with the credentials that the Connection has now; None where none is known."""
    annotations = connection["metadata"].get("annotations") or {}
    if annotations.get(LAST_SUCCESS_OF) != fingerprint(connection):
        return None
    try:
        return parse_time(annotations[LAST_SUCCESS])
    except (KeyError, ValueError, TypeError):
        return None


def state_of(connection: ObjectView, credentials: Iterable[CredentialFacts]) -> ConnectionState:
    """The state of a Connection with these credentials."""
    found, refusals = tuple(credentials), refusals_of(connection)
    are_given = all(one.is_given for one in found)
    answered_so = refusals is not None and refusals.accepted is None
    # Without a credential a refusal is no wonder: it is missing that has to be said.
    if any(one.is_refused for one in found) or (answered_so and are_given):
        return ConnectionState.REFUSED
    if any(one.has_errors for one in found):
        return ConnectionState.INVALID
    if not are_given:
        return ConnectionState.NOT_AUTHORISED
    return ConnectionState.WORKS if last_success(connection) else ConnectionState.NOT_CHECKED
