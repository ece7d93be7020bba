"""Releases of Tieline and helm: what installing, upgrading and removing is tried with."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import subprocess
import tarfile
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.harness.cluster.kubectl import ROOT, Kubectl
from tests.harness.session.waiting import eventually
from tieline_cluster.deployment.platform import all_images
from tieline_cluster.interface import ClusterProvider

PLATFORM_NAMESPACE = "tieline-system"
# Nothing has been published yet: the last state before one organisation could be installed alone. Then it is a tag.
_PREVIOUS = "cdc4ee1f480e8bd4daeb38cb32554f7d72b5eb8b"
_KEPT = ("core", "operator", "api", "runtime", "crds", "deploy/base", "deploy/overlays", "deploy/helm")
# Images are made of the old code on today's dependencies, which the machine has.
_COMPILED = shutil.ignore_patterns("__pycache__", "*.egg-info")
_BUILT = shutil.ignore_patterns("node_modules", "dist", "openapi.json", "schema.d.ts")
_TODAYS = ("Dockerfile", "pyproject.toml", "README.md", "LICENSE")
# Packages that have another name in the previous release, or that it does not have yet.
_RENAMED = {"tieline_protocol": "tieline_rules"}
_ADDED = ("tieline_common",)
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
    """The release before it, from this repository's history, in ``folder``.

    In a checkout that lacks it (a shallow clone) the upgrade is from a twin of this release, which is said.
    """
    archived = subprocess.run(
        ["git", "archive", "--format=tar", _PREVIOUS, *_KEPT],
        cwd=ROOT,
        capture_output=True,
        timeout=60,
        check=False,
    )
    if archived.returncode:
        _twin(folder)
        said = archived.stderr.decode(errors="replace").strip()
        warnings.warn(
            f"Upgraded from a twin of this release, because the history is not here ({said}): "
            "`git fetch --unshallow` brings it",
            stacklevel=1,
        )
    else:
        with tarfile.open(fileobj=io.BytesIO(archived.stdout)) as archive:
            archive.extractall(folder, filter="data")
    for name in _TODAYS:
        (folder / name).write_text(_for_packages_of(folder, (ROOT / name).read_text()))
    shutil.copytree(ROOT / "requirements", folder / "requirements", dirs_exist_ok=True)
    shutil.copytree(ROOT / "console", folder / "console", dirs_exist_ok=True, ignore=_BUILT)
    packages = "runtime/tieline_packages"  # today's Dockerfile copies it; nothing of that release asks for it
    shutil.copytree(ROOT / packages, folder / packages, dirs_exist_ok=True)
    return _built(provider, folder)


def _for_packages_of(checkout: Path, text: str) -> str:
    """Today's file with the names of packages that the checkout has; lines about packages that it lacks go."""
    for today, then in _RENAMED.items():
        if not (checkout / "core" / today).exists():
            text = text.replace(today, then)
    for package in ("tieline_operator", "tieline_api"):
        # Where its command starts.
        if not (checkout / package.removeprefix("tieline_") / package / "command.py").exists():
            text = text.replace(f"{package}.command:main", f"{package}.main:main")
    lacking = [name for name in _ADDED if not (checkout / "core" / name).exists()]
    return "".join(
        line for line in text.splitlines(keepends=True) if not any(name in line for name in lacking)
    )


def _twin(folder: Path) -> None:
    """This release with other images: the same code, in files that differ."""
    for name in (*_KEPT, "deploy/policies"):
        shutil.copytree(ROOT / name, folder / name, symlinks=True, ignore=_COMPILED)
    for package in ("core/tieline_core", "runtime/tieline"):
        with (folder / package / "__init__.py").open("a") as file:
            file.write("# The previous release.\n")


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
    found = json.loads(kubectl("get", _KINDS, "-o", "json", namespace=namespace).stdout)["items"]
    pods = json.loads(kubectl("get", "pods", "-o", "json", namespace=namespace).stdout)["items"]
    versions = {
        f"{item['kind']}/{item['metadata']['name']}": item["metadata"]["resourceVersion"]
        for item in found
        if item["metadata"]["name"] not in _CODE_INDEPENDENT
    }
    serving = [pod["metadata"] for pod in pods if "deletionTimestamp" not in pod["metadata"]]
    return versions | {f"Pod/{pod['name']}": pod["uid"] for pod in serving}


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
