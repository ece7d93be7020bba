"""Installed for one organisation, with rights in its namespace alone: it works, and no other is seen or touched."""

from __future__ import annotations

import json

import pytest

from tests.harness.cluster.deployed_platform import Platform, Tenant, administrator, http, project
from tests.harness.cluster.kubectl import Kubectl, make_organisation, relabel
from tests.harness.cluster.releases import Helm, Release, settled, written
from tests.harness.session.waiting import eventually
from tests.install.organisation import populate

pytestmark = pytest.mark.e2e


def _may(kubectl: Kubectl, part: str, home: str, *question: str) -> bool:
    account = f"--as=system:serviceaccount:{home}:tieline-{part}"
    return kubectl("auth", "can-i", *question, account, check=False).stdout.strip() == "yes"


def test_one_organisation_works_and_another_is_neither_seen_nor_touched(
    helm: Helm, kubectl: Kubectl, this: Release
) -> None:
    ours, theirs = make_organisation(kubectl), make_organisation(kubectl)
    home = ours.namespace
    values = {
        "images": {part: this.images[part] for part in ("platform", "runtime")},
        "engine": {"image": this.images["engine"], "persistence": {"enabled": False}},
        "organisation": home,
        "configuration": {"TIELINE_PUBLIC_URL_TEMPLATE": "http://{clusterIP}"},
    }
    helm("install", "tieline", this.chart, "-n", home, "--wait", "--timeout", "180s", values=values)
    other = Tenant(kubectl=kubectl, namespace=theirs.namespace)
    other.apply(project("never = 'looked at'"))
    before = written(kubectl, theirs.namespace)

    tenant = Tenant(kubectl=kubectl, namespace=home)
    populate(tenant)
    address = kubectl(
        "get", "service", "tieline-api", "-o", "jsonpath={.spec.clusterIP}", namespace=home
    ).stdout
    platform = Platform(kubectl=kubectl, url=f"http://{address}", images=dict(this.images))
    rest = administrator(platform, ours)
    (found,) = rest("GET", "/projects").json["projects"]
    assert found["name"] == "Orders"
    made = rest("POST", "/projects", {"name": "By REST"})
    assert made.status in (200, 201), made
    settled(kubectl, namespace=home)
    create = ("exec", "deployment/tieline-api", "--", "tieline-api", "create-key")
    key = kubectl(*create, "--organisation", ours.id, "--user", "ci", namespace=home).stdout.strip()
    user = f"--user=tieline:api-key:{ours.id.lower()}:ci"
    kubectl("create", "rolebinding", "ci", "--clusterrole=tieline-viewer", user, namespace=home)
    by_key = {"X-API-Key": key}
    url = f"{platform.url}/api/v2/o/{ours.id}/projects"
    eventually("the key known", lambda: http("GET", url, headers=by_key).status == 200)

    # The other one: unknown to REST, and as it was.
    token = {"Authorization": f"Bearer {rest.token}"}
    assert http("GET", f"{platform.url}/api/v2/o/{theirs.id}/projects", headers=token).status == 404
    assert written(kubectl, theirs.namespace) == before
    assert other.get("project", "orders")["status"] == {"observedGeneration": -1}

    # Nor could it be otherwise.
    for part in ("operator", "api"):
        assert _may(kubectl, part, home, "list", "projects.tieline.dev", "-n", home)
        for where in (("-n", theirs.namespace), ("-A",)):
            assert not _may(kubectl, part, home, "list", "projects.tieline.dev", *where)
            assert not _may(kubectl, part, home, "get", "secrets", *where)
        assert not _may(kubectl, part, home, "list", "namespaces")
    asked = json.loads(kubectl("get", "deployments", "-o", "json", namespace=home).stdout)["items"]
    assert all("Forbidden" not in _log(kubectl, home, one["metadata"]["name"]) for one in asked)

    # A change of the id is seen, though no Namespace is watched, and refused while there are objects.
    moved = f"{platform.url}/api/v2/o/{ours.id}/projects"
    assert http("GET", moved, headers=token).status == 200
    changed = ours.id[:-1] + ("0" if ours.id[-1] != "0" else "1")
    relabel(kubectl, home, changed)
    eventually("the label seen", lambda: http("GET", moved, headers=token).status == 404, within=60)
    other_id = f"{platform.url}/api/v2/o/{changed}/projects"
    assert http("GET", other_id, headers=token).status == 404
    relabel(kubectl, home, ours.id)
    eventually("the id back", lambda: http("GET", moved, headers=token).status == 200, within=60)

    # What is left of the cluster's rights is what the page says: without it nobody is known.
    kubectl("delete", "clusterrolebinding", f"tieline-api-{home}")
    fresh = kubectl("create", "token", "admin", "--duration=20m", namespace=home).stdout.strip()
    stranger = {"Authorization": f"Bearer {fresh}"}
    answer = http("GET", moved, headers=stranger)
    assert (answer.status, answer.json["code"]) == (403, "refused_by_cluster")


def _log(kubectl: Kubectl, namespace: str, deployment: str) -> str:
    return kubectl("logs", f"deployment/{deployment}", namespace=namespace).stdout
