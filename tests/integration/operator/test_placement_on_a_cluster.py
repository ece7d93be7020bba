"""The real operator places pods as the project says, within what the administrator allows."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.harness.cluster.kubectl import Kubectl
from tests.harness.session.waiting import eventually
from tests.integration.operator.cluster_objects import NamespacedKubectl, project_spec
from tests.integration.operator.running_operator import RunningOperator

pytestmark = pytest.mark.cluster

POLICY = {
    "defaults": {"priorityClassName": "integrations"},
    "required": {
        "nodeSelector": {"tenant": "acme"},
        "tolerations": [{"key": "tenant", "operator": "Equal", "value": "acme", "effect": "NoSchedule"}],
    },
    "allowed": {
        "tolerations": [{"key": "pool", "operator": "Exists"}],
        "priorityClassNames": ["integrations"],
        "runtimeClassNames": ["sandbox"],
    },
}
ZONE = "topology.kubernetes.io/zone"
PLACED: dict[str, Any] = {
    "nodeSelector": {"pool": "integrations"},
    "tolerations": [
        {"key": "pool", "value": "integrations", "effect": "NoSchedule"},
        {"key": "pool", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60},
    ],
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [
                    {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["a", "b"]}]}
                ]
            },
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 5, "preference": {"matchExpressions": [{"key": "ssd", "operator": "Exists"}]}}
            ],
        },
        "podAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {
                    "weight": 1,
                    "podAffinityTerm": {
                        "topologyKey": ZONE,
                        "labelSelector": {"matchLabels": {"app": "cache"}},
                    },
                }
            ]
        },
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "kubernetes.io/hostname"}]
        },
    },
    "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "ScheduleAnyway"}],
    "priorityClassName": "integrations",
    "runtimeClassName": "sandbox",
    "imagePullSecrets": [{"name": "pull"}],
    "podMetadata": {
        "labels": {"cost-centre": "4711", "team.example/name": "orders"},
        "annotations": {"sidecar.istio.io/inject": "false"},
    },
    "caBundle": {"name": "corporate-ca"},
    "volumes": [
        {"name": "rates", "configMap": {"name": "rates", "items": [{"key": "a", "path": "a.json"}]}},
        {"name": "login", "secret": {"secretName": "login"}},
        {"name": "scratch", "emptyDir": {"sizeLimit": "1024Mi"}},
        {"name": "fast", "emptyDir": {"sizeLimit": "0.5Gi", "medium": "Memory"}},
        {
            "name": "all",
            "projected": {
                "sources": [
                    {"configMap": {"name": "rates", "optional": True}},
                    {"secret": {"name": "login", "items": [{"key": "password", "path": "p"}]}},
                ]
            },
        },
        {"name": "archive", "persistentVolumeClaim": {"claimName": "archive", "readOnly": False}},
    ],
    "volumeMounts": [
        {"name": "rates", "mountPath": "/mnt/rates", "readOnly": True},
        {"name": "login", "mountPath": "/mnt/login"},
        {"name": "scratch", "mountPath": "/mnt/scratch", "readOnly": False},
        {"name": "fast", "mountPath": "/mnt/fast", "subPath": "cache"},
        {"name": "all", "mountPath": "/srv/all"},
        {"name": "archive", "mountPath": "/data"},
    ],
}


def set_policy(acting: NamespacedKubectl, policy: object) -> None:
    """What the administrator of the cluster does."""
    value = f"tieline.dev/placement={json.dumps(policy)}"
    acting.kubectl("annotate", "--overwrite", "namespace", acting.namespace, value)


@pytest.fixture
def policy(acting: NamespacedKubectl, kubectl: Kubectl) -> NamespacedKubectl:
    """An organisation with the policy, and what pods refer to."""
    classes = [
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": "integrations"},
            "value": 5,
        },
        {
            "apiVersion": "node.k8s.io/v1",
            "kind": "RuntimeClass",
            "metadata": {"name": "sandbox"},
            "handler": "sandbox",
        },
    ]
    for one in classes:
        kubectl("apply", "-f", "-", stdin=json.dumps(one))
    set_policy(acting, POLICY)
    login = {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "tieline.dev/credential",
        "metadata": {"name": "login", "labels": {"tieline.dev/expose-to-code": "true"}},
        "stringData": {"password": "s3cr3t-of-the-login"},
    }
    kubectl("apply", "-f", "-", namespace=acting.namespace, stdin=json.dumps(login))
    return acting


def the_deployment(acting: NamespacedKubectl, project: str) -> dict[str, Any]:
    found = eventually("it has a Deployment", lambda: acting.workload("deployment", project))
    deployment: dict[str, Any] = found[0]
    return deployment


def test_every_field_reaches_the_pods_and_is_written_once(
    policy: NamespacedKubectl, operator: RunningOperator
) -> None:
    policy.apply("Project", "placed", project_spec(runtime=PLACED))
    name = the_deployment(policy, "placed")["metadata"]["name"]
    operator.at_rest()
    # Whatever happens to it, the API server's defaults are no reason to write it again.
    # An annotation would: Kubernetes counts those of Deployments as a change of their spec.
    policy.run("label", "deployment", name, "team.example/note=ours")
    policy.run("label", "namespace", policy.namespace, "--overwrite", "team.example/seen=true")
    operator.at_rest()
    deployment = policy.get("deployment", name)
    assert deployment["metadata"]["generation"] == 1
    template = deployment["spec"]["template"]
    pod = template["spec"]
    assert pod["nodeSelector"] == {"pool": "integrations", "tenant": "acme"}
    assert [one["key"] for one in pod["tolerations"]] == ["pool", "pool", "tenant"]
    own = deployment["spec"]["selector"]
    (apart,) = pod["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert apart["labelSelector"] == own
    assert pod["topologySpreadConstraints"][0]["labelSelector"] == own
    assert (pod["priorityClassName"], pod["runtimeClassName"]) == ("integrations", "sandbox")
    assert pod["imagePullSecrets"] == [{"name": "pull"}]
    assert template["metadata"]["labels"].items() >= PLACED["podMetadata"]["labels"].items()
    assert template["metadata"]["annotations"]["sidecar.istio.io/inject"] == "false"
    mounts = {one["mountPath"] for one in pod["containers"][0]["volumeMounts"]}
    assert {one["mountPath"] for one in PLACED["volumeMounts"]} < mounts
    # The namespace admits restricted pods alone.
    made = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "placed", **template["metadata"]},
        "spec": pod,
    }
    done = policy.kubectl(
        *("create", "-f", "-", "--dry-run=server"),
        namespace=policy.namespace,
        stdin=json.dumps(made),
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_a_refused_placement_says_what_is_allowed_and_leaves_what_runs(
    policy: NamespacedKubectl, operator: RunningOperator
) -> None:
    policy.apply("Project", "refused", project_spec(runtime={"nodeSelector": {"pool": "integrations"}}))
    before = the_deployment(policy, "refused")
    wanted = {"tolerations": [{"operator": "Exists"}], "priorityClassName": "system-node-critical"}
    policy.apply("Project", "refused", project_spec("print('two')\n", runtime=wanted))
    project = policy.until_ready("project", "refused", "False", "PlacementRefused")
    (environment,) = project["status"]["environments"]
    assert "allowed are pool" in environment["message"]
    assert (
        "priorityClassName system-node-critical is not allowed; allowed are integrations"
        in environment["message"]
    )
    assert (
        policy.get("deployment", before["metadata"]["name"])["spec"]["template"] == before["spec"]["template"]
    )

    set_policy(
        policy,
        {
            "allowed": {
                "tolerations": [{"operator": "Exists"}],
                "priorityClassNames": ["system-node-critical"],
            }
        },
    )
    eventually(
        "it is allowed now",
        lambda: (
            the_deployment(policy, "refused")["spec"]["template"]["spec"].get("priorityClassName")
            == "system-node-critical"
        ),
    )
    set_policy(policy, {"allowd": {}})
    policy.until_environment(
        "refused", "error", "the annotation tieline.dev/placement of the Namespace cannot be used"
    )


@pytest.mark.parametrize(
    "source",
    [{"hostPath": {"path": "/"}}, {"csi": {"driver": "x"}}, {"nfs": {"server": "a", "path": "/"}}, {}],
)
def test_volumes_of_other_kinds_are_refused_when_they_are_written(
    acting: NamespacedKubectl, source: dict[str, Any]
) -> None:
    manifest = {
        "apiVersion": "tieline.dev/v1alpha1",
        "kind": "Project",
        "metadata": {"name": "other-volumes"},
        "spec": project_spec(runtime={"volumes": [{"name": "host", **source}]}),
    }
    done = acting.kubectl(
        *("create", "--validate=false", "-f", "-"),
        namespace=acting.namespace,
        stdin=json.dumps(manifest),
        check=False,
    )
    assert "give exactly one of configMap, secret, emptyDir, projected, persistentVolumeClaim" in done.stderr
