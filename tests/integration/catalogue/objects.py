"""Systems of the catalogue's entries in an organisation, with templates for them in one project."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from tests.harness.cluster.kubectl import Kubectl, Organisation
from tests.harness.session.waiting import eventually
from tests.integration.api.conftest import Client
from tests.integration.api.objects import make_project
from tieline.emulator.provider import Provider
from tieline_core.identity.ids import ID_LABEL, new_id
from tieline_core.identity.names import TOKENS_LABEL
from tieline_core.oauth.token_secret_codec import RENEWABLE_FROM

Json = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Installed:
    """An entry as an organisation has it."""

    provider: Provider
    system: str
    """The id of the System."""
    template: str
    """The id of the connection template."""
    scheme: Mapping[str, Any]
    """The auth scheme with which people connect."""
    problems: list[str] = field(default_factory=list)
    """What the API server says against its objects."""

    @property
    def key(self) -> str:
        return self.provider.key


def connecting_scheme(entry: Mapping[str, Any]) -> Json:
    """The first auth scheme with which people connect."""
    wanted = [one["scheme"] for one in entry["setup"]]
    schemes = {one["id"]: one for one in entry["system"]["authSchemeConfigs"]}
    found: Json = next(schemes[one] for one in wanted if one in schemes)
    return found


def install(
    kubectl: Kubectl, org: Organisation, admin: Client, providers: Sequence[Provider]
) -> tuple[list[Installed], str]:
    """The entries, and the id of the environment that has templates for them."""
    project = make_project(admin)
    environment = project["environments"][0]
    made = [
        Installed(provider=one, system=new_id(), template=new_id(), scheme=connecting_scheme(one.entry))
        for one in providers
    ]
    name = project_name(kubectl, org)
    items = [item for one in made for item in _manifests(one, project=name, environment=environment["name"])]
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
    done = kubectl(
        "create",
        "--validate=ignore",
        "-f",
        "-",
        namespace=org.namespace,
        stdin=text,
        timeout=300,
        check=False,
    )
    refused = {one.key: _refusal(done.stderr, one.key) for one in made}
    for one in made:
        one.problems.extend(refused[one.key])
    _until_known(admin, [one for one in made if not one.problems])
    return made, environment["id"]


def project_name(kubectl: Kubectl, org: Organisation) -> str:
    """The name of the organisation's one project."""
    found = kubectl("get", "projects.tieline.dev", "-o", "name", namespace=org.namespace).stdout
    return found.strip().rpartition("/")[2]


def allow_refreshes(kubectl: Kubectl, org: Organisation) -> None:
    """The time from which providers refresh the organisation's tokens has come."""
    kept = json.loads(
        kubectl("get", "secrets", "-l", TOKENS_LABEL, "-o", "json", namespace=org.namespace).stdout
    )
    names = [
        one["metadata"]["name"]
        for one in kept["items"]
        if RENEWABLE_FROM in (one["metadata"].get("annotations") or {})
    ]
    if names:
        kubectl("annotate", "secret", *names, f"{RENEWABLE_FROM}-", namespace=org.namespace)


def _refusal(errors: str, key: str) -> list[str]:
    """What the API server says against the objects of an entry."""
    parts = re.split(r"^(?=The |Error )", errors, flags=re.MULTILINE)
    return [part for part in parts if re.search(rf'(System|ConnectionTemplate)\S* "{key}" is', part)]


def _until_known(admin: Client, installed: Sequence[Installed]) -> None:
    for one in installed:
        eventually(f"the system {one.key}", partial(_is_known, admin, f"/systems/{one.system}"))


def _is_known(admin: Client, path: str) -> bool:
    return admin("GET", path).status == 200


def _manifests(one: Installed, *, project: str, environment: str) -> Iterator[Json]:
    spec = copy.deepcopy(dict(one.provider.system))
    for scheme in spec["authSchemeConfigs"]:
        if scheme["type"] == "oauth2":
            _give_client(scheme["oauth2"], one)
        if scheme["type"] == "oauth1":
            consumer = {"consumerKey": one.provider.client.id, "secretRef": {"name": _secret_name(one)}}
            scheme["oauth1"] |= consumer
    yield _secret(one)
    yield _object("System", one.key, one.system, spec)
    template = {
        "name": one.key,
        "projectRef": {"name": project},
        "environment": environment,
        "systemRef": {"name": one.key},
        "dynamic": True,
        "authSchemeConfigIds": [one.scheme["id"]],
    }
    yield _object("ConnectionTemplate", one.key, one.template, template)


def _give_client(oauth2: Json, one: Installed) -> None:
    grant = oauth2["grant"]
    if grant["type"] in ("authorizationCode", "password"):
        client: Json = {"clientId": one.provider.client.id}
        if oauth2.get("clientAuthentication") != "none":
            client["secretRef"] = {"name": _secret_name(one)}
        grant[grant["type"]] = {**(grant.get(grant["type"]) or {}), **client}


def _secret_name(one: Installed) -> str:
    return f"{one.key}-client"


def _secret(one: Installed) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": _secret_name(one)},
        "type": "tieline.dev/credential",
        "stringData": {
            "clientSecret": one.provider.client.secret,
            "consumerSecret": one.provider.client.secret,
        },
    }


def _object(kind: str, name: str, identifier: str, spec: Json) -> Json:
    return {
        "apiVersion": "tieline.dev/v1alpha1",
        "kind": kind,
        "metadata": {"name": name, "labels": {ID_LABEL: identifier}},
        "spec": spec,
    }
