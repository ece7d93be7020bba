"""Objects that tests of the REST API start from."""

import itertools
import json
import time
from typing import Any

from tests.harness.kubectl import Kubectl, Organisation
from tests.integration.api.conftest import Client

API_KEY = {"type": "api-key", "apiKey": {"id": "key", "name": "X-API-Key", "in": "header"}}
MAIN = {"filename": "main.py", "content": "print('one')\n"}

_numbers = itertools.count(1)


def make_system(client: Client, schemes: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    """A system with an API key."""
    body = {
        "name": f"Shop {next(_numbers)}",
        "domain": "shop.example",
        "templateBaseUrl": "https://api.shop.example",
        "authSchemeConfigs": schemes or [API_KEY],
    }
    created: dict[str, Any] = client.ok("POST", "/systems", body, status=201)
    return created


def make_project(client: Client) -> dict[str, Any]:
    """A project with one draft environment."""
    created: dict[str, Any] = client.ok("POST", "/projects", {"name": f"Project {next(_numbers)}"})
    return created


def make_template(
    client: Client,
    *,
    project: dict[str, Any] | None = None,
    system: str | None = None,
    name: str = "shop",
    dynamic: bool = False,
    schemes: list[dict[str, Any]] | None = None,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """A project, and a template in its environment."""
    project = project or make_project(client)
    body = {"systemId": system or make_system(client, schemes)["id"], "name": name, "dynamic": dynamic}
    template = client.ok("POST", f"/projects/{project['id']}/connection-templates", body)
    return project, template


def stored(kubectl: Kubectl, org: Organisation, kind: str, name: str) -> dict[str, Any]:
    """An object as kubectl sees it; REST names objects after their ids."""
    text = kubectl("get", kind, name.lower(), "-o", "json", namespace=org.namespace).stdout
    found: dict[str, Any] = json.loads(text)
    return found


def wait_for(client: Client, path: str) -> dict[str, Any]:
    """The page at ``path`` once there is something in it (the watch takes milliseconds)."""
    until = time.monotonic() + 5
    while True:
        page: dict[str, Any] = client.ok("GET", path)
        if page["items"] or time.monotonic() > until:
            return page
        time.sleep(0.02)
