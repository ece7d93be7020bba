"""Manifests of what a folder and an organisation say."""

import hashlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tieline.configuration.project_folder import Folder

_GROUP = "tieline.dev/v1alpha1"
_INVALID = re.compile("[^a-z0-9-]+")
_KEY = re.compile(r"[-._a-zA-Z0-9]+")
_LONGEST = 50
_HIDDEN = frozenset({"validationMessages", "id", "description"})
Document = dict[str, Any]

_NAMES: Document = {
    "nameReference": [
        {
            "kind": "ConfigMap",
            "version": "v1",
            "fieldSpecs": [
                {"group": "tieline.dev", "kind": "Project", "path": "spec/source/configMaps/name"}
            ],
        },
        {
            "kind": "Secret",
            "version": "v1",
            "fieldSpecs": [
                {"group": "tieline.dev", "kind": "Connection", "path": "spec/credentials/secretRef/name"}
            ],
        },
    ]
}


@dataclass(frozen=True, kw_only=True)
class NeededSecret:
    """A Secret that has to be created by hand: its values are in no answer of the API."""

    name: str
    purpose: str


@dataclass(kw_only=True)
class Wanted:
    """What the manifests are made of; the objects are as the REST API answers."""

    name: str
    folder: Folder
    target: Path
    """The folder of the manifests, absolute: paths in the kustomization are relative to it."""
    schema: Mapping[str, Any] | None = None
    """The schema of variables beside the code; None for that of the project."""
    project: Document | None = None
    templates: list[tuple[str, Document]] = field(default_factory=list)
    """With the name of their environment."""
    connections: list[Document] = field(default_factory=list)
    """Static ones."""
    systems: list[Document] = field(default_factory=list)


def manifests_of(wanted: Wanted) -> tuple[dict[str, list[Document]], list[NeededSecret]]:
    """Documents by file name, and the Secrets that they name."""
    project = object_name(wanted.name)
    names = _Names()
    used = {template["id"] for _, template in wanted.templates}
    systems = [item for item in wanted.systems if item["id"] in used]
    system_names = {item["id"]: names.of("system", item["id"], item["name"]) for item in systems}
    secrets: list[NeededSecret] = []
    connections = []
    seen: dict[str, str] = {}
    for item in wanted.connections:
        if item["id"] not in seen and item.get("systemId") in system_names:
            seen[item["id"]] = names.of("connection", item["id"], item["name"])
            connections.append(_connection(item, seen[item["id"]], system_names, secrets))
    files = {
        "kustomization.yaml": [_kustomization(wanted, project, with_systems=bool(systems))],
        "names.yaml": [_NAMES],
        "project.yaml": [
            _project(wanted, project),
            *(
                _template(item, environment, project, system_names, seen, names)
                for environment, item in wanted.templates
                if item["id"] in system_names
            ),
        ],
    }
    if systems:
        files["systems.yaml"] = [*(_system(item, system_names[item["id"]]) for item in systems), *connections]
    return files, secrets


def object_name(text: str) -> str:
    """A name for Kubernetes from one for people; one that had to be shortened ends in a hash.

    >>> object_name("Order sync (EU)")
    'order-sync-eu'
    """
    name = _INVALID.sub("-", text.lower()).strip("-") or "project"
    if len(name) > _LONGEST:
        name = f"{name[: _LONGEST - 9].rstrip('-')}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"
    return name


class _Names:
    """Names of objects that differ within their kind."""

    def __init__(self) -> None:
        self._taken: dict[tuple[str, str], str] = {}

    def of(self, kind: str, identifier: str, text: str) -> str:
        name = object_name(text)
        if self._taken.setdefault((kind, name), identifier) != identifier:
            name = f"{name}-{identifier[-6:].lower()}"
            self._taken[kind, name] = identifier
        return name


def _kustomization(wanted: Wanted, project: str, *, with_systems: bool) -> Document:
    code = wanted.folder.code.resolve()
    files = []
    for path in wanted.folder.paths():
        relative = path.relative_to(wanted.folder.code).as_posix()
        source = Path(os.path.relpath(code / relative, wanted.target)).as_posix()
        files.append(f"{_key(relative)}={source}")
    return {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": ["project.yaml", *(["systems.yaml"] if with_systems else [])],
        "configurations": ["names.yaml"],
        "configMapGenerator": [{"name": f"{project}-code", "files": sorted(files)}],
    }


def _key(path: str) -> str:
    """A key of a ConfigMap for a path."""
    if "/" not in path and _KEY.fullmatch(path):
        return path
    return f"{hashlib.sha256(path.encode()).hexdigest()[:8]}-{re.sub('[^-._a-zA-Z0-9]', '-', path)}"[:253]


def _project(wanted: Wanted, name: str) -> Document:
    paths = sorted(path.relative_to(wanted.folder.code).as_posix() for path in wanted.folder.paths())
    config_map: Document = {"name": f"{name}-code"}
    if any(_key(path) != path for path in paths):
        config_map["items"] = [{"key": _key(path), "path": path} for path in paths]
    spec: Document = {"name": wanted.name, "source": {"configMaps": [config_map]}}
    project = wanted.project or {}
    if labels := (project.get("currentFiles") or {}).get("labels"):
        spec["labels"] = labels
    if schema := (wanted.schema or project.get("dynamicVariablesSchema")):
        spec["dynamicVariablesSchema"] = dict(schema)
    names = [item["name"] for item in project.get("environments") or ()] or ["production"]
    spec["environments"] = [{"name": environment, "version": "latest"} for environment in names]
    return {"apiVersion": _GROUP, "kind": "Project", "metadata": {"name": name}, "spec": spec}


def _template(
    item: Document,
    environment: str,
    project: str,
    systems: dict[str, str],
    connections: dict[str, str],
    names: "_Names",
) -> Document:
    spec: Document = {
        "name": item["name"],
        "projectRef": {"name": project},
        "environment": environment,
        "systemRef": {"name": systems[item["id"]]},
    }
    if item["dynamic"]:
        spec["dynamic"] = True
    elif connection := connections.get(item.get("connectionId", "")):
        spec["connectionRef"] = {"name": connection}
    if item.get("exposeToCode"):
        spec["exposeToCode"] = True
    name = names.of("template", item["connectionTemplateId"], f"{project}-{environment}-{item['name']}")
    return {"apiVersion": _GROUP, "kind": "ConnectionTemplate", "metadata": {"name": name}, "spec": spec}


def _system(item: Document, name: str) -> Document:
    spec: Document = {
        "name": item["name"],
        "domain": item["domain"],
        "templateBaseUrl": item["templateBaseUrl"],
    }
    if labels := item.get("labels"):
        spec["labels"] = labels
    if schemes := [_scheme(scheme) for scheme in item["authSchemeConfigs"]]:
        spec["authSchemeConfigs"] = schemes
    return {"apiVersion": _GROUP, "kind": "System", "metadata": {"name": name}, "spec": spec}


def _scheme(scheme: Document) -> Document:
    """An auth scheme as manifests have it: id and description are beside the type's own fields."""
    sub = next((name for name, value in scheme.items() if isinstance(value, dict)), None)
    own = scheme[sub] if sub else {}
    found: Document = {"id": own.get("id") or scheme["type"], "type": scheme["type"]}
    if description := own.get("description"):
        found["description"] = description
    if fields := {name: value for name, value in own.items() if name not in _HIDDEN and value is not None}:
        found[str(sub)] = fields
    return found


def _unused(name: str, used: set[str]) -> str:
    """The name, or it with a number: a scheme has two credentials while a secret is rotated."""
    number, found = 1, name
    while found in used:
        number += 1
        found = f"{name}-{number}"
    return found


def _connection(item: Document, name: str, systems: dict[str, str], secrets: list[NeededSecret]) -> Document:
    spec: Document = {"name": item["name"], "systemRef": {"name": systems[item["systemId"]]}}
    if base := item.get("baseUrl"):
        spec["baseUrl"] = base
    credentials: list[Document] = []
    for entry in item["credentials"]:
        scheme = _scheme(entry["authSchemeConfig"]) if entry.get("authSchemeConfig") else None
        kind = (entry.get("credential") or {}).get("type") or "none"
        used = {one["id"] for one in credentials}
        credential: Document = {
            "id": _unused(object_name(scheme["id"] if scheme else kind), used),
            "type": kind,
        }
        if scheme:
            credential["authSchemeConfigId"] = scheme["id"]
        if ends := (entry.get("credential") or {}).get("expiresAt"):
            credential["expiresAt"] = ends
        if kind != "none":
            secret = object_name(f"{name}-{credential['id']}")
            credential["secretRef"] = {"name": secret}
            secrets.append(NeededSecret(name=secret, purpose=f"{kind} of the connection {item['name']}"))
        credentials.append(credential)
    if credentials:
        spec["credentials"] = credentials
    if item.get("exposeToCode"):
        spec["exposeToCode"] = True
    return {"apiVersion": _GROUP, "kind": "Connection", "metadata": {"name": name}, "spec": spec}
