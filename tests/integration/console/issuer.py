"""The console's client at Keycloak, APIs that use it, and people who sign in."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.harness.cluster.kubectl import Kubectl, Organisation
from tests.harness.identity.keycloak import Application, Keycloak, Person
from tests.harness.processes.running_api import RunningApi
from tests.harness.session.waiting import eventually
from tests.integration.api.conftest import Answer
from tests.integration.console.conftest import Visitor

PREFIX = "kc:"
AUDIENCE_MAPPER = {
    "name": "api",
    "protocol": "openid-connect",
    "protocolMapper": "oidc-audience-mapper",
    "config": {
        "included.custom.audience": "tieline",
        "access.token.claim": "true",
        "id.token.claim": "false",
    },
}
"""What makes Keycloak's access tokens good for the API."""


@dataclass(frozen=True)
class SignIn:
    """An issuer's client, and the API's replicas where people sign in with it."""

    keycloak: Keycloak
    application: Application
    replicas: tuple[RunningApi, ...]
    kubectl: Kubectl
    org: Organisation

    @property
    def projects(self) -> str:
        """The path of the organisation's projects."""
        return f"/api/v2/o/{self.org.id}/projects"

    def person(self, role: str = "tieline-admin") -> Person:
        """Somebody with an account at Keycloak and a role in the organisation."""
        person = self.keycloak.person()
        self.kubectl(
            *("create", "rolebinding", f"{person.name}-is-{role}"),
            *(f"--clusterrole={role}", f"--user={PREFIX}{person.name}"),
            namespace=self.org.namespace,
        )
        return person

    def visitor(self, replica: int = 0) -> Visitor:
        """A browser at a replica."""
        return Visitor(self.replicas[replica].url)

    def sent_back(self, visitor: Visitor, person: Person, path: str = "/console/") -> str:
        """The callback's path and query, with which Keycloak sends somebody back who signs in."""
        begun = visitor("GET", f"/console/login?return={path}")
        assert begun.status == 302, begun.raw
        location = self.keycloak.log_in(begun.headers["Location"], person)
        assert location.startswith(f"{self.replicas[0].url}/console/callback?"), location
        return location.removeprefix(self.replicas[0].url)

    def sign_in(self, visitor: Visitor, person: Person, path: str = "/console/") -> Answer:
        """What the callback answers."""
        return visitor("GET", self.sent_back(visitor, person, path))

    def signed_in(self, role: str = "tieline-admin") -> Visitor:
        """A browser in which somebody has signed in, whose role the API knows."""
        visitor = self.visitor()
        answer = self.sign_in(visitor, self.person(role))
        assert answer.status == 302, answer.raw
        eventually("the role known", lambda: visitor.api(self.projects).status == 200)
        return visitor


def state_of(url: str) -> str:
    """The state in an authorise URL or a callback."""
    return parse_qs(urlsplit(url).query)["state"][0]


def issuers_file(folder: Path, keycloak: Keycloak, audience: str) -> Path:
    """A file with Keycloak as an issuer that the API accepts."""
    path = folder / "issuers.json"
    issuer = {
        "issuer": keycloak.issuer,
        "jwksUrl": f"{keycloak.issuer}/protocol/openid-connect/certs",
        "audiences": [audience],
        "usernameClaim": "preferred_username",
        "prefix": PREFIX,
    }
    path.write_text(json.dumps([issuer]))
    return path


StartApi = Callable[..., RunningApi]


def console_variables(
    keycloak: Keycloak, application: Application, folder: Path, *, audience: str = "", secret: bool = True
) -> dict[str, Any]:
    """The settings of an API whose people sign in at Keycloak."""
    file = folder / "client-secret"
    if secret:
        file.touch(mode=0o600)
        file.write_text(f"{application.secret}\n")
    return {
        "TIELINE_ISSUERS_FILE": str(issuers_file(folder, keycloak, audience or application.id)),
        "TIELINE_CONSOLE_OIDC_ISSUER": keycloak.issuer,
        "TIELINE_CONSOLE_OIDC_CLIENT_ID": application.id,
        "TIELINE_CONSOLE_OIDC_CLIENT_SECRET_FILE": str(file),
        "TIELINE_CONSOLE_OIDC_NAME": "Keycloak",
        "TIELINE_FAILED_LIMIT": "0",
    }
