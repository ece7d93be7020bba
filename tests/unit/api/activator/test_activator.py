"""Requests to environments without pods: held, answered by the pod that starts, or refused."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from tieline_api.activator.application import Activator, activator_application
from tieline_api.activator.held_requests import Bound, HeldRequests
from tieline_api.activator.ready_pods import ReadyPods
from tieline_api.activator.targets import Target, target_by_host, target_by_id, target_of
from tieline_api.activator.wakes import Wakes
from tieline_api.cluster.cluster_cache import ClusterCache
from tieline_api.dependencies import Dependencies
from tieline_api.errors import ApiError
from tieline_api.server.http_server import Runner
from tieline_api.use_cases.waking import wake
from tieline_core.identity.ids import ORGANISATION_LABEL, environment_id, object_id
from tieline_core.identity.names import ACTIVE_ANNOTATION, REPORTED_ANNOTATION, workload_name
from tieline_core.kubernetes import Kube, Unavailable
from tieline_protocol.event_streams import EventStreams

ORGANISATION = "01J8ZQ5W0V3N6R2T4X7Y9KABCD"
HOST = "orders.acme.hooks.example"


def project(**scaling: Any) -> dict[str, Any]:
    metadata = {
        "name": "orders",
        "namespace": "acme",
        "uid": "orders",
        "resourceVersion": "1",
        "creationTimestamp": "2026-01-01T00:00:00Z",
    }
    shown = {"name": "production", "publicUrl": f"https://{HOST}:8443"}
    spec = {"name": "Orders", "environments": [{"name": "production", "version": "latest"}]}
    if scaling:
        spec["runtime"] = {"scaling": scaling}
    return {"metadata": metadata, "spec": spec, "status": {"environments": [shown]}}


class FakeKube:
    """Has one pod, once the environment was woken and ``starts``; notes what is written."""

    def __init__(self, *, starts: bool = True, away: bool = False) -> None:
        self.starts, self.away = starts, away
        self.written: list[tuple[str, set[str]]] = []

    async def patch(self, _resource: Any, name: str, _namespace: str, patch: Any, **_options: Any) -> Any:
        if self.away:
            raise Unavailable("away", status=503)
        self.written.append((name, set(patch["metadata"]["annotations"])))
        return {}

    async def list(self, *_args: Any, **_options: Any) -> list[dict[str, Any]]:
        ready = "True" if self.written and self.starts else "False"
        leaving = {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}
        status = {"podIP": "127.0.0.1", "conditions": [{"type": "Ready", "status": ready}]}
        return [{**leaving, "status": status}, {"metadata": {}, "status": status}]


class ReadCluster(ClusterCache):
    """Has read everything that it will ever have."""

    def require_sync(self) -> None:
        """It has."""


def cluster(**scaling: Any) -> ClusterCache:
    cache = ReadCluster(cast(Kube, None))
    cache.projects.observe(project(**scaling))
    return cache


@asynccontextmanager
async def activator(
    kube: FakeKube, *, hold_seconds: float = 5.0, answer_seconds: float = 5.0, **scaling: Any
) -> AsyncIterator[Any]:
    """The activator's URL, before a pod that echoes, and whose answer at /endless has no end."""

    async def echo(request: web.Request) -> web.Response:
        body = await request.read()
        headers = {
            "X-Path": request.raw_path,
            "X-Host": request.host,
            "X-Kept": request.headers.get("X-Kept", ""),
        }
        return web.Response(status=201, body=body[::-1], headers=headers)

    async def endless(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        with contextlib.suppress(ConnectionError):
            while True:
                await response.write(b"more")
                await asyncio.sleep(0.01)
        return response

    app = web.Application()
    app.router.add_get("/endless", endless)
    app.router.add_route("*", "/{path:.*}", echo)
    async with TestServer(app) as pod:

        def make() -> Activator:
            return Activator(
                cluster(**scaling),
                Wakes(cast(Kube, kube)),
                ReadyPods(cast(Kube, kube)),
                hold_seconds=hold_seconds,
                answer_seconds=answer_seconds,
                pod_port=pod.port or 0,
            )

        runner = Runner(activator_application(make), shutdown_timeout=1.0)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        try:
            yield f"http://127.0.0.1:{runner.addresses[0][1]}"
        finally:
            await runner.cleanup()


async def test_a_request_is_answered_by_the_pod_that_it_wakes() -> None:
    kube = FakeKube()
    async with activator(kube, min=0) as url, aiohttp.ClientSession() as client:
        headers = {"Host": f"{HOST}:8443", "X-Kept": "yes", "Connection": "X-Dropped", "X-Dropped": "1"}
        calls = [client.post(f"{url}/a%2Fb?c=%20d", data=b"body", headers=headers) for _ in range(5)]
        for answer in await asyncio.gather(*calls):
            assert answer.status == 201
            assert await answer.read() == b"ydob"
            assert answer.headers["X-Path"] == "/a%2Fb?c=%20d"
            assert answer.headers["X-Host"] == f"{HOST}:8443"
            assert answer.headers["X-Kept"] == "yes"
            assert answer.headers["Connection"] == "close", "the next request goes to the pod itself"
    assert kube.written == [("orders.production", {ACTIVE_ANNOTATION})]


@pytest.mark.parametrize("kube", [FakeKube(starts=False), FakeKube(away=True)])
async def test_a_request_that_no_pod_answers_may_be_sent_again_later(kube: FakeKube) -> None:
    async with activator(kube, hold_seconds=0.1, min=0) as url, aiohttp.ClientSession() as client:
        answer = await client.get(url, headers={"Host": HOST})
        assert (answer.status, answer.headers["Retry-After"]) == (503, "5")


async def test_an_answer_without_an_end_keeps_no_place() -> None:
    timeout = aiohttp.ClientTimeout(total=10)
    async with (
        activator(FakeKube(), answer_seconds=1.0, min=0) as url,
        aiohttp.ClientSession(timeout=timeout) as client,
    ):
        answer = await client.get(f"{url}/endless", headers={"Host": HOST})
        assert answer.status == 200
        with pytest.raises(aiohttp.ClientPayloadError):
            await answer.read()


@pytest.mark.parametrize("scaling", [{}, {"min": 1}])
async def test_environments_that_never_sleep_are_not_reached_by_this_way(scaling: dict[str, int]) -> None:
    kube = FakeKube()
    async with activator(kube, **scaling) as url, aiohttp.ClientSession() as client:
        assert (await client.get(url, headers={"Host": HOST})).status == 404
    assert not kube.written


def test_an_environment_is_found_by_its_url_and_by_its_service() -> None:
    cache = cluster(min=0, idleAfter="1m")
    name = workload_name("orders", "production")
    found = target_by_host(cache, HOST.upper())
    assert found is not None
    assert found.idle_seconds == 60
    for host in (f"{HOST}:80", f"{name}.acme", f"{name}.acme.svc", f"{name}.acme.svc.cluster.local."):
        assert target_by_host(cache, host) == found
    for host in ("", name, f"{name}.other", "127.0.0.1", "x@y"):
        assert target_by_host(cache, host) is None
    identifier = environment_id(object_id(project()), "production")
    assert target_by_id(cache, "acme", identifier) == found
    assert target_by_id(cache, "other", identifier) is None
    suspended = project(min=0)
    suspended["spec"]["environments"][0]["suspended"] = True
    assert target_of(suspended, "production") is None


def test_one_environment_cannot_take_the_place_of_others() -> None:
    held = HeldRequests(of_all=Bound(9, 200), of_organisation=Bound(3, 90), of_environment=Bound(2, 50))
    with held.hold("acme", "one") as first, held.hold("acme", "one") as second:
        with pytest.raises(ApiError) as refused, held.hold("acme", "one"):
            pass
        assert (refused.value.status, refused.value.headers["Retry-After"]) == (503, "5")
        first.add(30)
        with pytest.raises(ApiError):
            second.add(30)
        with held.hold("acme", "two") as third, pytest.raises(ApiError), held.hold("acme", "three"):
            third.add(1)
        with held.hold("other", "four") as fourth:
            fourth.add(50)
            assert held.count == 3
    assert held.count == 0
    with held.hold("acme", "one") as again:
        again.add(50)


def test_one_organisation_leaves_room_for_each_next_one() -> None:
    held = HeldRequests(of_all=Bound(16, 64), of_organisation=Bound(16, 64), of_environment=Bound(16, 64))
    taken: dict[str, int] = {}
    with ExitStack() as open_requests:
        for organisation in ("first", "second", "third", "fourth"):
            with contextlib.suppress(ApiError):
                while True:
                    open_requests.enter_context(held.hold(organisation, "one")).add(4)
                    taken[organisation] = taken.get(organisation, 0) + 1
        assert list(taken.values()) == [8, 4, 2, 1]


async def test_a_pod_that_works_is_written_down_once_in_a_while() -> None:
    kube, now = FakeKube(), [0.0]
    wakes = Wakes(cast(Kube, kube), clock=lambda: now[0])
    target = Target("acme", "orders", "production", "id", 80)
    for _ in range(3):
        await wakes.report(target, works=True)
        await wakes.report(target, works=False)
    assert [annotations for _, annotations in kube.written] == [
        {ACTIVE_ANNOTATION, REPORTED_ANNOTATION},
        {REPORTED_ANNOTATION},
    ]
    now[0] = 10.0
    await wakes.report(target, works=True)
    assert len(kube.written) == 3


async def test_what_could_not_be_written_is_tried_again() -> None:
    kube = FakeKube(away=True)
    wakes = Wakes(cast(Kube, kube))
    target = Target("acme", "orders", "production", "id", 80)
    with pytest.raises(Unavailable):
        await wakes.wake(target)
    await wakes.try_to_wake(target)
    kube.away = False
    await wakes.wake(target)
    assert len(kube.written) == 1


@pytest.mark.parametrize(("minutes", "wakes"), [(None, True), (1, True), (10, False)])
async def test_what_is_published_wakes_its_environment_if_it_is_due_soon(
    minutes: int | None, wakes: bool
) -> None:
    kube, cache = FakeKube(), cluster(min=0)
    namespace: dict[str, Any] = {"name": "acme", "labels": {ORGANISATION_LABEL: ORGANISATION}, "uid": "ns"}
    namespace["creationTimestamp"] = "2026-01-01T00:00:00Z"
    cache.namespaces.observe({"metadata": {**namespace, "resourceVersion": "1"}})
    platform = SimpleNamespace(cluster=cache, wakes=Wakes(cast(Kube, kube)))
    streams = EventStreams(ORGANISATION, environment_id(object_id(project()), "production"))
    at = None if minutes is None else datetime.now(UTC) + timedelta(minutes=minutes)
    await wake(cast(Dependencies, platform), streams, at=at)
    assert bool(kube.written) is wakes
    await wake(cast(Dependencies, platform), EventStreams(ORGANISATION, "another"), at=at)
    assert len(kube.written) <= 1
