"""The URL that a user is sent to in order to authorise (RFC 6749, section 4.1.1). No I/O here."""

import base64
import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

from tieline_protocol.egress import is_host

OFFLINE_ACCESS = "offline_access"
DEFAULT_PROMPT = "login"
# What only the service may say, whether this URL has it or not.
_RESERVED = ("response_type", "client_id", "redirect_uri", "scope", "state")
_APPROVAL_PROMPT = "approval_prompt"
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


def authorize_url(
    wanted: AuthorizeUrlParameters, *, redirect_uri: str, state: str, verifier: str | None
) -> str:
    """The URL; with a PKCE ``verifier`` it carries the S256 challenge. Raises AuthorizeUrlError."""
    parts = urlsplit(_checked(wanted.authorize_url))
    extra = _pairs("additionalParams", wanted.additional_params.removeprefix("?"))
    prompt = _prompt(wanted.prompt, {name for name, _ in extra})
    ours = {
        "response_type": "code",
        "client_id": wanted.client_id,
        "redirect_uri": redirect_uri,
        "scope": " ".join(scopes(wanted.scopes, offline=not wanted.disable_offline_access)),
        "state": state,
        "prompt": prompt,
        "code_challenge": challenge(verifier) if verifier else "",
        "code_challenge_method": "S256" if verifier else "",
    }
    set_here = {name: value for name, value in ours.items() if value}
    _refuse_collisions("additionalParams", extra, set_here)
    _refuse_collisions("authorizeUrl", _pairs("authorizeUrl", parts.query), set_here)
    query = "&".join(
        text for text in (parts.query, urlencode(set_here), urlencode(extra, quote_via=quote)) if text
    )
    return urlunsplit((parts.scheme, parts.netloc, parts.path, query, ""))


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


def _prompt(given: str, extra: set[str]) -> str:
    # Several values are joined with "+", which is how a query string writes a space.
    values = [value for value in re.split(r"[+\s]+", given) if value]
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


def _refuse_collisions(field: str, pairs: list[tuple[str, str]], set_here: dict[str, str]) -> None:
    taken = sorted({name for name, _ in pairs if name in set_here or name in _RESERVED})
    if taken:
        raise AuthorizeUrlError(
            field, f"must not set {', '.join(taken)}: the service sets that; use the field of the request"
        )
