"""What an end user's token reaches: a connect session's, or a JWT of an issuer of end users."""

from dataclasses import dataclass

USER_PREFIX = "tieline:end-user:"
"""What stands before end users in logs, where other callers have their names in RBAC."""


@dataclass(frozen=True, kw_only=True)
class EndUserScope:
    """One end user of one organisation or several, and the part of what is theirs that a token is good for."""

    external_id: str
    """The user's id in the customer's application. The user may not exist yet."""
    environments: frozenset[str] | None = None
    """Ids of the environments; None for all of the organisation."""
    templates: frozenset[str] | None = None
    """Ids of the connection templates; None for all dynamic ones of the environments."""
    connection: str = ""
    """The id of the one connection that is to be connected again; empty where new ones may be made."""
    session: str = ""
    """The id of the connect session; empty for a JWT."""
    origins: frozenset[str] | None = None
    """Where browsers may send the token from; None where the API's own settings say it."""
    variables: tuple[tuple[str, str], ...] = ()
    """Values of inputs that the application has fixed for the session."""
    inputs: frozenset[str] | None = None
    """Names of inputs that the user may set; None for all that are not fixed."""


def user_name(organisation_id: str, external_id: str) -> str:
    """The name of an end user in logs and limits."""
    return f"{USER_PREFIX}{organisation_id.lower()}:{external_id}"
