"""Which placement pods get, and what is said of one that is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.unit.operator.workload.test_manifests import pod_template, workload
from tieline_core.credentials.exposure import Exposure
from tieline_core.credentials.validation.secret_facts import SecretFacts, ValueFacts
from tieline_core.resources.namespace_policies import PolicyError
from tieline_core.resources.placement import Placement, Toleration
from tieline_core.resources.projects import Runtime
from tieline_operator.workload import packages
from tieline_operator.workload.inputs import merged_runtime
from tieline_operator.workload.packages import LockFile
from tieline_operator.workload.placement import PodPlacement, pod_placement
from tieline_operator.workload.placement_policy import allows, read_policy

OPENED = SecretFacts(
    name="login",
    exists=True,
    right_type=True,
    version="7",
    values=ValueFacts(keys=frozenset({"password"})),
    exposure=Exposure(),
)


def placed(
    runtime: dict[str, Any],
    policy: Any = None,
    *,
    secrets: tuple[SecretFacts, ...] = (),
    deployment: dict[str, Any] | None = None,
) -> PodPlacement:
    return pod_placement(
        Runtime.model_validate(runtime),
        json.dumps(policy) if policy else "",
        project="order-sync",
        environment="production",
        secrets={one.name: one for one in secrets},
        deployment=deployment,
    )


def volume(name: str = "rates", **source: Any) -> dict[str, Any]:
    return {"volumes": [{"name": name, **source}]}


def mounted(path: str) -> dict[str, Any]:
    return {
        **volume(emptyDir={"sizeLimit": "1Mi"}),
        "volumeMounts": [{"name": "rates", "mountPath": path}],
    }


def secret_volume(*keys: str) -> dict[str, Any]:
    items = {"items": [{"key": key, "path": key} for key in keys]} if keys else {}
    return volume("login", secret={"secretName": "login", **items})


TOLERATION = {"key": "pool", "operator": "Equal", "value": "gpu", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("runtime", "words"),
    [
        ({"tolerations": [TOLERATION]}, "pool=gpu:NoSchedule is not allowed; allowed are none"),
        ({"priorityClassName": "high"}, "priorityClassName high is not allowed; allowed are none"),
        ({"runtimeClassName": "gvisor"}, "runtimeClassName gvisor is not allowed; allowed are none"),
        ({"podMetadata": {"labels": {"tieline.dev/project": "other"}}}, "tieline.dev/project is reserved"),
        ({"podMetadata": {"labels": {"app.kubernetes.io/name": "x"}}}, "app.kubernetes.io/name is reserved"),
        (
            {"podMetadata": {"annotations": {"container.apparmor.security.beta.kubernetes.io/a": "x"}}},
            "outside of tieline.dev, kubernetes.io, k8s.io",
        ),
        ({"podMetadata": {"annotations": {"k8s.io/x": "x"}}}, "the annotation k8s.io/x is reserved"),
        (volume("token", emptyDir={"sizeLimit": "1Mi"}), "a name of the platform's"),
        (volume("ca-bundle", emptyDir={"sizeLimit": "1Mi"}), "a name of the platform's"),
        (volume(emptyDir={"sizeLimit": "2Gi"}), "sizeLimit of at most 1Gi, not 2Gi"),
        (volume(), "without a source"),
        ({"volumeMounts": [{"name": "gone", "mountPath": "/mnt/a"}]}, "which is not in volumes"),
        (secret_volume(), 'no Secret "login"'),
    ],
)
def test_what_is_not_allowed_is_named(runtime: dict[str, Any], words: str) -> None:
    found = placed(runtime)
    assert words in found.problem
    assert found.effective == Placement()


@pytest.mark.parametrize(
    "path",
    [
        *("/", "//", "relative", "/mnt/../etc", "/mnt:/x", "/app", "/app/code", "/app/code/lib", "/tmp/x"),
        *("/var", "/var/run", "/var/run/secrets/tieline/token", "/run/secrets", "/opt/tieline", "/usr/lib/x"),
        *("//usr/lib", "/./usr", "/proc/self", "/dev/shm", "/etc/ssl", "/var/run/tieline/ca", "/mnt//../usr"),
    ],
)
def test_a_mount_never_covers_what_is_the_platforms_or_the_systems(path: str) -> None:
    assert "such as /mnt/rates" in placed(mounted(path)).problem


@pytest.mark.parametrize("path", ["/mnt/rates", "/data", "/srv/a/b", "/home/tieline/x", "/application"])
def test_other_mount_paths_are_free(path: str) -> None:
    assert placed(mounted(path)).problem == ""


@pytest.mark.parametrize(
    ("allowed", "wanted", "expected"),
    [
        ({"key": "pool", "operator": "Exists"}, TOLERATION, True),
        ({"key": "pool", "value": "gpu"}, TOLERATION, True),
        ({"key": "pool", "value": "gpu", "effect": "NoExecute"}, TOLERATION, False),
        ({"key": "pool", "value": "cpu"}, TOLERATION, False),
        ({"key": "other", "operator": "Exists"}, TOLERATION, False),
        ({"operator": "Exists"}, TOLERATION, True),
        ({"operator": "Exists"}, {"operator": "Exists"}, True),
        ({"key": "pool", "operator": "Exists"}, {"operator": "Exists"}, False),
        ({"key": "pool", "value": "gpu"}, {"key": "pool", "operator": "Exists"}, False),
        ({"key": "pool", "operator": "Exists", "effect": "NoSchedule"}, {"key": "pool"}, False),
    ],
)
def test_a_toleration_is_covered_by_one_that_is_as_wide(
    allowed: dict[str, Any], wanted: dict[str, Any], *, expected: bool
) -> None:
    assert allows(Toleration.model_validate(allowed), Toleration.model_validate(wanted)) is expected


def test_the_administrator_sets_defaults_bounds_and_what_is_required() -> None:
    policy = {
        "defaults": {
            "nodeSelector": {"disk": "ssd"},
            "priorityClassName": "usual",
            "caBundle": {"name": "ca"},
        },
        "required": {
            "nodeSelector": {"tenant": "acme"},
            "tolerations": [{"key": "tenant", "operator": "Exists"}],
        },
        "allowed": {"tolerations": [TOLERATION], "volumes": ["configMap"], "priorityClassNames": ["high"]},
    }
    usual = placed({}, policy).effective.to_dict()
    assert usual["nodeSelector"] == {"disk": "ssd", "tenant": "acme"}
    assert (usual["priorityClassName"], usual["caBundle"]) == ("usual", {"name": "ca"})
    own = placed({"tolerations": [TOLERATION], "priorityClassName": "high"}, policy)
    assert own.problem == ""
    assert [one.key for one in own.effective.tolerations or ()] == ["pool", "tenant"]
    assert own.effective.priority_class_name == "high"
    other = placed({"nodeSelector": {"tenant": "other"}}, policy)
    assert "all pods of the organisation run on tenant: acme" in other.problem
    assert other.effective.to_dict() == usual
    refused = placed(volume(emptyDir={"sizeLimit": "1Mi"}), policy)
    assert "(emptyDir) is not allowed; allowed are configMap" in refused.problem


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[", "no YAML"),
        ("text", "the text: "),
        ("allowd: {}", "allowd: "),
        ("required: {nodeSelectr: {a: b}}", "required.nodeSelectr: "),
        ("defaults: {replicas: 3}", "defaults.replicas: "),
        ("x" * 40_000, "more than 32 KiB"),
    ],
)
def test_a_policy_that_cannot_be_read_lets_nothing_run(text: str, words: str) -> None:
    with pytest.raises(PolicyError, match=words):
        read_policy(text)
    found = pod_placement(Runtime(), text, project="p", environment="e", secrets={}, deployment=None)
    assert "an administrator of the cluster must correct it" in found.problem


def test_a_secret_is_mounted_while_its_owner_opens_it_to_code() -> None:
    assert placed(secret_volume("password"), secrets=(OPENED,)).secrets == (("login", "7"),)
    assert 'no value for the key "user"' in placed(secret_volume("user"), secrets=(OPENED,)).problem
    closed = SecretFacts(name="login", exists=True, right_type=True, version="8")
    template = pod_template(
        placement=placed(secret_volume(), secrets=(OPENED,)).effective, mounted_secrets=(("login", "7"),)
    )
    deployment = {"spec": {"template": template}}
    found = placed(secret_volume(), secrets=(closed,), deployment=deployment)
    assert "tieline.dev/expose-to-code" in found.problem
    assert (found.withdrawn, found.effective) == (True, Placement())
    gone = placed(secret_volume(), deployment=deployment)
    assert (bool(gone.problems), gone.withdrawn) == (True, False)


def test_a_write_of_a_mounted_secret_replaces_the_pods() -> None:
    def annotations(version: str) -> dict[str, str]:
        found: dict[str, str] = pod_template(mounted_secrets=(("login", version),))["metadata"]["annotations"]
        return found

    assert annotations("1")["tieline.dev/secrets"] != annotations("2")["tieline.dev/secrets"]


def test_files_of_secrets_and_authorities_are_named_to_the_runtime() -> None:
    runtime = {
        "caBundle": {"name": "corporate", "key": "root.pem"},
        "volumes": [
            {"name": "login", "secret": {"secretName": "login"}},
            {"name": "all", "projected": {"sources": [{"secret": {"name": "login"}}]}},
            {"name": "rates", "configMap": {"name": "rates"}},
        ],
        "volumeMounts": [{"name": name, "mountPath": f"/mnt/{name}"} for name in ("login", "all", "rates")],
    }
    found = placed(runtime, secrets=(OPENED,))
    assert found.problem == ""
    pod = pod_template(placement=found.effective)["spec"]
    (container,) = pod["containers"]
    env = {one["name"]: one["value"] for one in container["env"]}
    assert env["TIELINE_CA_BUNDLE"] == "/var/run/tieline/ca/ca.crt"
    assert env["TIELINE_SECRET_PATHS"] == "/mnt/login:/mnt/all"
    volumes = {one["name"]: one for one in pod["volumes"]}
    assert volumes["ca-bundle"]["configMap"] == {
        "name": "corporate",
        "items": [{"key": "root.pem", "path": "ca.crt"}],
    }
    assert {"name": "ca-bundle", "mountPath": "/var/run/tieline/ca", "readOnly": True} in container[
        "volumeMounts"
    ]


def test_no_label_or_annotation_takes_the_place_of_the_platforms() -> None:
    metadata = {
        "labels": {"tieline.dev/project": "x", "team": "a"},
        "annotations": {"tieline.dev/version": "x"},
    }
    template = pod_template(placement=Placement.model_validate({"podMetadata": metadata}))["metadata"]
    assert template["labels"]["tieline.dev/project"] == "order-sync"
    assert template["labels"]["team"] == "a"
    assert template["annotations"]["tieline.dev/version"] == "v1"


def test_another_placement_is_another_revision() -> None:
    def revision(**placement: Any) -> str:
        template = pod_template(placement=Placement.model_validate(placement))
        found: str = template["metadata"]["annotations"]["tieline.dev/revision"]
        return found

    assert (
        len({revision(), revision(nodeSelector={"a": "b"}), revision(podMetadata={"labels": {"a": "b"}})})
        == 3
    )


def test_an_environment_overrides_the_projects_placement_field_by_field() -> None:
    project = Runtime.model_validate(
        {"nodeSelector": {"pool": "a", "disk": "ssd"}, "tolerations": [TOLERATION]}
    )
    own = Runtime.model_validate({"nodeSelector": {"pool": "b"}, "tolerations": []})
    merged = merged_runtime(project, own)
    assert (merged.node_selector, merged.tolerations) == ({"pool": "b", "disk": "ssd"}, [])


def test_packages_are_installed_on_the_nodes_of_the_pods() -> None:
    affinity = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": "ssd", "operator": "Exists"}]}]
            }
        },
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "kubernetes.io/hostname"}]
        },
    }
    placement = Placement.model_validate(
        {
            "nodeSelector": {"pool": "a"},
            "tolerations": [TOLERATION],
            "affinity": affinity,
            "priorityClassName": "p",
        }
    )
    made = packages.job(
        workload(placement=placement),
        key="k",
        lock=LockFile("files", "requirements.txt"),
        architecture="amd64",
        index_url="",
        index_secret="",
    )
    pod = made["spec"]["template"]["spec"]
    assert pod["nodeSelector"] == {"pool": "a", "kubernetes.io/arch": "amd64"}
    assert (pod["tolerations"], pod["priorityClassName"]) == ([TOLERATION], "p")
    assert pod["affinity"] == {"nodeAffinity": affinity["nodeAffinity"]}
