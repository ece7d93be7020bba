"""What connections say of their Secrets, of what ends, and of requests that were refused."""

from __future__ import annotations

import json

import pytest

from tests.harness.cluster.kubectl import Kubectl, Organisation
from tests.harness.session.waiting import eventually
from tests.integration.api.conftest import Client
from tests.integration.api.objects import (
    bring_connection,
    connect,
    make_system,
    make_template,
    stored,
    wait_for,
)
from tieline_core.credentials.refusals import ANNOTATION
from tieline_core.identity.ids import new_id, object_id

pytestmark = pytest.mark.cluster
KEY = {"id": "key", "type": "string", "authSchemeConfigId": "key"}


def test_rotating_a_credential_that_git_owns_says_where_its_values_are(
    client: Client, kubectl: Kubectl, org: Organisation
) -> None:
    system, name = make_system(client), f"brought-{new_id().lower()}"
    bring_connection(
        kubectl, org.namespace, name=name, system=system["id"], credential=KEY, values={"value": "old"}
    )
    kubectl("label", "secret", name, "kustomize.toolkit.fluxcd.io/name=apps", namespace=org.namespace)
    (found,) = wait_for(client, f"/connections?system_id={system['id']}")["items"]
    credential = client.ok("GET", f"/connections/{found['id']}")["credentials"][0]
    secret = {"name": name, "managedBy": 'Flux (Kustomization "apps")'}
    assert credential["credential"]["secret"] == secret

    new = {"type": "string", "data": {"string": {"value": "n3w"}}}
    body = {"credentials": [{"id": credential["id"], "credential": new}]}
    refused = client("PUT", f"/connections/{found['id']}", body)
    assert refused.status == 409
    assert f'in the Secret "{name}"' in refused.json["message"]
    assert "n3w" not in json.dumps(refused.json)
    assert object_id(stored(kubectl, org, "connection", name)) == found["id"]
    # What is shown may be sent back.
    client.ok("PUT", f"/connections/{found['id']}", {"credentials": [credential]})


def test_a_list_can_ask_for_what_ends_soon(client: Client) -> None:
    _, template = make_template(client)
    ends = {"expiresAt": "2030-01-01T00:00:00Z"}
    connection = connect(client, template, "s3cr3t")
    (only,) = connection["credentials"]
    body = {"credentials": [{"id": only["id"], "credential": {"type": "string", **ends}}]}
    changed = client.ok("PUT", f"/connections/{connection['id']}", body)
    assert [(one["what"], one["at"]) for one in changed["expires"]] == [
        ("credential", "2030-01-01T00:00:00Z")
    ]
    where = f"/connections?system_id={template['id']}&expires_before"
    assert client.ok("GET", f"{where}=2030-01-02T00:00:00Z")["totalCount"] == 1
    assert client.ok("GET", f"{where}=2029-12-31T00:00:00Z")["totalCount"] == 0
    assert client("GET", f"{where}=soon").status == 422


def test_the_last_refusal_stays_after_a_success(client: Client, kubectl: Kubectl, org: Organisation) -> None:
    _, template = make_template(client)
    connection = connect(client, template, "s3cr3t")
    known = {
        "status": 401,
        "count": 2,
        "since": "2026-11-20T10:00:00Z",
        "last": "2026-11-20T10:05:00Z",
        "accepted": "2026-11-20T11:00:00Z",
        "said": "unknown key",
    }
    kubectl(
        "annotate",
        "connection",
        connection["id"].lower(),
        f"{ANNOTATION}={json.dumps(known)}",
        namespace=org.namespace,
    )

    def refusal() -> dict[str, object] | None:
        found: dict[str, object] = client.ok("GET", f"/connections/{connection['id']}")
        assert "refused" not in found
        refused = found.get("lastRefusal")
        return refused if isinstance(refused, dict) else None

    found = eventually("the refusal", refusal)
    assert (found["said"], found["acceptedAt"]) == ("unknown key", "2026-11-20T11:00:00Z")
