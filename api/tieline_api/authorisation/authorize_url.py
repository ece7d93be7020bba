"""The URL that a user is sent to in order to authorise (RFC 6749, section 4.1.1). No I/O here."""

import base64
import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

from tieline_core.resources.oauth2_dialect import AuthorizationDialect, OfflineAccess
from tieline_protocol.egress import is_host

OFFLINE_ACCESS = "offline_access"
DEFAULT_PROMPT = "login"
# What only the service may say, whether this URL has it or not.
_RESERVED = ("response_type", "client_id", "redirect_uri", "scope", "state")
_APPROVAL_PROMPT = "approval_prompt"
_OFFLINE = "offlineParameters"
"""The auth scheme's field, which no request has."""
# RFC 6749, section 3.3
_SCOPE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")
_MOST_PARAMETERS = 100


class AuthorizeUrlError(Exception):
    """A field of the request cannot be used; ``field`` names it."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field
        self.message = message


@dataclass(frozen=True, kw_only=True)
class AuthorizeUrlParameters:
    """What a client asks for."""

    authorize_url: str
    client_id: str
    scopes: tuple[str, ...] = ()
    disable_offline_access: bool = False
    prompt: str = ""
    additional_params: str = ""
    scope_separator: str = " "
    dialect: AuthorizationDialect = field(default_factory=AuthorizationDialect)
    """The provider's names and values."""
    follows_scheme: bool = False
    """Whether offline access and prompt are as the auth scheme says, not as the specification defaults them."""
    lists_offline_access: bool = False
    """Whether the auth scheme has the scope offline_access."""

    @property
    def offline_access(self) -> OfflineAccess:
        """How a refresh token is requested."""
        if self.disable_offline_access:
            return OfflineAccess.NONE
        if not self.follows_scheme:
            return OfflineAccess.SCOPE
        default = OfflineAccess.SCOPE if self.lists_offline_access else OfflineAccess.NONE
        return self.dialect.offline_access or default

    def asked_scopes(self) -> list[str]:
        """Each scope once. Raises AuthorizeUrlError."""
        return scopes(self.scopes, offline=self.offline_access is OfflineAccess.SCOPE)


def authorize_url(
    wanted: AuthorizeUrlParameters, *, redirect_uri: str, state: str, verifier: str | None
) -> str:
    """The URL; with a PKCE ``verifier`` it carries the S256 challenge. Raises AuthorizeUrlError."""
    parts, said = urlsplit(_checked(wanted.authorize_url)), wanted.dialect
    additional = _pairs("additionalParams", wanted.additional_params.removeprefix("?"))
    offline = _offline_pairs(wanted, {name for name, _ in additional})
    extra = additional + offline
    ours = {
        "response_type": "code",
        said.client_id_parameter: said.client_id or wanted.client_id,
        "redirect_uri": redirect_uri,
        said.scope_parameter: wanted.scope_separator.join(wanted.asked_scopes()),
        "state": state,
        "prompt": _prompt(wanted, {name for name, _ in extra}),
        "code_challenge": challenge(verifier) if verifier else "",
        "code_challenge_method": "S256" if verifier else "",
    }
    set_here = {name: value for name, value in ours.items() if value and name not in said.omit}
    _refuse_collisions("additionalParams", additional, set_here)
    _refuse_collisions(_OFFLINE, offline, set_here, advice="correct the auth scheme")
    _refuse_collisions("authorizeUrl", _pairs("authorizeUrl", parts.query), set_here)
    query = "&".join(
        text for text in (parts.query, urlencode(set_here), urlencode(extra, quote_via=quote)) if text
    )
    return urlunsplit((parts.scheme, parts.netloc, parts.path, query, ""))


def _offline_pairs(wanted: AuthorizeUrlParameters, given: set[str]) -> list[tuple[str, str]]:
    """What the auth scheme asks for offline access with, without what the caller has ``given``."""
    if wanted.offline_access is not OfflineAccess.PARAMETERS:
        return []
    return [pair for pair in _pairs(_OFFLINE, wanted.dialect.offline_parameters) if pair[0] not in given]


def scopes(given: Iterable[str], *, offline: bool) -> list[str]:
    """Each scope once, in the order given; with ``offline`` also ``offline_access``. Raises AuthorizeUrlError."""
    names = [name for text in given for name in text.split()]
    for name in names:
        if not _SCOPE.fullmatch(name):
            raise AuthorizeUrlError("scopes", f"holds {name[:64]!r}, which cannot be a scope (RFC 6749, 3.3)")
    return list(dict.fromkeys([*names, *([OFFLINE_ACCESS] if offline else [])]))


def challenge(verifier: str) -> str:
    """The S256 challenge of a verifier (RFC 7636, section 4.2)."""
    digest = hashlib.sha256(verifier.encode()).digest()
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")


def _prompt(wanted: AuthorizeUrlParameters, extra: set[str]) -> str:
    # Several values are joined with "+", which is how a query string writes a space.
    values = [value for value in re.split(r"[+\s]+", wanted.prompt) if value]
    known = wanted.dialect.prompts
    unknown = [value for value in values if known and value not in known]
    if unknown:
        raise AuthorizeUrlError(
            "prompt", f"must be {' or '.join(known)}: the provider knows no {unknown[0][:64]!r}"
        )
    if wanted.follows_scheme:
        return "" if "prompt" in extra else " ".join(values) or wanted.dialect.prompt
    if values:
        return " ".join(values)
    return "" if _APPROVAL_PROMPT in extra else DEFAULT_PROMPT


def _checked(url: str) -> str:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and is_host(parts.hostname or "") and parts.port != 0
    except ValueError:
        usable = False
    if not usable or not url.isprintable() or any(letter in url for letter in ' \\"<>{}`^|'):
        raise AuthorizeUrlError(
            "authorizeUrl", "must be a URL that a browser can open, placeholders filled in"
        )
    if parts.fragment or "@" in parts.netloc:
        raise AuthorizeUrlError(
            "authorizeUrl", "must have neither a fragment (#…) nor a user's name and password"
        )
    return url


def _pairs(field: str, query: str) -> list[tuple[str, str]]:
    try:
        return parse_qsl(query, keep_blank_values=True, errors="strict", max_num_fields=_MOST_PARAMETERS)
    except ValueError:
        raise AuthorizeUrlError(
            field, f"must be a URL-encoded query string of at most {_MOST_PARAMETERS} parameters"
        ) from None


def _refuse_collisions(
    field: str,
    pairs: list[tuple[str, str]],
    set_here: dict[str, str],
    *,
    advice: str = "use the field of the request",
) -> None:
    taken = sorted({name for name, _ in pairs if name in set_here or name in _RESERVED})
    if taken:
        raise AuthorizeUrlError(field, f"must not set {', '.join(taken)}: the service sets that; {advice}")
