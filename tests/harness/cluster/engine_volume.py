"""A volume of its own for the deployed event engine, which outlives its pod."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.harness.cluster.kubectl import Kubectl
from tests.harness.cluster.pod_processes import processes_of

NAMESPACE = "tieline-system"
ENGINE = "tieline-engine"
POD = "tieline-engine-0"
_CLAIM = "tieline-engine-test"
_USER = 65532


@contextmanager
def engine_on_a_volume(kubectl: Kubectl, folder: Path) -> Iterator[None]:
    """The engine with a volume that is empty at first; after it the engine has the one that it had before.

    The volume is ``folder`` where nodes are this machine, else one of the cluster's storage class.
    """
    local = bool(processes_of(POD))
    spec: dict[str, Any] = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    if local:
        os.chown(folder, _USER, _USER)
        volume = {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "hostPath": {"path": str(folder)},
            "claimRef": {"name": _CLAIM, "namespace": NAMESPACE},
        }
        _apply(kubectl, "PersistentVolume", volume)
        spec |= {"storageClassName": "", "volumeName": _CLAIM}
    _apply(kubectl, "PersistentVolumeClaim", spec)
    before = _replace_volume(kubectl, {"name": "data", "persistentVolumeClaim": {"claimName": _CLAIM}})
    try:
        yield
    finally:
        _replace_volume(kubectl, before)
        kubectl("delete", "persistentvolumeclaim", _CLAIM, namespace=NAMESPACE)
        if local:
            kubectl("delete", "persistentvolume", _CLAIM)


def _apply(kubectl: Kubectl, kind: str, spec: dict[str, Any]) -> None:
    manifest = {"apiVersion": "v1", "kind": kind, "metadata": {"name": _CLAIM}, "spec": spec}
    kubectl("apply", "-f", "-", namespace=NAMESPACE, stdin=json.dumps(manifest))


def _replace_volume(kubectl: Kubectl, volume: dict[str, Any]) -> dict[str, Any]:
    """The volume that was there before. Returns once the engine's pod is ready."""
    found = json.loads(kubectl("get", "statefulset", ENGINE, "-o", "json", namespace=NAMESPACE).stdout)
    volumes: list[dict[str, Any]] = found["spec"]["template"]["spec"]["volumes"]
    (index,) = [number for number, one in enumerate(volumes) if one["name"] == "data"]
    patch = [{"op": "replace", "path": f"/spec/template/spec/volumes/{index}", "value": volume}]
    kubectl("patch", "statefulset", ENGINE, "--type=json", "-p", json.dumps(patch), namespace=NAMESPACE)
    kubectl("rollout", "status", f"statefulset/{ENGINE}", "--timeout=120s", namespace=NAMESPACE, timeout=150)
    return volumes[index]
