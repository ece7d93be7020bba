"""Deploying the platform of this checkout on a cluster: images, definitions, engine, operator and API."""

import json
import os
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tieline_cluster.deployment.kubectl import Kubectl
from tieline_cluster.deployment.service_access import Forwarded, ServiceAccess, service_access_for
from tieline_cluster.errors import ClusterError
from tieline_cluster.interface import Cluster, ClusterProvider
from tieline_cluster.progress import Progress

NAMESPACE = "tieline-system"
OVERLAY = Path("deploy/overlays/local")
_ROLLOUT = 300
_VOLUME = "tieline-engine"
_ENGINE_USER = 65532
_IMAGES = {
    "platform": "localhost/tieline-platform",
    "runtime": "localhost/tieline-runtime",
    "engine": "localhost/tieline-engine",
}
_WORKLOADS = ("deployment/tieline-operator", "statefulset/tieline-engine", "deployment/tieline-api")


@dataclass(frozen=True)
class Deployed:
    """The platform, ready."""

    kubectl: Kubectl
    url: str
    images: Mapping[str, str]
    reach: ServiceAccess
    kept: bool
    """Whether queued events outlive the engine's pod."""


def deploy(
    *,
    checkout: Path,
    work: Path,
    provider: ClusterProvider,
    cluster: Cluster,
    kubectl: Kubectl,
    progress: Progress,
    settings: Mapping[str, str] | None = None,
    for_browsers: bool = False,
) -> Deployed:
    """Builds the images, applies the manifests, and returns once operator and API are ready.

    ``work`` is a folder for what is generated on the way. ``settings`` are more of operator and API. ``for_browsers``
    gives the API an address at localhost: at others, browsers keep no session without HTTPS. Raises ClusterError.
    """
    images = all_images(provider, checkout)
    with progress.step("Installing definitions, engine, operator and API"):
        _apply(kubectl, checkout / "crds")
        engine_folder = _engine_folder(cluster)
        overlay = partial(
            with_images,
            checkout / OVERLAY,
            images=images,
            work=work / "platform",
            configure=True,
            engine_folder=engine_folder,
            settings=settings,
        )
        _apply(kubectl, overlay())
        # OAuth sends users back to the API: it has to know the address that their browsers reach it at.
        forwards = work / "platform" / "forwards"
        reach = service_access_for(cluster, kubectl, forwards)
        api = Forwarded(kubectl, forwards) if for_browsers else reach
        _apply(kubectl, overlay(public_url=api.address(NAMESPACE, "tieline-api")))
    with progress.step("Waiting until operator and API are ready"):
        for workload in _WORKLOADS:
            _rolled_out(kubectl, workload)
        url = api.url(NAMESPACE, "tieline-api")
        until("the API is ready", lambda: _get(f"{url}/readyz"), within=120)
    return Deployed(kubectl=kubectl, url=url, images=images, reach=reach, kept=engine_folder is not None)


def all_images(provider: ClusterProvider, checkout: Path) -> dict[str, str]:
    """Builds the images of a checkout; their names by what they are: ``platform``, ``runtime`` and ``engine``."""
    built = provider.build_images(context=checkout, targets=["platform", "runtime"])
    return {**built, "engine": provider.engine_image()}


def with_images(
    base: Path,
    *,
    images: Mapping[str, str],
    work: Path,
    configure: bool = False,
    public_url: str = "",
    secrets: Mapping[str, Mapping[str, str]] | None = None,
    namespace: str = "",
    engine_folder: Path | None = None,
    settings: Mapping[str, str] | None = None,
) -> Path:
    """A kustomization over ``base`` that names these images; with ``configure`` the operator's too.

    ``engine_folder`` is a folder of the cluster's node for what the event engine stores. ``settings`` are more of
    operator and API.

    ``public_url`` is the address that browsers reach the API at. ``secrets`` are values for Secrets that ``base``
    generates in ``namespace``, by their names.
    """
    renamed = []
    for target, name in images.items():
        new_name, _, tag = name.rpartition(":")
        renamed.append({"name": _IMAGES[target], "newName": new_name, "newTag": tag})
    kustomization: dict[str, Any] = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [os.path.relpath(base, work)],
        "images": renamed,
    }
    work.mkdir(parents=True, exist_ok=True)
    patches: list[dict[str, Any]] = []
    if engine_folder:
        volume = {"apiVersion": "v1", "kind": "List", "items": _volume(engine_folder)}
        (work / "volume.yaml").write_text(json.dumps(volume, indent=2), encoding="utf-8")
        kustomization["resources"].append("volume.yaml")
        patches.append({"patch": json.dumps(_ON_VOLUME)})
    if configure:
        patch = [{"op": "replace", "path": "/data/TIELINE_RUNTIME_IMAGE", "value": images["runtime"]}]
        patch += [
            {"op": "add", "path": f"/data/{name}", "value": value} for name, value in (settings or {}).items()
        ]
        patches.append({"target": {"kind": "ConfigMap", "name": "tieline"}, "patch": json.dumps(patch)})
        if public_url:
            address = [{"op": "add", "path": "/data/TIELINE_PUBLIC_API_URL", "value": public_url}]
            patches.append({"target": {"kind": "ConfigMap", "name": "tieline"}, "patch": json.dumps(address)})
            patches.append({"patch": json.dumps(_restarting("tieline-api", public_url))})
    if patches:
        kustomization["patches"] = patches
    if secrets:
        kustomization["secretGenerator"] = [
            {
                "name": name,
                "namespace": namespace,
                "behavior": "merge",
                "literals": [f"{key}={value}" for key, value in values.items()],
            }
            for name, values in secrets.items()
        ]
    (work / "kustomization.yaml").write_text(json.dumps(kustomization, indent=2), encoding="utf-8")
    return work


def _engine_folder(cluster: Cluster) -> Path | None:
    """A folder for what the event engine stores, which outlives its pod; None where nodes are other machines."""
    if cluster.volumes is None:
        return None
    folder = cluster.volumes / _VOLUME
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.chown(folder, _ENGINE_USER, _ENGINE_USER)
    return folder


def _volume(folder: Path) -> list[dict[str, Any]]:
    """A volume in ``folder``, and the claim that alone may have it."""
    modes = ["ReadWriteOnce"]
    claim = {"name": _VOLUME, "namespace": NAMESPACE}
    volume = {
        "capacity": {"storage": "10Gi"},
        "accessModes": modes,
        "persistentVolumeReclaimPolicy": "Retain",
        "hostPath": {"path": str(folder)},
        "claimRef": claim,
    }
    claimed = {
        "accessModes": modes,
        "resources": {"requests": {"storage": "10Gi"}},
        "storageClassName": "",
        "volumeName": _VOLUME,
    }
    return [
        {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": _VOLUME}, "spec": volume},
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": claim, "spec": claimed},
    ]


_ON_VOLUME: dict[str, Any] = {
    "apiVersion": "apps/v1",
    "kind": "StatefulSet",
    "metadata": {"name": "tieline-engine", "namespace": NAMESPACE},
    "spec": {
        "template": {
            "spec": {
                "volumes": [
                    {
                        "name": "data",
                        "emptyDir": None,
                        "persistentVolumeClaim": {"claimName": _VOLUME},
                    }
                ]
            }
        }
    },
}


def _restarting(deployment: str, public_url: str) -> dict[str, Any]:
    """A patch with which pods that were started for another public address are replaced."""
    annotations = {"tieline.dev/public-api-url": public_url}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": deployment, "namespace": NAMESPACE},
        "spec": {"template": {"metadata": {"annotations": annotations}}},
    }


def until(what: str, probe: Callable[[], Any], *, within: float) -> Any:
    """The first true result of ``probe``; raises ClusterError after ``within`` seconds."""
    deadline = time.monotonic() + within
    last: object = None
    while time.monotonic() < deadline:
        try:
            last = probe()
        except (OSError, ValueError, KeyError, IndexError) as error:
            last = error
        else:
            if last:
                return last
        time.sleep(0.25)
    raise ClusterError(f"After {within:.0f} s it is still not so that {what}; last seen: {last}")


def request(method: str, url: str, *, headers: Mapping[str, str] | None = None, body: Any = None) -> bytes:
    """The body of an answer; raises OSError for statuses from 400 on."""
    data = json.dumps(body).encode() if body is not None else None
    sent = {"Content-Type": "application/json", **(headers or {})}
    asked = urllib.request.Request(url, data=data, method=method, headers=sent)  # noqa: S310  (http, ours)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(asked, timeout=20) as answer:
        received: bytes = answer.read()
        return received


def _get(url: str) -> bool:
    request("GET", url)
    return True


def _apply(kubectl: Kubectl, kustomization: Path) -> None:
    kubectl("apply", "--server-side", "--force-conflicts", "-k", str(kustomization))


def _rolled_out(kubectl: Kubectl, workload: str) -> None:
    limit = f"--timeout={_ROLLOUT}s"
    try:
        kubectl("rollout", "status", workload, limit, "-n", NAMESPACE, timeout=_ROLLOUT + 20)
    except ClusterError as error:
        pods = kubectl("get", "pods", "-n", NAMESPACE, "-o", "wide")
        try:
            logs = kubectl("logs", workload, "-n", NAMESPACE, "--tail=20")
        except ClusterError as unavailable:
            # A pod that waits for a Secret has no logs.
            logs = str(unavailable)
        raise ClusterError(f"{workload} does not become ready: {error}\n{pods}\n{logs}") from error
