"""The platform is told that a system refuses credentials, seldom, and that it accepts them again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from tests.unit.runtime.external_systems import configured, context, environment, scheme_credential
from tieline import Context
from tieline.configuration.api_tokens import AccessTokens
from tieline.configuration.pod_api import ApiAnswer, PodApi
from tieline.configuration.snapshot import Connection
from tieline.http_client.outcomes import OutcomeReporter
from tieline.http_client.responses import Response


@dataclass
class Api:
    """What the platform is told."""

    told: list[Any] = field(default_factory=list)
    status: int = 204
    is_away: bool = False
    asked: asyncio.Event = field(default_factory=asyncio.Event)

    async def request(self, _method: str, path: str, *, body: Mapping[str, Any], **_: Any) -> ApiAnswer:
        if self.is_away:
            raise aiohttp.ClientConnectionError("away")
        assert path.startswith("/internal/v1/connections/")
        self.told.append({**body})
        self.asked.set()
        return ApiAnswer(self.status, None, b"")


class Told:
    """A reporter at a time that the test turns."""

    def __init__(self) -> None:
        self.api = Api()
        self.time = 1000.0
        self.reporter = OutcomeReporter(cast(PodApi, self.api), now=lambda: self.time)

    async def after(
        self, *statuses: int, seconds: float = 0, refused: bool = False, of: str = "f1"
    ) -> list[Any]:
        """What is told after so many seconds, and answers with these statuses."""
        self.time += seconds
        connection = Connection(
            id="c1",
            name="Shop",
            template="shop",
            base_url="",
            credentials=(),
            refused=refused,
            fingerprint=of,
        )
        for status in statuses:
            self.reporter.answered(connection, status, "bad key" if status in (401, 403) else "")
        before = len(self.api.told)
        await self.reporter._send_due()
        return self.api.told[before:]


@pytest.fixture
def told() -> Told:
    return Told()


REFUSED = {"status": 401, "of": "f1", "count": 1, "said": "bad key"}
ACCEPTED = {"status": 200, "of": "f1"}


async def test_the_first_401_is_told_and_the_next_success(told: Told) -> None:
    assert await told.after(404, 422) == []
    assert await told.after(401) == [REFUSED]
    assert await told.after(200, seconds=6) == [ACCEPTED]
    assert await told.after(200, 200, seconds=100) == []


async def test_successes_are_reported_once_in_ten_minutes(told: Told) -> None:
    assert await told.after(200, 204) == [{"status": 204, "of": "f1"}]
    reports = [one for _ in range(60) for one in await told.after(200, 404, 200, seconds=60)]
    assert reports == [ACCEPTED] * 6


async def test_a_success_with_new_credentials_is_reported_at_once(told: Told) -> None:
    await told.after(200)
    assert await told.after(200, seconds=6, of="f2") == [{"status": 200, "of": "f2"}]


async def test_a_404_ends_a_refusal_and_is_no_success(told: Told) -> None:
    await told.after(401)
    assert await told.after(404, seconds=6) == [{"status": 404, "of": "f1"}]
    assert await told.after(200, seconds=60) == [ACCEPTED]


async def test_a_403_for_one_thing_is_no_refusal_and_three_in_a_row_are(told: Told) -> None:
    assert await told.after(403, 403, 404, 403, 403) == []
    assert await told.after(403) == [{**REFUSED, "status": 403, "count": 3}]


async def test_refusals_that_go_on_are_told_once_a_minute_with_their_number(told: Told) -> None:
    assert await told.after(401) == [REFUSED]
    for _ in range(50):
        assert await told.after(401, 401, seconds=1) == []
    assert await told.after(401, seconds=10) == [{**REFUSED, "count": 101}]
    assert await told.after(seconds=3600) == []


async def test_what_says_nothing_about_credentials_is_not_told(told: Told) -> None:
    await told.after(401)
    assert await told.after(500, 503, 429, 407, 408, seconds=3600) == []


async def test_systems_that_answer_in_turns_are_told_of_seldom(told: Told) -> None:
    reports = [one for _ in range(600) for one in await told.after(401, 200, 401, 200, seconds=0.1)]
    assert len(reports) <= 25


async def test_a_pod_that_did_not_see_the_refusal_tells_that_it_is_over(told: Told) -> None:
    assert await told.after(200, refused=True) == [ACCEPTED]


async def test_a_pod_that_has_reported_success_tells_that_anothers_refusal_is_over(told: Told) -> None:
    assert await told.after(200) == [ACCEPTED]
    assert await told.after(200, seconds=6, refused=True) == [ACCEPTED]


async def test_a_single_403_counts_where_others_were_refused(told: Told) -> None:
    assert await told.after(403, refused=True) == [{**REFUSED, "status": 403}]


async def test_a_report_waits_while_the_platform_is_away(told: Told) -> None:
    told.api.is_away = True
    assert await told.after(401) == []
    told.api.is_away = False
    assert await told.after(401, seconds=6) == [{**REFUSED, "count": 2}]


async def test_a_refusal_that_is_over_before_it_was_told_is_not_told(told: Told) -> None:
    told.api.is_away = True
    await told.after(401)
    told.api.is_away = False
    assert await told.after(404, seconds=6) == []


async def test_an_older_platform_is_not_asked_again_and_again(told: Told) -> None:
    told.api.status = 404
    assert await told.after(401) == [REFUSED]
    assert await told.after(seconds=3600) == []


async def test_what_is_remembered_is_bounded(told: Told) -> None:
    for number in range(5000):
        one = Connection(id=f"c{number}", name="", template="shop", base_url="", credentials=())
        told.reporter.answered(one, 401)
        told.reporter.answered(one, 200)
    assert len(told.reporter._states) <= 1000


@dataclass
class Seen:
    statuses: list[int] = field(default_factory=list)
    said: list[str] = field(default_factory=list)

    def answered(self, _connection: Connection, status: int, said: str = "") -> None:
        self.statuses.append(status)
        self.said.append(said)


class OtherToken:
    """Has another access token for one that was refused."""

    async def ready(self, connection: Connection) -> Connection:
        return connection

    async def instead_of(self, connection: Connection) -> Connection:
        snapshot = environment(
            "http://x", scheme_credential("oauth2", {}, type="oauth2-token", accessToken="access-token-two")
        )
        return configured(snapshot).current.connection("shop")


@dataclass
class There:
    ctx: Context
    seen: Seen


@pytest.fixture
async def there() -> AsyncIterator[There]:
    async def handle(request: web.Request) -> web.Response:
        await request.read()
        good = (
            request.headers.get("Authorization") == "Bearer access-token-two" and request.path != "/forbidden"
        )
        token = request.headers.get("Authorization", "")
        if request.path == "/limited":
            return web.Response(status=403, headers={"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "60"})
        return web.Response(
            status=200 if good else 403 if request.path == "/forbidden" else 401,
            text=f"not with {token}",
        )

    application = web.Application()
    application.router.add_route("*", "/{path:.*}", handle)
    async with TestServer(application) as server, aiohttp.ClientSession(response_class=Response) as client:
        credential = scheme_credential("oauth2", {}, type="oauth2-token", accessToken="access-token-one")
        configuration = configured(environment(str(server.make_url("")).rstrip("/"), credential))
        configuration.outcomes = seen = Seen()
        configuration.tokens = cast(AccessTokens, OtherToken())
        yield There(context(client, configuration), seen)


async def test_a_401_after_which_another_token_is_accepted_is_no_refusal(there: There) -> None:
    assert (await there.ctx.fetch("shop", "/orders", method="POST", json={})).status == 200
    assert there.seen.statuses == [200]


async def test_a_401_of_a_body_that_cannot_be_sent_again_says_nothing(there: There) -> None:
    async def rows() -> AsyncIterator[bytes]:
        yield b"one"

    assert (await there.ctx.fetch("shop", "/orders", method="POST", data=rows())).status == 401
    assert there.seen.statuses == []


async def test_answers_of_fetch_and_of_sessions_are_seen(there: There) -> None:
    assert (await there.ctx.fetch("shop", "/forbidden")).status == 403
    async with there.ctx.session("shop").get("/forbidden") as response:
        assert response.status == 403
        assert "not with" in await response.text(), "it is there for code all the same"
    assert there.seen.statuses == [403, 403]
    assert all(one.startswith("not with") and "access-token-one" not in one for one in there.seen.said)


async def test_a_403_because_of_limits_is_no_refusal(there: There) -> None:
    assert (await there.ctx.fetch("shop", "/limited")).status == 403
    assert there.seen.statuses == []


async def test_the_reporter_sends_in_the_background() -> None:
    told = Told()
    told.reporter.now = asyncio.get_running_loop().time
    sending = asyncio.create_task(told.reporter.run())
    one = Connection(id="c1", name="", template="shop", base_url="", credentials=())
    told.reporter.answered(one, 401, "bad key")
    async with asyncio.timeout(20):
        await told.api.asked.wait()
    sending.cancel()
    assert told.api.told == [{**REFUSED, "of": ""}]
