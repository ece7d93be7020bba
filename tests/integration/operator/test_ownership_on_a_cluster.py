"""What another owner controls is left as it is, on a real API server with the operator's own rights."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.harness.session.waiting import eventually
from tests.integration.operator.cluster_objects import NamespacedKubectl, project_spec, ready
from tieline_core.identity.names import workload_name

pytestmark = pytest.mark.cluster

KINDS = {
    "ServiceAccount": "v1",
    "Service": "v1",
    "NetworkPolicy": "networking.k8s.io/v1",
    "Deployment": "apps/v1",
}
SPECS: dict[str, dict[str, Any]] = {
    "Service": {"spec": {"ports": [{"port": 80}]}},
    "NetworkPolicy": {"spec": {"podSelector": {"matchLabels": {"app": "theirs"}}}},
    "Deployment": {
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": {"app": "theirs"}},
            "template": {
                "metadata": {"labels": {"app": "theirs"}},
                "spec": {"containers": [{"name": "main", "image": "example.invalid/theirs"}]},
            },
        }
    },
}


def create(
    acting: NamespacedKubectl, kind: str, name: str, owner: dict[str, Any] | None, **labels: str
) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name, "namespace": acting.namespace, "labels": labels}
    if owner:
        metadata["ownerReferences"] = [
            {
                "apiVersion": owner["apiVersion"],
                "kind": owner["kind"],
                "name": owner["metadata"]["name"],
                "uid": owner["metadata"]["uid"],
                "controller": True,
            }
        ]
    manifest = {"apiVersion": KINDS[kind], "kind": kind, "metadata": metadata, **SPECS.get(kind, {})}
    acting.kubectl("create", "-f", "-", stdin=json.dumps(manifest))
    return acting.get(kind, name)


def untouched(acting: NamespacedKubectl, obj: dict[str, Any]) -> bool:
    """Whether nobody but its own controllers has written to it."""
    found = acting.get(obj["kind"], obj["metadata"]["name"])
    managers = {
        entry["manager"]
        for entry in json.loads(
            acting.run("get", obj["kind"], obj["metadata"]["name"], "-o", "json", "--show-managed-fields")
        )["metadata"]["managedFields"]
    }
    kept = ("uid", "labels", "ownerReferences")
    same = all(found["metadata"].get(key) == obj["metadata"].get(key) for key in kept)
    return same and found.get("spec") == obj.get("spec") and "tieline-operator" not in managers


@pytest.mark.parametrize("kind", KINDS)
def test_a_child_of_another_owner_is_left_as_it_is_until_it_is_gone(
    acting: NamespacedKubectl, kind: str
) -> None:
    project = f"blocked-{kind.lower()}"
    name = workload_name(project, "production")
    acting.run("create", "configmap", f"owner-{kind.lower()}")
    owner = acting.get("configmap", f"owner-{kind.lower()}")
    theirs = create(acting, kind, name, owner)
    acting.apply("Project", project, project_spec())
    condition = ready(acting.until_ready("project", project, "False", "NotOwned"))
    assert f'{kind} "{name}" belongs to ConfigMap "owner-{kind.lower()}"' in condition["message"]
    eventually(
        "an Event",
        lambda: any(
            event["reason"] == "NotOwned" and event["regarding"]["name"] == project
            for event in acting.list("events.events.k8s.io")
        ),
    )
    assert untouched(acting, theirs)

    # The operator is not told of objects that are not its own: a change of the project, or a minute, brings it back.
    acting.run("delete", kind, name)
    acting.apply("Project", project, project_spec("print('two')\n"))
    eventually("it is made", lambda: acting.workload(kind, project))
    assert acting.get(kind, name)["metadata"]["ownerReferences"][0]["name"] == project


def test_projects_whose_long_names_begin_alike_both_get_a_workload(acting: NamespacedKubectl) -> None:
    prefix = "orders-of-the-northern-warehouse-and-its-shops"
    projects = [f"{prefix}-in-june", f"{prefix}-in-july"]
    for name in projects:
        acting.apply("Project", name, project_spec("print('long')\n"))
    for name in projects:
        eventually(f"{name} has a Deployment", lambda name=name: acting.workload("deployment", name))
