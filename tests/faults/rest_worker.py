"""The operations through REST."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field
from typing import Any, ClassVar

from tests.faults.clients import Rest, WriteResult
from tests.faults.model import Model, Outcome, Project
from tests.faults.shop import CLIENT, Shop
from tests.faults.worker import SCHEMA, Log, Worker, code

API_KEY = {"type": "api-key", "apiKey": {"id": "key", "name": "X-Key", "in": "header"}}
NOTHING = WriteResult(Outcome.REFUSED, 0, None, "there is nothing to do it with")


def login_scheme(shop: Shop) -> dict[str, Any]:
    """The shop's log-in, as an auth scheme."""
    client = {"clientId": CLIENT, "clientSecret": shop.client_secret}
    oauth2 = {
        "id": "login",
        "tokenUrl": f"{shop.url}/token",
        "authorizeUrl": f"{shop.url}/authorize",
        "grant": {"type": "authorizationCode", "authorizationCode": client},
        "pkce": True,
    }
    return {"type": "oauth2", "oauth2": oauth2}


@dataclass
class ProjectIds:
    """The ids of what belongs to a project."""

    project: str = ""
    environment: str = ""
    connections: dict[str, str] = field(default_factory=dict)
    activations: dict[str, str] = field(default_factory=dict)


class RestWorker(Worker):
    """Every request goes to one of the replicas by chance."""

    door: ClassVar[str] = "rest"

    def __init__(
        self, name: str, model: Model, shop: Shop, log: Log, rng: random.Random, *, rest: Rest, system: str
    ) -> None:
        super().__init__(name, model, shop, log, rng)
        self.rest = rest
        self.system = system
        """The id of the shop's System."""
        self.parts: dict[str, ProjectIds] = {}
        self.foreign: list[str] = []
        """The ids of projects whose names belong to kubectl."""

    def projects(self) -> list[Project]:
        return [one for one in super().projects() if one.complete]

    def create(self, project: Project) -> Outcome:
        began = time.monotonic()
        made = self.rest("POST", "/projects", {"name": project.name})
        project.exists.write(True, began, made.outcome)
        if made.outcome is not Outcome.DONE:
            return made.outcome
        parts = self.parts[project.name] = ProjectIds(made.body["id"], made.body["environments"][0]["id"])
        path = f"/projects/{parts.project}"
        done = self.rest("PUT", f"{path}/variables", SCHEMA).outcome is Outcome.DONE
        number = next(self._numbers)
        if done and self._connect(project, "desk", self._key_credential(self.shop.key(number))):
            project.key.write(number, time.monotonic(), Outcome.DONE)
            family = next(self._numbers)
            if self._connect(project, "bank", self._tokens_credential(self.shop.log_in(family))):
                project.family.write(family, time.monotonic(), Outcome.DONE)
                project.complete = True
                return self._deploy(project)
        # Half a project is of no use to anybody, and must go as a whole one does.
        self._delete(project)
        return Outcome.REFUSED

    def deploy(self, project: Project, text: str) -> WriteResult:
        body = {"files": [{"filename": "main.py", "content": code(text)}], "labels": {"says": text}}
        return self.rest("PUT", f"{self._path(project)}/deploy", body)

    def roll_back(self, project: Project) -> Outcome:
        page = self.rest("GET", f"{self._path(project)}/versions?first=6")
        if page.outcome is not Outcome.DONE or not page.body["items"]:
            return Outcome.REFUSED
        version = self.rng.choice(page.body["items"])
        path = f"{self._path(project)}/versions/{version['id']}/deploy"
        return self.deployed(project, version["labels"]["says"], lambda: self.rest("PUT", path))

    def suspend(self, project: Project) -> WriteResult:
        return self.rest("POST", f"{self._path(project)}/suspend?environment=production")

    def put_region(self, project: Project, region: str) -> WriteResult:
        path = f"/environments/{self.parts[project.name].environment}/variables"
        return self.rest("PATCH", path, {"region": region})

    def put_key(self, project: Project, key: str) -> WriteResult:
        return self._put_credential(project, "desk", self._key_credential(key))

    def put_tokens(self, project: Project, tokens: dict[str, str]) -> WriteResult:
        return self._put_credential(project, "bank", self._tokens_credential(tokens))

    def delete(self, project: Project) -> WriteResult:
        return self.rest("DELETE", self._path(project))

    def create_user(self, user: str) -> WriteResult:
        return self.rest("POST", "/users", {"externalId": user})

    def delete_user(self, user: str) -> WriteResult:
        return self.rest("DELETE", f"/users/{user}")

    def activate(self, project: Project, user: str, region: str) -> WriteResult:
        parts = self.parts[project.name]
        known = parts.activations.get(user)
        if known and self.model.activations[project.name, user].value:
            path = f"/environments/{parts.environment}/activations/{known}/variables"
            return self.rest("PATCH", path, {"region": region})
        body = {
            "userId": user,
            "environmentId": parts.environment,
            "connections": [],
            "dynamicVariables": {"region": region},
        }
        said = self.rest("POST", "/activations", body)
        if said.outcome is Outcome.DONE:
            parts.activations[user] = said.body["id"]
        return said

    def deactivate(self, project: Project, user: str) -> WriteResult:
        parts = self.parts[project.name]
        if user not in parts.activations:
            return NOTHING
        path = f"/environments/{parts.environment}/activations/{parts.activations[user]}"
        return self.rest("DELETE", path)

    def trespass(self, project: Project) -> Outcome:
        if not self.foreign:
            return Outcome.REFUSED
        identifier = self.rng.choice(self.foreign)
        said = self.rest("PUT", f"/projects/{identifier}", {"name": "Mine now"})
        return said.outcome

    def _path(self, project: Project) -> str:
        return f"/projects/{self.parts[project.name].project}"

    def _connect(self, project: Project, name: str, credential: dict[str, Any]) -> bool:
        template = {"systemId": self.system, "name": name}
        made = self.rest("POST", f"{self._path(project)}/connection-templates", template)
        if made.outcome is not Outcome.DONE:
            return False
        connection = {"name": f"{project.name} {name}", "credentials": [credential]}
        body = {"connectionTemplateId": made.body["connectionTemplateId"], "connection": connection}
        connected = self.rest("POST", "/connections", body)
        if connected.outcome is not Outcome.DONE:
            return False
        self.parts[project.name].connections[name] = connected.body["id"]
        return True

    def _put_credential(self, project: Project, name: str, credential: dict[str, Any]) -> WriteResult:
        path = f"/connections/{self.parts[project.name].connections[name]}"
        return self.rest("PUT", path, {"credentials": [credential]})

    def _key_credential(self, key: str) -> dict[str, Any]:
        credential = {"type": "string", "data": {"string": {"value": key}}}
        return {"id": "it", "authSchemeConfig": API_KEY, "credential": credential}

    def _tokens_credential(self, tokens: dict[str, str]) -> dict[str, Any]:
        scheme = login_scheme(self.shop)
        scheme["oauth2"]["grant"]["authorizationCode"] = {"clientId": CLIENT}
        credential = {"type": "oauth2-token", "data": {"oauth2Token": tokens}}
        return {"id": "it", "authSchemeConfig": scheme, "credential": credential}
