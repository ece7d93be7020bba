"""The operation, through the dispatcher: rights and sessions end a stream as soon as requests would be refused."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import AsyncMock, Mock

import pytest
from aiohttp import ClientSession, web
from aiohttp.test_utils import TestServer

from tests.harness.session.waiting import until
from tests.unit.api.watching.stream_events import said
from tieline_api import errors
from tieline_api.audit.log import AuditLog
from tieline_api.auth.access import Access
from tieline_api.auth.authentication import Caller
from tieline_api.cluster.organisations import Organisation
from tieline_api.engine.limit_store import LimitStore
from tieline_api.engine.rate_quotas import REQUESTS, RateQuotas
from tieline_api.handlers import OPERATIONS
from tieline_api.handlers.watching import _KINDS
from tieline_api.http.dispatcher import Dispatcher
from tieline_api.http.request_keys import SESSION_ENDS
from tieline_api.schemas.watching import ChangedObject
from tieline_api.watching.feed import Change, ChangeFeed
from tieline_core.kubernetes import Resource
from tieline_core.resources.quotas import OrganisationQuotas, Quotas

ACME = Organisation(id="01ARZ3NDEKTSV4RRFFQ69G5FAV", namespace="acme")
[OPERATION] = [one for one in OPERATIONS if one.id == "watchOrganisation"]


class Platform:
    """One organisation, and a caller whose rights and session a test takes away."""

    def __init__(self) -> None:
        self.rights = set(_KINDS.values())
        self.signed_in = True
        self.organisation: Organisation | None = ACME
        self.session: float | None = None
        self.changes = ChangeFeed(spacing=0)
        self.access = Access(self, seconds=0.05)  # type: ignore[arg-type]
        self.audit = AuditLog(Mock())
        self.settings = SimpleNamespace(
            trusted_proxies=(),
            sizes=SimpleNamespace(of=lambda _size: 0),
            access_cache_seconds=0.05,
            quotas=Quotas(),
        )
        self.rate_quotas = RateQuotas(cast(LimitStore, None), REQUESTS)
        self.stopping = asyncio.Event()
        self.rates = SimpleNamespace(hit=lambda _caller: None)
        self.authentication = SimpleNamespace(caller=self._caller)
        self.cluster = SimpleNamespace(
            require_sync=lambda: None,
            await_secrets=AsyncMock(),
            organisation=lambda _id: self.organisation,
            quotas=lambda _namespace, _defaults: OrganisationQuotas(),
        )

    async def create(self, _resource: Resource, review: dict[str, Any]) -> dict[str, Any]:
        """Kubernetes' answer to a SubjectAccessReview."""
        return {"status": {"allowed": review["spec"]["resourceAttributes"]["resource"] in self.rights}}

    async def _caller(self, _headers: Any, **_options: Any) -> Caller:
        if not self.signed_in:
            raise errors.unauthenticated("Invalid or expired token: get a new one")
        return Caller(username="ann")


@pytest.fixture
async def parts() -> AsyncIterator[tuple[Platform, Any]]:
    platform, app = Platform(), web.Application()
    dispatcher = Dispatcher(platform)  # type: ignore[arg-type]

    async def handle(request: web.Request) -> web.StreamResponse:
        if platform.session is not None:
            request[SESSION_ENDS] = time.time() + platform.session
        try:
            return await dispatcher.run(OPERATION, request)
        except errors.ApiError as error:
            return web.Response(status=error.status)

    app.router.add_get(OPERATION.path, handle)
    server = TestServer(app)
    await server.start_server()
    async with ClientSession() as http:
        yield platform, lambda: http.get(server.make_url(OPERATION.path.format(organisation_id=ACME.id)))
    await server.close()


async def test_a_lost_right_ends_the_stream_and_shows_nothing_more(parts: Any) -> None:
    platform, watch = parts
    async with watch() as answer:
        assert await said(answer) == {"type": "begin"}
        platform.rights.clear()
        assert await said(answer) == {"type": "end", "reason": "forbidden"}
    async with watch() as answer:
        assert answer.status == 404


async def test_a_token_that_is_good_no_more_ends_the_stream(parts: Any) -> None:
    platform, watch = parts
    async with watch() as answer:
        await said(answer)
        platform.signed_in = False
        assert await said(answer) == {"type": "end", "reason": "session"}
    async with watch() as answer:
        assert answer.status == 401


async def test_an_organisation_that_is_gone_ends_the_stream(parts: Any) -> None:
    platform, watch = parts
    async with watch() as answer:
        await said(answer)
        platform.organisation = None
        assert await said(answer) == {"type": "end", "reason": "forbidden"}


async def test_a_session_of_the_console_ends_the_stream(parts: Any) -> None:
    platform, watch = parts
    platform.session = 0.1
    async with watch() as answer:
        await said(answer)
        assert await said(answer) == {"type": "end", "reason": "session"}


async def test_a_lost_right_to_one_kind_hides_that_kind(parts: Any) -> None:
    platform, watch = parts
    platform.rights.discard("systems")
    async with watch() as answer:
        await said(answer)
        platform.changes.publish(ACME.id, Change("system", "s"))
        await until(lambda: not platform.changes._topics[ACME.id].pending)
        platform.changes.publish(ACME.id, Change("run", "r"))
        assert (await said(answer))["changes"] == [{"kind": "run", "id": "r", "what": "changed"}]


def test_every_kind_that_is_documented_has_its_permission() -> None:
    kinds = ChangedObject.model_json_schema()["properties"]["kind"]["enum"]
    assert list(_KINDS) == kinds
