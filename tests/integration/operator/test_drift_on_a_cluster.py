"""A child that somebody changes or deletes by hand is put right, and its Project's events say so."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any

import pytest

from tests.harness.session.waiting import eventually
from tests.integration.operator.cluster_objects import NamespacedKubectl, project_spec
from tests.integration.operator.running_operator import RunningOperator

pytestmark = pytest.mark.cluster

_DRIFT = re.compile(r'^tieline_operator_drift_repaired_total\{kind="(\w+)",what="(\w+)"\} (\S+)', re.M)
_ENVIRONMENT = "spec.template.spec.containers[runtime].env[TIELINE_ENVIRONMENT].value"


def told(acting: NamespacedKubectl, project: str) -> dict[str, list[str]]:
    """What the events of a project say about drift, by the kind of child."""
    found: dict[str, list[str]] = {}
    for event in acting.list("events.events.k8s.io"):
        of = event["regarding"]
        if event["reason"] == "DriftRepaired" and (of["kind"], of["name"]) == ("Project", project):
            found.setdefault(event["note"].split()[0], []).append(event["note"])
    return found


def counted(operator: RunningOperator) -> Counter[tuple[str, str]]:
    found = _DRIFT.findall(operator.metrics())
    return Counter({(kind, what): int(float(count)) for kind, what, count in found})


def deployed(acting: NamespacedKubectl, project: str, **spec: Any) -> str:
    """The name of the children of a new project."""
    acting.apply("Project", project, project_spec(**spec))
    eventually("it has a Deployment", lambda: acting.workload("deployment", project))
    name: str = acting.workload("deployment", project)[0]["metadata"]["name"]
    return name


# What somebody does to a child, and the field that is told.
BY_HAND: dict[str, tuple[dict[str, Any], str]] = {
    "NetworkPolicy": ({"spec": {"egress": [{}]}}, "spec.egress"),
    "Service": (
        {"spec": {"ports": [{"name": "http", "port": 80, "protocol": "TCP", "targetPort": 9999}]}},
        "spec.ports[80].targetPort",
    ),
    "ServiceAccount": ({"automountServiceAccountToken": True}, "automountServiceAccountToken"),
    "PodDisruptionBudget": ({"spec": {"maxUnavailable": 2}}, "spec.maxUnavailable"),
}


def test_what_is_changed_or_deleted_by_hand_is_put_right_and_told(
    acting: NamespacedKubectl, operator: RunningOperator
) -> None:
    name = deployed(acting, "drifts", runtime={"replicas": 2})
    operator.at_rest()
    before = counted(operator)
    assert told(acting, "drifts") == {}, "what the operator did itself is no drift"
    versions = {kind: acting.get(kind, name)["spec"] for kind in BY_HAND if kind != "ServiceAccount"}

    for kind, (change, _) in BY_HAND.items():
        acting.run("patch", kind, name, "--type=merge", "-p", json.dumps(change), "--field-manager=by-hand")
    acting.run("set", "env", f"deployment/{name}", "TIELINE_ENVIRONMENT=elsewhere")
    (files,) = acting.list("configmap", "tieline.dev/project=drifts")
    acting.run("delete", "configmap", files["metadata"]["name"])

    messages = eventually("all is told", lambda: _all_of(told(acting, "drifts"), 6))
    assert all(len(found) == 1 for found in messages.values()), messages
    for kind, (_, field) in BY_HAND.items():
        assert f"{kind} {name} was changed by by-hand, and has been put right: {field}" in messages[kind][0]
    (deployment,), (deleted,) = messages["Deployment"], messages["ConfigMap"]
    assert (
        f"Deployment {name} was changed by kubectl-set, and has been put right: {_ENVIRONMENT}" in deployment
    )
    assert "elsewhere" not in deployment
    assert f"ConfigMap {files['metadata']['name']} was deleted by another client" in deleted

    assert {kind: acting.get(kind, name)["spec"] for kind in versions} == versions
    assert acting.get("serviceaccount", name)["automountServiceAccountToken"] is False
    variables = acting.get("deployment", name)["spec"]["template"]["spec"]["containers"][0]["env"]
    assert {"name": "TIELINE_ENVIRONMENT", "value": "production"} in variables
    assert acting.get("configmap", files["metadata"]["name"])["binaryData"] == files["binaryData"]

    # Again and again is counted, and not told again so soon.
    wanted = before + Counter({(kind, "changed"): 1 for kind in (*BY_HAND, "Deployment")})
    wanted += Counter({("ConfigMap", "deleted"): 1, ("Service", "deleted"): 1})
    acting.run("delete", "service", name)
    eventually("it is counted", lambda: counted(operator) == wanted, seen=lambda: counted(operator))
    # The new Service has another address, which the Deployment is told: that is no drift, and comes first.
    operator.at_rest()
    acting.run("set", "env", f"deployment/{name}", "TIELINE_ENVIRONMENT=nowhere")
    wanted += Counter({("Deployment", "changed"): 1})
    eventually("it is counted again", lambda: counted(operator) == wanted, seen=lambda: counted(operator))
    assert len(told(acting, "drifts")["Deployment"]) == 1


def _all_of(found: dict[str, list[str]], kinds: int) -> dict[str, list[str]] | None:
    return found if len(found) == kinds else None


def test_what_the_operator_does_itself_and_what_controllers_add_is_no_drift(
    acting: NamespacedKubectl, operator: RunningOperator
) -> None:
    name = deployed(acting, "quiet-drift")
    operator.at_rest()
    before = counted(operator)
    # Another version, more pods, a budget; then none of that.
    acting.apply("Project", "quiet-drift", project_spec("print('two')\n", runtime={"replicas": 2}))
    eventually("it has a budget", lambda: acting.workload("poddisruptionbudget", "quiet-drift"))
    acting.apply("Project", "quiet-drift", project_spec("print('two')\n"))
    eventually("the budget is gone", lambda: not acting.workload("poddisruptionbudget", "quiet-drift"))
    # What others add beside the operator's fields stays, and is nobody's business.
    acting.run("annotate", "deployment", name, "team.example/note=ours")
    acting.run("rollout", "restart", f"deployment/{name}")
    # As a HorizontalPodAutoscaler writes: it is put right, and not told.
    scale = f"/apis/apps/v1/namespaces/{acting.namespace}/deployments/{name}/scale"
    number = json.loads(acting.run("get", "--raw", scale))
    # Whatever the Deployment's controller writes meanwhile.
    del number["metadata"]["resourceVersion"]
    number["spec"]["replicas"] = 3
    manager = "fieldManager=kube-controller-manager"
    acting.kubectl("replace", "--raw", f"{scale}?{manager}", "-f", "-", stdin=json.dumps(number))
    wanted = before + Counter({("Deployment", "scaled"): 1})
    eventually("the scale is counted", lambda: counted(operator) == wanted)
    operator.at_rest()
    assert acting.get("deployment", name)["spec"]["replicas"] == 1
    assert acting.get("deployment", name)["metadata"]["annotations"]["team.example/note"] == "ours"
    assert told(acting, "quiet-drift") == {}
