"""What must be true once everything has come to rest. Pure: from what was seen to sentences that complain.

It knows nothing of how the platform does it; it compares what clients were told with what is there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from tests.faults.model import Model, Project
from tests.faults.observation import Obj, Observation, environment

SERVED = {"Deployment": 1, "Service": 1, "ServiceAccount": 1, "NetworkPolicy": 1}
"""The children of an environment that is not a draft, and how many of each."""
PROJECT_LABEL = "tieline.dev/project"
DELETION = timedelta(seconds=60)
"""Longer than any pod may take to end."""


@dataclass(frozen=True)
class Verdict:
    """What was found to be so, and what is wrong."""

    facts: dict[str, Any]
    """The values of the model's registers, by their names."""
    complaints: list[str]


def judge(model: Model, seen: Observation, now: datetime) -> Verdict:
    """Compares everything."""
    if seen.problems:
        return Verdict({}, seen.problems)
    facts = observe(model, seen)
    complaints = [
        *_differences(model, facts),
        *_inventions(model, seen),
        *_environments(model, seen),
        *_doors_agree(seen),
        *_conditions(model, seen),
        *orphans(seen),
        *hanging(seen, now),
    ]
    return Verdict(facts, complaints)


def observe(model: Model, seen: Observation) -> dict[str, Any]:
    """The registers' values as they are seen."""
    facts: dict[str, Any] = {}
    found = seen.projects()
    for name, project in model.projects.items():
        facts[f"{name}.exists"] = name in found
        if name in found and project.complete:
            facts |= _of_project(project, found[name], seen)
    users = {obj["spec"]["externalId"] for obj in seen.objects["EndUser"]}
    facts |= {f"user {user}": user in users for user in model.users}
    activations = _activations(seen)
    for project_name, user in model.activations:
        wanted = model.projects[project_name]
        if project_name in found and wanted.complete:
            key = f"activation of {user} in {project_name}"
            facts[key] = activations.get((project_name, user), "")
    return facts


def _of_project(project: Project, obj: Obj, seen: Observation) -> dict[str, Any]:
    name, state, spec = project.name, environment(obj), obj["spec"]["environments"][0]
    facts: dict[str, Any] = {f"{name}.suspended": bool(spec.get("suspended"))}
    says = {one["metadata"]["name"]: _says(one) for one in seen.objects["ProjectVersion"]}
    wanted = spec.get("version", "")
    # What follows the latest follows the project's own files and labels.
    facts[f"{name}.text"] = _says(obj) if wanted == "latest" else says.get(wanted, "")
    if state.get("status") == "running" and says.get(state.get("version", "")) != facts[f"{name}.text"]:
        facts[f"{name}.text"] = f"{says.get(state.get('version', ''))!r} where {wanted} is wanted"
    served = seen.served.get(name)
    if isinstance(served, dict):
        facts[f"{name}.region"] = served["region"]
        facts[f"{name}.key"] = served["desk"].get("key", f"status {served['desk']['status']}")
        facts[f"{name}.family"] = served["bank"].get("family", f"status {served['bank']['status']}")
        if served["text"] != facts[f"{name}.text"]:
            facts[f"{name}.text"] = f"{served['text']!r} where {facts[f'{name}.text']!r} is deployed"
    return facts


def _says(obj: Obj) -> str:
    text: str = obj["spec"].get("labels", {}).get("says", "")
    return text


def _differences(model: Model, facts: dict[str, Any]) -> Iterable[str]:
    for name, register in model.registers():
        if name in facts and facts[name] not in register.may_be():
            yield f"{name} is {facts[name]!r}, and what was written makes it one of {register.may_be()!r}"


def _inventions(model: Model, seen: Observation) -> Iterable[str]:
    """What nobody asked for."""
    names = Counter(obj["spec"]["name"] for obj in seen.objects["Project"])
    for name, count in names.items():
        if name not in model.projects:
            yield f"There is a project {name!r} that nobody created"
        elif count > 1:
            yield f"The project {name} is there {count} times"
    users = Counter(obj["spec"]["externalId"] for obj in seen.objects["EndUser"])
    for user, count in users.items():
        if user not in model.users or count > 1:
            yield f"There are {count} users {user!r}"
    for place in _activations(seen):
        if place not in model.activations:
            yield f"There is an activation of {place[1]} in {place[0]} that nobody made"


def _environments(model: Model, seen: Observation) -> Iterable[str]:
    """Each environment does what its spec says, with one of each child."""
    children: dict[str, Counter[str]] = {}
    for obj in seen.all():
        project = obj["metadata"].get("labels", {}).get(PROJECT_LABEL)
        if project and "deletionTimestamp" not in obj["metadata"]:
            children.setdefault(project, Counter())[obj["kind"]] += 1
    for name, obj in seen.projects().items():
        if name not in model.projects or not model.projects[name].complete:
            continue
        spec, state = obj["spec"]["environments"][0], environment(obj)
        wanted = "suspended" if spec.get("suspended") else "running" if spec.get("version") else "draft"
        if state.get("status") != wanted:
            yield f"{name} is {state.get('status')} instead of {wanted}: {state.get('message', '')}"
            continue
        own = children.get(obj["metadata"]["name"], Counter())
        if wanted != "draft":
            for kind, count in SERVED.items():
                if own[kind] != count:
                    yield f"{name} has {own[kind]} {kind}"
        pods = 1 if wanted == "running" else 0
        if own["Pod"] != pods:
            yield f"{name} is {wanted} and has {own['Pod']} pods"
        if wanted == "running" and not isinstance(seen.served.get(name), dict):
            yield f"{name} does not answer: {seen.served.get(name)}"


def _doors_agree(seen: Observation) -> Iterable[str]:
    by_kubectl = {name: environment(obj).get("status") for name, obj in seen.projects().items()}
    users = {obj["spec"]["externalId"] for obj in seen.objects["EndUser"]}
    for replica, projects in enumerate(seen.rest_projects):
        for name in by_kubectl.keys() | projects.keys():
            if by_kubectl.get(name) != projects.get(name):
                yield f"{name} is {by_kubectl.get(name)} by kubectl, {projects.get(name)} at API {replica}"
    for replica, known in enumerate(seen.rest_users):
        if known != users:
            yield f"Users {sorted(known ^ users)} are not the same by kubectl and at API {replica}"


def _conditions(model: Model, seen: Observation) -> Iterable[str]:
    """Nothing is still being worked on, and all that should work does."""
    broken = {
        obj["metadata"]["name"]
        for name, obj in seen.projects().items()
        if name in model.projects and not model.projects[name].complete
    }
    for obj in seen.all():
        if not obj["apiVersion"].startswith("tieline.dev/"):
            continue
        what, status = f"{obj['kind']} {obj['metadata']['name']}", obj.get("status", {})
        conditions = {one["type"]: one for one in status.get("conditions", [])}
        if "Ready" not in conditions:
            if obj["kind"] not in ("ProjectVersion", "ConnectorVersion"):
                yield f"{what} has no Ready"
            continue
        ready = conditions["Ready"]
        if status.get("observedGeneration") != obj["metadata"].get("generation"):
            yield f"{what} was not looked at since its last change"
        elif ready["status"] == "Unknown":
            yield f"{what} is still worked on: {ready['reason']}"
        elif ready["status"] == "False" and not _excused(obj, broken):
            yield f"{what} is not ready: {ready['reason']}: {ready['message']}"


def _excused(obj: Obj, broken: set[str]) -> bool:
    """Whether it belongs to a project that was made or deleted by halves."""
    name = obj["metadata"]["name"]
    project = obj["spec"].get("projectRef", {}).get("name", "")
    title = obj["spec"].get("name", "").split(" ")[0]
    return bool({name, project, title, name.rsplit("-", 1)[0]} & broken) or (
        obj["kind"] in ("Connection", "Connector") and bool(broken)
    )


def orphans(seen: Observation) -> Iterable[str]:
    """What has lost the object that it belongs to."""
    uids = {obj["metadata"]["uid"] for obj in seen.all()}
    projects = {obj["metadata"]["name"] for obj in seen.objects["Project"]}
    for obj in seen.all():
        metadata = obj["metadata"]
        what = f"{obj['kind']} {metadata['name']}"
        for owner in metadata.get("ownerReferences", []):
            if owner["uid"] not in uids:
                yield f"{what} is left of {owner['kind']} {owner['name']}"
        named = metadata.get("labels", {}).get(PROJECT_LABEL) or obj.get("spec", {}).get(
            "projectRef", {}
        ).get("name")
        if named and named not in projects:
            yield f"{what} is left of the project {named}"


def hanging(seen: Observation, now: datetime) -> Iterable[str]:
    """What is being deleted for too long, or could be held up by us."""
    for obj in seen.all():
        metadata = obj["metadata"]
        what = f"{obj['kind']} {metadata['name']}"
        if since := metadata.get("deletionTimestamp"):
            if now - datetime.fromisoformat(since) > DELETION:
                yield f"{what} has been going since {since}, with finalizers {metadata.get('finalizers')}"
        elif metadata.get("finalizers"):
            yield f"{what} has finalizers {metadata['finalizers']}"


def _activations(seen: Observation) -> dict[tuple[str, str], str]:
    """The region of each user's activation, by project and user."""
    projects = {obj["metadata"]["name"]: obj["spec"]["name"] for obj in seen.objects["Project"]}
    users = {obj["metadata"]["name"]: obj["spec"]["externalId"] for obj in seen.objects["EndUser"]}
    found = {}
    for obj in seen.objects["Activation"]:
        spec = obj["spec"]
        if "endUserRef" in spec and spec["projectRef"]["name"] in projects:
            user = users.get(spec["endUserRef"]["name"], spec["endUserRef"]["name"])
            found[projects[spec["projectRef"]["name"]], user] = spec.get("variables", {}).get(
                "region", "none"
            )
    return found


def settle(model: Model, facts: dict[str, Any]) -> None:
    """From now on the model holds what was seen."""
    for name, register in model.registers():
        if name in facts:
            register.settle(facts[name])


def told(complaints: Sequence[str]) -> str:
    """A short account of complaints."""
    return f"{len(complaints)} complaints, such as: {complaints[0]}" if complaints else "none"
