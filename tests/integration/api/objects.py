"""Objects that tests of the REST API start from."""

import itertools
import json
from typing import Any

from tests.harness.cluster.kubectl import Kubectl, Organisation
from tests.harness.session.waiting import eventually
from tests.integration.api.conftest import Client
from tieline_core.identity.ids import new_id

API_KEY = {"type": "api-key", "apiKey": {"id": "key", "name": "X-API-Key", "in": "header"}}
MAIN = {"filename": "main.py", "content": "print('one')\n"}

_numbers = itertools.count(1)


def make_system(client: Client, schemes: list[dict[str, Any]] | None = None, **more: Any) -> dict[str, Any]:
    """A system with an API key."""
    body = {
        "name": f"Shop {next(_numbers)}",
        "domain": "shop.example",
        "templateBaseUrl": "https://api.shop.example",
        "authSchemeConfigs": schemes or [API_KEY],
        **more,
    }
    created: dict[str, Any] = client.ok("POST", "/systems", body, status=201)
    return created


def make_project(client: Client) -> dict[str, Any]:
    """A project with one draft environment."""
    created: dict[str, Any] = client.ok("POST", "/projects", {"name": f"Project {next(_numbers)}"})
    return created


def make_channel(client: Client, **more: Any) -> dict[str, Any]:
    """A notification channel that posts webhooks."""
    secret = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
    config = {"url": "https://hooks.acme.example/tieline", "secret": secret}
    body = {"name": f"Channel {next(_numbers)}", "type": "webhook", "config": config, **more}
    created: dict[str, Any] = client.ok("POST", "/notification_channels", body, status=201)
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


def key(value: str) -> dict[str, Any]:
    """A credential of that system."""
    return {
        "id": "key",
        "authSchemeConfig": API_KEY,
        "credential": {"type": "string", "data": {"string": {"value": value}}},
    }


def connect(client: Client, template: dict[str, Any], value: str, **more: Any) -> dict[str, Any]:
    """A connection with a key, linked to the template."""
    body = {
        "connectionTemplateId": template["connectionTemplateId"],
        "connection": {"name": "C", "credentials": [key(value)], **more},
    }
    created: dict[str, Any] = client.ok("POST", "/connections", body, status=201)
    return created


def activate(
    client: Client, project: dict[str, Any], template: dict[str, Any], value: str, **more: Any
) -> tuple[dict[str, Any], dict[str, Any]]:
    """A user with a key of their own, activated in the project's environment."""
    body = {"externalId": f"customer/{new_id()} ü", "displayName": "Ann"}
    user = client.ok("POST", "/users", body, status=201)
    connection = {"name": f"Of {user['id']}", "credentials": [key(value)]}
    activation = {
        "userId": user["id"],
        "environmentId": project["environments"][0]["id"],
        "connections": [{"connectionTemplateId": template["connectionTemplateId"], "connection": connection}],
        **more,
    }
    return user, client.ok("POST", "/activations", activation)


def bring_connection(
    kubectl: Kubectl,
    namespace: str,
    *,
    name: str,
    system: str,
    credential: dict[str, Any],
    values: dict[str, str],
    secret_type: str = "tieline.dev/credential",
) -> None:
    """A connection that does not come from REST, and the Secret with the values of its one credential."""
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": namespace},
        "type": secret_type,
        "stringData": values,
    }
    connection = {
        "apiVersion": "tieline.dev/v1alpha1",
        "kind": "Connection",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "name": name,
            "systemRef": {"name": system.lower()},
            "credentials": [{**credential, "secretRef": {"name": name}}],
        },
    }
    items = [secret, connection]
    kubectl("apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))


def stored(kubectl: Kubectl, org: Organisation, kind: str, name: str) -> dict[str, Any]:
    """An object as kubectl sees it; REST names objects after their ids."""
    found: dict[str, Any] = kubectl.read(kind, name.lower(), namespace=org.namespace)
    return found


def wait_for(client: Client, path: str) -> dict[str, Any]:
    """The page at ``path`` once there is something in it (the watch takes milliseconds)."""

    def page() -> dict[str, Any] | None:
        found: dict[str, Any] = client.ok("GET", path)
        return found if found["items"] else None

    return eventually(f"items at {path}", page)


def operator_reports(
    kubectl: Kubectl,
    org: Organisation,
    project: dict[str, Any],
    *,
    environment: str = "production",
    failure: str = "",
) -> None:
    """Writes the status that the operator writes when the rollout of an environment's version ends."""
    now = "2026-11-21T10:00:00Z"
    spec = next(one for one in project["spec"]["environments"] if one["name"] == environment)
    status = {
        "name": environment,
        "id": new_id(),
        "status": "error" if failure else "running",
        "desiredVersion": spec["version"],
        "createdAt": now,
        "updatedAt": now,
        "rollout": "failed" if failure else "complete",
        **({"deployFailure": failure, "message": f"{environment}: it ends at once"} if failure else {}),
        **({} if failure else {"version": spec["version"]}),
    }
    seen = {"observedGeneration": project["metadata"]["generation"], "environments": [status]}
    kubectl(
        "patch",
        "projects.tieline.dev",
        project["metadata"]["name"],
        "--subresource=status",
        "--type=merge",
        f"--patch={json.dumps({'status': seen})}",
        namespace=org.namespace,
    )
