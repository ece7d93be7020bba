"""Changes of Connections and Systems, and the Secrets that each of them sends elsewhere.

The admission policy and the API decide it, each in its own language: both are tested with this table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Spec = dict[str, Any]
TOKEN_URL = "https://login.shop.example/token"
ELSEWHERE = "https://elsewhere.example/token"


@dataclass(frozen=True)
class Case:
    """A spec before (None: a new object) and after, and the names of the Secrets that are sent elsewhere."""

    id: str
    kind: str
    before: Spec | None
    after: Spec
    sent: frozenset[str]


def key(identifier: str = "key", secret: str = "shop-key", **more: Any) -> Spec:
    """A credential for one of the system's schemes."""
    return {
        "id": identifier,
        "type": "string",
        "authSchemeConfigId": "key",
        "secretRef": {"name": secret},
        **more,
    }


def oauth2(grant: str = "authorizationCode", url: str = TOKEN_URL, **client: Any) -> Spec:
    """A scheme of OAuth 2.0."""
    return {
        "id": "users",
        "type": "oauth2",
        "oauth2": {"tokenUrl": url, "grant": {"type": grant, grant: {"clientId": "tieline", **client}}},
    }


def oauth1(url: str = TOKEN_URL, **fields: Any) -> Spec:
    """A scheme of OAuth 1.0."""
    return {
        "id": "old",
        "type": "oauth1",
        "oauth1": {"consumerKey": "k", "tokenEndpoint": {"url": url}, **fields},
    }


def own(scheme: Mapping[str, Any], kind: str = "oauth2-code", secret: str = "code") -> Spec:
    """A credential with a scheme of its own."""
    return {
        "id": "own",
        "type": kind,
        "authSchemeConfig": dict(scheme),
        "secretRef": {"name": secret},
    }


def connection(*credentials: Spec, **more: Any) -> Spec:
    return {"name": "Shop", "systemRef": {"name": "shop"}, "credentials": list(credentials), **more}


def system(*schemes: Spec, **more: Any) -> Spec:
    return {
        "name": "Shop",
        "domain": "shop.example",
        "templateBaseUrl": "https://shop.example",
        "authSchemeConfigs": list(schemes),
        **more,
    }


def _app(name: str = "app") -> Spec:
    return {"secretRef": {"name": name}}


_OPEN = {"id": "open", "type": "none", "authSchemeConfig": {"id": "open", "type": "none"}}
_CLIENT = {
    "id": "client",
    "type": "oauth2-client",
    "authSchemeConfigId": "machine",
    "secretRef": {"name": "machine"},
}

_ROWS: list[tuple[str, str, Spec | None, Spec, set[str]]] = [
    ("a new connection", "Connection", None, connection(key(), key("two", "second")), {"shop-key", "second"}),
    ("a new connection without Secrets", "Connection", None, connection(_OPEN), set()),
    (
        "a new connection with a scheme of its own",
        "Connection",
        None,
        connection(own(oauth2(**_app()))),
        {"code", "app"},
    ),
    (
        "a new connection with a password grant",
        "Connection",
        None,
        connection(own(oauth2("password", **_app()), "oauth2-password")),
        {"code", "app"},
    ),
    (
        "a new connection of OAuth 1.0",
        "Connection",
        None,
        connection(own(oauth1(**_app()), "oauth1")),
        {"code", "app"},
    ),
    ("nothing changed", "Connection", connection(key()), connection(key()), set()),
    ("another name", "Connection", connection(key()), connection(key(), name="Another"), set()),
    (
        "another order",
        "Connection",
        connection(key(), key("two", "second")),
        connection(key("two", "second"), key()),
        set(),
    ),
    (
        "a credential's name and end",
        "Connection",
        connection(key()),
        connection(key(name="Key", expiresAt="2099-01-01T00:00:00Z")),
        set(),
    ),
    ("one credential less", "Connection", connection(key(), key("two", "second")), connection(key()), set()),
    (
        "one credential more",
        "Connection",
        connection(key()),
        connection(key(), key("two", "second")),
        {"second"},
    ),
    ("another Secret", "Connection", connection(key()), connection(key(secret="second")), {"second"}),
    (
        "another scheme of the system",
        "Connection",
        connection(key()),
        connection(key(authSchemeConfigId="body")),
        {"shop-key"},
    ),
    ("another type", "Connection", connection(key()), connection(key(type="binary")), {"shop-key"}),
    (
        "a base URL",
        "Connection",
        connection(key()),
        connection(key(), baseUrl="https://elsewhere.example"),
        {"shop-key"},
    ),
    (
        "another base URL, with a scheme of its own",
        "Connection",
        connection(own(oauth2(**_app())), baseUrl="https://shop.example"),
        connection(own(oauth2(**_app())), baseUrl="https://elsewhere.example"),
        {"code", "app"},
    ),
    (
        "a part of the base URL",
        "Connection",
        connection(key(), variables={"shop": "acme"}),
        connection(key(), variables={"shop": "elsewhere"}),
        {"shop-key"},
    ),
    (
        "another token URL",
        "Connection",
        connection(key(), own(oauth2(**_app()))),
        connection(key(), own(oauth2(url=ELSEWHERE, **_app()))),
        {"code", "app"},
    ),
    (
        "another code for the same scheme",
        "Connection",
        connection(own(oauth2(**_app()))),
        connection(own(oauth2(**_app()), secret="code-2")),
        {"code-2"},
    ),
    (
        "a scheme that names a client by its id, beside that client",
        "Connection",
        connection(_CLIENT),
        connection(_CLIENT, own(oauth2(url=ELSEWHERE, credentialId="X"))),
        {"machine", "code"},
    ),
    (
        "a consumer that is named by its id",
        "Connection",
        connection(_CLIENT),
        connection(_CLIENT, own(oauth1(url=ELSEWHERE, credentialId="X"), "oauth1")),
        {"machine", "code"},
    ),
    (
        "a client that takes the id which a scheme names",
        "Connection",
        connection(_CLIENT, own(oauth2(url=ELSEWHERE, credentialId="X"))),
        connection({**_CLIENT, "credentialId": "X"}, own(oauth2(url=ELSEWHERE, credentialId="X"))),
        {"machine"},
    ),
    ("a new system", "System", None, system(oauth2(**_app())), {"app"}),
    ("a new system without Secrets", "System", None, system(oauth2()), set()),
    ("a system's name", "System", system(oauth2(**_app())), system(oauth2(**_app()), name="Another"), set()),
    (
        "a system's base URL",
        "System",
        system(oauth2(**_app())),
        system(oauth2(**_app()), templateBaseUrl="https://elsewhere.example"),
        set(),
    ),
    (
        "a system's token URL",
        "System",
        system(oauth2(**_app()), oauth1(**_app("consumer"))),
        system(oauth2(url=ELSEWHERE, **_app()), oauth1(**_app("consumer"))),
        {"app"},
    ),
    (
        "a system's refresh URL",
        "System",
        system(oauth2(**_app())),
        system({**(scheme := oauth2(**_app())), "oauth2": {**scheme["oauth2"], "refreshUrl": ELSEWHERE}}),
        {"app"},
    ),
    (
        "a system's consumer",
        "System",
        system(oauth1(**_app())),
        system(oauth1(**_app("consumer"))),
        {"consumer"},
    ),
]

CASES = [
    Case(
        id=text.replace(" ", "-").replace(",", ""),
        kind=kind,
        before=before,
        after=after,
        sent=frozenset(sent),
    )
    for text, kind, before, after, sent in _ROWS
]
