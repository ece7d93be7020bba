"""The manifests of an environment's workload: pure builders."""

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import orjson

from tieline_core.identity.names import (
    ENGINE_CREDENTIALS_TYPE,
    ENVIRONMENT_ID_LABEL,
    ENVIRONMENT_LABEL,
    INSTANCE_LABEL,
    PROJECT_LABEL,
    TOKEN_AUDIENCE,
    VERSION_ANNOTATION,
    engine_credentials_name,
    label_value,
)
from tieline_core.kubernetes import Resource
from tieline_core.kubernetes import resources as r
from tieline_core.resources.projects import FilesConfigMap, Runtime, merged_fields
from tieline_operator.apply.diff import amount, stamped
from tieline_operator.apply.plan import Manifest
from tieline_operator.workload import ingresses, network_policies
from tieline_operator.workload.exposure import NOT_EXPOSED, Exposure, ExposureMode
from tieline_operator.workload.ingresses import Backend
from tieline_operator.workload.network_policies import HEALTH_PORT, HTTP_PORT
from tieline_operator.workload.public_urls import address
from tieline_operator.workload.secret_variables import SecretVariable
from tieline_protocol.egress import PUBLIC_ONLY, Egress
from tieline_protocol.packages import FOLDER as PACKAGES_DIR
from tieline_protocol.packages import MAX_ARCHIVE_BYTES, MAX_UNPACKED_BYTES

REVISION_ANNOTATION = "tieline.dev/revision"
SECRETS_ANNOTATION = "tieline.dev/secrets"
CODE_DIR = "/app/code"
TOKEN_DIR = "/var/run/secrets/tieline"  # noqa: S105  (a path)
ENGINE_DIR = "/var/run/secrets/tieline-engine"
ENGINE_CREDENTIALS = "engine.creds"
"""The key of the Secret with which pods connect to the event engine, and the file in ``ENGINE_DIR``."""
SERVICE_PORT = 80
# On SIGTERM the runtime takes requests for 20 s at most, and runs under way have 65 s to end.
GRACE_SECONDS = 90
# After this long without progress a rollout counts as failed.
PROGRESS_SECONDS = 300
_TOKEN_SECONDS = 3600
_ENGINE_VOLUME = "engine"
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


@dataclass(frozen=True)
class Packages:
    """Installed packages that pods unpack."""

    ANNOTATION: ClassVar = "tieline.dev/packages"
    """On a pod template: the packages as one text."""

    key: str
    digest: str

    def __str__(self) -> str:
        return f"{self.key}/{self.digest}"

    @classmethod
    def parsed(cls, text: str) -> "Packages | None":
        """The packages in such a text; None for any other."""
        key, _, digest = text.partition("/")
        return cls(key, digest) if key and digest else None


@dataclass(frozen=True, kw_only=True)
class Workload:
    """All that an environment's manifests are made of."""

    name: str
    namespace: str
    owner: Mapping[str, Any]
    """ownerReference to the Project."""
    organisation_id: str
    project: str
    project_id: str
    environment: str
    environment_id: str
    runtime: Runtime
    """The project's runtime with the environment's over it."""
    secret_variables: Sequence[SecretVariable] = ()
    """Environment variables that come from Secrets; the runtime's others are values."""
    image: str
    packages_image: str = ""
    """What installs packages and unpacks them: the platform's own, whatever image the code has."""
    architecture: str = ""
    """That of the nodes for pods with packages."""
    pull_secrets: Sequence[str] = ()
    """Names of Secrets that the platform is configured to pull with, beside the project's own."""
    replicas: int
    api_url: str
    public_url: str
    previous_api_url: str = ""
    """The URL in pods that an earlier release started."""
    api_ports: Mapping[str, int] = field(default_factory=network_policies.API_PORTS.copy)
    """The port of the API's pods behind each of its Services."""
    egress: Egress = PUBLIC_ONLY
    """Where the pods may go."""
    engine_urls: Sequence[str] = ()
    """Those of the event engine; none where pods do not use it."""
    otlp_endpoint: str = ""
    """A collector for their traces, instead of the API."""
    metrics_namespaces: Sequence[str] = ()
    """The namespaces that may scrape their metrics."""
    cluster_dns: Sequence[str] = network_policies.CLUSTER_DNS
    """The namespaces and networks of the name servers that they may ask."""
    exposure: Exposure = NOT_EXPOSED
    """How they are exposed at the public URL."""
    tls_secret: str = ""
    """The Secret with the certificate of an Ingress."""

    @property
    def selector(self) -> dict[str, str]:
        """Labels that never change while the workload lives (a Deployment's selector is immutable)."""
        return {"app.kubernetes.io/name": "tieline-environment", INSTANCE_LABEL: self.name}

    @property
    def labels(self) -> dict[str, str]:
        return {
            **self.selector,
            "app.kubernetes.io/part-of": "tieline",
            "app.kubernetes.io/managed-by": "tieline-operator",
            PROJECT_LABEL: label_value(self.project),
            ENVIRONMENT_LABEL: self.environment,
            ENVIRONMENT_ID_LABEL: self.environment_id,
        }


def merged_runtime(base: Runtime, override: Runtime | None) -> Runtime:
    """The project's runtime with what the environment sets over it, field by field."""
    if override is None:
        return base
    return Runtime.model_validate(merged_fields(base.to_dict(), override.to_dict()))


def service_account(workload: Workload) -> Manifest:
    """An identity of the environment's own, which its token proves to the API and nobody else."""
    return _object(workload, "v1", "ServiceAccount", automountServiceAccountToken=False)


def service(workload: Workload) -> Manifest:
    """Port 80, to the runtime's webhook port."""
    ports = [{"name": "http", "port": SERVICE_PORT, "targetPort": "http", "protocol": "TCP"}]
    return _object(workload, "v1", "Service", spec={"selector": workload.selector, "ports": ports})


def network_policy(workload: Workload) -> Manifest:
    """Where pods may go, and what may come in."""
    urls = [url for url in (workload.api_url, workload.previous_api_url, workload.otlp_endpoint) if url]
    spec = network_policies.spec(
        workload.selector,
        egress=workload.egress,
        platform_urls=list(dict.fromkeys(urls)),
        api_ports=workload.api_ports,
        metrics_namespaces=workload.metrics_namespaces,
        dns=workload.cluster_dns,
        engine_urls=workload.engine_urls,
    )
    return _object(workload, "networking.k8s.io/v1", "NetworkPolicy", spec=spec)


def engine_secret(
    workload: Workload, annotations: Mapping[str, str], credentials: str | None = None
) -> Manifest:
    """The Secret with which pods connect to the event engine; without its value where that is to stay as it is."""
    metadata = {
        "name": engine_credentials_name(workload.name),
        "namespace": workload.namespace,
        "labels": workload.labels,
        "annotations": dict(annotations),
        "ownerReferences": [dict(workload.owner)],
    }
    manifest = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata}
    if credentials is None:
        return manifest
    data = {ENGINE_CREDENTIALS: base64.b64encode(credentials.encode()).decode()}
    return {**manifest, "type": ENGINE_CREDENTIALS_TYPE, "data": data}


def disruption_budget(workload: Workload) -> Manifest:
    """Lets a drain evict one pod at a time."""
    spec = {"maxUnavailable": 1, "selector": {"matchLabels": workload.selector}}
    return _object(workload, "policy/v1", "PodDisruptionBudget", spec=spec)


def ingress_objects(workload: Workload) -> dict[Resource, Manifest]:
    """The Ingress or HTTPRoute; none where environments are not exposed."""
    exposure = workload.exposure
    if exposure.mode is ExposureMode.NONE or not workload.public_url:
        return {}
    public_address = address(workload.public_url)
    to = Backend(workload.name, SERVICE_PORT)
    if exposure.mode is ExposureMode.INGRESS:
        spec = ingresses.ingress_spec(
            public_address, to, class_name=exposure.ingress_class, tls_secret=workload.tls_secret
        )
        return {r.INGRESSES: _ingress_object(workload, r.INGRESSES, spec)}
    if exposure.gateway is None:
        raise ValueError("Routes need a Gateway")
    spec = ingresses.http_route_spec(public_address, to, exposure.gateway)
    return {r.HTTP_ROUTES: _ingress_object(workload, r.HTTP_ROUTES, spec)}


def deployment(
    workload: Workload,
    *,
    version: str,
    config_maps: Sequence[FilesConfigMap],
    packages: Packages | None = None,
) -> Manifest:
    """The pods, running ``version`` from the ConfigMaps that hold its files, with the packages that it needs."""
    pod = {
        "serviceAccountName": workload.name,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": GRACE_SECONDS,
        "securityContext": POD_SECURITY,
        "containers": [_container(workload, version, packages)],
        "volumes": [*_volumes(config_maps), *_engine_volumes(workload)],
    }
    annotations = {VERSION_ANNOTATION: version, **_secrets_annotation(workload)}
    if packages:
        annotations[Packages.ANNOTATION] = str(packages)
        _add_packages(pod, workload, packages)
    if secrets := _pull_secrets(workload):
        pod["imagePullSecrets"] = secrets
    annotations[REVISION_ANNOTATION] = revision(workload.labels, annotations, pod)
    spec = {
        "replicas": workload.replicas,
        "revisionHistoryLimit": 2,
        "progressDeadlineSeconds": PROGRESS_SECONDS,
        "selector": {"matchLabels": workload.selector},
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
        "template": {"metadata": {"labels": workload.labels, "annotations": annotations}, "spec": pod},
    }
    return _object(workload, "apps/v1", "Deployment", spec=spec)


def revision_of(manifest: Mapping[str, Any]) -> str | None:
    """The revision of a Deployment's pod template; None where it has none."""
    annotations = manifest["spec"]["template"].get("metadata", {}).get("annotations", {})
    found: str | None = annotations.get(REVISION_ANNOTATION)
    return found


def revision(labels: Mapping[str, str], annotations: Mapping[str, str], pod: Mapping[str, Any]) -> str:
    """Tells pods of this template from those of an earlier one (which may run the same version)."""
    text = orjson.dumps([labels, annotations, pod], option=orjson.OPT_SORT_KEYS)
    return hashlib.sha256(text).hexdigest()[:_REVISION]


def _ingress_object(workload: Workload, resource: Resource, spec: Manifest) -> Manifest:
    annotations = workload.exposure.annotations
    return _object(workload, resource.api_version, resource.kind, annotations=annotations, spec=spec)


def _object(
    workload: Workload,
    api_version: str,
    kind: str,
    *,
    annotations: Mapping[str, str] | None = None,
    **content: Any,
) -> Manifest:
    metadata = {
        "name": workload.name,
        "namespace": workload.namespace,
        "labels": workload.labels,
        "ownerReferences": [dict(workload.owner)],
        **({"annotations": dict(annotations)} if annotations else {}),
    }
    return stamped({"apiVersion": api_version, "kind": kind, "metadata": metadata, **content})


def _add_packages(pod: Manifest, workload: Workload, packages: Packages) -> None:
    """Has a pod unpack packages before its code starts."""
    env = {
        "TIELINE_API_URL": workload.api_url,
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
                {"name": _PACKAGES_VOLUME, "mountPath": PACKAGES_DIR},
            ],
        }
    ]
    size = (MAX_UNPACKED_BYTES + MAX_ARCHIVE_BYTES) >> 20
    pod["volumes"] += [{"name": _PACKAGES_VOLUME, "emptyDir": {"sizeLimit": f"{size}Mi"}}]
    pod["nodeSelector"] = {"kubernetes.io/arch": workload.architecture}


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
        "livenessProbe": _probe("/livez", period=10, failures=3),
        # The last log lines of a crash come with the pod's status, and so into the project's.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "securityContext": CONTAINER_SECURITY,
        "volumeMounts": [
            {"name": "code", "mountPath": CODE_DIR, "readOnly": True},
            {"name": "token", "mountPath": TOKEN_DIR, "readOnly": True},
            {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108  (the pod's own)
            *(
                [{"name": _ENGINE_VOLUME, "mountPath": ENGINE_DIR, "readOnly": True}]
                if workload.engine_urls
                else []
            ),
            *([{"name": _PACKAGES_VOLUME, "mountPath": PACKAGES_DIR, "readOnly": True}] if packages else []),
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
        **_engine_environment(workload),
        **_secret_names(workload),
    }


def _secret_names(workload: Workload) -> dict[str, str]:
    """Tells the runtime which variables it must never write anywhere."""
    names = ",".join(variable.name for variable in workload.secret_variables)
    return {"TIELINE_SECRET_ENV": names} if names else {}


def _secrets_annotation(workload: Workload) -> dict[str, str]:
    """Another text after each write of a Secret, so that pods are replaced: kubelet reads variables at their start.

    It is made of versions. A hash of a value would let people guess short ones.
    """
    versions = sorted({(variable.secret, variable.version) for variable in workload.secret_variables})
    if not versions:
        return {}
    return {SECRETS_ANNOTATION: hashlib.sha256(orjson.dumps(versions)).hexdigest()[:_REVISION]}


def _engine_environment(workload: Workload) -> dict[str, str]:
    if not workload.engine_urls:
        return {}
    return {
        "TIELINE_ENGINE_URL": ",".join(workload.engine_urls),
        "TIELINE_ENGINE_CREDENTIALS_FILE": f"{ENGINE_DIR}/{ENGINE_CREDENTIALS}",
    }


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


def _engine_volumes(workload: Workload) -> list[Manifest]:
    """The Secret is optional: while the engine's keys cannot be used, pods start without it."""
    if not workload.engine_urls:
        return []
    secret = {"secretName": engine_credentials_name(workload.name), "optional": True}
    return [{"name": _ENGINE_VOLUME, "secret": secret}]


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
