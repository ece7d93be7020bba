"""The manifests of an environment's workload: pure builders."""

import base64
from collections.abc import Mapping, Sequence
from typing import Any

from tieline_core.identity.ids import ID_LABEL
from tieline_core.identity.names import (
    ENGINE_CREDENTIALS_TYPE,
    activator_name,
    engine_credentials_name,
    environment_object_name,
)
from tieline_core.kubernetes import Resource
from tieline_core.kubernetes import resources as r
from tieline_core.resources.projects import FilesConfigMap
from tieline_operator.apply.diff import stamped
from tieline_operator.apply.plan import Manifest
from tieline_operator.workload import ingresses, network_policies
from tieline_operator.workload.activators import MANAGED_BY, MANAGED_BY_LABEL, SERVICE_NAME_LABEL
from tieline_operator.workload.exposure import ExposureMode
from tieline_operator.workload.ingresses import Backend
from tieline_operator.workload.inputs import Packages, Workload
from tieline_operator.workload.pod_template import ENGINE_CREDENTIALS, pod_template
from tieline_operator.workload.public_urls import address

SERVICE_PORT = 80
# After this long without progress a rollout counts as failed.
PROGRESS_SECONDS = 300


def environment(workload: Workload) -> Manifest:
    """The environment as an object. Where the project sets no number of pods, it is left to whoever scales."""
    spec: Manifest = {"projectRef": {"name": workload.project}, "environment": workload.environment}
    if workload.runtime.replicas is not None:
        spec["replicas"] = workload.runtime.replicas
    metadata = {
        "name": environment_object_name(workload.project, workload.environment),
        "namespace": workload.namespace,
        "labels": {**workload.labels, ID_LABEL: workload.environment_id},
        "ownerReferences": [dict(workload.owner)],
    }
    resource = r.ENVIRONMENTS
    return stamped(
        {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, "spec": spec}
    )


def service_account(workload: Workload) -> Manifest:
    """An identity of the environment's own, which its token proves to the API and nobody else."""
    return _object(workload, "v1", "ServiceAccount", automountServiceAccountToken=False)


def service(workload: Workload) -> Manifest:
    """Port 80, to the runtime's webhook port."""
    ports = [{"name": "http", "port": SERVICE_PORT, "targetPort": "http", "protocol": "TCP"}]
    return _object(workload, "v1", "Service", spec={"selector": workload.selector, "ports": ports})


def activator_slice(workload: Workload, addresses: Sequence[str]) -> Manifest:
    """Has the API, at these addresses, answer for the Service while no pod is ready."""
    metadata = {
        "name": activator_name(workload.name),
        "namespace": workload.namespace,
        "labels": {**workload.labels, SERVICE_NAME_LABEL: workload.name, MANAGED_BY_LABEL: MANAGED_BY},
        "ownerReferences": [dict(workload.owner)],
    }
    resource = r.ENDPOINT_SLICES
    return stamped(
        {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": metadata,
            "addressType": "IPv6" if ":" in addresses[0] else "IPv4",
            "endpoints": [{"addresses": [address], "conditions": {"ready": True}} for address in addresses],
            "ports": [{"name": "http", "port": workload.activator_port, "protocol": "TCP"}],
        }
    )


def network_policy(workload: Workload) -> Manifest:
    """Where pods may go, and what may come in."""
    urls = [url for url in (workload.api_url, workload.otlp_endpoint) if url]
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
    """The pods (``pod_template``)."""
    spec = {
        "replicas": workload.replicas,
        "revisionHistoryLimit": 2,
        "progressDeadlineSeconds": PROGRESS_SECONDS,
        "selector": {"matchLabels": workload.selector},
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
        "template": pod_template(workload, version=version, config_maps=config_maps, packages=packages),
    }
    return _object(workload, "apps/v1", "Deployment", spec=spec)


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
