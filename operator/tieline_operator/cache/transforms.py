"""What the operator's cache keeps of an object: each transform runs before anything is stored."""

from collections.abc import Callable, Mapping
from typing import Any

from tieline_core.credentials.exposure import exposure_of
from tieline_core.credentials.validation.secret_facts import tokens_of, values_of
from tieline_core.identity.names import ENGINE_CREDENTIALS_TYPE, VERSION_ANNOTATION
from tieline_core.kubernetes import Resource
from tieline_core.kubernetes import resources as r
from tieline_core.kubernetes.informer import strip_managed_fields
from tieline_core.kubernetes.interner import Interner
from tieline_core.oauth.token_secrets import holds_tokens
from tieline_core.systems import filled
from tieline_operator.apply.plan import MANAGER
from tieline_operator.workload.pod_template import ENGINE_CREDENTIALS

_SECRET_METADATA = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp", "ownerReferences")
FOREIGN_DATA = "foreignData"
"""Set on a Secret of the engine whose value somebody else has written."""
_POD_ANNOTATIONS = (VERSION_ANNOTATION, "tieline.dev/revision")


def transform_of(resource: Resource) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """The transform of a resource. Equal parts of its objects are kept once; of Secrets there are none."""
    transform = _TRANSFORMS.get(resource, strip_managed_fields)
    if resource == r.SECRETS:
        return transform
    share = Interner()
    return lambda obj: share(transform(obj))


def _strip_secret_values(obj: Mapping[str, Any]) -> dict[str, Any]:
    """A Secret without its values: its metadata, its type and facts about the values."""
    return {
        "metadata": {key: obj["metadata"][key] for key in _SECRET_METADATA if key in obj["metadata"]},
        "type": obj.get("type"),
        "values": values_of(obj.get("data") or {}),
        "tokens": tokens_of(obj) if holds_tokens(obj) else None,
        "exposure": exposure_of(obj["metadata"]),
    }


_CONTAINER_FIELDS = ("name", "resources", "startupProbe")


def _strip_config_map(obj: dict[str, Any]) -> dict[str, Any]:
    """A ConfigMap without its contents, also when it is one that was just written."""
    strip_managed_fields(obj)
    return {"metadata": {key: value for key, value in obj["metadata"].items() if key != "annotations"}}


def _strip_pod(obj: dict[str, Any]) -> dict[str, Any]:
    """A pod's spec is the Deployment's: of interest is what it does, and the limits that it runs into.

    ``workload.pods`` reads what stays.
    """
    metadata = strip_managed_fields(obj)["metadata"]
    annotations = metadata.get("annotations", {})
    metadata["annotations"] = {key: annotations[key] for key in _POD_ANNOTATIONS if key in annotations}
    before = obj.get("spec", {})
    containers = [
        {key: container[key] for key in _CONTAINER_FIELDS if key in container}
        for container in before.get("containers", ())
    ]
    spec = {key: before[key] for key in ("terminationGracePeriodSeconds",) if key in before}
    return {
        "metadata": metadata,
        "spec": {**spec, "containers": containers},
        "status": obj.get("status", {}),
    }


def _strip_engine_secret(obj: dict[str, Any]) -> dict[str, Any]:
    """A Secret of the engine without its value; managedFields say who wrote that."""
    foreign = any(
        entry.get("manager") != MANAGER
        and f"f:{ENGINE_CREDENTIALS}" in (entry.get("fieldsV1") or {}).get("f:data", {})
        for entry in obj["metadata"].get("managedFields", ())
    )
    metadata = strip_managed_fields(obj)["metadata"]
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": ENGINE_CREDENTIALS_TYPE}
    return {**secret, FOREIGN_DATA: True} if foreign else secret


_TRANSFORMS: Mapping[Resource, Callable[[dict[str, Any]], dict[str, Any]]] = {
    r.CONFIG_MAPS: _strip_config_map,
    r.PODS: _strip_pod,
    r.SYSTEMS: lambda obj: filled(strip_managed_fields(obj)),
    r.SECRETS: _strip_secret_values,
    r.ENGINE_SECRETS: _strip_engine_secret,
}
