"""Environments on a real API server: kubectl, a HorizontalPodAutoscaler's scale, and roles for one of them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.harness.session.waiting import eventually
from tests.integration.operator.cluster_objects import NamespacedKubectl, project_spec
from tests.integration.operator.running_operator import RunningOperator

pytestmark = pytest.mark.cluster


def the_environment(acting: NamespacedKubectl, name: str, state: str) -> dict[str, Any]:
    def found() -> dict[str, Any] | None:
        items = json.loads(
            acting.kubectl("get", "environments", "-o", "json", namespace=acting.namespace).stdout
        )
        return next(
            (
                one
                for one in items["items"]
                if one["metadata"]["name"] == name and one.get("status", {}).get("state") == state
            ),
            None,
        )

    item = eventually(f"the Environment {name} is {state}", found)
    assert item is not None
    return item


def replicas(acting: NamespacedKubectl, project: str) -> int:
    found = acting.workload("deployment", project)
    count: int = found[0]["spec"]["replicas"] if found else -1
    return count


def test_an_environment_is_scaled_by_its_scale_subresource_and_by_nobody_else(
    acting: NamespacedKubectl, operator: RunningOperator
) -> None:
    acting.apply("Project", "scaled", project_spec())
    eventually("it has a Deployment", lambda: replicas(acting, "scaled") == 1)
    found = the_environment(acting, "scaled.production", "draft")
    assert found["spec"]["replicas"] == 1, "an autoscaler takes none for 0"
    path = f"/apis/tieline.dev/v1alpha1/namespaces/{acting.namespace}/environments/scaled.production/scale"
    scale = json.loads(acting.kubectl("get", "--raw", path).stdout)
    assert "app.kubernetes.io/instance=scaled-production-" in scale["status"]["selector"]

    acting.run("scale", "environment", "scaled.production", "--replicas=3")
    eventually("it has three pods", lambda: replicas(acting, "scaled") == 3)
    operator.at_rest()
    assert acting.get("environment", "scaled.production")["spec"]["replicas"] == 3

    acting.apply("Project", "scaled", project_spec(runtime={"replicas": 2}))
    eventually("the Project counts", lambda: replicas(acting, "scaled") == 2)
    acting.run("scale", "environment", "scaled.production", "--replicas=4")
    eventually(
        "it is put back", lambda: acting.get("environment", "scaled.production")["spec"]["replicas"] == 2
    )
    operator.at_rest()
    assert replicas(acting, "scaled") == 2

    table = acting.kubectl("get", "tlenv", namespace=acting.namespace).stdout
    assert table.splitlines()[0].split() == ["NAME", "STATE", "VERSION", "PODS", "READY", "REASON", "AGE"]


def test_a_role_for_one_environment_scales_that_alone(
    acting: NamespacedKubectl, operator: RunningOperator
) -> None:
    environments = [{"name": "staging", "version": "latest"}, {"name": "production", "version": "latest"}]
    acting.apply("Project", "roles", {**project_spec(), "environments": environments})
    for name in ("staging", "production"):
        eventually(f"the Environment of {name}", lambda name=name: acting.get("environment", f"roles.{name}"))
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": "scale-staging"},
        "rules": [
            {
                "apiGroups": ["tieline.dev"],
                "resources": ["environments", "environments/scale"],
                "resourceNames": ["roles.staging"],
                "verbs": ["get", "update", "patch"],
            }
        ],
    }
    acting.kubectl("create", "-f", "-", namespace=acting.namespace, stdin=json.dumps(role))
    acting.run("create", "rolebinding", "scale-staging", "--role=scale-staging", "--user=ann")
    scale = ("scale", "environment", "roles.staging", "--replicas=2", "--as=ann")
    # The API server learns of a RoleBinding a moment after it has stored it.
    eventually("ann may scale staging", lambda: acting.run(*scale))
    refused = acting.kubectl(
        *("scale", "environment", "roles.production", "--replicas=2", "--as=ann"),
        namespace=acting.namespace,
        check=False,
    )
    assert refused.returncode != 0
    assert "forbidden" in refused.stderr

    acting.apply("Project", "roles", {**project_spec(), "environments": environments[1:]})
    listed = ("get", "environments", "-o", "name")
    eventually(
        "the Environment is gone with its place in the Project",
        lambda: "roles.staging" not in acting.kubectl(*listed, namespace=acting.namespace).stdout,
    )
