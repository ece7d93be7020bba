"""One of everything that REST can make, with the ids under which operations' paths ask for it."""

import copy
from dataclasses import dataclass, replace
from typing import Any

from tests.harness.cluster.kubectl import Kubectl, Organisation
from tests.harness.processes.nats_server import NatsServer
from tests.harness.session.waiting import eventually
from tests.integration.api.conftest import Client
from tests.integration.api.engine_objects import ask, make_streams, report
from tests.integration.api.objects import (
    API_KEY,
    MAIN,
    make_channel,
    make_project,
    make_system,
    make_template,
    stored,
)
from tests.integration.api.pod_api.test_documents import _send as as_pod
from tests.integration.api.pods import account_token
from tests.integration.api.resources.test_connectors import import_into, shop
from tests.integration.api.resources.test_releases import release, reports
from tieline_api.http.operation import Operation
from tieline_core.identity.ids import new_id
from tieline_protocol.event_streams import EventStreams
from tieline_protocol.run_records import RunError, RunRecord

STORE_KEY = "orders/A-1001"
MARK = "Of the owner alone"
"""Part of every name that the owner gives: no answer to others may hold it."""


@dataclass(frozen=True)
class Everything:
    """Ids by the names of path parameters, and where bodies have them."""

    paths: dict[str, str]

    def path(self, operation: Operation, **other: str) -> str:
        """An operation's path with these ids."""
        return operation.path.format_map({**self.paths, **other})

    def body(self, operation: Operation) -> Any:
        """An operation's example, with these ids."""
        if operation.example is None:
            return None
        found = {
            "systemId": self.paths["system_id"],
            "environmentId": self.paths["environment_id"],
            "environment_id": self.paths["environment_id"],
            "connectionTemplateId": self.paths["template_id"],
            "userId": self.paths["user_id"],
            "channel_id": self.paths["channel_id"],
        }
        return _replaced(copy.deepcopy(dict(operation.example)), found)


def make_everything(client: Client, engine: NatsServer, kubectl: Kubectl, org: Organisation) -> Everything:
    """Makes it all."""
    system = make_system(client)
    client.ok("PUT", f"/systems/{system['id']}", {"name": f"{MARK} {new_id()}"}, status=201)
    project, template = make_template(client, project=make_project(client), system=system["id"])
    at = f"/projects/{project['id']}"
    client.ok("PUT", at, {"name": f"{MARK} {new_id()}"})
    client.ok("PUT", f"{at}/variables", {"type": "object", "properties": {"region": {"type": "string"}}})
    client.ok("PUT", f"{at}/deploy", {"files": [{**MAIN, "content": f"# {MARK}\n"}], "versionName": MARK})
    _, dynamic = make_template(client, project=project, system=system["id"], name="dynamic", dynamic=True)
    credential = {
        "id": "key", "authSchemeConfig": API_KEY,
        "credential": {"type": "string", "data": {"string": {"value": f"s3cr3t {MARK}"}}},
    }  # fmt: skip
    new = {"name": f"{MARK} {new_id()}", "credentials": [credential]}
    connection = client.ok(
        "POST",
        "/connections",
        {"connectionTemplateId": template["connectionTemplateId"], "connection": new},
        status=201,
    )
    user = client.ok("POST", "/users", {"externalId": f"ann-{new_id()}", "displayName": MARK}, status=201)
    environment = project["environments"][0]["id"]
    given = {"connectionTemplateId": dynamic["connectionTemplateId"], "connection": new}
    activation = client.ok(
        "POST",
        "/activations",
        {
            "userId": user["id"], "environmentId": environment, "connections": [given],
            "dynamicVariables": {"region": MARK},
        },
    )  # fmt: skip
    make_streams(engine, client.organisation, environment)
    run = RunRecord(
        id=new_id(),
        kind="event",
        task="order.created",
        version=MARK,
        status="succeeded",
        attempt=1,
        queued_at=1e9,
        at=1e9,
        input=b"{}",
    )
    report(engine, client.organisation, environment, run)
    eventually("the run", lambda: client("GET", f"{at}/runs/{run.id}").status == 200)
    error = RunError(type="ValueError", message=MARK)
    report(engine, client.organisation, environment, replace(run, id=new_id(), status="failed", error=error))
    issues = eventually("the issue", lambda: client.ok("GET", f"{at}/issues")["items"])
    approval = ask(engine, EventStreams(client.organisation, environment), title=MARK)
    connector = new_id()
    imported = import_into(client, connector, shop(info={"title": MARK, "version": "1"}), "one")
    assert imported.status == 201, imported.raw
    channel = make_channel(client, name=f"{MARK} {new_id()}")
    told = {"name": f"{MARK} {new_id()}", "channel_id": channel["id"], "environment_id": environment}
    notification = client.ok("POST", f"{at}/notifications", told, status=201)
    begun = {"user": {"externalId": user["externalId"]}, "environmentId": environment}
    session = client.ok("POST", "/connect-sessions", begun, status=201)
    key = client.ok("POST", "/api-keys", {"user": f"ci-{new_id().lower()}"}, status=201)
    role = {"role": "viewer", "subject": {"kind": "User", "name": f"ann-{new_id().lower()}"}}
    binding = client.ok("POST", "/role-bindings", role, status=201)
    version = client.ok("GET", f"{at}/versions")["items"][0]
    reports(kubectl, org, project, release(kubectl, org, 1, version, message=MARK))
    released = f"{at}/environments/{environment}/releases/1"
    eventually("the release", lambda: client("GET", released).status == 200)
    client.ok("PUT", f"/store/{activation['id']}/kv/{STORE_KEY}", {"value": f'"{MARK}"'})
    return Everything(
        {
            "key": STORE_KEY,
            "entry": "github",
            "organisation_id": client.organisation,
            "system_id": system["id"],
            "id": "key",
            "project_id": project["id"],
            "template_id": template["connectionTemplateId"],
            "connection_template_id": dynamic["connectionTemplateId"],
            "version_id": version["id"],
            "environment_id": environment,
            "connection_id": connection["id"],
            "user_id": user["id"],
            "external_user_id": user["externalId"],
            "activation_id": activation["id"],
            "name": "region",
            "trace_id": new_id(),
            "scheduler_id": _schedule(client, kubectl, org, project),
            "path": "orders",
            "run_id": run.id,
            "issue_id": issues[0]["id"],
            "approval_id": approval.id,
            "release": "1",
            "binding_id": binding["id"],
            "channel_id": channel["id"],
            "key_id": key["id"],
            "notification_id": notification["id"],
            "session_id": session["id"],
            "connector_id": connector,
            "version": "one",
            "definition_id": imported.json["definitions"][0]["id"],
        }
    )


def _schedule(client: Client, kubectl: Kubectl, org: Organisation, project: dict[str, Any]) -> str:
    """The id of a schedule that a pod of the deployed version registers."""
    (deployed,) = stored(kubectl, org, "project", project["id"])["spec"]["environments"]
    schedule = {"name": "nightly", "cron": "0 0 1 1 *", "timezone": "UTC", "activations": "static"}
    body = {"version": deployed["version"], "schedules": [schedule]}
    answer = as_pod(client, account_token(kubectl, org, project), "PUT", "/schedules", body)
    assert answer.status == 204, answer.raw
    (shown,) = client.ok("GET", f"/environments/{project['environments'][0]['id']}/schedulers")
    return str(shown["id"])


def _replaced(value: Any, found: dict[str, str]) -> Any:
    if isinstance(value, dict):
        return {name: found[name] if name in found else _replaced(one, found) for name, one in value.items()}
    if isinstance(value, list):
        return [_replaced(item, found) for item in value]
    return value
