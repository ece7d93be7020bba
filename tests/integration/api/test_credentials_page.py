"""docs/credentials.md by REST, and Secrets that people bring: late, changed, deleted, of another type."""

from __future__ import annotations

import base64
import json
import time
from pathlib import Path
from typing import Any

import pytest

from tests.harness.cluster.kubectl import Kubectl, Organisation
from tests.harness.identity.credentials_page import Page, read_page, write_pair
from tests.harness.session.waiting import eventually
from tests.integration.api.conftest import Client
from tests.integration.api.objects import make_project
from tests.integration.api.pods import account_token
from tieline_core.identity.ids import credential_item_id

pytestmark = pytest.mark.cluster

# What pods get of each type's Secret; of OAuth 2.0 the access token alone.
VALUES: dict[str, dict[str, str]] = {
    "string": {"value": "one"},
    "binary": {"value": "one"},
    "basic-auth": {"username": "one", "password": "two"},
    "certificate": {"certificate": "one", "key": "two", "ca": "three"},
    "jwt-bearer": {"key": "one", "keyId": "two"},
    "oauth1": {"oauthToken": "one", "oauthTokenSecret": "two", "consumerSecret": "three"},
    "oauth2-token": {"accessToken": "one"},
}
NOTHING: dict[str, dict[str, str]] = {kind: {} for kind in VALUES}
SCHEMES = {
    "string": "key",
    "binary": "webhooks",
    "basic-auth": "login",
    "certificate": "mtls",
    "jwt-bearer": "jwt",
    "oauth1": "old",
    "oauth2-token": "users",
}


@pytest.fixture(scope="module")
def page() -> Page:
    return read_page()


def apply(kubectl: Kubectl, org: Organisation, manifest: dict[str, Any]) -> None:
    manifest = {**manifest, "metadata": {**manifest["metadata"], "namespace": org.namespace}}
    kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=json.dumps(manifest))


def secret(kubectl: Kubectl, org: Organisation, name: str, kind: str, values: dict[str, str]) -> None:
    metadata = {"name": name}
    apply(
        kubectl,
        org,
        {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": kind, "stringData": values},
    )


def test_what_the_page_says_for_rest_works(
    client: Client, kubectl: Kubectl, org: Organisation, page: Page, tmp_path: Path
) -> None:
    write_pair(tmp_path)
    text = json.dumps(page.requests)
    for name in ("tls.crt", "tls.key"):
        text = text.replace(f"<PEM of {name}>", json.dumps((tmp_path / name).read_text())[1:-1])
    schemes = [one["authSchemeConfig"] for one in json.loads(text)]
    body = {
        "name": "Shop of the page",
        "domain": "shop.example",
        "templateBaseUrl": "https://api.shop.example",
        "authSchemeConfigs": schemes,
    }
    system = client.ok("POST", "/systems", body, status=201)
    project = make_project(client)
    template = client.ok(
        "POST", f"/projects/{project['id']}/connection-templates", {"systemId": system["id"], "name": "shop"}
    )
    created = client.ok(
        "POST",
        "/connections",
        {
            "connectionTemplateId": template["connectionTemplateId"],
            "connection": {"name": "C", "credentials": json.loads(text)},
        },
        status=201,
    )
    shown = client.ok("GET", f"/connections/{created['id']}")
    assert {one["id"]: one["credential"].get("errors") for one in shown["credentials"]} == {
        credential_item_id(created["id"], one["id"]): [] for one in page.requests
    }
    assert "s3cret" not in json.dumps(shown)


def test_secrets_that_people_bring_reach_pods_as_they_come_change_and_go(
    client: Client, kubectl: Kubectl, org: Organisation, page: Page
) -> None:
    apply(kubectl, org, {**page.system, "metadata": {"name": "brought"}})
    items = [
        {
            "id": kind,
            "type": kind,
            "authSchemeConfigId": SCHEMES[kind],
            "secretRef": {"name": f"brought-{kind}"},
        }
        for kind in VALUES
    ]
    project = make_project(client)
    spec = {"name": "Brought", "systemRef": {"name": "brought"}, "credentials": items}
    api = {"apiVersion": "tieline.dev/v1alpha1", "metadata": {"name": "brought"}}
    apply(kubectl, org, {**api, "kind": "Connection", "spec": spec})
    template = {
        "name": "shop",
        "projectRef": {"name": project["id"].lower()},
        "environment": "production",
        "systemRef": {"name": "brought"},
        "connectionRef": {"name": "brought"},
    }
    apply(kubectl, org, {**api, "kind": "ConnectionTemplate", "spec": template})
    pod = Client(client.url, account_token(kubectl, org, project), client.organisation)

    def told() -> dict[str, dict[str, str]]:
        body = pod.at("/internal/v1/environment").json
        found = body["connections"].get("shop", {}).get("credentials", [])
        return {one["type"]: _texts(one["type"], one["data"]) for one in found}

    def until(wanted: dict[str, dict[str, str]]) -> None:
        eventually(f"{wanted}", lambda: told() == wanted, seen=told)

    until(NOTHING)
    for kind, values in VALUES.items():
        secret(kubectl, org, f"brought-{kind}", "tieline.dev/credential", values)
    until(VALUES)
    changed = {kind: {key: f"{value}-2" for key, value in values.items()} for kind, values in VALUES.items()}
    for kind, values in changed.items():
        secret(kubectl, org, f"brought-{kind}", "tieline.dev/credential", values)
    until(changed)
    names = [f"brought-{kind}" for kind in VALUES]
    kubectl("delete", "secret", *names, namespace=org.namespace)
    until(NOTHING)
    for kind, values in VALUES.items():
        secret(kubectl, org, f"brought-{kind}", "Opaque", values)
    time.sleep(1)  # Secrets of another type are not heard of, however long one waits
    assert told() == NOTHING
    kubectl("delete", "secret", *names, namespace=org.namespace)
    for kind, values in VALUES.items():
        secret(kubectl, org, f"brought-{kind}", "tieline.dev/credential", values)
    until(VALUES)


def _texts(kind: str, data: dict[str, Any]) -> dict[str, str]:
    """What a pod was told of a credential's values; bytes as text."""
    if "valueBase64" in data:
        return {"value": base64.b64decode(data["valueBase64"]).decode()}
    return {key: value for key, value in data.items() if key in VALUES[kind]}
