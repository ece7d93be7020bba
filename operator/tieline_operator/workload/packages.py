"""The manifests of the Job that installs an environment's packages, and what its pods need to have them. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tieline_core.identity.names import (
    ENVIRONMENT_ID_LABEL,
    ENVIRONMENT_LABEL,
    INSTANCE_LABEL,
    PROJECT_LABEL,
    label_value,
    packages_name,
)
from tieline_core.kubernetes import Resource
from tieline_core.kubernetes import resources as r
from tieline_core.resources.placement import Affinity, Placement
from tieline_core.resources.projects import FilesConfigMap
from tieline_operator.apply.diff import stamped
from tieline_operator.apply.plan import Manifest, Object
from tieline_operator.workload import network_policies
from tieline_operator.workload.inputs import Packages, Workload
from tieline_operator.workload.pod_placement import scheduling
from tieline_operator.workload.pod_template import (
    CONTAINER_SECURITY,
    POD_SECURITY,
    TOKEN_DIR,
    api_authorities,
    authorities_mounts,
    authorities_volumes,
    pull_secrets,
    token_volume,
)
from tieline_protocol.packages import MAX_ARCHIVE_BYTES, MAX_UNPACKED_BYTES, installer_job
from tieline_protocol.runtime_image import REQUIREMENTS

KEY_ANNOTATION = "tieline.dev/packages-key"
JOB_LABEL = "batch.kubernetes.io/job-name"
RETRY_SECONDS = 300
"""A Job that has failed is removed after this long, and then made again."""
_LOCK_DIR = "/lock"
_INDEX_DIR = "/var/run/secrets/tieline-index"
_ATTEMPTS = 3
_DEADLINE_SECONDS = 1800
_FINAL = 3
# Wheels, what is installed of them, and the archive.
_WORK_BYTES = 2 * MAX_UNPACKED_BYTES + MAX_ARCHIVE_BYTES


@dataclass(frozen=True)
class LockFile:
    """Where the lock of a version is."""

    config_map: str
    key: str


def lock_file(config_maps: Sequence[FilesConfigMap]) -> LockFile | None:
    """The lock among a version's files; None where it has none."""
    for config_map in config_maps:
        for item in config_map.items or ():
            if item.path == REQUIREMENTS:
                return LockFile(config_map.name, item.key)
    return None


def installer_objects(workload: Workload, index_url: str) -> dict[Resource, Manifest]:
    """The identity of the Jobs, of which code has no token, and where their pods may connect to."""
    policy = network_policies.spec(
        _selector(workload),
        egress=workload.egress,
        platform_urls=[url for url in (workload.api_url, index_url) if url],
        api_ports=workload.api_ports,
        dns=workload.cluster_dns,
    )
    return {
        r.SERVICE_ACCOUNTS: _object(
            workload, "v1", "ServiceAccount", packages_name(workload.name), automountServiceAccountToken=False
        ),
        r.NETWORK_POLICIES: _object(
            workload,
            "networking.k8s.io/v1",
            "NetworkPolicy",
            packages_name(workload.name),
            spec={**policy, "ingress": []},
        ),
    }


def job(
    workload: Workload,
    *,
    key: str,
    lock: LockFile,
    architecture: str,
    index_url: str,
    index_secret: str,
    authorities: str = "",
) -> Manifest:
    """Installs the packages of a lock, and stores them under a key. ``authorities`` are the index's, in PEM."""
    volumes: list[Manifest] = [
        {
            "name": "lock",
            "configMap": {"name": lock.config_map, "items": [{"key": lock.key, "path": REQUIREMENTS}]},
        },
        token_volume(),
        *authorities_volumes(workload),
        {"name": "work", "emptyDir": {"sizeLimit": f"{_WORK_BYTES >> 20}Mi"}},
    ]
    mounts: list[Manifest] = [
        {"name": "lock", "mountPath": _LOCK_DIR, "readOnly": True},
        {"name": "token", "mountPath": TOKEN_DIR, "readOnly": True},
        *authorities_mounts(workload),
        {"name": "work", "mountPath": "/tmp"},  # noqa: S108  (the pod's own)
    ]
    env = {
        "TIELINE_API_URL": workload.api_url,
        **api_authorities(workload),
        "TIELINE_TOKEN_FILE": f"{TOKEN_DIR}/token",
        "TIELINE_PACKAGES_KEY": key,
        "TIELINE_LOCK_FILE": f"{_LOCK_DIR}/{REQUIREMENTS}",
    }
    if index_url:
        env["TIELINE_INDEX_URL"] = index_url
    if authorities:
        env["TIELINE_INDEX_CA"] = authorities
    if index_secret:
        volumes.append({"name": "index", "secret": {"secretName": index_secret, "optional": True}})
        mounts.append({"name": "index", "mountPath": _INDEX_DIR, "readOnly": True})
        env["TIELINE_INDEX_SECRET_DIR"] = _INDEX_DIR
    container = {
        "name": "install",
        "image": workload.packages_image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["python", "-m", "tieline_packages.install"],
        "env": [{"name": name, "value": value} for name, value in env.items()],
        "resources": {
            "requests": {"cpu": "100m", "memory": "256Mi"},
            "limits": {"cpu": "2", "memory": "1Gi"},
        },
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "securityContext": CONTAINER_SECURITY,
        "volumeMounts": mounts,
    }
    placed = scheduling(_node_rules(workload.placement), _selector(workload))
    pod: Manifest = {
        "serviceAccountName": packages_name(workload.name),
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "restartPolicy": "Never",
        **placed,
        "nodeSelector": {**placed.get("nodeSelector", {}), "kubernetes.io/arch": architecture},
        "securityContext": POD_SECURITY,
        "containers": [container],
        "volumes": volumes,
    }
    if secrets := pull_secrets(workload.pull_secrets):
        pod["imagePullSecrets"] = secrets
    spec = {
        "backoffLimit": _ATTEMPTS,
        "activeDeadlineSeconds": _DEADLINE_SECONDS,
        "ttlSecondsAfterFinished": RETRY_SECONDS,
        "podFailurePolicy": {
            "rules": [
                {
                    "action": "FailJob",
                    "onExitCodes": {"containerName": "install", "operator": "In", "values": [_FINAL]},
                },
                {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
            ]
        },
        "template": {"metadata": {"labels": _labels(workload)}, "spec": pod},
    }
    name = installer_job(workload.environment_id, key)
    return _object(workload, "batch/v1", "Job", name, annotations={KEY_ANNOTATION: key}, spec=spec)


def _node_rules(placement: Placement) -> Placement:
    """What of a placement counts for the Jobs: they run beside no other pods."""
    affinity = placement.affinity and placement.affinity.node_affinity
    return Placement(
        node_selector=placement.node_selector,
        tolerations=placement.tolerations,
        affinity=Affinity(node_affinity=affinity) if affinity else None,
        priority_class_name=placement.priority_class_name,
        runtime_class_name=placement.runtime_class_name,
    )


def packages_of(deployment: Object | None) -> Packages | None:
    """The packages that a Deployment's pods have."""
    if deployment is None:
        return None
    annotations = deployment["spec"]["template"].get("metadata", {}).get("annotations", {})
    return Packages.parsed(annotations.get(Packages.ANNOTATION, ""))


def has_ended(job: Object) -> str:
    """``Complete``, ``Failed``, or nothing while the Job goes on."""
    for condition in job.get("status", {}).get("conditions") or ():
        if condition.get("status") == "True" and condition.get("type") in ("Complete", "Failed"):
            return str(condition["type"])
    return ""


def last_message(pods: Sequence[Object]) -> str:
    """Why the last try of a Job has failed; empty while none has."""
    for pod in sorted(pods, key=lambda one: str(one["metadata"]["creationTimestamp"]), reverse=True):
        if pod.get("status", {}).get("reason") == "Evicted":
            # An exit code of 137 is all that its container says.
            return f"the Job's pod was evicted: {pod['status'].get('message', 'its node had no room')}"
        for container in pod.get("status", {}).get("containerStatuses") or ():
            ended: Mapping[str, Any] = container.get("state", {}).get("terminated") or {}
            if ended.get("reason") == "OOMKilled":
                return "installing them took more memory than the Job may have"
            if ended.get("exitCode"):
                lines = str(ended.get("message", "")).strip().splitlines()
                return lines[-1] if lines else f"the Job's pod ended with exit code {ended['exitCode']}"
    return ""


def _selector(workload: Workload) -> dict[str, str]:
    return {"app.kubernetes.io/name": "tieline-packages", INSTANCE_LABEL: packages_name(workload.name)}


def _labels(workload: Workload) -> dict[str, str]:
    return {
        **_selector(workload),
        "app.kubernetes.io/part-of": "tieline",
        "app.kubernetes.io/managed-by": "tieline-operator",
        PROJECT_LABEL: label_value(workload.project),
        ENVIRONMENT_LABEL: workload.environment,
        ENVIRONMENT_ID_LABEL: workload.environment_id,
    }


def _object(
    workload: Workload,
    api_version: str,
    kind: str,
    name: str,
    *,
    annotations: Mapping[str, str] | None = None,
    **content: Any,
) -> Manifest:
    metadata = {
        "name": name,
        "namespace": workload.namespace,
        "labels": _labels(workload),
        "ownerReferences": [dict(workload.owner)],
        **({"annotations": dict(annotations)} if annotations else {}),
    }
    return stamped({"apiVersion": api_version, "kind": kind, "metadata": metadata, **content})
