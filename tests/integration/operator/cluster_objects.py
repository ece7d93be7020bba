"""What a user of the cluster does: apply objects, change them, and wait for what their status says."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from tests.harness.cluster.kubectl import Kubectl
from tests.harness.session.waiting import eventually


@dataclass(frozen=True)
class NamespacedKubectl:
    """kubectl in one namespace."""

    kubectl: Kubectl
    namespace: str

    def apply(self, kind: str, name: str, spec: dict[str, Any]) -> None:
        """Applies one of our objects, as a GitOps tool would."""
        manifest = {
            "apiVersion": "tieline.dev/v1alpha1",
            "kind": kind,
            "metadata": {"name": name, "namespace": self.namespace},
            "spec": spec,
        }
        self.kubectl("apply", "--server-side", "-f", "-", stdin=json.dumps(manifest))

    def run(self, *arguments: str) -> str:
        return self.kubectl(*arguments, namespace=self.namespace).stdout

    def get(self, kind: str, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.kubectl.read(kind, name, namespace=self.namespace)
        return found

    def list(self, kind: str, selector: str = "") -> list[dict[str, Any]]:
        chosen = ["-l", selector] if selector else []
        items: list[dict[str, Any]] = self.kubectl.read(kind, *chosen, namespace=self.namespace)["items"]
        return items

    def workload(self, kind: str, project: str, environment: str = "production") -> list[dict[str, Any]]:
        return self.list(kind, f"tieline.dev/project={project},tieline.dev/environment={environment}")

    def until_ready(self, kind: str, name: str, status: str, reason: str) -> dict[str, Any]:
        """The object, once its Ready has this status and reason."""

        def probe() -> dict[str, Any] | None:
            found = self.get(kind, name)
            condition = ready(found)
            return found if (condition.get("status"), condition.get("reason")) == (status, reason) else None

        return eventually(f"{kind} {name} is {status}/{reason}", probe, seen=lambda: self.get(kind, name))

    def until_environment(self, project: str, state: str, words: str = "") -> dict[str, Any]:
        """The first environment of a project, once its status and message are these."""

        def probe() -> dict[str, Any] | None:
            environments = self.get("project", project).get("status", {}).get("environments", [])
            found = environments[0] if environments else {}
            return found if found.get("status") == state and words in found.get("message", "") else None

        return eventually(f"{project} is {state}", probe, seen=lambda: self.get("project", project)["status"])


def ready(obj: dict[str, Any]) -> dict[str, Any]:
    """The Ready condition, or nothing."""
    conditions = obj.get("status", {}).get("conditions", [])
    return next((condition for condition in conditions if condition["type"] == "Ready"), {})


def project_spec(code: str = "print('one')\n", **more: Any) -> dict[str, Any]:
    """A project with one file and an environment that follows it."""
    return {
        "name": "Order sync",
        "source": {"files": [{"filename": "main.py", "content": code}]},
        "environments": [{"name": "production", "version": "latest"}],
        **more,
    }


SYSTEM = {
    "name": "Shop",
    "domain": "shop.example",
    "templateBaseUrl": "https://shop.example",
    "authSchemeConfigs": [{"id": "basic", "type": "basic-auth"}],
}


def connection_spec(system: str, secret: str) -> dict[str, Any]:
    credential = {
        "id": "main",
        "authSchemeConfigId": "basic",
        "type": "basic-auth",
        "secretRef": {"name": secret},
    }
    return {"name": f"Login to {system}", "systemRef": {"name": system}, "credentials": [credential]}
