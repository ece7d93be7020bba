"""A provider of OAuth 1.0 that checks signatures by a reading of RFC 5849 of its own."""

import base64
import secrets
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from aiohttp import web
from aiohttp.test_utils import TestServer
from yarl import URL

from tests.unit.runtime.auth.reference_verifiers import (
    hmac_of,
    oauth1_base_string,
    oauth1_key,
    oauth1_parameters,
    signed_by,
    values_of,
)
from tests.unit.runtime.external_systems import Seen

CONSUMER, SECRET = "consumer", "consumer secret & more"


@dataclass
class OAuth1Provider:
    """Issues temporary credentials, then (once, for the right verifier) token credentials."""

    url: str = ""
    seen: list[Seen] = field(default_factory=list)
    confirms: bool = True
    failing: int = 0
    """A status to answer with."""
    problem: str = ""
    declines: bool = False
    """Whether users decline."""
    public: str = ""
    """The consumer's public key in PEM, for the RSA methods."""
    callbacks: dict[str, str] = field(default_factory=dict)
    _secrets: dict[str, str] = field(default_factory=dict)
    _verifiers: dict[str, str] = field(default_factory=dict)
    issued: dict[str, str] = field(default_factory=dict)
    """Token credentials: secrets by token."""

    def scheme(self, identifier: str = "signed", **changes: Any) -> dict[str, Any]:
        """The auth scheme of a system that has this provider, in REST's form."""
        shop = {
            "parameterName": "shop",
            "location": "LOCATION_ENDPOINT",
            "modifiable": True,
            "required": True,
        }

        def at(path: str) -> dict[str, Any]:
            return {"url": f"{self.url}/{{shop}}/{path}", "additionalParamConfigs": [shop]}

        fields = {
            "id": identifier,
            "consumerKey": CONSUMER,
            "consumerSecret": SECRET,
            "tempCredentialEndpoint": at("temporary"),
            "resourceOwnerAuthorizationEndpoint": at("authorize"),
            "tokenEndpoint": at("token"),
            **changes,
        }
        return {"type": "oauth1", "oauth1": fields}

    def add_to(self, app: web.Application) -> None:
        """The two endpoints, below any first part of a path."""
        app.router.add_get("/{shop}/authorize", self.authorize)
        app.router.add_post("/{shop}/temporary", self.temporary)
        app.router.add_post("/{shop}/token", self.token)

    def parameters(self, index: int = -1) -> dict[str, str]:
        """All that a request's signature covers."""
        return dict(oauth1_parameters(self.seen[index]))

    def agree(self, url: str) -> dict[str, str]:
        """What the user comes back with from this authorisation URL."""
        (token,) = parse_qs(urlsplit(url).query)["oauth_token"]
        verifier = self._verifiers[token] = secrets.token_urlsafe(8)
        (state,) = parse_qs(urlsplit(self.callbacks[token]).query)["state"]
        return {"state": state, "oauthToken": token, "oauthVerifier": verifier}

    async def authorize(self, request: web.Request) -> web.Response:
        """Agrees for everybody, or declines in the way that is in use."""
        token = request.query["oauth_token"]
        more = {"denied": token}
        if not self.declines:
            back = self.agree(str(request.url))
            more = {"oauth_token": token, "oauth_verifier": back["oauthVerifier"]}
        raise web.HTTPFound(f"{self.callbacks[token]}&{urlencode(more)}")

    async def temporary(self, request: web.Request) -> web.Response:
        parameters = await self._received(request)
        if not self._is_signed(parameters, ""):
            return web.Response(status=401, text="oauth_problem=signature_invalid")
        answer = self._issue("temp", self._secrets)
        self.callbacks[answer["oauth_token"]] = dict(parameters)["oauth_callback"]
        return self._said({**answer, "oauth_callback_confirmed": str(self.confirms).lower()})

    async def token(self, request: web.Request) -> web.Response:
        parameters = await self._received(request)
        given = dict(parameters)
        secret = self._secrets.pop(given.get("oauth_token", ""), None)
        if secret is None or not self._is_signed(parameters, secret):
            return web.Response(status=401, text="Invalid signature of " + given.get("oauth_token", ""))
        if given["oauth_verifier"] != self._verifiers.pop(given["oauth_token"], None):
            return web.Response(status=401, text="oauth_problem=verifier_invalid")
        return self._said(self._issue("token", self.issued))

    async def _received(self, request: web.Request) -> list[tuple[str, str]]:
        url = URL(f"http://{request.host}{request.raw_path}", encoded=True)
        one = Seen(request.method, url, request.headers.copy(), {}, await request.read())
        self.seen.append(one)
        if self.failing:
            raise _answer(self.failing, self.problem)
        return oauth1_parameters(one)

    def _is_signed(self, parameters: list[tuple[str, str]], secret: str) -> bool:
        """Whether the signature is the consumer's, and no protocol parameter came twice."""
        names = [name for name, _ in parameters if name.startswith("oauth_")]
        if len(names) != len(set(names)) or values_of(parameters, "oauth_consumer_key") != [CONSUMER]:
            return False
        (sent,), (method,) = (values_of(parameters, f"oauth_{n}") for n in ("signature", "signature_method"))
        if abs(int(*values_of(parameters, "oauth_timestamp")) - time.time()) > 60:
            return False
        key = oauth1_key(SECRET, secret)
        if method == "PLAINTEXT":
            return sent.encode() == key
        kind, hash_ = method.lower().split("-")
        proof, message = base64.b64decode(sent), oauth1_base_string(self.seen[-1])
        if kind == "rsa":
            return signed_by(message, proof, public=self.public, algorithm=hash_)
        return proof == hmac_of(message, key=key, algorithm=hash_)

    @staticmethod
    def _issue(kind: str, into: dict[str, str]) -> dict[str, str]:
        token, secret = f"{kind}-{secrets.token_hex(6)}", f"{kind}+s/{secrets.token_hex(6)}"
        into[token] = secret
        return {"oauth_token": token, "oauth_token_secret": secret}

    @staticmethod
    def _said(values: dict[str, str]) -> web.Response:
        return web.Response(text=urlencode(values), content_type="application/x-www-form-urlencoded")


def _answer(status: int, problem: str) -> web.HTTPException:
    kinds = {400: web.HTTPBadRequest, 401: web.HTTPUnauthorized, 503: web.HTTPServiceUnavailable}
    return kinds[status](text=f"oauth_problem={problem}" if problem else "no")


@asynccontextmanager
async def signing_provider(*, public: str) -> AsyncIterator[OAuth1Provider]:
    """One that is running, and knows this public key of the consumer."""
    found, app = OAuth1Provider(public=public), web.Application()
    found.add_to(app)
    async with TestServer(app) as server:
        found.url = str(server.make_url("")).rstrip("/")
        yield found
