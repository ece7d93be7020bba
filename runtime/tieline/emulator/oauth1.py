"""OAuth 1.0 (RFC 5849) from the provider's side: three steps, and signatures of each request.

It reads the RFC for itself, and shares nothing with the library that signs.
"""

import base64
import hmac
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self
from urllib.parse import parse_qsl, quote, unquote

from yarl import URL

from tieline.emulator.authorisation import AuthoriseError, Client, Consent
from tieline.emulator.facts import ANY, ProviderFacts
from tieline.emulator.grants import Grant, Grants, Token
from tieline.emulator.messages import Asked, Reply
from tieline.emulator.urls import Endpoint

Pair = tuple[str, str]
_HASHES = {"HMAC-SHA1": "sha1", "HMAC-SHA256": "sha256", "HMAC-SHA512": "sha512"}
_PLAIN = "PLAINTEXT"
METHODS = frozenset({*_HASHES, _PLAIN})
"""Methods of signatures that are verified."""
_LATE_SECONDS = 300
_MOST_NONCES = 10_000
_ONCE = ("consumer_key", "signature_method", "signature", "timestamp", "nonce")
_FORM = "application/x-www-form-urlencoded"


class SignatureRefusedError(Exception):
    """A request that is not signed as it must be; the text is a problem of OAuth's problem reporting."""


@dataclass(eq=False)
class Temporary:
    """What a person is sent away with."""

    secret: str = field(repr=False)
    callback: str
    verifier: str = field(default="", repr=False)
    """What the person has come back with."""
    grant: Grant | None = None


@dataclass
class OAuth1:
    """The endpoints of a scheme of OAuth 1.0, and its memory."""

    options: Mapping[str, Any]
    """``oauth1`` of the auth scheme."""
    facts: ProviderFacts
    client: Client
    grants: Grants
    temporary: dict[str, Temporary] = field(default_factory=dict)
    token_secrets: dict[str, str] = field(default_factory=dict)
    """The secrets of access tokens, by token."""
    nonces: set[Pair] = field(default_factory=set)

    @classmethod
    def of(
        cls, system: Mapping[str, Any], facts: ProviderFacts, client: Client, grants: Grants
    ) -> Self | None:
        """That of a System's first scheme whose method is known; None where it has none."""
        for one in system.get("authSchemeConfigs") or ():
            if one["type"] == "oauth1" and (one["oauth1"].get("signatureMethod") or "HMAC-SHA1") in METHODS:
                return cls(one["oauth1"], facts, client, grants)
        return None

    @property
    def endpoints(self) -> list[Endpoint]:
        """Its URLs."""
        found = (self._at(name) for name in _ENDPOINTS)
        return [one for one in found if one is not None]

    def _at(self, name: str) -> Endpoint | None:
        url = (self.options.get(name) or {}).get("url")
        return Endpoint.of(url) if url else None

    def is_authorise(self, asked: Asked) -> bool:
        """Whether it is the page on which people decide."""
        return self._is(_AUTHORISE, asked)

    def _is(self, name: str, asked: Asked) -> bool:
        endpoint = self._at(name)
        return endpoint is not None and endpoint.match(asked.url) is not None

    def serve(self, asked: Asked) -> Reply | None:
        """The answer of the two endpoints that issue something; None where it is neither."""
        try:
            if self._is(_TEMPORARY, asked):
                return self._issue_temporary(asked)
            if self._is(_TOKEN, asked):
                return self._issue_token(asked)
        except SignatureRefusedError as refused:
            return Reply.form({"oauth_problem": str(refused)}, status=401)
        return None

    def _issue_temporary(self, asked: Asked) -> Reply:
        callback = self._checked(asked, None).get("oauth_callback", "")
        if not URL(callback).absolute:
            raise SignatureRefusedError("parameter_absent")
        if self.client.redirect_uris and callback.partition("?")[0] not in self.client.redirect_uris:
            raise SignatureRefusedError("parameter_rejected")
        token, made = f"{self.grants.key}-code-{secrets.token_hex(8)}", secrets.token_hex(16)
        self.temporary[token] = Temporary(made, callback)
        issued = {"oauth_token": token, "oauth_token_secret": made, "oauth_callback_confirmed": "true"}
        return Reply.form(issued)

    def _issue_token(self, asked: Asked) -> Reply:
        known = {token: one.secret for token, one in self.temporary.items()}
        given = self._checked(asked, known)
        pending = self.temporary.pop(given["oauth_token"])  # good once, whatever comes of it
        verifier = given.get("oauth_verifier", "")
        if pending.grant is None or not hmac.compare_digest(verifier.encode(), pending.verifier.encode()):
            raise SignatureRefusedError("verifier_invalid")
        lifetime = None if self.facts.expires_in == "none" else self.facts.expires_in
        access = self.grants.new_access(pending.grant, lifetime=lifetime)
        self.token_secrets[access.value] = secrets.token_hex(16)
        return Reply.form(
            {"oauth_token": access.value, "oauth_token_secret": self.token_secrets[access.value]}
        )

    # The page

    def read(self, url: URL) -> Consent:
        """The request of an authorise URL. Raises AuthoriseError."""
        query = dict(url.query)
        pending = self.temporary.get(query.get("oauth_token", ""))
        if pending is None or pending.grant is not None:
            raise AuthoriseError("token_rejected", "this request token does not exist", fatal=True)
        sent = (self.options.get(_AUTHORISE) or {}).get("additionalParamConfigs") or ()
        known = {"oauth_token", *(one.get("targetName") or one["parameterName"] for one in sent)}
        if unknown := sorted(query.keys() - known - set(self.facts.parameters)):
            raise AuthoriseError("invalid_request", f"unknown parameter: {unknown[0]}", fatal=True)
        return Consent(
            client_id=self.client.id,
            redirect_uri=pending.callback,
            state="",
            scopes=self._scopes(query),
            challenge="",
            query=query,
        )

    def _scopes(self, query: Mapping[str, str]) -> tuple[str, ...]:
        asked = tuple(one for one in query.get("scope", "").split(self.facts.scope_separator or ",") if one)
        exist = self.facts.scopes
        if exist is not None and ANY not in exist and (unknown := [one for one in asked if one not in exist]):
            raise AuthoriseError("invalid_scope", f"unknown scope: {unknown[0]}", fatal=True)
        return asked

    def allow(self, consent: Consent) -> URL:
        """A person allows access: the callback's URL."""
        token = consent.query["oauth_token"]
        pending = self.temporary[token]
        pending.grant = Grant({}, consent.scopes, offline=False)
        pending.verifier = secrets.token_hex(8)
        return URL(pending.callback).update_query({"oauth_token": token, "oauth_verifier": pending.verifier})

    def deny(self, consent: Consent) -> URL | None:
        """A person denies access: the callback's URL, if there is one."""
        token = consent.query["oauth_token"]
        pending = self.temporary.pop(token)
        denied = {"denied": token} if self.facts.denied is None else self.facts.denied
        return URL(pending.callback).update_query(dict(denied)) if denied else None

    # Requests to the API

    def sign_in(self) -> dict[str, str]:
        """A token and its secret as if a person had allowed access; their values are the same each time."""
        self.grants.issue_known(Grant({}, (), offline=False), lifetime=None)
        token = f"{self.grants.key}-at-known"
        self.token_secrets[token] = f"{self.grants.key}-token-secret"
        return {"oauthToken": token, "oauthTokenSecret": self.token_secrets[token]}

    def token_of(self, asked: Asked) -> Token | None:
        """The access token whose secret has signed a request; None where it is not signed so."""
        try:
            given = self._checked(asked, self.token_secrets)
        except SignatureRefusedError:
            return None
        return self.grants.access.get(given.get("oauth_token", ""))

    # Signatures

    def _checked(self, asked: Asked, known: Mapping[str, str] | None) -> dict[str, str]:
        """The protocol's parameters of a signed request. ``known``: secrets of tokens; None where none is needed.

        Raises SignatureRefusedError.
        """
        pairs = _parameters(asked)
        given = {name: value for name, value in pairs if name.startswith("oauth_")}
        if len(given) != sum(name.startswith("oauth_") for name, _ in pairs):
            raise SignatureRefusedError("parameter_rejected")
        method = given.get("oauth_signature_method", "")
        if method != str(self.options.get("signatureMethod") or "HMAC-SHA1"):
            raise SignatureRefusedError("signature_method_rejected")
        needed = _ONCE[:3] if method == _PLAIN else _ONCE
        if any(not given.get(f"oauth_{name}") for name in needed):
            raise SignatureRefusedError("parameter_absent")
        if given["oauth_consumer_key"] != self.client.id:
            raise SignatureRefusedError("consumer_key_unknown")
        secret = "" if known is None else known.get(given.get("oauth_token", ""))
        if secret is None:
            raise SignatureRefusedError("token_rejected")
        wanted = self._signature(asked, pairs, method, secret)
        if not hmac.compare_digest(given["oauth_signature"].encode(), wanted.encode()):
            raise SignatureRefusedError("signature_invalid")
        if method != _PLAIN:
            self._check_moment(given)
        return given

    def _check_moment(self, given: Mapping[str, str]) -> None:
        at, nonce = given["oauth_timestamp"], given["oauth_nonce"]
        if not at.isdigit() or abs(int(at) - self.grants.clock.now()) > _LATE_SECONDS:
            raise SignatureRefusedError("timestamp_refused")
        if (at, nonce) in self.nonces:
            raise SignatureRefusedError("nonce_used")
        if len(self.nonces) >= _MOST_NONCES:
            self.nonces.clear()
        self.nonces.add((at, nonce))

    def _signature(self, asked: Asked, pairs: Sequence[Pair], method: str, secret: str) -> str:
        key = f"{_quoted(self.client.secret)}&{_quoted(secret)}"
        if method == _PLAIN:
            return key
        text = _base_string(asked, pairs)
        return base64.b64encode(hmac.digest(key.encode(), text.encode(), _HASHES[method])).decode()


_TEMPORARY = "tempCredentialEndpoint"
_AUTHORISE = "resourceOwnerAuthorizationEndpoint"
_TOKEN = "tokenEndpoint"  # noqa: S105  (a name)
_ENDPOINTS = (_TEMPORARY, _AUTHORISE, _TOKEN)


def _quoted(text: str) -> str:
    """Section 3.6."""
    return quote(text, safe="~")


def _parameters(asked: Asked) -> list[Pair]:
    """All that a signature covers, and the signature (section 3.4.1.3)."""
    query = parse_qsl(asked.addressed.raw_query_string, keep_blank_values=True)
    form = parse_qsl(asked.text, keep_blank_values=True) if asked.content_type == _FORM else []
    return [*query, *form, *_of_header(asked.headers.get("Authorization", ""))]


def _of_header(header: str) -> list[Pair]:
    kind, _, rest = header.partition(" ")
    if kind.lower() != "oauth":
        return []
    parts = (part.strip().partition("=") for part in rest.split(","))
    return [
        (unquote(name), unquote(value.strip('"'))) for name, _, value in parts if name and name != "realm"
    ]


def _base_string(asked: Asked, pairs: Sequence[Pair]) -> str:
    """Section 3.4.1.1."""
    url = asked.addressed
    usual = {"http": 80, "https": 443}.get(url.scheme)
    port = "" if url.port in (None, usual) else f":{url.port}"
    address = f"{url.scheme}://{(url.raw_host or '').lower()}{port}{url.raw_path}"
    covered = sorted((_quoted(name), _quoted(value)) for name, value in pairs if name != "oauth_signature")
    listed = "&".join(f"{name}={value}" for name, value in covered)
    return "&".join(_quoted(part) for part in (asked.method.upper(), address, listed))
