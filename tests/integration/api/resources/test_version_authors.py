"""Who made a version, as REST tells it: the caller of a deploy, and nobody where nobody is known."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.harness.cluster.kubectl import Kubectl, Organisation
from tests.harness.session.waiting import eventually
from tests.integration.api.conftest import Client, Server
from tests.integration.api.objects import MAIN, make_project, stored
from tieline_core.identity.ids import new_id

pytestmark = pytest.mark.cluster


def test_whoever_deploys_is_the_author_of_the_version(
    client: Client, server: Server, org: Organisation, token_for: Callable[..., str]
) -> None:
    project = make_project(client)
    at = f"/projects/{project['id']}"
    ann = Client(server.url, token_for(org.namespace, "ann", "tieline-editor"), org.id)
    ann.until_known()
    deployed = ann.ok("PUT", f"{at}/deploy", {"files": [MAIN], "versionName": "one"})
    client.ok("POST", f"{at}/versions", {"name": "two", "files": [MAIN]})
    of_ann = f"system:serviceaccount:{org.namespace}:ann"
    assert deployed["environments"][0]["deployedVersion"]["createdBy"] == of_ann
    versions = client.ok("GET", f"{at}/versions")["items"]
    assert [(one["name"], one["createdBy"]) for one in versions] == [
        ("two", f"system:serviceaccount:{org.namespace}:admin"),
        ("one", of_ann),
    ]
    # Who deploys a version again has not made it.
    again = client.ok("PUT", f"{at}/versions/{versions[1]['id']}/deploy")
    assert again["environments"][0]["deployedVersion"]["createdBy"] == of_ann


def test_a_version_that_was_made_otherwise_has_no_author_and_keeps_the_one_it_has(
    client: Client, kubectl: Kubectl, org: Organisation
) -> None:
    project = make_project(client)
    at = f"/projects/{project['id']}"
    client.ok("PUT", f"{at}/deploy", {"files": [MAIN]})
    (made,) = client.ok("GET", f"{at}/versions")["items"]
    by_rest = stored(kubectl, org, "projectversion", made["id"])
    copy = {
        "apiVersion": by_rest["apiVersion"],
        "kind": by_rest["kind"],
        "metadata": {"name": new_id().lower()},
        "spec": {name: value for name, value in by_rest["spec"].items() if name != "createdBy"},
    }
    kubectl("create", "-f", "-", namespace=org.namespace, stdin=json.dumps(copy))
    versions = eventually(
        "both", lambda: (found := client.ok("GET", f"{at}/versions")["items"])[1:] and found
    )
    assert sum("createdBy" in one for one in versions) == 1
    changed = {"spec": {"createdBy": "somebody-else"}}
    refused = kubectl(
        *("patch", "projectversion", by_rest["metadata"]["name"], "--type=merge", "-p", json.dumps(changed)),
        namespace=org.namespace,
        check=False,
    )
    assert "cannot be changed" in refused.stderr
