"""Providers of the tests, and requests to them as a strict reader of their documentation writes them."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from tieline.emulator.messages import Asked, Reply
from tieline.emulator.provider import Provider

BACK = "https://tieline.example/callback"
VERIFIER = "a-verifier-of-the-client-that-is-long-enough-for-rfc-7636"
CHALLENGE = base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).decode().rstrip("=")


def entry(key: str, oauth2: dict[str, Any], **more: Any) -> dict[str, Any]:
    """An entry with one scheme of OAuth 2.0 at ``<key>.example``."""
    scheme = {
        "authorizeUrl": f"https://{key}.example/authorize",
        "tokenUrl": f"https://{key}.example/token",
        "clientAuthentication": "body",
        "grant": {"type": "authorizationCode", "authorizationCode": {}},
        **oauth2,
    }
    system = {
        "name": key.title(),
        "domain": f"{key}.example",
        "templateBaseUrl": f"https://{key}.example/api",
        "check": {"path": "/me"},
        "authSchemeConfigs": [{"id": "oauth", "type": "oauth2", "oauth2": scheme}],
        **more.pop("system", {}),
    }
    return {"key": key, "name": key.title(), "system": system, **more}


GOOGLE = entry(
    "google",
    {
        "scopes": [{"name": "mail"}],
        "pkce": True,
        "authorization": {
            "offlineAccess": "parameters",
            "offlineParameters": "access_type=offline",
            "prompts": ["none", "consent", "select_account"],
        },
    },
    emulator={"refreshTokens": {"given": "offline", "again": "consent"}, "parameters": ["login_hint"]},
)
SLACK = entry(
    "slack",
    {
        "scopes": [{"name": "chat:write"}, {"name": "users:read"}],
        "scopeSeparator": ",",
        "tokenAnswer": {"success": {"path": "ok", "equals": "true"}},
        "rejections": {
            "expired": [{"status": 200, "path": "error", "equals": "token_expired"}],
            "revoked": [{"status": 200, "path": "error", "in": ["token_revoked", "invalid_auth"]}],
        },
    },
    system={
        "limits": {
            "answers": [{"status": 200, "path": "error", "equals": "ratelimited", "header": "Retry-After"}]
        }
    },
    emulator={
        "tokenAnswer": {"ok": True, "access_token": "$accessToken", "scope": "$scope", "team": {"id": "T1"}},
        "scopeSeparator": ",",
        "refreshTokens": {"given": "never"},
        "expiresIn": "none",
        "check": {"ok": True, "team": "T1"},
    },
)
SHOPIFY = entry(
    "shopify",
    {
        "authorizeUrl": "https://{shop}.shopify.example/authorize",
        "tokenUrl": "https://{shop}.shopify.example/token",
        "scopes": [{"name": "read_orders"}],
        "token": {"name": "X-Shopify-Access-Token"},
    },
    system={
        "templateBaseUrl": "https://{shop}.shopify.example/admin",
        "inputs": [{"name": "shop", "example": "my-shop"}],
    },
    emulator={"expiresIn": "none", "refreshTokens": {"given": "never"}},
)
NOTION = entry(
    "notion",
    {
        "clientAuthentication": "header",
        "tokenRequest": {"format": "json", "headers": {"Notion-Version": "2022-06-28"}},
    },
    emulator={"parameters": ["owner"], "parametersRequired": ["owner"], "apiHeaders": {"Notion-Version": ""}},
)
GITHUB = entry(
    "github",
    {"scopes": [{"name": "repo"}]},
    emulator={
        "formUnlessAccepted": True,
        "errorCodes": {"invalid_grant": "bad_verification_code"},
        "tokenError": {"status": 200},
        "expiresIn": "none",
        "refreshTokens": {"given": "never"},
    },
)
ROTATING = entry(
    "rotating", {}, emulator={"refreshTokens": {"rotates": True, "graceSeconds": 60}, "codeSeconds": 30}
)
LONG_LIVED = entry(
    "long",
    {
        "tokenRequest": {
            "longLived": {
                "url": "https://graph.long.example/exchange",
                "method": "GET",
                "grantType": "long_exchange",
                "tokenParameter": "access_token",
                "omit": ["client_id"],
            }
        }
    },
)


def asked(
    provider: Provider,
    method: str,
    url: str | URL,
    *,
    form: dict[str, str] | None = None,
    content: Any = None,
    headers: dict[str, str] | None = None,
) -> Reply:
    """The provider's answer."""
    sent = CIMultiDict(headers or {})
    body = b""
    if form is not None:
        sent.setdefault("Content-Type", "application/x-www-form-urlencoded")
        body = urlencode(form).encode()
    if content is not None:
        sent.setdefault("Content-Type", "application/json")
        body = json.dumps(content).encode()
    request = Asked(method=method, url=URL(str(url)), headers=CIMultiDictProxy(sent), body=body)
    reply = provider.serve(request)
    assert reply is not None, f"no answer to {method} {url}"
    return reply


def authorise(provider: Provider, **query: str | None) -> Reply:
    """The page, or where the person is sent; None leaves a parameter out."""
    scheme = provider.scheme
    assert scheme is not None
    assert scheme.authorise is not None
    usual = {"client_id": provider.client.id, "redirect_uri": BACK, "response_type": "code", "state": "s1"}
    if scheme.raw.get("pkce"):
        usual |= {"code_challenge": CHALLENGE, "code_challenge_method": "S256"}
    sent = {name: value for name, value in {**usual, **query}.items() if value is not None}
    return asked(provider, "GET", URL(scheme.authorise.filled(provider.values)).with_query(sent))


def decide(provider: Provider, decision: str, **query: str | None) -> dict[str, str]:
    """The query with which a person comes back."""
    scheme = provider.scheme
    assert scheme is not None
    assert scheme.authorise is not None
    usual = {"client_id": provider.client.id, "redirect_uri": BACK, "response_type": "code", "state": "s1"}
    if scheme.raw.get("pkce"):
        usual |= {"code_challenge": CHALLENGE, "code_challenge_method": "S256"}
    sent = {name: value for name, value in {**usual, **query}.items() if value is not None}
    url = URL(scheme.authorise.filled(provider.values)).with_query(sent)
    reply = asked(provider, "POST", url, form={"decision": decision})
    assert reply.status == 302, reply.body.decode()
    return dict(URL(reply.headers["Location"]).query)


def token(
    provider: Provider,
    fields: Mapping[str, str | None],
    *,
    url: str = "",
    headers: Mapping[str, str] | None = None,
) -> Reply:
    """The answer of the token endpoint."""
    scheme = provider.scheme
    assert scheme is not None
    usual: dict[str, str | None] = {"client_id": provider.client.id, "client_secret": provider.client.secret}
    sent = {name: value for name, value in {**usual, **fields}.items() if value is not None}
    return asked(
        provider,
        "POST",
        url or scheme.token.filled(provider.values),
        form=sent,
        headers={"Accept": "application/json", **(headers or {})},
    )


def exchange(provider: Provider, code: str, **fields: str | None) -> Reply:
    """The answer to a code."""
    scheme = provider.scheme
    assert scheme is not None
    verifier = VERIFIER if scheme.raw.get("pkce") else None
    usual = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": BACK,
        "code_verifier": verifier,
    }
    return token(provider, {**usual, **fields})


def connect(provider: Provider, **query: str | None) -> dict[str, Any]:
    """The tokens after a consent."""
    reply = exchange(provider, decide(provider, "allow", **query)["code"])
    assert reply.status == 200, reply.body.decode()
    content: dict[str, Any] = reply.content
    return content


def call(provider: Provider, access_token: str, path: str = "/me", **headers: str) -> Reply:
    """The answer of the API to a token in ``Authorization: Bearer``."""
    sent = {
        "Authorization": f"Bearer {access_token}",
        **{name.replace("_", "-"): one for name, one in headers.items()},
    }
    return asked(provider, "GET", provider.base_url + path, headers=sent)
