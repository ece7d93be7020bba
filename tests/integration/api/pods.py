"""What pods do at the API: they have a token of their own, and ask for what is their environment's."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.harness.cluster.kubectl import Kubectl, Organisation
from tests.integration.api.conftest import Answer, Client
from tests.integration.api.oauth_provider import Provider
from tests.integration.api.objects import make_system, make_template
from tieline_core.identity.names import tokens_name, workload_name
from tieline_core.oauth import token_secret_codec

ENVIRONMENT = "/internal/v1/environment"


def account_token(
    kubectl: Kubectl, org: Organisation, project: dict[str, Any], environment: str = "production"
) -> str:
    """The token that a pod of the environment would have: that of the workload's ServiceAccount."""
    name = workload_name(project["id"].lower(), environment)
    kubectl("create", "serviceaccount", name, namespace=org.namespace, check=False)
    made = kubectl("create", "token", name, "--audience=tieline", "--duration=6h", namespace=org.namespace)
    return made.stdout.strip()


def ask(client: Client, token: str, query: str = "", **headers: str) -> Answer:
    """What a pod with this token is told, at ``client``'s server."""
    return Client(client.url, token, client.organisation).at(f"{ENVIRONMENT}{query}", **headers)


class Pod:
    """A connection with tokens that Git brought, and a pod of the environment that it is linked in."""

    def __init__(self, caller: Client, kubectl: Kubectl, org: Organisation, login: Provider) -> None:
        self.caller, self.kubectl, self.org = caller, kubectl, org
        scheme = login.scheme(pkce=False)
        system = make_system(caller, [scheme])["id"]
        self.project, template = make_template(caller, system=system)
        login._refresh_tokens.add("rt-given")
        scheme["oauth2"]["grant"]["authorizationCode"].pop("clientSecret")
        tokens = {"accessToken": "at-given", "refreshToken": "rt-given", "scopes": ["orders"]}
        credential = {
            "id": "login",
            "authSchemeConfig": scheme,
            "credential": {"type": "oauth2-token", "data": {"oauth2Token": tokens}},
        }
        body = {
            "connectionTemplateId": template["connectionTemplateId"],
            "connection": {"name": "Login", "credentials": [credential]},
        }
        self.connection = caller.ok("POST", "/connections", body, status=201)
        self.credential_id = self.connection["credentials"][0]["credential"]["id"]
        self.token = account_token(kubectl, org, self.project)

    def told(self) -> dict[str, Any]:
        """The credential as the pod's configuration has it."""
        credential: dict[str, Any] = ask(self.caller, self.token).json["connections"]["shop"]["credentials"][
            0
        ]
        return credential

    def ask(self, rejected: Any = "at-given", *, url: str = "", token: str = "", **ids: str) -> Answer:
        connection = ids.get("connection", self.connection["id"])
        path = f"/internal/v1/connections/{connection}/credentials/{ids.get('credential', self.credential_id)}/token"
        pod = Client(url or self.caller.url, token or self.token, self.caller.organisation)
        return pod.at(path, method="POST", body={"rejected": rejected})

    def secret(self) -> dict[str, Any]:
        name = tokens_name(self.connection["id"].lower(), "login")
        found = self.kubectl("get", "secret", name, "-o", "json", namespace=self.org.namespace)
        secret: dict[str, Any] = json.loads(found.stdout)
        return secret

    def dated_by_a_clock_ahead(self, ahead: timedelta) -> None:
        """As if the tokens had been obtained by a replica whose clock is wrong by this much."""
        name = self.secret()["metadata"]["name"]
        issued = f"{token_secret_codec.ISSUED_AT}={token_secret_codec.written(datetime.now(UTC) + ahead)}"
        self.kubectl("annotate", "secret", name, issued, "--overwrite", namespace=self.org.namespace)
