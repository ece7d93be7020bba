"""Runs for users: their variables and connections, and what happens when the API cannot be asked."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from pytest_aiohttp import AiohttpClient

from tests.unit.runtime.external_systems import RUN_METADATA, External, api_key, configured, environment
from tieline import Context, Integration
from tieline.configuration.pod_api import PodApi
from tieline.configuration.users import ApiUsers
from tieline.server.applications import webhook_application
from tieline.server.responses import EXECUTION_ID_HEADER
from tieline.server.webhook_runs import Limits, Runner

TEMPLATES = {
    "templates": {
        "shop": {"id": "1", "dynamic": True, "linked": False},
        "gate": {"id": "2", "dynamic": True, "linked": False},
    },
    "connections": {},
    "activationId": "01STATIC",
}


def activation(name: str, url: str, key: str) -> dict[str, Any]:
    connection = environment(url, api_key("header", key))["connections"]["shop"]
    return {
        "id": f"01{name.upper()}",
        "user": {"id": "01USER", "externalId": name, "displayName": name.title()},
        "variables": {"region": name},
        "connections": {"shop": connection},
    }


@dataclass
class Api:
    """Stands in for the API's internal endpoint for users."""

    users: dict[str, dict[str, Any]] = field(default_factory=dict)
    asked: list[tuple[str, int]] = field(default_factory=list)
    request_ids: list[str | None] = field(default_factory=list)
    away: bool = False
    server: TestServer = field(init=False)

    async def start(self) -> None:
        application = web.Application()
        application.router.add_get("/internal/v1/environment/users/{id}", self._handle)
        self.server = TestServer(application)
        await self.server.start_server()

    async def _handle(self, request: web.Request) -> web.Response:
        assert request.headers["Authorization"] == "Bearer pods-token"
        name = request.match_info["id"]
        self.request_ids.append(request.headers.get("X-Request-Id"))
        response = self._answer(name, request.headers.get("If-None-Match"))
        self.asked.append((name, response.status))
        return response

    def _answer(self, name: str, condition: str | None) -> web.Response:
        if self.away:
            return web.Response(status=503)
        if name not in self.users:
            return web.Response(status=404)
        body = json.dumps(self.users[name])
        etag = f'"{hash(body)}"'
        if condition == etag:
            return web.Response(status=304)
        return web.Response(text=body, headers={"ETag": etag})


@dataclass
class Place:
    """A server with the webhook ``hook``, its API, and a clock that stands still."""

    api: Api
    client: TestClient[web.Request, web.Application]
    now: float = 1000.0

    async def ask(self, path: str) -> tuple[int, Any]:
        response = await self.client.get(path)
        return response.status, await response.json()


@pytest.fixture
async def place(
    aiohttp_client: AiohttpClient, client: aiohttp.ClientSession, tmp_path: Path
) -> AsyncIterator[Place]:
    api = Api()
    await api.start()
    token = tmp_path / "token"
    token.write_text("pods-token\n")
    integration = Integration()

    @integration.webhook("hook", methods=["GET"])
    async def hook(ctx: Context) -> Any:
        user = ctx.activation.user
        if user is None:
            return {"activation": ctx.activation.id, **ctx.variables}
        response = await ctx.fetch("shop", "/orders")
        ctx.log.info("Key is key-of-ann")
        return {"activation": ctx.activation.id, "user": user.external_id, "status": response.status} | {
            **ctx.variables
        }

    @integration.webhook("needs-gate", methods=["GET"])
    async def needs_gate(ctx: Context) -> None:
        ctx.session("gate")

    @integration.webhook("guarded", methods=["GET"], connection="shop")
    async def guarded(ctx: Context) -> Any:
        return {"for": ctx.activation.id}

    found = Place(api=api, client=None)  # type: ignore[arg-type]
    url = str(api.server.make_url("")).rstrip("/")
    runner = Runner(
        limits=Limits(max_body=1000, max_runs=10, run_timeout=5),
        configuration=configured(environment("http://unused", **TEMPLATES)),
        client=client,
        run_metadata=RUN_METADATA,
        users=ApiUsers(PodApi(client, url, token), lambda: found.now),
    )
    found.client = await aiohttp_client(webhook_application(integration.webhooks, runner, max_body=1000))
    yield found
    await api.server.close()


async def test_a_run_is_its_users_with_their_connection_and_variables(
    place: Place, external: External
) -> None:
    place.api.users = {
        name: activation(name, external.url, f"key-of-{name}") for name in ("ann", "ben", "a/b ü")
    }
    for name, path in (("ann", "ann"), ("ben", "ben"), ("a/b ü", "a%2Fb%20%C3%BC")):
        status, body = await place.ask(f"/hook/users/{path}")
        assert (status, body["user"], body["region"]) == (200, name, name)
        assert external.last.headers["X-API-Key"] == f"key-of-{name}"
    assert await place.ask("/hook") == (200, {"activation": "01STATIC", "region": "eu"})


async def test_the_api_is_told_which_run_asks(place: Place, external: External) -> None:
    place.api.users = {"ann": activation("ann", external.url, "key-of-ann")}
    answer = await place.client.get("/hook/users/ann")
    assert place.api.request_ids == [answer.headers[EXECUTION_ID_HEADER]]


async def test_a_user_who_is_not_activated_is_not_found(place: Place) -> None:
    status, body = await place.ask("/hook/users/nobody")
    assert (status, body["code"]) == (404, "not_found")
    assert (await place.client.post("/hook/users/nobody")).status == 405


async def test_a_template_without_a_connection_of_the_user_fails_the_run(
    place: Place, external: External, caplog: pytest.LogCaptureFixture
) -> None:
    place.api.users["ann"] = activation("ann", external.url, "key-of-ann")
    status, body = await place.ask("/needs-gate/users/ann")
    assert (status, body["code"]) == (500, "execution_failed")
    assert "The activation of user 'ann' has no connection for the template 'gate'" in caplog.text


async def test_changes_are_seen_within_seconds_and_what_is_known_is_not_asked_for(
    place: Place, external: External
) -> None:
    place.api.users["ann"] = activation("ann", external.url, "key-of-ann")
    for _ in range(5):
        await place.ask("/hook/users/ann")
    assert place.api.asked == [("ann", 200)]
    place.now += 2
    await place.ask("/hook/users/ann")
    assert place.api.asked[-1] == ("ann", 304)
    place.api.users["ann"]["variables"] = {"region": "new"}
    place.now += 2
    assert (await place.ask("/hook/users/ann"))[1]["region"] == "new"
    del place.api.users["ann"]
    place.now += 2
    assert (await place.ask("/hook/users/ann"))[0] == 404


async def test_known_users_are_served_while_the_api_is_away_and_others_told_to_come_back(
    place: Place, external: External
) -> None:
    place.api.users["ann"] = activation("ann", external.url, "key-of-ann")
    await place.ask("/hook/users/ann")
    place.api.away = True
    place.now += 60
    assert (await place.ask("/hook/users/ann"))[0] == 200
    response = await place.client.get("/hook/users/ben")
    assert (response.status, response.headers["Retry-After"]) == (503, "2")
    asked = len(place.api.asked)
    assert (await place.ask("/hook/users/ann"))[0] == 200
    assert len(place.api.asked) == asked, "the API is not asked for each run while it is away"


async def test_a_dynamic_connection_guards_a_webhook_for_its_user_only(
    place: Place, external: External
) -> None:
    place.api.users = {name: activation(name, external.url, f"key-of-{name}") for name in ("ann", "ben")}
    with_key = {"X-API-Key": "key-of-ann"}
    assert (await place.client.get("/guarded/users/ann", headers=with_key)).status == 200
    for path in ("/guarded/users/ben", "/guarded/users/nobody", "/guarded"):
        assert (await place.client.get(path, headers=with_key)).status == 401


async def test_the_memory_for_users_is_bounded(client: aiohttp.ClientSession, tmp_path: Path) -> None:
    api = Api(users={f"user-{number}": {"id": str(number)} for number in range(1100)})
    await api.start()
    (tmp_path / "token").write_text("pods-token")
    users = ApiUsers(
        PodApi(client, str(api.server.make_url("")).rstrip("/"), tmp_path / "token"), lambda: 1.0
    )
    for name in api.users:
        await users.find(name)
    assert len(users._known) == 1000
    assert (await users.find("user-0")) is not None
    await api.server.close()


async def test_runs_that_want_one_user_at_once_share_one_request(place: Place, external: External) -> None:
    place.api.users["ann"] = activation("ann", external.url, "key-of-ann")
    answers = await asyncio.gather(*(place.ask("/hook/users/ann") for _ in range(8)))
    assert [status for status, _ in answers] == [200] * 8
    assert place.api.asked == [("ann", 200)]
