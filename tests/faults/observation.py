"""What is there, read as anybody could: by kubectl, by REST at each replica, and by asking the pods."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from http.client import HTTPException
from typing import Any

from tests.faults.clients import Rest
from tests.faults.model import Outcome
from tests.harness.cluster.deployed_platform import http
from tests.harness.cluster.kubectl import Kubectl

OWN = (
    "systems.tieline.dev",
    "connectiontemplates.tieline.dev",
    "connections.tieline.dev",
    "projects.tieline.dev",
    "projectversions.tieline.dev",
    "activations.tieline.dev",
    "endusers.tieline.dev",
    "connectors.tieline.dev",
    "connectorversions.tieline.dev",
    "environments.tieline.dev",
)
CHILDREN = (
    "deployments.apps",
    "replicasets.apps",
    "pods",
    "services",
    "serviceaccounts",
    "networkpolicies",
    "poddisruptionbudgets",
    "configmaps",
    "secrets",
)
Obj = dict[str, Any]


@dataclass
class Observation:
    """One look at everything."""

    objects: dict[str, list[Obj]] = field(default_factory=lambda: defaultdict(list))
    """By kind."""
    rest_projects: list[dict[str, str]] = field(default_factory=list)
    """The status of each project's environment by name, as each replica has it."""
    rest_users: list[set[str]] = field(default_factory=list)
    served: dict[str, Any] = field(default_factory=dict)
    """What each project's pods answer, by name; a text where they do not."""
    problems: list[str] = field(default_factory=list)
    """What could not be read."""

    def projects(self) -> dict[str, Obj]:
        """By the name for people."""
        return {obj["spec"]["name"]: obj for obj in self.objects["Project"]}

    def all(self) -> list[Obj]:
        return [obj for objects in self.objects.values() for obj in objects]


def environment(project: Obj) -> Obj:
    """The status of a project's environment, empty where it has none yet."""
    found: list[Obj] = project.get("status", {}).get("environments", [])
    return found[0] if found else {}


def look(kubectl: Kubectl, namespace: str, replicas: list[Rest]) -> Observation:
    """Reads everything of an organisation."""
    seen = Observation()
    listed = kubectl(
        "get",
        ",".join((*OWN, *CHILDREN)),
        "-o",
        "json",
        "--request-timeout=30s",
        namespace=namespace,
        check=False,
    )
    if listed.returncode:
        seen.problems.append(f"kubectl cannot read: {listed.stderr[-300:]}")
        return seen
    for obj in json.loads(listed.stdout)["items"]:
        seen.objects[obj["kind"]].append(obj)
    for rest in replicas:
        projects = rest("GET", "/projects")
        if projects.outcome is not Outcome.DONE:
            seen.problems.append(
                f"{rest.urls[0]} does not list projects: {projects.status} {projects.text[:200]}"
            )
            continue
        seen.rest_projects.append(
            {one["name"]: one["environments"][0]["status"] for one in projects.body["projects"]}
        )
        seen.rest_users.append(_users(rest, seen))
    running = {
        name: environment(project)["publicUrl"]
        for name, project in seen.projects().items()
        if environment(project).get("status") == "running"
    }
    with ThreadPoolExecutor(8) as pool:
        seen.served = dict(zip(running, pool.map(_ask, running.values()), strict=True))
    return seen


def texts(kubectl: Kubectl, namespace: str, seen: Observation, rest: Rest) -> dict[str, str]:
    """Everything that people can read, where no secret may be: name to content."""
    places = {
        f"{obj['kind']} {obj['metadata']['name']}": json.dumps(obj)
        for obj in seen.all()
        if obj["kind"] != "Secret"
    }
    for kind in ("events", "events.events.k8s.io"):
        places[kind] = kubectl("get", kind, "-o", "json", namespace=namespace, check=False).stdout
    for pod in seen.objects["Pod"]:
        name = pod["metadata"]["name"]
        asked = ("logs", name, "--all-containers", "--tail=-1", "--request-timeout=20s")
        places[f"log of {name}"] = kubectl(*asked, namespace=namespace, check=False).stdout
        if address := pod.get("status", {}).get("podIP"):
            places[f"metrics of {name}"] = _text(f"http://{address}:8081/metrics")
    for project in seen.objects["Project"]:
        identifier = project["metadata"]["labels"]["tieline.dev/id"]
        traces = rest("GET", f"/projects/{identifier}/traces")
        places[f"traces of {project['spec']['name']}"] = traces.text
        for trace in ((traces.body or {}).get("traces") or [])[:5]:
            path = f"/projects/{identifier}/traces/{trace.get('traceId') or trace.get('id')}"
            places[f"trace {path}"] = rest("GET", path).text
        for what in ("logs", "versions", "connections", "variables"):
            places[f"{what} of {project['spec']['name']}"] = rest(
                "GET", f"/projects/{identifier}/{what}"
            ).text
    for what in ("connections?first=200", "systems", "connectors"):
        places[what] = rest("GET", f"/{what}").text
    return places


def _users(rest: Rest, seen: Observation) -> set[str]:
    found: set[str] = set()
    after = ""
    while True:
        page = rest("GET", f"/users?first=200{after}")
        if page.outcome is not Outcome.DONE:
            seen.problems.append(f"{rest.urls[0]} does not list users: {page.status}")
            return found
        found |= {user["externalId"] for user in page.body["users"]}
        if not page.body.get("next"):
            return found
        after = f"&after={page.body['next']}"


def _ask(url: str) -> Any:
    def ask() -> Any:
        answer = http("GET", f"{url}/state", timeout=15)
        return answer.json if answer.status == 200 else f"{answer.status} {answer.body[:300]!r}"

    return _or_error(ask)


def _text(url: str) -> str:
    return str(_or_error(lambda: http("GET", url, timeout=5).body.decode("utf-8", "replace")))


def _or_error(read: Callable[[], Any]) -> Any:
    try:
        return read()
    except (OSError, HTTPException, ValueError) as error:
        return repr(error)
