"""Connections stay connected to a real Keycloak, through REST, kubectl and the operator."""

from __future__ import annotations

import base64
import json
import time
from typing import Any

import pytest

from tests.harness.cluster.kubectl import Kubectl, Organisation
from tests.harness.identity.certificate_authority import pem
from tests.harness.identity.keycloak import Application, Keycloak
from tests.harness.session.waiting import eventually
from tests.integration.api.conftest import Client
from tests.integration.oauth.shops import ITEM, Shop, tokens_of
from tests.integration.operator.cluster_objects import NamespacedKubectl, ready
from tieline_core.identity.names import tokens_name

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("operator")]

QUIET_SECONDS = 6.0
"""Long enough for the operator to come back twice to a token that lives for this long."""


def test_a_connection_stays_connected_while_its_tokens_rotate(
    caller: Client, keycloak: Keycloak, kubectl: Kubectl, oauth_org: Organisation, acting: NamespacedKubectl
) -> None:
    application = keycloak.register(lifetime=6)
    shop = Shop(caller, keycloak, application)
    person = keycloak.person()
    connection = shop.connect(person)["id"]
    seen = [tokens_of(kubectl, oauth_org, connection)]

    def rotated() -> bool:
        found = tokens_of(kubectl, oauth_org, connection)
        if found["accessToken"] != seen[-1]["accessToken"]:
            seen.append(found)
        return len(seen) > 2

    eventually("two refreshes", rotated)
    assert len({one["refreshToken"] for one in seen}) == 3, "each is used once"
    assert keycloak.owner_of(tokens_of(kubectl, oauth_org, connection)["accessToken"]) == person.name
    assert keycloak.events("REFRESH_TOKEN_ERROR", application) == []
    assert len(keycloak.events("REFRESH_TOKEN", application)) >= 2
    assert len(keycloak.events("CODE_TO_TOKEN", application)) == 1
    until_valid(acting, shop, connection)


def test_what_a_person_has_taken_back_is_told_and_not_asked_for_again(
    caller: Client, keycloak: Keycloak, kubectl: Kubectl, oauth_org: Organisation, acting: NamespacedKubectl
) -> None:
    application, person = keycloak.register(lifetime=6), keycloak.person()
    shop = Shop(caller, keycloak, application)
    connection = shop.connect(person)["id"]
    keycloak.end_sessions(person, application)
    name = connection.lower()
    errors = eventually("the credential's errors", lambda: shop.shown(connection).get("errors"))
    assert "refused" in " ".join(errors)
    condition = eventually("not ready", lambda: not_ready(acting, name))
    assert "connect again" in condition["message"]
    events = eventually("a warning", lambda: warnings(acting, name))
    assert any("refused" in event["message"] for event in events)

    asked = len(keycloak.events("REFRESH_TOKEN_ERROR", application))
    assert asked == 1
    time.sleep(QUIET_SECONDS)  # nothing more comes, however long one waits
    assert len(keycloak.events("REFRESH_TOKEN_ERROR", application)) == asked

    code = shop.credential("oauth2-code", oauth2Code=shop.come_back(person))
    caller.ok("PUT", f"/connections/{connection}", {"credentials": [code]})
    until_valid(acting, shop, connection)
    eventually("ready again", lambda: ready(acting.get("connection", name)).get("status") == "True")


def applied(
    acting: NamespacedKubectl,
    keycloak: Keycloak,
    *,
    name: str,
    oauth2: dict[str, Any],
    kind: str,
    values: dict[str, str],
) -> None:
    """A system, a Secret and a connection with one OAuth 2.0 credential, by kubectl."""
    scheme = {"id": "keycloak", "type": "oauth2", "oauth2": {"tokenUrl": keycloak.token_url, **oauth2}}
    system = {"name": name, "domain": "shop.example", "templateBaseUrl": "https://shop.example"}
    acting.apply("System", name, {**system, "authSchemeConfigs": [scheme]})
    store(acting, name, values)
    credential = {
        "id": ITEM,
        "authSchemeConfigId": "keycloak",
        "type": kind,
        "secretRef": {"name": name},
    }
    acting.apply("Connection", name, {"name": name, "systemRef": {"name": name}, "credentials": [credential]})


def store(acting: NamespacedKubectl, name: str, values: dict[str, str]) -> None:
    literals = [f"--from-literal={key}={value}" for key, value in values.items()]
    secret = acting.run(
        "create",
        "secret",
        "generic",
        name,
        "--type=tieline.dev/credential",
        *literals,
        "--dry-run=client",
        "-oyaml",
    )
    acting.kubectl("apply", "--server-side", "-f", "-", namespace=acting.namespace, stdin=secret)


def kept(acting: NamespacedKubectl, name: str) -> dict[str, str]:
    """The tokens of a connection, once there are any."""

    def probe() -> dict[str, Any] | None:
        found = acting.kubectl(
            "get", "secret", tokens_name(name, ITEM), "-ojson", namespace=acting.namespace, check=False
        )
        data = json.loads(found.stdout).get("data", {}) if found.returncode == 0 else {}
        return data if "accessToken" in data else None

    data = eventually(f"tokens of {name}", probe)
    return {key: base64.b64decode(value).decode() for key, value in data.items()}


def client_credentials(application: Application) -> dict[str, str]:
    return {"clientId": application.id, "clientSecret": application.secret}


def test_client_credentials_are_fetched_and_fetched_again(
    acting: NamespacedKubectl, keycloak: Keycloak
) -> None:
    application = keycloak.register_service(lifetime=6)
    applied(
        acting,
        keycloak,
        name="service",
        oauth2={"grant": {"type": "clientCredentials"}, "clientAuthentication": "body"},
        kind="oauth2-client",
        values=client_credentials(application),
    )
    first = kept(acting, "service")
    eventually("another token", lambda: kept(acting, "service")["accessToken"] != first["accessToken"])
    assert "refreshToken" not in first
    acting.until_ready("connection", "service", "True", "Valid")
    assert keycloak.events("CLIENT_LOGIN_ERROR", application) == []


def test_a_wrong_secret_is_told_once_and_a_corrected_one_heals(
    acting: NamespacedKubectl, keycloak: Keycloak
) -> None:
    application = keycloak.register_service()
    applied(
        acting,
        keycloak,
        name="mistyped",
        oauth2={"grant": {"type": "clientCredentials"}},
        kind="oauth2-client",
        values={"clientId": application.id, "clientSecret": "mistyped-secret"},
    )
    condition = eventually("not ready", lambda: not_ready(acting, "mistyped"))
    assert "refused" in condition["message"]
    assert "mistyped-secret" not in condition["message"]
    time.sleep(QUIET_SECONDS)  # nothing more comes, however long one waits
    assert len(keycloak.events("CLIENT_LOGIN_ERROR", application)) == 1
    store(acting, "mistyped", client_credentials(application))
    assert kept(acting, "mistyped")
    acting.until_ready("connection", "mistyped", "True", "Valid")


def test_a_name_and_a_password_are_enough(acting: NamespacedKubectl, keycloak: Keycloak) -> None:
    application, person = keycloak.register_for_passwords(lifetime=6), keycloak.person()
    store(acting, "password-client", {"clientSecret": application.secret})
    client = {"clientId": application.id, "secretRef": {"name": "password-client"}}
    applied(
        acting,
        keycloak,
        name="password",
        oauth2={"grant": {"type": "password", "password": client}},
        kind="oauth2-password",
        values={"username": person.name, "password": person.password},
    )
    first = kept(acting, "password")
    eventually("another token", lambda: kept(acting, "password")["accessToken"] != first["accessToken"])
    assert len(keycloak.events("LOGIN", application)) == 1, "the rest were refreshes"


def test_a_certificate_of_the_connection_is_found_for_mutual_tls(
    acting: NamespacedKubectl, keycloak: Keycloak
) -> None:
    certificate, key = keycloak.authority.issue("tieline-mutual")
    application = keycloak.register_for_certificate("CN=tieline-mutual")
    values = {"clientId": application.id, "clientSecret": "not-looked-at"}
    store(
        acting,
        "mutual-certificate",
        {"certificate": certificate, "key": pem(key), "ca": keycloak.authority.ca},
    )
    store(acting, "mutual", values)
    oauth2 = {
        "tokenUrl": keycloak.tls_token_url,
        "grant": {"type": "clientCredentials"},
        "mtlsEnabled": True,
        "clientAuthentication": "body",
    }
    system = {
        "name": "Mutual",
        "domain": "shop.example",
        "templateBaseUrl": "https://shop.example",
        "authSchemeConfigs": [
            {"id": "keycloak", "type": "oauth2", "oauth2": oauth2},
            {"id": "certificate", "type": "certificate", "certificate": {}},
        ],
    }
    acting.apply("System", "mutual", system)
    credentials = [
        {
            "id": ITEM,
            "authSchemeConfigId": "keycloak",
            "type": "oauth2-client",
            "secretRef": {"name": "mutual"},
        },
        {
            "id": "certificate",
            "authSchemeConfigId": "certificate",
            "type": "certificate",
            "secretRef": {"name": "mutual-certificate"},
        },
    ]
    spec = {"name": "Mutual", "systemRef": {"name": "mutual"}, "credentials": credentials}
    acting.apply("Connection", "mutual", spec)
    assert kept(acting, "mutual")
    assert len(keycloak.events("CLIENT_LOGIN", application)) == 1


def until_valid(acting: NamespacedKubectl, shop: Shop, connection: str) -> None:
    eventually(
        "a valid credential",
        lambda: shop.shown(connection).get("errors") == [],
        seen=lambda: shop.shown(connection),
    )


def not_ready(acting: NamespacedKubectl, name: str) -> dict[str, Any] | None:
    condition = ready(acting.get("connection", name))
    return condition if condition.get("status") == "False" else None


def warnings(acting: NamespacedKubectl, name: str) -> list[dict[str, Any]]:
    found = acting.list("events")
    return [one for one in found if one["type"] == "Warning" and one["involvedObject"]["name"] == name]
