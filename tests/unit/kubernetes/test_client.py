"""Calls to an API server that refuses, stumbles or is silent."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from aiohttp import web

from tests.harness.session.waiting import until
from tests.unit.kubernetes.fake_api_server import Answer, FakeApiServer, hang, hang_up, refuse
from tieline_core.kubernetes import (
    AlreadyExists,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    Kube,
    KubeError,
    NotFound,
    TooManyRequests,
    Unauthorized,
    Unavailable,
    client,
)
from tieline_core.kubernetes.kubeconfig import ClusterConnection
from tieline_core.kubernetes.resources import CONFIG_MAPS, NAMESPACES, SECRETS, TOKEN_REVIEWS

Call = Callable[[Kube], Awaitable[object]]
ONE: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "one", "namespace": "acme"},
}
SAFE_TO_REPEAT: dict[str, Call] = {
    "get": lambda kube: kube.get(CONFIG_MAPS, "one", "acme"),
    "list": lambda kube: kube.list(CONFIG_MAPS, "acme"),
    "apply": lambda kube: kube.apply(CONFIG_MAPS, ONE, field_manager="test"),
    "delete by uid": lambda kube: kube.delete(CONFIG_MAPS, "one", "acme", uid="uid-1"),
    "review": lambda kube: kube.create(TOKEN_REVIEWS, {"metadata": {"name": "review"}}),
}
NOT_SAFE_TO_REPEAT: dict[str, Call] = {
    "create": lambda kube: kube.create(CONFIG_MAPS, {"metadata": {"name": "two", "namespace": "acme"}}),
    "replace": lambda kube: kube.replace(CONFIG_MAPS, ONE),
    "patch": lambda kube: kube.patch(CONFIG_MAPS, "one", "acme", {"metadata": {"labels": {"a": "b"}}}),
    "delete by name": lambda kube: kube.delete(CONFIG_MAPS, "one", "acme"),
    "apply of a version": lambda kube: kube.apply(
        CONFIG_MAPS, {"metadata": {**ONE["metadata"], "resourceVersion": "101"}}, field_manager="test"
    ),
}
ALL = {**SAFE_TO_REPEAT, **NOT_SAFE_TO_REPEAT}


@pytest.fixture(autouse=True)
def _one(server: FakeApiServer) -> None:
    server.put("one")


@pytest.mark.parametrize("verb", ALL)
@pytest.mark.parametrize(
    "busy",
    [
        refuse(429, "TooManyRequests", headers={"Retry-After": "0.01"}),
        refuse(503, "ServiceUnavailable", headers={"Retry-After": "0"}),
        refuse(503, "ServiceUnavailable", retryAfterSeconds=0.01),
    ],
    ids=["429", "503", "503 in the body"],
)
async def test_every_call_comes_back_when_the_server_asks_it_to(
    verb: str, busy: Answer, server: FakeApiServer, kube: Kube
) -> None:
    server.answers.extend([busy, busy])
    await ALL[verb](kube)
    assert len(server.seen) == 3


async def test_a_server_that_stays_busy_is_reported_with_its_own_answer(
    server: FakeApiServer, kube: Kube
) -> None:
    server.answers.extend([refuse(429, "TooManyRequests", headers={"Retry-After": "0.01"})] * 9)
    with pytest.raises(TooManyRequests) as caught:
        await kube.get(CONFIG_MAPS, "one", "acme")
    assert caught.value.retry_after == 0.01
    assert len(server.seen) == 4


async def test_a_pause_longer_than_the_time_out_is_not_waited_for(
    server: FakeApiServer,
) -> None:
    server.answers.append(refuse(429, "TooManyRequests", headers={"Retry-After": "60"}))
    began = time.monotonic()
    async with server.client(timeout=30) as kube:
        with pytest.raises(TooManyRequests):
            await kube.get(CONFIG_MAPS, "one", "acme")
    assert time.monotonic() - began < 20


@pytest.mark.parametrize("verb", SAFE_TO_REPEAT)
async def test_a_call_that_may_be_carried_out_twice_survives_a_broken_connection(
    verb: str, server: FakeApiServer, kube: Kube
) -> None:
    server.answers.append(hang_up)
    await SAFE_TO_REPEAT[verb](kube)
    assert len(server.seen) == 2


@pytest.mark.parametrize("verb", NOT_SAFE_TO_REPEAT)
@pytest.mark.parametrize("failure", [hang_up, refuse(500), refuse(503)], ids=["hang-up", "500", "503"])
async def test_a_call_that_may_have_worked_is_not_repeated_blindly(
    verb: str, failure: Answer, server: FakeApiServer, kube: Kube
) -> None:
    server.answers.append(failure)
    with pytest.raises(Unavailable):
        await NOT_SAFE_TO_REPEAT[verb](kube)
    assert len(server.seen) == 1


@pytest.mark.parametrize("verb", ["get", "list"])
async def test_reading_survives_a_failing_server(verb: str, server: FakeApiServer, kube: Kube) -> None:
    server.answers.append(refuse(500))
    await SAFE_TO_REPEAT[verb](kube)
    assert len(server.seen) == 2


async def test_a_silent_server_is_unavailable_after_the_time_out(
    server: FakeApiServer,
) -> None:
    server.answers.append(hang(5))
    async with server.client(timeout=0.1) as kube:
        with pytest.raises(Unavailable, match=r"get /api/v1/namespaces/acme/configmaps/one: no answer"):
            await kube.get(CONFIG_MAPS, "one", "acme")


async def test_an_absent_server_is_unavailable(server: FakeApiServer, unused_tcp_port: int) -> None:
    gone = ClusterConnection(
        url=f"http://127.0.0.1:{unused_tcp_port}",
        tls=True,
        configuration=server.configuration,
    )
    async with Kube(gone) as kube:
        with pytest.raises(Unavailable):
            await kube.get(CONFIG_MAPS, "one", "acme")
    assert kube.requests["get", "configmaps"] > 1


async def test_a_call_after_the_end_is_unavailable(server: FakeApiServer) -> None:
    async with server.client() as kube:
        await kube.get(CONFIG_MAPS, "one", "acme")
    with pytest.raises(Unavailable):
        await kube.replace(CONFIG_MAPS, ONE)


async def test_an_answer_that_is_no_json_is_unavailable(server: FakeApiServer, kube: Kube) -> None:
    server.answers.extend([_page] * 4)
    with pytest.raises(Unavailable, match="no JSON"):
        await kube.get(CONFIG_MAPS, "one", "acme")


async def test_cancelling_a_call_is_not_mistaken_for_a_time_out(server: FakeApiServer, kube: Kube) -> None:
    server.answers.append(hang(5))
    calling = asyncio.create_task(kube.get(CONFIG_MAPS, "one", "acme"))
    await until(lambda: server.seen)
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling


@pytest.mark.parametrize(
    ("status", "reason", "error"),
    [
        (400, "BadRequest", Invalid),
        (401, "Unauthorized", Unauthorized),
        (403, "Forbidden", Forbidden),
        (404, "NotFound", NotFound),
        (409, "Conflict", Conflict),
        (409, "AlreadyExists", AlreadyExists),
        (410, "Gone", Gone),
        (410, "Expired", Gone),
        (413, "RequestEntityTooLarge", Invalid),
        (422, "Invalid", Invalid),
        (500, "InternalError", Unavailable),
        (504, "Timeout", Unavailable),
        (418, "Teapot", KubeError),
    ],
)
async def test_a_refusal_has_the_class_of_its_reason(
    status: int, reason: str, error: type[KubeError], server: FakeApiServer, kube: Kube
) -> None:
    server.answers.append(refuse(status, reason, "so says the server"))
    with pytest.raises(error) as caught:
        await kube.replace(CONFIG_MAPS, ONE)
    assert type(caught.value) is error
    assert caught.value.status == status
    assert caught.value.reason == reason
    assert "so says the server" in caught.value.message


async def test_errors_about_secrets_hold_no_words_of_the_server(
    server: FakeApiServer, kube: Kube, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    causes = [{"field": "data[token]", "reason": "FieldValueInvalid", "message": 'Invalid value: "hunter2"'}]
    server.answers.append(refuse(422, "Invalid", 'Secret is invalid: "hunter2"', causes=causes))
    with pytest.raises(Invalid) as caught:
        await kube.create(SECRETS, {"metadata": {"name": "s", "namespace": "acme"}})
    assert "hunter2" not in f"{caught.value} {caught.value.causes} {caplog.text}"
    assert "data[token]" in str(caught.value)


async def test_a_conflict_on_a_secret_still_names_manager_and_field(
    server: FakeApiServer, kube: Kube
) -> None:
    cause = {
        "reason": "FieldManagerConflict",
        "field": ".data.token",
        "message": 'conflict with "kubectl" using v1',
    }
    server.answers.append(refuse(409, "Conflict", "Apply failed with 1 conflict", causes=[cause]))
    with pytest.raises(Conflict) as caught:
        await kube.apply(SECRETS, {"metadata": {"name": "s", "namespace": "acme"}}, field_manager="test")
    (conflict,) = caught.value.conflicts
    assert (conflict.manager, conflict.field) == ("kubectl", ".data.token")


@pytest.mark.parametrize("value", ["nan", "inf", "-3", "Wed, 21 Oct 2026 07:28:00 GMT"])
async def test_a_senseless_retry_after_is_ignored(value: str, server: FakeApiServer, kube: Kube) -> None:
    server.answers.append(refuse(503, headers={"Retry-After": value}))
    await kube.get(CONFIG_MAPS, "one", "acme")
    assert len(server.seen) == 2


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../secrets/other", "a%2fb"])
async def test_a_name_cannot_lead_to_another_object(name: str, server: FakeApiServer, kube: Kube) -> None:
    for call in (
        kube.get(CONFIG_MAPS, name, "acme"),
        kube.delete(CONFIG_MAPS, name, "acme"),
        kube.list(CONFIG_MAPS, name),
    ):
        with pytest.raises(Invalid):
            await call
    assert not server.seen


def test_a_name_stays_a_name_in_the_url() -> None:
    assert CONFIG_MAPS.path(namespace="acme", name="a?b#c d") == (
        "/api/v1/namespaces/acme/configmaps/a%3Fb%23c%20d"
    )
    assert NAMESPACES.path(namespace="ignored", name="acme") == "/api/v1/namespaces/acme"


async def test_a_list_is_read_in_pages(
    server: FakeApiServer, kube: Kube, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "PAGE", 2)
    for name in ("two", "three", "four", "five"):
        server.put(name)
    found = await kube.list(CONFIG_MAPS, "acme")
    assert [obj["metadata"]["name"] for obj in found] == ["one", "two", "three", "four", "five"]
    assert {(obj["apiVersion"], obj["kind"]) for obj in found} == {("v1", "ConfigMap")}
    assert server.count("list") == 3


async def test_a_list_whose_pages_expire_is_read_in_one(
    server: FakeApiServer, kube: Kube, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "PAGE", 1)
    server.put("two")
    server.put("three")
    expired = refuse(410, "Expired", "The provided continue parameter is too old")
    server.answers.extend([server.answer, expired])
    assert len(await kube.list(CONFIG_MAPS, "acme")) == 3
    assert "limit" not in server.seen[-1].query


async def _page(_request: web.BaseRequest) -> web.StreamResponse:
    return web.Response(text="<html>Please log in</html>")
