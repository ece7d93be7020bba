"""The authorise page: which requests it refuses, and what a person sees."""

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape

from yarl import URL

from tieline.emulator.facts import ANY, Pkce
from tieline.emulator.scheme import OAuthScheme


@dataclass(frozen=True)
class Client:
    """An application that is registered at the provider."""

    id: str
    secret: str
    redirect_uris: frozenset[str] = frozenset()
    """Those that it has registered; empty: any."""


@dataclass(frozen=True)
class AuthoriseError(Exception):
    """A request that is refused."""

    code: str
    description: str
    fatal: bool = False
    """Whether nothing may be sent to the redirect URI."""

    def __str__(self) -> str:
        return f"{self.code}: {self.description}"


@dataclass(frozen=True)
class Consent:
    """What a person is asked for."""

    client_id: str
    redirect_uri: str
    state: str
    scopes: tuple[str, ...]
    challenge: str
    query: Mapping[str, str]


def read(scheme: OAuthScheme, client: Client, url: URL) -> Consent:
    """The request of an authorise URL. Raises AuthoriseError."""
    query = _once(url)
    _check_client(scheme, client, query)
    if unknown := sorted(query.keys() - scheme.parameters):
        raise AuthoriseError("invalid_request", f"unknown parameter: {unknown[0]}")
    if "response_type" in scheme.parameters and query.get("response_type", "code") != "code":
        raise AuthoriseError("unsupported_response_type", "response_type must be code")
    _check_required(scheme, query)
    _check_prompt(scheme, query)
    return Consent(
        client_id=client.id,
        redirect_uri=query["redirect_uri"],
        state=query.get("state", ""),
        scopes=_scopes(scheme, query),
        challenge=_challenge(scheme, query),
        query=query,
    )


def _once(url: URL) -> dict[str, str]:
    for name in url.query:
        if len(url.query.getall(name)) > 1:
            raise AuthoriseError("invalid_request", f"the parameter {name} is there twice", fatal=True)
    return dict(url.query)


def _check_client(scheme: OAuthScheme, client: Client, query: Mapping[str, str]) -> None:
    name = scheme.client_id_at_authorise
    expected = str(scheme.authorization.get("clientId") or client.id)
    if query.get(name) != expected:
        raise AuthoriseError("invalid_client", f"there is no application with this {name}", fatal=True)
    uri = query.get("redirect_uri", "")
    if not URL(uri).absolute or (client.redirect_uris and uri not in client.redirect_uris):
        raise AuthoriseError("redirect_uri_mismatch", "this redirect_uri is not registered", fatal=True)


def _check_required(scheme: OAuthScheme, query: Mapping[str, str]) -> None:
    if missing := [name for name in scheme.facts.parameters_required if name not in query]:
        raise AuthoriseError("invalid_request", f"{missing[0]} is missing")


def _check_prompt(scheme: OAuthScheme, query: Mapping[str, str]) -> None:
    asked = query.get("prompt", "").split()
    if wrong := [one for one in asked if one not in scheme.prompts]:
        raise AuthoriseError("invalid_request", f"unknown prompt: {wrong[0]}")


def _scopes(scheme: OAuthScheme, query: Mapping[str, str]) -> tuple[str, ...]:
    asked: list[str] = []
    for name in scheme.scope_parameters:
        asked += [one for one in query.get(name, "").split(scheme.separator) if one]
    unknown = [one for one in asked if one not in scheme.scopes]
    if unknown and ANY not in scheme.scopes:
        raise AuthoriseError("invalid_scope", f"unknown scope: {unknown[0]}")
    if not asked and scheme.facts.scopes_needed:
        raise AuthoriseError("invalid_scope", "there is no scope")
    return tuple(asked)


def _challenge(scheme: OAuthScheme, query: Mapping[str, str]) -> str:
    challenge = query.get("code_challenge", "")
    if scheme.pkce is Pkce.REQUIRED and not challenge:
        raise AuthoriseError("invalid_request", "code_challenge is missing")
    if challenge and query.get("code_challenge_method") != "S256":
        raise AuthoriseError("invalid_request", "code_challenge_method must be S256")
    return challenge


def consent_page(provider: str, consent: Consent) -> str:
    """The page on which a person allows access, or denies it."""
    scopes = "".join(f"<li>{escape(one)}</li>" for one in consent.scopes)
    return _page(
        f"{provider}: allow access?",
        f"<p>An application asks for access to your account. It goes on at {escape(consent.redirect_uri)}.</p>"
        f'<ul aria-label="Scopes">{scopes}</ul>'
        '<form method="post"><button name="decision" value="allow">Allow</button> '
        '<button name="decision" value="deny">Deny</button></form>',
    )


def error_page(provider: str, error: AuthoriseError) -> str:
    """The page for a request that is refused."""
    return _page(
        f"{provider}: access blocked",
        f"<p>Error: <code>{escape(error.code)}</code></p><p>{escape(error.description)}</p>",
    )


def message_page(provider: str, text: str) -> str:
    """A page that says something."""
    return _page(provider, f"<p>{escape(text)}</p>")


def _page(title: str, body: str) -> str:
    head = f'<meta charset="utf-8"><link rel="icon" href="data:,"><title>{escape(title)}</title>'
    return (
        f'<!doctype html><html lang="en"><head>{head}</head><body><h1>{escape(title)}</h1>'
        f"<p><small>Emulated: no real account is used.</small></p>{body}</body></html>"
    )
