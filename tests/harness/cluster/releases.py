"""Releases of Tieline and helm: what installing, upgrading and removing is tried with."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.harness.cluster.kubectl import ROOT, Kubectl
from tests.harness.session.waiting import eventually
from tieline_cluster.deployment.platform import all_images
from tieline_cluster.interface import ClusterProvider

PLATFORM_NAMESPACE = "tieline-system"
_COPIED = (
    *(
        "catalogue",
        "examples",
        "core",
        "operator",
        "api",
        "runtime",
        "crds",
        "deploy",
        "console",
        "requirements",
    ),
)
_BUILT = shutil.ignore_patterns(
    "__pycache__", "*.egg-info", "node_modules", "dist", "openapi.json", "schema.d.ts"
)
_KINDS = (
    "tieline,deployments,services,serviceaccounts,networkpolicies,poddisruptionbudgets,configmaps,secrets"
)
_CODE_INDEPENDENT = {"kube-root-ca.crt"}


@dataclass(frozen=True)
class Release:
    """A checkout, and its images, which the cluster has."""

    checkout: Path
    images: Mapping[str, str]

    @property
    def chart(self) -> Path:
        return self.checkout / "deploy" / "helm" / "tieline"


def this_release(provider: ClusterProvider) -> Release:
    """What is in this checkout."""
    return _built(provider, ROOT)


def previous_release(provider: ClusterProvider, folder: Path) -> Release:
    """A twin of this release in ``folder``: the same code with other images. Nothing was released before it."""
    for name in _COPIED:
        shutil.copytree(ROOT / name, folder / name, symlinks=True, ignore=_BUILT)
    for name in ("Dockerfile", "pyproject.toml", "hatch_build.py", "README.md", "LICENSE", ".dockerignore"):
        shutil.copy(ROOT / name, folder / name)
    for package in ("core/tieline_core", "runtime/tieline"):
        with (folder / package / "__init__.py").open("a") as file:
            file.write("# The previous release.\n")
    return _built(provider, folder)


def _built(provider: ClusterProvider, checkout: Path) -> Release:
    return Release(checkout=checkout, images=all_images(provider, checkout))


@dataclass(frozen=True)
class Helm:
    """``helm`` on a cluster, with all that it keeps in ``home``."""

    program: Path
    kubectl: Kubectl
    home: Path

    def __call__(
        self, *arguments: str | Path, values: Mapping[str, Any] | None = None, check: bool = True
    ) -> str:
        """What it says; ``values`` go into a file."""
        command = [str(self.program), *map(str, arguments)]
        if self.kubectl.context:
            command += ["--kube-context", self.kubectl.context]
        if values is not None:
            file = self.home / "values.json"
            file.write_text(json.dumps(values))
            command += ["-f", str(file)]
        places = {f"HELM_{name}_HOME": str(self.home / name.lower()) for name in ("CACHE", "CONFIG", "DATA")}
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
            env={**os.environ, **places, "KUBECONFIG": str(self.kubectl.kubeconfig)},
        )
        said = done.stdout + done.stderr
        assert not (check and done.returncode), f"{' '.join(command)}: {said}"
        return said


def written(kubectl: Kubectl, namespace: str) -> dict[str, str]:
    """The resourceVersion of every object in an organisation: whoever writes one, or its status, changes it.

    Of pods the uid: another one is a restart. Pods that a rollout has replaced are not waited for until they end.
    """
    versions = {name: item["metadata"]["resourceVersion"] for name, item in _objects(kubectl, namespace)}
    return versions | _pods(kubectl, namespace)


def declared(kubectl: Kubectl, namespace: str) -> dict[str, Any]:
    """``written`` without statuses: every object as it is but for its status, and the uids of pods.

    For removals: an operator that sees the event engine end before itself may still report that in a status.
    """
    found: dict[str, Any] = dict(_objects(kubectl, namespace))
    for item in found.values():
        item.pop("status", None)
        for field in ("resourceVersion", "managedFields"):
            item["metadata"].pop(field, None)
    return found | _pods(kubectl, namespace)


def _objects(kubectl: Kubectl, namespace: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for item in json.loads(kubectl("get", _KINDS, "-o", "json", namespace=namespace).stdout)["items"]:
        if item["metadata"]["name"] not in _CODE_INDEPENDENT:
            yield f"{item['kind']}/{item['metadata']['name']}", item


def _pods(kubectl: Kubectl, namespace: str) -> dict[str, str]:
    found = json.loads(kubectl("get", "pods", "-o", "json", namespace=namespace).stdout)["items"]
    serving = [pod["metadata"] for pod in found if "deletionTimestamp" not in pod["metadata"]]
    return {f"Pod/{pod['name']}": pod["uid"] for pod in serving}


def running(versions: dict[str, str]) -> dict[str, str]:
    """The part of ``written`` about what a pod is, or is made of."""
    kinds = ("Pod/", "Deployment/", "Service/", "ServiceAccount/", "ConfigMap/", "PodDisruptionBudget/")
    found = {name: version for name, version in versions.items() if name.startswith(kinds)}
    assert {name.partition("/")[0] for name in found} >= {"Pod", "Deployment", "Service", "ServiceAccount"}
    return found


def settled(kubectl: Kubectl, *, namespace: str = PLATFORM_NAMESPACE) -> None:
    """Returns once a replica of the operator leads that has looked at every object and has nothing left to do."""
    # Not by the category: kubectl remembers which kinds it has, also those of a release that was removed since.
    definitions = kubectl("get", "customresourcedefinitions", "-o", "name").stdout.split()
    kinds = ",".join(name.partition("/")[2] for name in definitions if name.endswith(".tieline.dev"))
    objects = len(kubectl("get", kinds, "-A", "-o", "name").stdout.split())

    def done() -> bool:
        label = "app.kubernetes.io/name=tieline-operator"
        found = json.loads(kubectl("get", "pods", "-l", label, "-o", "json", namespace=namespace).stdout)
        names = [
            pod["metadata"]["name"] for pod in found["items"] if "deletionTimestamp" not in pod["metadata"]
        ]
        assert len(names) == len(found["items"]), "an old operator is leaving"
        return any(_at_rest(_metrics(kubectl, namespace, name), objects) for name in names)

    eventually("the operator leads and has looked at all", done)


def _metrics(kubectl: Kubectl, namespace: str, pod: str) -> str:
    path = f"/api/v1/namespaces/{namespace}/pods/{pod}:9090/proxy/metrics"
    return kubectl("get", "--raw", path, check=False).stdout


def _at_rest(metrics: str, objects: int) -> bool:
    def value(name: str) -> float:
        lines = re.findall(rf"^{name}(?:{{[^}}]*}})? (\S+)$", metrics, re.MULTILINE)
        return sum(float(line) for line in lines)

    looked = value("tieline_operator_reconciles_total") >= objects
    return looked and value("tieline_operator_leading") == 1 and value("tieline_operator_queue_depth") == 0
