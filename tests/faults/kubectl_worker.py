"""The operations through kubectl's server-side apply."""

from __future__ import annotations

import json
import random
import time
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from tests.faults.clients import KubectlClient, Rest, WriteResult
from tests.faults.ha_platform import secret_manifest
from tests.faults.model import Model, Outcome, Project
from tests.faults.rest_worker import NOTHING
from tests.faults.shop import Shop
from tests.faults.worker import SCHEMA, Log, Worker, code

SYSTEM = "shop-by-kubectl"


@dataclass
class DesiredProject:
    """What the project's manifest says at present."""

    text: str
    version: str = "latest"
    serves: str = ""
    """What that version answers, where it is not the text."""
    suspended: bool = False


class KubectlWorker(Worker):
    """Applies whole manifests, as GitOps tools do."""

    door: ClassVar[str] = "kubectl"

    def __init__(
        self,
        name: str,
        model: Model,
        shop: Shop,
        log: Log,
        rng: random.Random,
        *,
        apply: KubectlClient,
        rest: Rest,
    ) -> None:
        super().__init__(name, model, shop, log, rng)
        self.apply = apply
        self.rest = rest
        self.wanted: dict[str, DesiredProject] = {}

    def projects(self) -> list[Project]:
        return [one for one in super().projects() if one.complete]

    def create(self, project: Project) -> Outcome:
        text, key, family = self._text(project), next(self._numbers), next(self._numbers)
        steps = [
            (project.key, key, lambda: self.put_key(project, self.shop.key(key))),
            (project.family, family, lambda: self.put_tokens(project, self.shop.log_in(family))),
        ]
        began = time.monotonic()
        made = self._change(project, DesiredProject(text))
        project.exists.write(True, began, made.outcome)
        project.text.write(text, began, made.outcome)
        if made.outcome is not Outcome.DONE:
            self.log.note(f"    {made.text[-200:]}")
            return made.outcome
        for register, value, act in steps:
            if self._write(register, value, act) is not Outcome.DONE:
                break
        else:
            if all(self._connect(project, name) for name in ("desk", "bank")):
                project.complete = True
                return Outcome.DONE
        self._delete(project)
        return Outcome.REFUSED

    def deploy(self, project: Project, text: str) -> WriteResult:
        return self._change(project, DesiredProject(text))

    def roll_back(self, project: Project) -> Outcome:
        listed = self.apply("get", "projectversions", "-o", "json")
        if listed.outcome is not Outcome.DONE:
            return Outcome.REFUSED
        versions = [
            one
            for one in json.loads(listed.text)["items"]
            if one["spec"]["projectRef"]["name"] == project.name
        ]
        versions = sorted(versions, key=lambda one: one["metadata"]["creationTimestamp"])[-5:]
        if not versions:
            return Outcome.REFUSED
        version = self.rng.choice(versions)
        serves = version["spec"]["labels"]["says"]
        wanted = DesiredProject(self.wanted[project.name].text, version["metadata"]["name"], serves)
        return self.deployed(project, serves, lambda: self._change(project, wanted))

    def suspend(self, project: Project) -> WriteResult:
        wanted = replace(self.wanted[project.name], suspended=True)
        began = time.monotonic()
        said = self._change(project, wanted)
        # The manifest says which version, too: it may make up for a write before that got lost.
        project.text.write(wanted.serves or wanted.text, began, said.outcome)
        return said

    def put_region(self, project: Project, region: str) -> WriteResult:
        spec = {**self._place(project), "variables": {"region": region}}
        return self.apply.apply("Activation", f"{project.name}-static", spec)

    def put_key(self, project: Project, key: str) -> WriteResult:
        return self.apply.apply_object(secret_manifest(f"{project.name}-desk", {"value": key}))

    def put_tokens(self, project: Project, tokens: dict[str, str]) -> WriteResult:
        return self.apply.apply_object(secret_manifest(f"{project.name}-bank", tokens))

    def delete(self, project: Project) -> WriteResult:
        """All that was applied for it, the project last: what fails half-way can be done again."""
        mine = [
            f"{kind}/{project.name}-{name}"
            for kind in ("connectiontemplate", "connection", "secret")
            for name in ("desk", "bank")
        ]
        users = [user for name, user in self.model.activations if name == project.name]
        mine += [f"activation/{project.name}-{name}" for name in ("static", *users)]
        gone = ("delete", "--ignore-not-found", "--wait=false")
        said = self.apply(*gone, *mine)
        if said.outcome is not Outcome.DONE:
            # It is not asked for again: what is left of the project counts for nothing.
            project.complete = False
            return WriteResult(Outcome.REFUSED, said.status, None, said.text)
        return self.apply(*gone, f"project/{project.name}")

    def create_user(self, user: str) -> WriteResult:
        return self.apply.apply("EndUser", user, {"externalId": user, "displayName": user})

    def delete_user(self, user: str) -> WriteResult:
        mine = [
            f"activation/{name}-{user}" for name, activated in self.model.activations if activated == user
        ]
        return self.apply("delete", "--ignore-not-found", "--wait=false", *mine, f"enduser/{user}")

    def activate(self, project: Project, user: str, region: str) -> WriteResult:
        spec = {**self._place(project), "endUserRef": {"name": user}, "variables": {"region": region}}
        return self.apply.apply("Activation", f"{project.name}-{user}", spec)

    def deactivate(self, project: Project, user: str) -> WriteResult:
        if not self.model.activations[project.name, user].value:
            return NOTHING
        name = f"activation/{project.name}-{user}"
        return self.apply("delete", "--ignore-not-found", "--wait=false", name)

    def trespass(self, project: Project) -> Outcome:
        listed = self.rest("GET", "/projects")
        found = [one for one in (listed.body or {}).get("projects", []) if one["name"] == project.name]
        if not found:
            return Outcome.REFUSED
        return self.rest("PUT", f"/projects/{found[0]['id']}", {"name": "Mine now"}).outcome

    def _place(self, project: Project) -> dict[str, Any]:
        return {"projectRef": {"name": project.name}, "environment": "production"}

    def _change(self, project: Project, wanted: DesiredProject) -> WriteResult:
        environment = {"name": "production", "version": wanted.version, "suspended": wanted.suspended}
        spec = {
            "name": project.name,
            "labels": {"says": wanted.text},
            "source": {"files": [{"filename": "main.py", "content": code(wanted.text)}]},
            "dynamicVariablesSchema": SCHEMA,
            "environments": [environment],
        }
        said = self.apply.apply("Project", project.name, spec)
        if said.outcome is not Outcome.REFUSED:
            self.wanted[project.name] = wanted
        return said

    def _connect(self, project: Project, name: str) -> bool:
        credential = {
            "id": "it",
            "authSchemeConfigId": {"desk": "key", "bank": "login"}[name],
            "type": {"desk": "string", "bank": "oauth2-token"}[name],
            "secretRef": {"name": f"{project.name}-{name}"},
        }
        connection = {
            "name": f"{project.name} {name}",
            "systemRef": {"name": SYSTEM},
            "credentials": [credential],
        }
        template = {
            "name": name,
            **self._place(project),
            "systemRef": {"name": SYSTEM},
            "connectionRef": {"name": f"{project.name}-{name}"},
        }
        applied = (
            self.apply.apply("Connection", f"{project.name}-{name}", connection),
            self.apply.apply("ConnectionTemplate", f"{project.name}-{name}", template),
        )
        return all(said.outcome is Outcome.DONE for said in applied)
