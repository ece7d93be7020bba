"""What people look at in the tests of the console: a project with real pods, the shop that it calls, and its users."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import Any

from tests.harness.cluster.deployed_platform import Rest, Tenant, external_system, http
from tests.harness.cluster.kubectl import ROOT
from tests.harness.session.waiting import eventually

CODE = """
from tieline import Context, Event, Integration, Request, Retry, ScheduledRun

integration = Integration()
VERSION = "one"


@integration.event("order.created", retry=Retry(attempts=2, first=0.2))
async def order_created(ctx: Context, event: Event) -> None:
    ctx.tag("order", event.payload["id"])
    ctx.log.warning("Booking an order", order=event.payload["id"])
    await ctx.step("book the order", book, ctx, event.payload)


async def book(ctx: Context, order: dict) -> None:
    (await ctx.fetch("shop", "/orders", method="POST", json=order)).raise_for_status()


@integration.webhook("quote")
async def quote(ctx: Context, request: Request) -> dict:
    order = await request.json()
    ctx.log.info("Quoting", pieces=order["pieces"])
    return {"version": VERSION, "price": 10 * order["pieces"]}


@integration.schedule("nightly", "0 3 * * *", activations="users")
async def nightly(ctx: Context, run: ScheduledRun) -> None:
    await book(ctx, {"id": f"nightly of {ctx.activation.user.external_id}"})
"""
SHOP = """
import json
from aiohttp import web

orders = []
closed = True


async def take(request):
    if closed:
        return web.Response(status=503, text="Stocktaking until noon")
    orders.append(await request.json())
    return web.Response(status=204)


async def tell(_request):
    return web.json_response(orders)


async def me(request):
    return web.Response(status=200 if request.headers.get("X-Key") == "shop-key-of-a-test" else 401)


async def change(request):
    global closed
    closed = (await request.json())["closed"]
    return web.Response(status=204)


app = web.Application()
app.router.add_post("/orders", take)
app.router.add_get("/", tell)
app.router.add_get("/me", me)
app.router.add_put("/", change)
web.run_app(app, port=8080, print=None)
"""

# The authorisation server of examples/login, with the answer at / by which its pod is known to be ready.
CLUB = f"""
import os

os.environ.update(CLIENT_ID="tieline", CLIENT_SECRET="club-secret-of-a-test", MEMBERS="ann:anns-password")
{(ROOT / "examples/login/provider/provider.py").read_text().partition('if __name__ == "__main__":')[0]}
app = Club(os.environ).app()
app.router.add_get("/", lambda request: web.json_response([]))
web.run_app(app, port=8080, print=None)
"""


@dataclass(frozen=True)
class Stage:
    """A project "Order sync" that runs in ``staging``, and has a draft ``production``."""

    rest: Rest
    tenant: Tenant
    project: str
    staging: str
    shop: str
    club: str
    """Where browsers reach the club, in which people connect their accounts."""

    def environment(self, name: str) -> dict[str, Any]:
        """An environment as REST has it."""
        answer = self.rest("GET", f"/projects/{self.project}")
        assert answer.status == 200, answer
        return next(one for one in answer.json["environments"] if one["name"] == name)

    def runs(self, environment: str, version: str) -> None:
        """Returns once a version with this name serves in the environment."""

        def serves() -> bool:
            found = self.environment(environment)
            rollout = (found.get("rollout") or {}).get("state")
            named = found["deployedVersion"] and found["deployedVersion"]["name"] == version
            return bool(named and found["status"] == "running" and rollout == "complete")

        eventually(f"{version} in {environment}", serves, seen=lambda: self.environment(environment))

    def calls(self, environment: str) -> Any:
        """What the webhook answers in the environment."""
        url = self.environment(environment)["publicUrl"]
        return http("POST", f"{url}/quote", body={"pieces": 3}, timeout=10).json

    def change(self, code: str) -> None:
        """Changes the project's files, and deploys nothing."""
        files = [{"filename": "main.py", "content": code}]
        assert self.rest("PATCH", f"/projects/{self.project}/files", {"files": files}).status == 204

    def dead(self, order: str) -> str:
        """A run that the closed shop has let die."""
        body = {"task": "order.created", "payload": {"id": order, "pieces": 3}}
        answer = self.rest("POST", f"/environments/{self.staging}/events", body)
        assert answer.status == 202, answer
        run: str = answer.json["runId"]
        path = f"/projects/{self.project}/runs/{run}"
        eventually("the dead letter", lambda: self.rest("GET", path).json["status"] == "dead")
        return run

    def shop_is(self, *, closed: bool) -> None:
        """Opens or closes the shop."""
        assert http("PUT", self.shop, body={"closed": closed}, timeout=10).status == 204

    def booked(self, order: str) -> bool:
        """Whether the shop has the order."""
        return order in [one["id"] for one in http("GET", self.shop, timeout=10).json]


def make_stage(tenant: Tenant, rest: Rest, image: str) -> Stage:
    """Deploys it by REST, as an editor does."""
    tenant.apply(*external_system("shop", image=image, program=SHOP))
    tenant.apply(*external_system("club", image=image, program=CLUB))
    shop, club = (f"http://{tenant.get('service', name)['spec']['clusterIP']}" for name in ("shop", "club"))
    made = rest("POST", "/projects", {"name": "Order sync"})
    assert made.status == 200, made
    project = made.json["id"]
    assert rest("POST", f"/projects/{project}/environments", {"name": "staging"}).status in (200, 201)
    tenant.apply(
        *_links(tenant, project.lower()), *_club(tenant, project.lower(), club), *_user(project.lower())
    )
    files = [{"filename": "main.py", "content": CODE}]
    body = {"files": files, "versionName": "one"}
    deployed = eventually(
        "the templates known",
        lambda: (
            answer
            if (answer := rest("PUT", f"/projects/{project}/deploy?project_env=staging", body)).status == 200
            else None
        ),
    )
    staging = next(one for one in deployed.json["environments"] if one["name"] == "staging")
    stage = Stage(rest, tenant, project, staging["id"], shop, club)
    for url in (shop, club):
        eventually(url, lambda url=url: http("GET", url, timeout=5).json == [])
    stage.runs("staging", "one")
    return stage


def _links(tenant: Tenant, project: str) -> list[dict[str, Any]]:
    """The system, a connection that works, one whose Secret is missing, and the names of both in the code."""
    system = {
        "name": "Shop",
        "domain": "shop.example",
        "templateBaseUrl": f"http://shop.{tenant.namespace}.svc",
        "authSchemeConfigs": [{"id": "key", "type": "api-key", "apiKey": {"name": "X-Key", "in": "header"}}],
    }
    key = {"id": "key", "authSchemeConfigId": "key", "type": "string"}
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "shop"},
        "type": "tieline.dev/credential",
        "data": {"value": base64.b64encode(b"shop-key-of-a-test").decode()},
    }
    connection = {"name": "Shop", "systemRef": {"name": "shop"}}
    lost = {"name": "Lost key", "systemRef": {"name": "shop"}}
    template = {"name": "shop", "projectRef": {"name": project}, "systemRef": {"name": "shop"}}
    return [
        secret,
        {"kind": "System", "metadata": {"name": "shop"}, "spec": system},
        _object("Connection", "shop", connection, credentials=[{**key, "secretRef": {"name": "shop"}}]),
        _object("Connection", "lost", lost, credentials=[{**key, "secretRef": {"name": "nowhere"}}]),
        *(
            _object("ConnectionTemplate", one, template, environment=one, connectionRef={"name": "shop"})
            for one in ("staging", "production")
        ),
        _object("ConnectionTemplate", "spare", {**template, "name": "spare"}, environment="production"),
    ]


def _club(tenant: Tenant, project: str, url: str) -> list[dict[str, Any]]:
    """The system that people connect by OAuth 2.0, and its name in the code of production."""
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "club-client"},
        "type": "tieline.dev/credential",
        "data": {"clientSecret": base64.b64encode(b"club-secret-of-a-test").decode()},
    }
    client = {"clientId": "tieline", "secretRef": {"name": "club-client"}}
    oauth = {
        "authorizeUrl": f"{url}/authorize",
        "tokenUrl": f"http://club.{tenant.namespace}.svc/token",
        "pkce": True,
        "defaultScopes": ["profile"],
        "grant": {"type": "authorizationCode", "authorizationCode": client},
    }
    system = {
        "name": "Club",
        "domain": "club.example",
        "templateBaseUrl": f"http://club.{tenant.namespace}.svc",
        "authSchemeConfigs": [{"id": "members", "type": "oauth2", "oauth2": oauth}],
    }
    template = {"name": "club", "projectRef": {"name": project}, "systemRef": {"name": "club"}}
    return [
        secret,
        {"kind": "System", "metadata": {"name": "club"}, "spec": system},
        _object("ConnectionTemplate", "club", template, environment="production"),
    ]


def _user(project: str) -> list[dict[str, Any]]:
    """Ann, who is activated in staging."""
    activation = {
        "projectRef": {"name": project},
        "environment": "staging",
        "endUserRef": {"name": "ann"},
        "variables": {"warehouse": "north-7"},
    }
    user = {"externalId": "ann", "displayName": "Ann Example"}
    return [_object("EndUser", "ann", user), _object("Activation", "ann", activation)]


def _object(kind: str, name: str, spec: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"kind": kind, "metadata": {"name": name}, "spec": {**spec, **more}}


def as_json(value: Any) -> str:
    """As somebody types it."""
    return json.dumps(value)
