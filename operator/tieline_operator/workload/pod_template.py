"""The pod template of an environment's Deployment."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from tieline_core.identity.names import TOKEN_AUDIENCE, VERSION_ANNOTATION, engine_credentials_name
from tieline_core.kubernetes.quantities import amount
from tieline_core.resources.placement import PodMetadata
from tieline_core.resources.projects import FilesConfigMap, Runtime
from tieline_core.tls import AUTHORITIES, AUTHORITIES_CONFIG_MAP
from tieline_operator.apply.plan import Manifest
from tieline_operator.workload import pod_placement
from tieline_operator.workload.inputs import Packages, Workload
from tieline_operator.workload.network_policies import HEALTH_PORT, HTTP_PORT
from tieline_protocol.packages import FOLDER as PACKAGES_DIR
from tieline_protocol.packages import MAX_ARCHIVE_BYTES, MAX_UNPACKED_BYTES

REVISION_ANNOTATION = "tieline.dev/revision"
SECRETS_ANNOTATION = "tieline.dev/secrets"
CODE_DIR = "/app/code"
TOKEN_DIR = "/var/run/secrets/tieline"  # noqa: S105  (a path)
ENGINE_DIR = "/var/run/secrets/tieline-engine"
AUTHORITIES_DIR = "/etc/tieline-ca"
AUTHORITIES_FILE = f"{AUTHORITIES_DIR}/{AUTHORITIES}"
"""The certificate authorities by which pods verify API and engine."""
ENGINE_CREDENTIALS = "engine.creds"
"""The key of the Secret with which pods connect to the event engine, and the file in ``ENGINE_DIR``."""
# On SIGTERM the runtime takes requests for 60 s at most, and runs under way have 65 s to end.
GRACE_SECONDS = 130
LIVENESS_GRACE_SECONDS = 5
"""Of a pod that does not answer its liveness probe."""
VOLUME_NAMES = frozenset({"code", "token", "tmp", "engine", "packages", "tieline-ca"})
"""The names of the platform's volumes."""
_TOKEN_SECONDS = 3600
_ENGINE_VOLUME = "engine"
_AUTHORITIES_VOLUME = "tieline-ca"
_REVISION = 12
_REQUESTS = {"cpu": "50m", "memory": "96Mi"}
_LIMITS = {"memory": "512Mi"}
_UNPACKING_LIMITS = {"memory": "256Mi"}
_PACKAGES_VOLUME = "packages"


POD_SECURITY: Mapping[str, Any] = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
CONTAINER_SECURITY: Mapping[str, Any] = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}


def pod_template(
    workload: Workload,
    *,
    version: str,
    config_maps: Sequence[FilesConfigMap],
    packages: Packages | None = None,
) -> Manifest:
    """Pods that run ``version`` from the ConfigMaps that hold its files, with the packages that it needs."""
    pod = {
        "serviceAccountName": workload.name,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": GRACE_SECONDS,
        "securityContext": POD_SECURITY,
        "containers": [_container(workload, version, packages)],
        "volumes": [
            *_volumes(config_maps),
            _engine_volume(workload),
            *authorities_volumes(workload),
            *pod_placement.volumes(workload.placement),
        ],
        **pod_placement.scheduling(workload.placement, workload.selector),
    }
    metadata = workload.placement.pod_metadata or PodMetadata()
    labels = {**metadata.labels, **workload.labels}
    annotations = {**metadata.annotations, VERSION_ANNOTATION: version, **_secrets_annotation(workload)}
    if packages:
        annotations[Packages.ANNOTATION] = str(packages)
        _add_packages(pod, workload, packages)
    if secrets := _pull_secrets(workload):
        pod["imagePullSecrets"] = secrets
    annotations[REVISION_ANNOTATION] = revision(labels, annotations, pod)
    return {"metadata": {"labels": labels, "annotations": annotations}, "spec": pod}


def revision_of(manifest: Mapping[str, Any]) -> str | None:
    """The revision of a Deployment's pod template; None where it has none."""
    annotations = manifest["spec"]["template"].get("metadata", {}).get("annotations", {})
    found: str | None = annotations.get(REVISION_ANNOTATION)
    return found


def revision(labels: Mapping[str, str], annotations: Mapping[str, str], pod: Mapping[str, Any]) -> str:
    """Tells pods of this template from those of an earlier one (which may run the same version)."""
    text = orjson.dumps([labels, annotations, pod], option=orjson.OPT_SORT_KEYS)
    return hashlib.sha256(text).hexdigest()[:_REVISION]


def _add_packages(pod: Manifest, workload: Workload, packages: Packages) -> None:
    """Has a pod unpack packages before its code starts."""
    env = {
        "TIELINE_API_URL": workload.api_url,
        **api_authorities(workload),
        "TIELINE_TOKEN_FILE": f"{TOKEN_DIR}/token",
        "TIELINE_PACKAGES_DIR": PACKAGES_DIR,
        "TIELINE_PACKAGES_KEY": packages.key,
        "TIELINE_PACKAGES_DIGEST": packages.digest,
    }
    pod["initContainers"] = [
        {
            "name": "packages",
            "image": workload.packages_image,
            "imagePullPolicy": "IfNotPresent",
            "command": ["python", "-m", "tieline_packages.unpack"],
            "env": [{"name": name, "value": value} for name, value in env.items()],
            "resources": {"requests": dict(_REQUESTS), "limits": dict(_UNPACKING_LIMITS)},
            "terminationMessagePolicy": "FallbackToLogsOnError",
            "securityContext": CONTAINER_SECURITY,
            "volumeMounts": [
                {"name": "token", "mountPath": TOKEN_DIR, "readOnly": True},
                *authorities_mounts(workload),
                {"name": _PACKAGES_VOLUME, "mountPath": PACKAGES_DIR},
            ],
        }
    ]
    size = (MAX_UNPACKED_BYTES + MAX_ARCHIVE_BYTES) >> 20
    pod["volumes"] += [{"name": _PACKAGES_VOLUME, "emptyDir": {"sizeLimit": f"{size}Mi"}}]
    pod["nodeSelector"] = {**pod.get("nodeSelector", {}), "kubernetes.io/arch": workload.architecture}


def _container(workload: Workload, version: str, packages: Packages | None) -> Manifest:
    return {
        "name": "runtime",
        "image": workload.image,
        "imagePullPolicy": "IfNotPresent",
        "ports": [
            {"name": "http", "containerPort": HTTP_PORT, "protocol": "TCP"},
            {"name": "health", "containerPort": HEALTH_PORT, "protocol": "TCP"},
        ],
        "env": _variables(workload, version, packages),
        "resources": _resources(workload.runtime),
        # A start may take a minute (imports); after that, readiness is checked often.
        "startupProbe": _probe("/livez", period=1, failures=60),
        "readinessProbe": _probe("/readyz", period=2, failures=3),
        # What does not answer cannot finish its runs: it is not given the grace that they need.
        "livenessProbe": {
            **_probe("/livez", period=10, failures=3),
            "terminationGracePeriodSeconds": LIVENESS_GRACE_SECONDS,
        },
        # The last log lines of a crash come with the pod's status, and so into the project's.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "securityContext": CONTAINER_SECURITY,
        "volumeMounts": [
            {"name": "code", "mountPath": CODE_DIR, "readOnly": True},
            {"name": "token", "mountPath": TOKEN_DIR, "readOnly": True},
            {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108  (the pod's own)
            {"name": _ENGINE_VOLUME, "mountPath": ENGINE_DIR, "readOnly": True},
            *authorities_mounts(workload),
            *([{"name": _PACKAGES_VOLUME, "mountPath": PACKAGES_DIR, "readOnly": True}] if packages else []),
            *pod_placement.mounts(workload.placement),
        ],
    }


def _pull_secrets(workload: Workload) -> list[Manifest]:
    own = [secret.name for secret in workload.runtime.image_pull_secrets or ()]
    return pull_secrets([*own, *workload.pull_secrets])


def pull_secrets(names: Sequence[str]) -> list[Manifest]:
    """Image pull Secrets as a pod has them."""
    return [{"name": name} for name in dict.fromkeys(names)]


def _variables(workload: Workload, version: str, packages: Packages | None) -> list[Manifest]:
    """The environment variables. Kubernetes would put variables into values with "$(NAME)": the people's stay as they
    are. Of one name, the platform's counts."""
    platform = _environment(workload, version)
    if packages:
        platform["TIELINE_PACKAGES_DIR"] = PACKAGES_DIR
    people: dict[str, Manifest] = {
        one.name: {"value": one.value.replace("$", "$$")}
        for one in workload.runtime.env or ()
        if one.value is not None
    }
    for variable in workload.secret_variables:
        reference = {"name": variable.secret, "key": variable.key}
        people[variable.name] = {"valueFrom": {"secretKeyRef": reference}}
    found = people | {name: {"value": value} for name, value in platform.items()}
    return [{"name": name, **source} for name, source in found.items()]


def _environment(workload: Workload, version: str) -> dict[str, str]:
    """The platform's variables."""
    return {
        "TIELINE_CODE_DIR": CODE_DIR,
        "TIELINE_API_URL": workload.api_url,
        **api_authorities(workload),
        "TIELINE_TOKEN_FILE": f"{TOKEN_DIR}/token",
        "TIELINE_ORGANISATION_ID": workload.organisation_id,
        "TIELINE_PROJECT_ID": workload.project_id,
        "TIELINE_PROJECT_NAME": workload.project,
        "TIELINE_ENVIRONMENT_ID": workload.environment_id,
        "TIELINE_ENVIRONMENT": workload.environment,
        "TIELINE_VERSION": version,
        "TIELINE_PUBLIC_URL": workload.public_url,
        **workload.egress.to_environment(),
        **({"OTEL_EXPORTER_OTLP_ENDPOINT": workload.otlp_endpoint} if workload.otlp_endpoint else {}),
        "TIELINE_ENGINE_URL": ",".join(workload.engine_urls),
        "TIELINE_ENGINE_CREDENTIALS_FILE": f"{ENGINE_DIR}/{ENGINE_CREDENTIALS}",
        **({"TIELINE_ENGINE_CA_FILE": AUTHORITIES_FILE} if workload.engine_by_tls else {}),
        **_secret_names(workload),
        **pod_placement.variables(workload.placement),
    }


def _secret_names(workload: Workload) -> dict[str, str]:
    """Tells the runtime which variables it must never write anywhere."""
    names = ",".join(variable.name for variable in workload.secret_variables if variable.masked)
    return {"TIELINE_SECRET_ENV": names} if names else {}


def _secrets_annotation(workload: Workload) -> dict[str, str]:
    """Another text after each write of a Secret, so that pods are replaced: kubelet reads variables at their start, and
    the runtime learns then what to mask of mounted files.

    It is made of versions. A hash of a value would let people guess short ones.
    """
    variables = {(variable.secret, variable.version) for variable in workload.secret_variables}
    versions = sorted(variables.union(workload.mounted_secrets))
    if not versions:
        return {}
    return {SECRETS_ANNOTATION: hashlib.sha256(orjson.dumps(versions)).hexdigest()[:_REVISION]}


def _probe(path: str, *, period: int, failures: int) -> Manifest:
    return {
        "httpGet": {"path": path, "port": "health"},
        "periodSeconds": period,
        "failureThreshold": failures,
        "timeoutSeconds": 2,
    }


def _volumes(config_maps: Sequence[FilesConfigMap]) -> list[Manifest]:
    sources = [
        {
            "configMap": {
                "name": config_map.name,
                "items": [{"key": item.key, "path": item.path} for item in config_map.items or []],
            }
        }
        for config_map in config_maps
    ]
    return [
        {"name": "code", "projected": {"sources": sources}},
        token_volume(),
        {"name": "tmp", "emptyDir": {"sizeLimit": "64Mi"}},
    ]


def token_volume() -> Manifest:
    """The token of the pod's ServiceAccount for the API; the API server does not accept it."""
    token = {
        "serviceAccountToken": {
            "audience": TOKEN_AUDIENCE,
            "expirationSeconds": _TOKEN_SECONDS,
            "path": "token",
        }
    }
    return {"name": "token", "projected": {"sources": [token]}}


def api_authorities(workload: Workload) -> dict[str, str]:
    """The variable with the file of the authorities by which the API is verified."""
    return {"TIELINE_API_CA_FILE": AUTHORITIES_FILE} if workload.tls else {}


def authorities_volumes(workload: Workload) -> list[Manifest]:
    """The authorities. They are not optional: a pod without them would reach nothing, so it waits for them."""
    config_map = {"name": AUTHORITIES_CONFIG_MAP, "items": [{"key": AUTHORITIES, "path": AUTHORITIES}]}
    return [{"name": _AUTHORITIES_VOLUME, "configMap": config_map}] if workload.tls else []


def authorities_mounts(workload: Workload) -> list[Manifest]:
    """Where a container finds them."""
    mount = {"name": _AUTHORITIES_VOLUME, "mountPath": AUTHORITIES_DIR, "readOnly": True}
    return [mount] if workload.tls else []


def _engine_volume(workload: Workload) -> Manifest:
    """The Secret is optional: while the engine's keys cannot be used, pods start without it."""
    secret = {"secretName": engine_credentials_name(workload.name), "optional": True}
    return {"name": _ENGINE_VOLUME, "secret": secret}


def _resources(runtime: Runtime) -> Manifest:
    """The resources that people set, over defaults; a default yields where it would contradict them."""
    explicit = runtime.resources.to_dict() if runtime.resources else {}
    limits = {**_LIMITS, **explicit.get("limits", {})}
    requests = {**_REQUESTS, **explicit.get("requests", {})}
    for resource, value in explicit.get("limits", {}).items():
        if resource not in explicit.get("requests", {}):
            requests[resource] = _smaller(_REQUESTS[resource], value)
    for resource, value in explicit.get("requests", {}).items():
        if resource in _LIMITS and resource not in explicit.get("limits", {}):
            limits[resource] = _larger(_LIMITS[resource], value)
    return {
        "requests": {name: str(value) for name, value in requests.items()},
        "limits": {name: str(value) for name, value in limits.items()},
    }


def _smaller(one: Any, other: Any) -> Any:
    return one if (amount(one) or 0) <= (amount(other) or 0) else other


def _larger(one: Any, other: Any) -> Any:
    return one if _smaller(one, other) == other else other
