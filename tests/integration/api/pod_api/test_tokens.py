"""What a pod gets of OAuth: access tokens and nothing else, and another one after a 401."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from tests.harness.cluster.kubectl import Kubectl, Organisation
from tests.integration.api.conftest import Client, Server
from tests.integration.api.oauth_provider import CLIENT_SECRET, Provider
from tests.integration.api.pods import Pod, ask

pytestmark = pytest.mark.cluster

OLD = "2026-01-01T00:00:00Z"


@pytest.fixture
def pod(first: Client, kubectl: Kubectl, org: Organisation, login: Provider) -> Pod:
    return Pod(first, kubectl, org, login)


def test_a_rejected_token_is_replaced(pod: Pod, login: Provider) -> None:
    assert pod.told()["data"] == {"accessToken": "at-given", "scopes": ["orders"]}
    answer = pod.ask()
    assert answer.status == 200
    assert answer.headers["Cache-Control"] == "no-store"
    assert set(answer.json) == {"accessToken", "tokenType", "scopes", "expiresAt"}
    assert answer.json["accessToken"].startswith("at-")
    assert [one["refresh_token"] for one in login.requests] == ["rt-given"]
    assert pod.told()["data"]["accessToken"] == answer.json["accessToken"]
    assert pod.ask().json["accessToken"] == answer.json["accessToken"], "the one that is kept by now"
    assert len(login.requests) == 1


def test_a_pod_is_never_told_what_tokens_are_asked_with(pod: Pod) -> None:
    pod.ask()
    refresh_token = base64.b64decode(pod.secret()["data"]["refreshToken"]).decode()
    for text in (ask(pod.caller, pod.token).raw.decode(), pod.ask().raw.decode()):
        for secret in ("rt-given", refresh_token, CLIENT_SECRET, "refreshToken", "clientSecret"):
            assert secret not in text


def test_many_pods_at_two_replicas_make_one_request(
    pod: Pod, login: Provider, reaching: tuple[Server, Server]
) -> None:
    login.slow = 0.3
    with ThreadPoolExecutor(20) as pool:
        urls = [reaching[number % 2].url for number in range(20)]
        answers = list(pool.map(lambda url: pod.ask(url=url), urls))
    assert {answer.status for answer in answers} == {200}
    assert len({answer.json["accessToken"] for answer in answers}) == 1
    assert len(login.requests) == 1


def test_a_brand_new_token_is_not_replaced_again_and_again(
    pod: Pod, login: Provider, reaching: tuple[Server, Server]
) -> None:
    new = pod.ask().json["accessToken"]
    assert pod.ask(new).json["accessToken"] == new
    pod.dated_by_a_clock_ahead(timedelta(seconds=50))
    time.sleep(1)  # the cache hears of that, which must change nothing
    assert pod.ask(new).json["accessToken"] == new
    assert len(login.requests) == 1
    reaching[0].let_tokens_age()
    assert pod.ask(new).json["accessToken"] != new
    assert len(login.requests) == 2


def test_a_refusal_is_told_and_not_asked_again(pod: Pod, login: Provider) -> None:
    login._refresh_tokens.clear()
    for _ in range(3):
        answer = pod.ask()
        assert (answer.status, answer.json["code"]) == (409, "credential_refused")
    assert len(login.requests) == 1
    shown = pod.caller.ok("GET", f"/connections/{pod.connection['id']}")["credentials"][0]["credential"]
    assert "invalid_grant" in shown["errors"][0]


def test_a_provider_that_is_away_says_nothing_about_the_credential(pod: Pod, login: Provider) -> None:
    login.failing = True
    answer = pod.ask()
    assert answer.status == 503
    assert int(answer.headers["Retry-After"]) > 0
    shown = pod.caller.ok("GET", f"/connections/{pod.connection['id']}")["credentials"][0]["credential"]
    assert shown["errors"] == []


def test_pods_get_tokens_of_their_own_environment_only(
    pod: Pod, first: Client, kubectl: Kubectl, org: Organisation, login: Provider
) -> None:
    stranger = Pod(first, kubectl, org, login)
    assert pod.ask(token=stranger.token).status == 404
    assert pod.ask(connection=stranger.connection["id"]).status == 404
    assert pod.ask(credential=stranger.credential_id).status == 404
    assert pod.ask(connection="nonsense").status == 404
    assert pod.ask(token=str(first.token)).status == 401
    assert pod.ask(rejected=7).status == 422
    assert login.requests == []


def test_an_expired_credential_is_told_without_values(pod: Pod, token_for: Callable[..., str]) -> None:
    shown = pod.connection["credentials"][0]
    change = {"id": "login", "credential": {"id": shown["credential"]["id"], "expiresAt": OLD}}
    pod.caller.ok("PUT", f"/connections/{pod.connection['id']}", {"credentials": [change]})
    told = pod.told()
    assert told["data"] == {}
    assert told["expiresAt"] == OLD
    assert pod.ask().status == 409
