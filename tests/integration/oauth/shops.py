"""Systems whose OAuth server is Keycloak, and connections to them, by REST."""

from __future__ import annotations

import base64
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.harness.cluster.kubectl import Kubectl, Organisation
from tests.harness.identity.keycloak import Application, Keycloak, Person
from tests.integration.api.conftest import Client
from tests.integration.api.objects import make_system, make_template, stored
from tieline_core.identity.ids import new_id
from tieline_core.identity.names import tokens_name

ITEM = "login"


class Shop:
    """A system with one auth scheme, and a template to connect it for."""

    def __init__(self, caller: Client, keycloak: Keycloak, application: Application, **scheme: Any) -> None:
        self.caller, self.keycloak, self.application = caller, keycloak, application
        client = {"clientId": application.id, "clientSecret": application.secret}
        oauth2 = {
            "id": "keycloak",
            "tokenUrl": keycloak.token_url,
            "authorizeUrl": keycloak.authorize_url,
            "grant": {"type": "authorizationCode", "authorizationCode": client},
            "pkce": True,
            **scheme,
        }
        self.scheme = {"type": "oauth2", "oauth2": oauth2}
        made = make_system(caller, [self.scheme])
        self.system, self.name = made["id"], made["name"]
        self.template = make_template(caller, system=self.system)[1]["connectionTemplateId"]
        self.credential_id = new_id()

    def initialise(self, **changes: Any) -> dict[str, Any]:
        """The body that begins an authorisation."""
        return {
            "credential": {"id": self.credential_id, "organisationId": self.caller.organisation},
            "authorizeUrl": self.keycloak.authorize_url,
            "clientId": self.application.id,
            "scopes": ["openid"],
            **changes,
        }

    def begin(self, **changes: Any) -> str:
        """Where to send a person to."""
        path = f"/systems/{self.system}/oauth2/initialise"
        url: str = self.caller.ok("POST", path, self.initialise(**changes))["url"]
        return url

    def come_back(self, person: Person) -> dict[str, str]:
        """What the person who has logged in comes back with."""
        location = self.keycloak.log_in(self.begin(), person)
        query = parse_qs(urlsplit(location).query)
        return {"code": query["code"][0], "state": query["state"][0]}

    def credential(self, kind: str, **data: Any) -> dict[str, Any]:
        """A credential for the scheme; ``data`` is keyed by its sub-object."""
        shown = {**self.scheme, "oauth2": _without_secrets(self.scheme["oauth2"])}
        return {
            "id": ITEM,
            "authSchemeConfig": shown,
            "credential": {"id": self.credential_id, "type": kind, "data": data},
        }

    def create(self, credential: dict[str, Any], *, name: str = "Orders") -> dict[str, Any]:
        """A connection with one credential."""
        body = {
            "connectionTemplateId": self.template,
            "connection": {"name": name, "credentials": [credential]},
        }
        made: dict[str, Any] = self.caller.ok("POST", "/connections", body, status=201)
        return made

    def connect(self, person: Person) -> dict[str, Any]:
        """A connection for which a person has logged in."""
        return self.create(self.credential("oauth2-code", oauth2Code=self.come_back(person)))

    def shown(self, connection: str) -> dict[str, Any]:
        """The credential as REST shows it."""
        found: dict[str, Any] = self.caller.ok("GET", f"/connections/{connection}")["credentials"][0]
        return found["credential"]


def tokens_of(kubectl: Kubectl, org: Organisation, connection: str) -> dict[str, str]:
    """What the platform has stored for a connection's credential."""
    secret = stored(kubectl, org, "secret", tokens_name(connection.lower(), ITEM))
    return {name: base64.b64decode(value).decode() for name, value in secret["data"].items()}


def _without_secrets(oauth2: dict[str, Any]) -> dict[str, Any]:
    grant = dict(oauth2["grant"])
    for kind in ("authorizationCode", "password"):
        if kind in grant:
            grant[kind] = {name: value for name, value in grant[kind].items() if name != "clientSecret"}
    return {**oauth2, "grant": grant}
