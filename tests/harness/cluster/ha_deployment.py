"""The platform as ``deploy/overlays/highly-available`` deploys it, with the images and settings of the tests."""

from __future__ import annotations

import json
import os
import re
import shlex
from pathlib import Path
from typing import Any

from tests.harness.cluster.deployed_platform import Platform
from tests.harness.cluster.kubectl import ROOT
from tests.harness.session import fast_yaml
from tests.harness.session.waiting import eventually

NAMESPACE = "tieline-system"
PARTS = ("tieline-operator", "tieline-api")
"""Of which there are two."""
_OVERLAYS = ROOT / "deploy" / "overlays"


def apply_highly_available(platform: Platform, folder: Path) -> None:
    """Returns once two operators and two APIs are ready, and those before have ended."""
    local = fast_yaml.load((_OVERLAYS / "local" / "kustomization.yaml").read_text())
    runtime = [{"op": "replace", "path": "/data/TIELINE_RUNTIME_IMAGE", "value": platform.images["runtime"]}]
    kustomization: dict[str, Any] = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [os.path.relpath(_OVERLAYS / "highly-available", folder)],
        "images": [
            _renamed("tieline-platform", platform.images["platform"]),
            _renamed("docker.io/library/nats", platform.images["engine"]),
        ],
        "patches": [
            *local["patches"],
            {"target": {"kind": "ConfigMap", "name": "tieline"}, "patch": json.dumps(runtime)},
        ],
    }
    (folder / "kustomization.yaml").write_text(json.dumps(kustomization))
    _stop_engine(platform)
    platform.kubectl("apply", "--server-side", "--force-conflicts", "-k", str(folder))
    rolled_out(platform)


def _stop_engine(platform: Platform) -> None:
    """As docs/operations.md says for a change of the number of engines; an engine that has three already goes on."""
    found = platform.kubectl("get", "statefulset", "tieline-engine", "-o", "json", namespace=NAMESPACE).stdout
    if json.loads(found)["spec"]["replicas"] > 1:
        return
    text = (ROOT / "docs" / "operations.md").read_text()
    steps = text.partition("### Change the number of engines")[2].partition("4. Upgrade")[0]
    commands = re.findall(r"^ +kubectl (.+)$", steps, re.MULTILINE)
    assert len(commands) == 4, commands
    for command in commands:
        platform.kubectl(*shlex.split(command), timeout=150)


def _renamed(image: str, reference: str) -> dict[str, str]:
    name, _, tag = reference.rpartition(":")
    return {"name": image, "newName": name, "newTag": tag}


def rolled_out(platform: Platform) -> None:
    """Returns once all replicas are of the newest template and ready, and the others have ended."""
    for part in PARTS:
        platform.kubectl(
            "rollout", "status", f"deployment/{part}", "--timeout=300s", namespace=NAMESPACE, timeout=320
        )
        eventually(f"two pods of {part}", lambda part=part: len(pods(platform, part)) == 2)
    engine = ("rollout", "status", "statefulset/tieline-engine", "--timeout=300s")
    platform.kubectl(*engine, namespace=NAMESPACE, timeout=320)


def pods(platform: Platform, part: str) -> list[dict[str, Any]]:
    """The pods that there are, those that are ending too."""
    return items(platform, "pods", "-l", f"app.kubernetes.io/name={part}")


def items(platform: Platform, *what: str) -> list[dict[str, Any]]:
    found = platform.kubectl("get", *what, "-o", "json", namespace=NAMESPACE)
    listed: list[dict[str, Any]] = json.loads(found.stdout)["items"]
    return listed


def leader(platform: Platform) -> str:
    """The pod that leads."""
    lease = platform.kubectl("get", "lease", "tieline-operator", "-o", "json", namespace=NAMESPACE)
    holder: str = json.loads(lease.stdout)["spec"].get("holderIdentity") or ""
    return holder.rpartition("_")[0]
