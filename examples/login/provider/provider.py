"""A small club: an API that its members' data comes from, and the OAuth 2.0 authorisation server in front of it.

For trying only. It is a real authorisation server as far as it goes: authorisation code with PKCE, a sign-in page with
consent, refresh tokens that rotate (RFC 6749, 7636, 9207; a refresh token that is used twice ends the authorisation,
as RFC 9700 recommends). It is not one to copy: members and their passwords stand in a variable, everything is kept in
memory, so a restart forgets every token, there is one client, and nothing slows down guessing.

| variable | meaning |
|---|---|
| CLIENT_ID, CLIENT_SECRET | the only client |
| REDIRECT_URIS | where users may return to, separated by spaces, beside any port of 127.0.0.1, [::1] and localhost |
| MEMBERS | ``ann:password,ben:password`` |
| TOKEN_SECONDS | how long an access token is good; 300 by default, so that refreshing can be watched |
| PORT | 8080 by default |
"""

import base64
import hashlib
import hmac
import html
import os
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar
from urllib.parse import parse_qsl, unquote_plus, urlencode, urlsplit, urlunsplit

from aiohttp import web

SCOPES: Mapping[str, str] = {
    "profile": "See your name and your membership number",
    "offline_access": "Do so while you are away",
}
CODE_SECONDS = 60
CONSENT_SECONDS = 600
MOST = 10_000
"""Entries of each kind that are kept; the oldest go first."""
LOOPBACK = ("127.0.0.1", "::1", "localhost")
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Sign in to the club</title>
<style>body{{font:1rem system-ui;max-width:26rem;margin:3rem auto;padding:0 1rem}}label,button{{display:block;
margin:.7rem 0}}.note{{color:#666}}</style>
<h1>The club</h1>{error}<p><b>{client}</b> asks to</p><ul>{scopes}</ul>
<form method="post" action="authorize"><input type="hidden" name="request" value="{request}">
<label>Member <input name="member" autocomplete="username"></label>
<label>Password <input name="password" type="password" autocomplete="current-password"></label>
<button name="decision" value="allow">Sign in and allow</button>
<button name="decision" value="deny" formnovalidate>Deny</button></form>
<p class="note">This provider is for trying only.</p></html>
"""

T = TypeVar("T")


@dataclass(frozen=True)
class Asked:
    """An authorisation request that was found good."""

    redirect_uri: str
    state: str
    challenge: str
    scopes: tuple[str, ...]


@dataclass(frozen=True)
class Granted:
    """What a member has allowed."""

    asked: Asked
    member: str


@dataclass(frozen=True)
class Token:
    """A token, and the authorisation that it belongs to."""

    grant: str
    member: str
    scopes: tuple[str, ...]


@dataclass
class Kept(Generic[T]):
    """Secrets and what they stand for, until they expire."""

    seconds: float
    entries: dict[str, tuple[float, T]] = field(default_factory=dict)

    def put(self, value: T) -> str:
        """A new secret for ``value``."""
        while len(self.entries) >= MOST:
            del self.entries[next(iter(self.entries))]
        name = secrets.token_urlsafe(32)
        self.entries[name] = (time.monotonic() + self.seconds, value)
        return name

    def get(self, name: str) -> T | None:
        """What a secret stands for, if it is good."""
        until, value = self.entries.get(name, (0.0, None))
        return value if time.monotonic() < until else None

    def take(self, name: str) -> T | None:
        """The same, once."""
        value = self.get(name)
        self.entries.pop(name, None)
        return value


class Club:
    """The authorisation server and the API."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        self.client_id = settings["CLIENT_ID"]
        self.client_secret = settings["CLIENT_SECRET"]
        self.redirect_uris = frozenset(settings.get("REDIRECT_URIS", "").split())
        self.members = dict(entry.split(":", 1) for entry in settings["MEMBERS"].split(","))
        self.seconds = int(settings.get("TOKEN_SECONDS", "300"))
        self.requests: Kept[Asked] = Kept(CONSENT_SECONDS)
        self.codes: Kept[Granted] = Kept(CODE_SECONDS)
        self.access: Kept[Token] = Kept(self.seconds)
        self.refresh: Kept[Token] = Kept(30 * 86400)
        self.spent: dict[str, str] = {}
        """Codes and refresh tokens that were used, with the authorisation they belong to."""
        self.ended: dict[str, None] = {}
        """Authorisations that a second use has ended."""

    def app(self) -> web.Application:
        """The application."""
        app = web.Application(client_max_size=64 * 1024)
        app.add_routes(
            [
                web.get("/healthz", self.healthz),
                web.get("/authorize", self.authorize),
                web.post("/authorize", self.decide),
                web.post("/token", self.token),
                web.get("/me", self.me),
            ]
        )
        return app

    async def healthz(self, _request: web.Request) -> web.Response:
        """Whether the club is up."""
        return web.Response(text="ok")

    async def authorize(self, request: web.Request) -> web.Response:
        """The sign-in page with consent (RFC 6749, section 4.1.1)."""
        query = request.query
        redirect_uri = query.get("redirect_uri", "")
        if query.get("client_id") != self.client_id or not self.is_registered(redirect_uri):
            # Nobody is sent to an address that is not known to be the client's.
            return web.Response(status=400, text="The client or its redirect_uri is not known here")
        state = query.get("state", "")
        if query.get("response_type") != "code":
            return back(redirect_uri, error="unsupported_response_type", state=state)
        challenge = query.get("code_challenge", "")
        if query.get("code_challenge_method") != "S256" or not challenge:
            return back(
                redirect_uri, error="invalid_request", error_description="PKCE (S256) is needed", state=state
            )
        scopes = tuple(query.get("scope", "profile").split())
        if not set(scopes) <= set(SCOPES):
            return back(redirect_uri, error="invalid_scope", state=state)
        asked = Asked(redirect_uri=redirect_uri, state=state, challenge=challenge, scopes=scopes)
        return self.page(asked)

    async def decide(self, request: web.Request) -> web.Response:
        """What the member says to it."""
        form = await request.post()
        asked = self.requests.take(str(form.get("request", "")))
        if asked is None:
            return web.Response(status=400, text="This request has expired: start again in your application")
        if form.get("decision") != "allow":
            return back(asked.redirect_uri, error="access_denied", state=asked.state)
        member = str(form.get("member", ""))
        password = self.members.get(member, "")
        if not password or not same(str(form.get("password", "")), password):
            return self.page(asked, error="<p><b>Member or password is wrong.</b></p>", status=401)
        code = self.codes.put(Granted(asked=asked, member=member))
        return back(asked.redirect_uri, code=code, state=asked.state, iss=str(request.url.origin()))

    async def token(self, request: web.Request) -> web.Response:
        """Tokens for a code or a refresh token (RFC 6749, sections 4.1.3 and 6)."""
        form = {name: str(value) for name, value in (await request.post()).items()}
        if not self.is_client(request.headers.get("Authorization", ""), form):
            return refused("invalid_client", status=401)
        match form.get("grant_type"):
            case "authorization_code":
                return self.exchanged(form)
            case "refresh_token":
                return self.refreshed(form.get("refresh_token", ""))
        return refused("unsupported_grant_type")

    async def me(self, request: web.Request) -> web.Response:
        """The member whose token it is."""
        kind, _, value = request.headers.get("Authorization", "").partition(" ")
        token = self.access.get(value) if kind.lower() == "bearer" else None
        if token is None or token.grant in self.ended:
            challenge = {"WWW-Authenticate": 'Bearer error="invalid_token"'}
            return web.json_response({"error": "invalid_token"}, status=401, headers=challenge)
        number = sorted(self.members).index(token.member) + 1
        return web.json_response({"name": token.member.title(), "number": f"M-{number:03}"})

    def exchanged(self, form: Mapping[str, str]) -> web.Response:
        """Tokens for a code; a code that comes twice ends what it has brought (RFC 6749, section 4.1.2)."""
        code = form.get("code", "")
        if code in self.spent:
            self.end(self.spent[code])
        granted = self.codes.take(code)
        if granted is None:
            return refused("invalid_grant", "The code is unknown, used or expired")
        verifier = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(verifier).decode().rstrip("=")
        fits = form.get("redirect_uri") == granted.asked.redirect_uri
        if not fits or not same(challenge, granted.asked.challenge):
            return refused("invalid_grant", "code_verifier or redirect_uri is not that of the authorisation")
        token = Token(grant=secrets.token_hex(8), member=granted.member, scopes=granted.asked.scopes)
        self.spend(code, token.grant)
        return self.issued(token)

    def refreshed(self, value: str) -> web.Response:
        """New tokens for a refresh token, which is good once."""
        if value in self.spent:
            self.end(self.spent[value])
        token = self.refresh.take(value)
        if token is None or token.grant in self.ended:
            return refused("invalid_grant", "The refresh token is unknown, used or revoked")
        self.spend(value, token.grant)
        return self.issued(token)

    def issued(self, token: Token) -> web.Response:
        """The answer with tokens; a refresh token only where the member has allowed offline_access."""
        answer = {
            "access_token": self.access.put(token),
            "token_type": "Bearer",
            "expires_in": self.seconds,
            "scope": " ".join(token.scopes),
        }
        if "offline_access" in token.scopes:
            answer["refresh_token"] = self.refresh.put(token)
        return web.json_response(answer, headers=HEADERS)

    def spend(self, value: str, grant: str) -> None:
        """Remembers what was used."""
        while len(self.spent) >= MOST:
            del self.spent[next(iter(self.spent))]
        self.spent[value] = grant

    def end(self, grant: str) -> None:
        """Ends an authorisation: none of its tokens is good any more."""
        while len(self.ended) >= MOST:
            del self.ended[next(iter(self.ended))]
        self.ended[grant] = None

    def page(self, asked: Asked, *, error: str = "", status: int = 200) -> web.Response:
        """The sign-in page; its form is good once."""
        text = PAGE.format(
            client=html.escape(self.client_id),
            scopes="".join(f"<li>{html.escape(SCOPES[scope])}</li>" for scope in asked.scopes),
            request=self.requests.put(asked),
            error=error,
        )
        return web.Response(text=text, status=status, content_type="text/html", headers=HEADERS)

    def is_registered(self, uri: str) -> bool:
        """Whether users may return there; of a native application's address the port does not count (RFC 8252)."""
        try:
            parts = urlsplit(uri)
            native = parts.scheme == "http" and parts.hostname in LOOPBACK and "@" not in parts.netloc
        except ValueError:
            return False
        return (uri in self.redirect_uris or native) and not parts.fragment

    def is_client(self, header: str, form: Mapping[str, str]) -> bool:
        """Whether the request is the client's, by HTTP Basic or in the form (RFC 6749, section 2.3.1)."""
        name, secret = form.get("client_id", ""), form.get("client_secret", "")
        if header.lower().startswith("basic "):
            try:
                decoded = base64.b64decode(header[6:], validate=True).decode()
            except ValueError:
                return False
            name, _, secret = decoded.partition(":")
            name, secret = unquote_plus(name), unquote_plus(secret)
        return same(name, self.client_id) and same(secret, self.client_secret)


def same(one: str, other: str) -> bool:
    """Whether two secrets are equal, without telling by the time it takes."""
    return hmac.compare_digest(one.encode(), other.encode())


def back(redirect_uri: str, **parameters: str) -> web.Response:
    """A redirect to the client; a query that its address has is kept."""
    parts = urlsplit(redirect_uri)
    given = {name: value for name, value in parameters.items() if value}
    query = urlencode([*parse_qsl(parts.query, keep_blank_values=True), *given.items()])
    return web.Response(status=303, headers={**HEADERS, "Location": urlunsplit(parts._replace(query=query))})


def refused(error: str, description: str = "", *, status: int = 400) -> web.Response:
    """An error of the token endpoint (RFC 6749, section 5.2)."""
    body = {"error": error, **({"error_description": description} if description else {})}
    headers = {**HEADERS, **({"WWW-Authenticate": "Basic"} if status == 401 else {})}
    return web.json_response(body, status=status, headers=headers)


if __name__ == "__main__":
    web.run_app(Club(os.environ).app(), port=int(os.environ.get("PORT", "8080")), print=None)
