"""Who changed what: managers of fields, by REST and by manifests, and what the platform reported."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from tests.harness.cluster.kubectl import Kubectl, Organisation
from tests.integration.api.conftest import Client
from tests.integration.api.objects import make_project
from tieline_core.identity.ids import new_id

pytestmark = pytest.mark.cluster


def test_what_rest_and_a_gitops_tool_set_is_told_apart(
    client: Client, kubectl: Kubectl, org: Organisation
) -> None:
    project = make_project(client)
    name = project["id"].lower()
    manifest = {
        "apiVersion": "tieline.dev/v1alpha1",
        "kind": "Project",
        "metadata": {"name": name},
        "spec": {"runtime": {"replicas": 2}},
    }
    kubectl(
        *("apply", "--server-side", "--field-manager=argocd-controller", "-f", "-"),
        namespace=org.namespace,
        stdin=json.dumps(manifest),
    )
    found = client.ok("GET", f"/changes?id={project['id']}")["items"]
    by_manager = {one["manager"]: one for one in found}
    git, rest = by_manager["argocd-controller"], by_manager["tieline-api"]
    assert (git["external"], git["fields"]) == (True, ["spec.runtime.replicas"])
    assert rest["external"] is False
    assert "spec.name" in rest["fields"]
    assert {one["id"] for one in found} == {project["id"]}


def test_the_newest_changes_of_the_organisation_come_first(client: Client) -> None:
    older, newer = make_project(client), make_project(client)
    name = f"Renamed {new_id()}"
    client.ok("PUT", f"/projects/{older['id']}", {"name": name})

    found = client.ok("GET", "/changes?first=100")["items"]
    assert {older["id"], newer["id"]} <= {one["id"] for one in found}
    assert name in [one["name"] for one in found]
    times = [one["at"] for one in found]
    assert times == sorted(times, reverse=True)
    assert len(client.ok("GET", "/changes?first=2")["items"]) == 2


def test_what_the_operator_reported_is_told_and_others_events_are_not(
    client: Client, kubectl: Kubectl, org: Organisation
) -> None:
    project = make_project(client)
    uid = kubectl(
        *("get", "project", project["id"].lower(), "-o", "jsonpath={.metadata.uid}"), namespace=org.namespace
    ).stdout
    for controller, reason in (("tieline-operator", "ImageMissing"), ("somebody-else", "NotOurs")):
        event = {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": f"event-{new_id().lower()}"},
            "eventTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "reportingController": controller,
            "reportingInstance": "test",
            "action": "Reconcile",
            "reason": reason,
            "note": "There is no such image",
            "type": "Warning",
            "regarding": {
                "apiVersion": "tieline.dev/v1alpha1", "kind": "Project", "namespace": org.namespace,
                "name": project["id"].lower(), "uid": uid,
            },
        }  # fmt: skip
        kubectl("create", "-f", "-", namespace=org.namespace, stdin=json.dumps(event))
    found = client.ok("GET", f"/changes?id={project['id']}")["items"]
    events = [one for one in found if one["type"] == "event"]
    assert [(one["reason"], one["warning"]) for one in events] == [("ImageMissing", True)]


def test_an_object_that_is_not_there_is_said(client: Client) -> None:
    answer = client("GET", f"/changes?id={new_id()}")
    assert answer.status == 404
