"""Variables, users and connections that change by REST or by kubectl: running code sees them, without a deploy.

The target is 5 seconds. What is asserted is a bound that a loaded machine keeps too; the figures are printed.
"""

from __future__ import annotations

import base64
import json
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import pytest

from tests.harness.cluster.deployed_platform import Answer, http
from tests.harness.cluster.kubectl import Kubectl, Organisation
from tests.harness.processes import api_ports
from tests.harness.processes.running_runtime import RunningRuntime
from tests.harness.session.measurements import Measured
from tests.integration.api.conftest import Client, Server
from tests.integration.api.objects import activate, connect, make_project, make_template, stored
from tests.integration.api.pods import account_token

pytestmark = pytest.mark.cluster

_BOUND = 30.0
# Who may call is what a connection's credential says: so its change is seen by who is let in.
CODE = """
from tieline import Context, Integration

integration = Integration()


@integration.webhook("told", methods=["GET"])
async def told(ctx: Context) -> dict:
    user = ctx.activation.user
    return {"variables": dict(ctx.variables), "name": user.display_name if user else None}


@integration.webhook("shop", methods=["GET"], connection="shop")
async def shop(ctx: Context) -> str:
    return "let in"


@integration.webhook("each", methods=["GET"], connection="each")
async def each(ctx: Context) -> str:
    return "let in"
"""


@dataclass
class Code:
    """Running code, and how long it took to see what changed."""

    url: str
    took: dict[str, float] = field(default_factory=dict)

    def ask(self, webhook: str, user: str, key: str) -> Answer:
        path = f"/{webhook}/users/{quote(user, safe='')}" if user else f"/{webhook}"
        return http("GET", self.url + path, headers={"X-API-Key": key})

    def sees(
        self,
        what: str,
        holds: Callable[[Answer], bool],
        *,
        webhook: str = "told",
        user: str = "",
        key: str = "",
    ) -> None:
        """Returns once an answer is as it should be; ``what`` has just been changed."""
        began = time.monotonic()
        while not holds(answer := self.ask(webhook, user, key)):
            assert time.monotonic() < began + _BOUND, (what, answer)
            time.sleep(0.05)
        self.took[what] = time.monotonic() - began

    def sees_variables(self, what: str, variables: dict[str, Any], *, user: str = "") -> None:
        self.sees(
            what, lambda answer: answer.status == 200 and answer.json["variables"] == variables, user=user
        )

    def lets_in(self, what: str, webhook: str, key: str, *, user: str = "") -> None:
        self.sees(what, lambda answer: answer.status == 200, webhook=webhook, key=key, user=user)


@dataclass(frozen=True)
class Hands:
    """Changes objects as kubectl does."""

    kubectl: Kubectl
    namespace: str

    def patch(self, kind: str, name: str, change: dict[str, Any]) -> None:
        text = json.dumps(change)
        self.kubectl("patch", kind, name.lower(), "--type=merge", "-p", text, namespace=self.namespace)

    def rekey(self, org: Organisation, connection: str, value: str) -> None:
        """Another value in the Secret of the connection's only credential."""
        found = stored(self.kubectl, org, "connection", connection)
        name = found["spec"]["credentials"][0]["secretRef"]["name"]
        self.patch("secret", name, {"data": {"value": base64.b64encode(value.encode()).decode()}})


@pytest.fixture(scope="module")
def project(client: Client) -> dict[str, Any]:
    return make_project(client)


@pytest.fixture(scope="module")
def code(
    server: Server,
    client: Client,
    project: dict[str, Any],
    kubectl: Kubectl,
    org: Organisation,
    tmp_path_factory: pytest.TempPathFactory,
    measured: Measured,
) -> Iterator[Code]:
    pod = RunningRuntime(
        folder=tmp_path_factory.mktemp("pod"),
        code=CODE,
        token=account_token(kubectl, org, project),
        variables={"TIELINE_API_URL": api_ports.INTERNAL[server.url]},
    )
    pod.start()
    running = Code(pod.url)
    yield running
    pod.stop()
    slowest = max(running.took, key=lambda what: running.took[what])
    measured(
        f"Changes were seen after {statistics.median(running.took.values()):.1f} s (median of {len(running.took)}), "
        f"the slowest after {running.took[slowest]:.1f} s: {slowest}"
    )


def test_changes_by_rest_and_by_kubectl_are_seen_by_running_code(
    code: Code, client: Client, project: dict[str, Any], kubectl: Kubectl, org: Organisation
) -> None:
    hands = Hands(kubectl, org.namespace)
    environment = f"/environments/{project['environments'][0]['id']}"
    schema = {"type": "object", "properties": {"region": {"type": "string"}}}
    hands.patch("project", project["id"], {"spec": {"dynamicVariablesSchema": schema}})

    client.ok("PATCH", f"{environment}/variables", {"region": "eu"})
    code.sees_variables("the environment's variables, REST", {"region": "eu"})
    name = next(
        item["metadata"]["name"]
        for item in json.loads(kubectl("get", "activations", "-o", "json", namespace=org.namespace).stdout)[
            "items"
        ]
        if item["spec"]["projectRef"]["name"] == project["id"].lower() and not item["spec"].get("endUserRef")
    )
    hands.patch("activation", name, {"spec": {"variables": {"region": "us"}}})
    code.sees_variables("the environment's variables, kubectl", {"region": "us"})

    _, template = make_template(client, project=project, name="shop")
    connection = connect(client, template, "first-key")
    code.lets_in("a new connection, REST", "shop", "first-key")
    changed = [{"id": "key", "credential": {"data": {"string": {"value": "second-key"}}}}]
    client.ok("PUT", f"/connections/{connection['id']}", {"credentials": changed})
    code.lets_in("a connection's credential, REST", "shop", "second-key")
    hands.rekey(org, connection["id"], "third-key")
    code.lets_in("a connection's Secret, kubectl", "shop", "third-key")
    hands.patch("connectiontemplate", template["connectionTemplateId"], {"spec": {"connectionRef": None}})
    code.sees("an unlinked connection, kubectl", lambda a: a.status == 401, webhook="shop", key="third-key")

    _, each = make_template(client, project=project, name="each", dynamic=True)
    user, activation = activate(client, project, each, "users-key", dynamicVariables={"region": "eu"})
    ann = user["externalId"]
    code.sees_variables("a new user, REST", {"region": "eu"}, user=ann)
    client.ok("PATCH", f"{environment}/activations/{activation['id']}/variables", {"region": "us"})
    code.sees_variables("a user's variables, REST", {"region": "us"}, user=ann)
    hands.patch("activation", activation["id"], {"spec": {"variables": {"region": "asia"}}})
    code.sees_variables("a user's variables, kubectl", {"region": "asia"}, user=ann)
    hands.patch("enduser", user["id"], {"spec": {"displayName": "Anna"}})
    code.sees("a user's name, kubectl", lambda a: a.status == 200 and a.json["name"] == "Anna", user=ann)
    code.lets_in("a user's connection, REST", "each", "users-key", user=ann)
    theirs = activation["connections"][0]["id"]
    hands.rekey(org, theirs, "users-second-key")
    code.lets_in("a user's Secret, kubectl", "each", "users-second-key", user=ann)
    client.ok("DELETE", f"{environment}/activations/{activation['id']}")
    code.sees("an activation that is gone, REST", lambda answer: answer.status == 404, user=ann)
