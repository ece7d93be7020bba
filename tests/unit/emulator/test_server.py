"""The emulator's server: providers by path, actions of people, and signed webhooks."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from yarl import URL

from tests.unit.emulator.providers import BACK, SLACK, entry
from tieline.emulator.connection import connection
from tieline.emulator.provider import Provider
from tieline.emulator.server import Emulator

LISTED = entry(
    "listed",
    {},
    system={"lists": {"paths": [{"path": "/rows", "kind": "link", "items": "rows", "next": "next"}]}},
    emulator={"callback": {"realm": "7"}},
)
HOOKED = {
    **SLACK,
    "system": {
        **SLACK["system"],
        "authSchemeConfigs": [
            *SLACK["system"]["authSchemeConfigs"],
            {
                "id": "webhooks",
                "type": "hmac",
                "hmac": {
                    "name": "X-Signature",
                    "in": "header",
                    "algorithm": "sha256",
                    "digestInputs": ["body"],
                },
            },
        ],
    },
}


@pytest.fixture
def emulator() -> Emulator:
    return Emulator([Provider(HOOKED), Provider(LISTED)])


@pytest.fixture
async def client(emulator: Emulator) -> AsyncIterator[TestClient[web.Request, web.Application]]:
    async with TestClient(TestServer(emulator.application())) as running:
        yield running


def at(client: TestClient[Any, Any], path: str) -> str:
    return str(client.make_url(path))


async def test_a_person_signs_in_and_code_reads_a_list(client: TestClient[Any, Any]) -> None:
    query = {"client_id": "listed-client", "redirect_uri": BACK, "response_type": "code", "state": "s"}
    url = URL(at(client, "/listed.example/authorize")).with_query(query)
    async with client.get(str(url).removeprefix(at(client, ""))) as page:
        assert "allow access?" in await page.text()
    path = url.path_qs
    async with client.post(path, data={"decision": "allow"}, allow_redirects=False) as sent:
        back = URL(sent.headers["Location"])
    assert (back.host, back.query["realm"]) == ("tieline.example", "7")
    fields = {
        "grant_type": "authorization_code",
        "code": back.query["code"],
        "redirect_uri": BACK,
        "client_id": "listed-client",
        "client_secret": "listed-secret",
    }
    async with client.post("/listed.example/token", data=fields) as answer:
        token = (await answer.json())["access_token"]
    headers, rows, following = {"Authorization": f"Bearer {token}"}, [], "/listed.example/api/rows"
    while following:
        async with client.get(following, headers=headers) as page:
            content = await page.json()
        rows += content["rows"]
        following = URL(content["next"]).path_qs if content["next"] else ""
        assert not content["next"] or content["next"].startswith(at(client, "/listed.example/"))
    assert len(rows) == 5


async def test_the_printed_connection_works_until_its_tokens_end(
    emulator: Emulator, client: TestClient[Any, Any]
) -> None:
    made = connection(emulator.providers["listed"], at(client, ""))
    data = made["credentials"][0]["data"]
    assert (made["baseUrl"], data["accessToken"]) == (at(client, "/listed.example/api"), "listed-at-known")
    assert "scopes" not in made["credentials"][0]["authScheme"]["oauth2"]
    headers = {"Authorization": "Bearer listed-at-known"}
    async with client.get("/listed.example/api/me", headers=headers) as answer:
        assert answer.status == 200
    async with client.post("/_emulator/listed/expire") as answer:
        assert await answer.json() == {"done": 1}
    async with client.get("/listed.example/api/me", headers=headers) as answer:
        assert answer.status == 401


@pytest.mark.parametrize("action", ["expire", "revoke", "limit?seconds=5", "fail?status=500", "advance"])
async def test_people_act_at_the_providers_side(client: TestClient[Any, Any], action: str) -> None:
    async with client.post(f"/_emulator/slack/{action}") as answer:
        assert answer.status == 200


async def test_no_other_page_acts_at_the_providers_side(client: TestClient[Any, Any]) -> None:
    async with client.post("/_emulator/slack/expire", headers={"Origin": "https://evil.example"}) as answer:
        assert answer.status == 403
    async with client.post("/_emulator/slack/nothing") as answer:
        assert answer.status == 404
    async with client.post("/_emulator/slack/limit?times=many") as answer:
        assert answer.status == 400


async def test_a_webhook_is_sent_on_demand(client: TestClient[Any, Any]) -> None:
    seen: list[tuple[str, bytes]] = []

    async def hook(request: web.Request) -> web.Response:
        seen.append((request.headers["X-Signature"], await request.read()))
        return web.Response(status=202, text="thanks")

    app = web.Application()
    app.router.add_post("/hook", hook)
    async with TestServer(app) as receiver:
        url = str(receiver.make_url("/hook"))
        async with client.post(f"/_emulator/slack/webhook?url={url}", data=b'{"type":"ping"}') as answer:
            assert await answer.json() == {"status": 202, "body": "thanks"}
        async with client.post(f"/_emulator/listed/webhook?url={url}") as answer:
            assert answer.status == 400
    ((signature, body),) = seen
    assert body == b'{"type":"ping"}'
    assert len(signature) == 64


async def test_the_first_page_lists_the_providers(client: TestClient[Any, Any]) -> None:
    async with client.get("/") as page:
        assert "<h2>Slack</h2>" in await page.text()
    async with client.get("/unknown.example/x") as answer:
        assert answer.status == 404
