"""One environment for many users: each run has that user's variables and that user's connection."""

from __future__ import annotations

import pytest

from tests.harness.cluster.deployed_platform import Rest, Tenant, external_system, http, project
from tests.harness.session.waiting import eventually

pytestmark = pytest.mark.e2e

CODE = """
from tieline import Context, Integration

integration = Integration()


@integration.webhook("hello", methods=["GET"])
async def hello(ctx: Context) -> dict:
    user = ctx.activation.user
    return {"user": user.external_id if user else None, "region": ctx.variables.get("region")}


@integration.webhook("whoami", methods=["GET"])
async def whoami(ctx: Context) -> dict:
    answer = await ctx.fetch("mirror", "/headers")
    return {"key": (await answer.json())["X-Key"]}
"""
MIRROR = """
import json
from http.server import BaseHTTPRequestHandler, HTTPServer


class Mirror(BaseHTTPRequestHandler):
    def do_GET(self):
        body = json.dumps(dict(self.headers)).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


HTTPServer(("0.0.0.0", 8080), Mirror).serve_forever()
"""


def test_each_user_s_run_has_their_variables_and_their_connection(
    tenant: Tenant, rest: Rest, runtime_image: str
) -> None:
    schema = {"type": "object", "properties": {"region": {"type": "string"}}}
    key_scheme = {"id": "key", "type": "api-key", "apiKey": {"name": "X-Key", "in": "header"}}
    tenant.apply(
        *external_system("mirror", image=runtime_image, program=MIRROR),
        {
            "kind": "System",
            "metadata": {"name": "mirror"},
            "spec": {
                "name": "Mirror",
                "domain": "mirror",
                "templateBaseUrl": f"http://mirror.{tenant.namespace}.svc",
                "authSchemeConfigs": [key_scheme],
            },
        },
        {
            "kind": "ConnectionTemplate",
            "metadata": {"name": "mirror"},
            "spec": {
                "name": "mirror",
                "projectRef": {"name": "orders"},
                "environment": "production",
                "systemRef": {"name": "mirror"},
                "dynamic": True,
            },
        },
        project(CODE, dynamicVariablesSchema=schema),
    )
    environment = tenant.until("orders", "running")
    url = environment["publicUrl"]
    project_id = rest("GET", "/projects").json["projects"][0]["id"]
    template = rest("GET", f"/projects/{project_id}/connection-templates").json["items"][0]
    for user, region in (("ann", "north"), ("bob", "south")):
        assert rest("POST", "/users", {"externalId": user, "displayName": user}).status == 201
        connection = {
            "name": f"Mirror of {user}",
            "credentials": [
                {
                    "id": "key",
                    "authSchemeConfig": {
                        "type": "api-key",
                        "apiKey": {"id": "key", "name": "X-Key", "in": "header"},
                    },
                    "credential": {"type": "string", "data": {"string": {"value": f"key-of-{user}"}}},
                }
            ],
        }
        activation = {
            "userId": user,
            "environmentId": environment["id"],
            "dynamicVariables": {"region": region},
            "connections": [
                {"connectionTemplateId": template["connectionTemplateId"], "connection": connection}
            ],
        }
        made = rest("POST", "/activations", activation)
        assert made.status == 200, made

    def told(user: str) -> dict:
        return http("GET", f"{url}/hello/users/{user}").json

    def key_of(user: str) -> bool:
        answer = http("GET", f"{url}/whoami/users/{user}")
        assert answer.json == {"key": f"key-of-{user}"}, answer.json
        return True

    for user, region in (("ann", "north"), ("bob", "south")):
        eventually(
            f"{user} served",
            lambda user=user, region=region: told(user) == {"user": user, "region": region},
        )
        eventually(f"{user}'s key used", lambda user=user: key_of(user))
    assert http("GET", f"{url}/hello").json == {"user": None, "region": None}
    assert http("GET", f"{url}/hello/users/nobody").status == 404

    activations = rest("GET", f"/environments/{environment['id']}/activations").json
    ann = next(found for found in activations if found["user"]["externalId"] == "ann")
    path = f"/environments/{environment['id']}/activations/{ann['id']}/variables"
    assert rest("PATCH", path, {"region": "west"}).status == 200
    eventually("the change seen", lambda: told("ann") == {"user": "ann", "region": "west"})
