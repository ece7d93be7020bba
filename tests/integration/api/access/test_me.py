"""Who am I, and what do I reach: asked of a real API server with the roles that ship.

With tokens of configured issuers: test_callers.py.
"""

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.harness.cluster.kubectl import Kubectl, Organisation
from tests.harness.session.waiting import eventually
from tests.integration.api.conftest import Client, Server
from tieline_api.auth.api_keys import manifest, new_key

pytestmark = pytest.mark.cluster


def _reached(org: Organisation, role: str) -> dict[str, str]:
    return {"id": org.id, "name": org.namespace, "namespace": org.namespace, "role": role}


def _me(client: Client) -> Any:
    answer = client.at("/api/v2/me")
    assert answer.status == 200, answer.raw
    return answer.json


@pytest.mark.parametrize("role", ["viewer", "editor", "admin"])
def test_a_service_account_is_told_its_role_in_its_organisation_and_of_no_other(
    server: Server, org: Organisation, other_org: Organisation, token_for: Callable[..., str], role: str
) -> None:
    caller = Client(server.url, token_for(org.namespace, f"me-{role}", f"tieline-{role}"), org.id)
    caller.until_known()
    me = _me(caller)
    assert other_org.id not in json.dumps(me)
    assert me == {
        "id": f"system:serviceaccount:{org.namespace}:me-{role}",
        "name": f"me-{role}",
        "kind": "serviceAccount",
        "groups": [
            "system:serviceaccounts", f"system:serviceaccounts:{org.namespace}", "system:authenticated",
        ],
        "organisations": [_reached(org, role)],
    }  # fmt: skip


def test_whoever_has_no_right_anywhere_is_told_so(
    server: Server, org: Organisation, token_for: Callable[..., str]
) -> None:
    assert _me(Client(server.url, token_for(org.namespace, "me-nobody", None), org.id))["organisations"] == []


def test_roles_in_several_organisations_are_told_each(
    server: Server,
    kubectl: Kubectl,
    org: Organisation,
    other_org: Organisation,
    token_for: Callable[..., str],
) -> None:
    caller = Client(server.url, token_for(org.namespace, "me-two", "tieline-editor"), org.id)
    kubectl(
        "create",
        "role",
        "few",
        "--verb=list",
        "--resource=projects.tieline.dev",
        namespace=other_org.namespace,
    )
    kubectl(
        "create", "rolebinding", "few", "--role=few", f"--serviceaccount={org.namespace}:me-two",
        namespace=other_org.namespace,
    )  # fmt: skip
    expected = sorted(
        [_reached(org, "editor"), _reached(other_org, "custom")], key=lambda one: one["namespace"]
    )
    eventually("both organisations told", lambda: _me(caller)["organisations"] == expected)


def test_the_holder_of_an_api_key_is_told_of_the_keys_organisation_only(
    server: Server, kubectl: Kubectl, org: Organisation, other_org: Organisation
) -> None:
    key = new_key(org.id)
    secret = manifest(key, namespace=org.namespace, user="me-key", groups=["robots"])
    kubectl("apply", "-f", "-", stdin=json.dumps(secret))
    prefix = f"tieline:api-key:{org.id.lower()}"
    for namespace in (org.namespace, other_org.namespace):
        kubectl(
            "create", "rolebinding", "me-key", "--clusterrole=tieline-viewer", f"--user={prefix}:me-key",
            namespace=namespace,
        )  # fmt: skip
    holder = Client(server.url, None, org.id, {"X-API-Key": key})
    eventually("the key known", lambda: holder("GET", "/projects").status == 200)
    assert _me(holder) == {
        "id": f"{prefix}:me-key",
        "name": "me-key",
        "kind": "apiKey",
        "groups": [f"{prefix}:robots", "system:authenticated"],
        "organisations": [_reached(org, "viewer")],
    }


def test_a_write_before_does_not_delay_or_refuse_the_answer(client: Client) -> None:
    client.until_known()
    written = client("POST", "/projects", {"name": "Before me"})
    revision = written.headers["X-Tieline-Revision"]
    assert client.at("/api/v2/me", X_Tieline_Revision=revision).status == 200
