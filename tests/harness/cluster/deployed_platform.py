"""Acting on the deployed platform as users do, and waiting for what they would see."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from typing import Any

import yaml

from tests.harness.cluster.kubectl import Kubectl, Organisation
from tests.harness.session.waiting import PATIENCE, eventually


@dataclass(frozen=True)
class Answer:
    """An HTTP answer, read as a whole."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def http(
    method: str, url: str, *, body: Any = None, headers: dict[str, str] | None = None, timeout: float = 30
) -> Answer:
    """One request; statuses from 400 on are answers, not exceptions."""
    data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data=data, method=method, headers=dict(headers or {}))
    if data is not None:
        request.add_header("Content-Type", "application/json")
    try:
        with urllib.request.urlopen(request, timeout=timeout) as response:
            return Answer(response.status, dict(response.headers), response.read())
    except urllib.error.HTTPError as error:
        return Answer(error.code, dict(error.headers), error.read())


@dataclass(frozen=True)
class Platform:
    """The deployed platform."""

    kubectl: Kubectl
    url: str
    images: dict[str, str]


@dataclass(frozen=True)
class Rest:
    """The REST API as one caller of one organisation."""

    url: str
    token: str
    organisation: str

    @property
    def authorised(self) -> dict[str, str]:
        """The header that says who calls."""
        return {"Authorization": f"Bearer {self.token}"}

    def __call__(
        self, method: str, path: str, body: Any = None, *, timeout: float = 30, **headers: str
    ) -> Answer:
        return http(
            method,
            f"{self.url}/api/v2/o/{self.organisation}{path}",
            body=body,
            headers={**self.authorised, **headers},
            timeout=timeout,
        )


def administrator(platform: Platform, organisation: Organisation) -> Rest:
    """The API as an administrator of the organisation, once it knows both."""
    kubectl, namespace = platform.kubectl, organisation.namespace
    kubectl("create", "serviceaccount", "admin", namespace=namespace)
    account = f"--serviceaccount={namespace}:admin"
    kubectl("create", "rolebinding", "admin", "--clusterrole=tieline-admin", account, namespace=namespace)
    token = kubectl("create", "token", "admin", "--duration=6h", namespace=namespace).stdout.strip()
    client = Rest(url=platform.url, token=token, organisation=organisation.id)
    eventually("the organisation known", lambda: client("GET", "/projects").status == 200)
    return client


@dataclass
class Tenant:
    """One organisation on the platform, through kubectl."""

    kubectl: Kubectl
    namespace: str
    applied: list[str] = field(default_factory=list)

    def apply(self, *manifests: dict[str, Any]) -> None:
        text = yaml.safe_dump_all(
            [{"apiVersion": "tieline.dev/v1alpha1", **manifest} for manifest in manifests]
        )
        self.kubectl("apply", "-f", "-", namespace=self.namespace, stdin=text)

    def get(self, *what: str) -> dict[str, Any]:
        found: dict[str, Any] = self.kubectl.read(*what, namespace=self.namespace)
        return found

    def environment(self, project: str, name: str = "production") -> dict[str, Any]:
        environments = self.get("project", project)["status"]["environments"]
        return next(found for found in environments if found["name"] == name)

    def until(
        self,
        project: str,
        status: str,
        *,
        message: str = "",
        version: str | None = None,
        within: float = PATIENCE,
    ) -> dict[str, Any]:
        """The environment once it has the status (and the message, and the version that serves)."""

        def probe() -> dict[str, Any] | None:
            found = self.environment(project)
            fits = (
                found["status"] == status
                and message in found.get("message", "")
                and version in (None, found.get("version"))
            )
            if not fits:
                raise AssertionError(found)
            return found

        found = eventually(f"{project} {status} {message!r}", probe, within=within)
        if status == "running":
            # Nodes learn of a ready pod within a second or so (kube-proxy's interval): until then a connection
            # to a Service without other pods is refused.
            eventually("a connection", lambda: http("GET", found["publicUrl"], timeout=5))
        return found

    def pods(self, project: str) -> list[dict[str, Any]]:
        """The project's pods that have not ended; Kubernetes keeps the records of ended ones for a while."""
        found = self.get("pods", "-l", f"tieline.dev/project={project}")["items"]
        return [pod for pod in found if pod["status"]["phase"] not in ("Succeeded", "Failed")]


def project(code: str, *, name: str = "orders", **spec: Any) -> dict[str, Any]:
    """A project with one file that follows the latest version."""
    return {
        "kind": "Project",
        "metadata": {"name": name},
        "spec": {
            "name": "Orders",
            "source": {"files": [{"filename": "main.py", "content": code}]},
            "environments": [{"name": "production", "version": "latest"}],
            **spec,
        },
    }


def answering(text: str) -> str:
    """Code whose webhook ``hello`` answers ``text``."""
    return (
        "from tieline import Integration\n"
        "integration = Integration()\n"
        '@integration.webhook("hello", methods=["GET", "POST"])\n'
        "async def hello(ctx, request):\n"
        f"    return {{'says': {text!r}}}\n"
    )


RESTRICTED = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}
"""A container's securityContext that organisations' namespaces admit."""


def external_system(name: str, *, image: str, program: str) -> list[dict[str, Any]]:
    """A pod that runs a Python program, which listens on port 8080, and its Service on port 80."""
    labels = {"app": name}
    container = {
        "name": name,
        "image": image,
        "command": ["python", "-c", program],
        "ports": [{"containerPort": 8080}],
        # On a busy machine it may be slow, and is there all the same: its Service refuses nobody for that.
        "readinessProbe": {
            "httpGet": {"path": "/", "port": 8080},
            "periodSeconds": 1,
            "timeoutSeconds": 10,
            "failureThreshold": 10,
        },
        "securityContext": RESTRICTED,
    }
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels}}
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}}
    ports = [{"port": 80, "targetPort": 8080}]
    return [
        {**pod, "spec": {"containers": [container]}},
        {**service, "spec": {"selector": labels, "ports": ports}},
    ]


def says(url: str) -> str:
    """What the webhook ``hello`` at ``url`` answers."""
    answer = http("GET", f"{url}/hello", timeout=5)
    assert answer.status == 200, answer
    return str(answer.json["says"])
