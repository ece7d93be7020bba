"""What a pod gets of OAuth: access tokens and nothing else, and another one after a 401."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.harness.kubectl import Kubectl, Organisation
from tests.integration.api.conftest import Answer, Client, Server
from tests.integration.api.oauth_provider import CLIENT_SECRET, Provider
from tests.integration.api.objects import make_system, make_template
from tests.integration.api.test_rest_internal import _ask, account_token
from tieline_core.names import tokens_name
from tieline_core.oauth import stored
from tieline_core.oauth.egress import Egress

pytestmark = pytest.mark.cluster

OLD = "2026-01-01T00:00:00Z"


@pytest.fixture
def login() -> Iterator[Provider]:
    with Provider() as running:
        yield running


@pytest.fixture(scope="module")
def replicas(api_kubeconfig: Path) -> Iterator[list[Server]]:
    """Two replicas of an API that may reach this machine."""
    started = [Server(api_kubeconfig, egress=Egress.parse(allowed=["127.0.0.0/8"])) for _ in range(2)]
    for one in started:
        one.start()
    yield started
    for one in started:
        one.stop()


@pytest.fixture
def caller(replicas: list[Server], client: Client) -> Client:
    return Client(replicas[0].url, client.token, client.organisation)


class Pod:
    """A connection with tokens that Git brought, and a pod of the environment that it is linked in."""

    def __init__(self, caller: Client, kubectl: Kubectl, org: Organisation, login: Provider) -> None:
        self.caller, self.kubectl, self.org = caller, kubectl, org
        scheme = login.scheme(pkce=False)
        system = make_system(caller, [scheme])["id"]
        self.project, template = make_template(caller, system=system)
        login._refresh_tokens.add("rt-given")
        scheme["oauth2"]["grant"]["authorizationCode"].pop("clientSecret")
        tokens = {"accessToken": "at-given", "refreshToken": "rt-given", "scopes": ["orders"]}
        credential = {
            "id": "login",
            "authSchemeConfig": scheme,
            "credential": {"type": "oauth2-token", "data": {"oauth2Token": tokens}},
        }
        body = {
            "connectionTemplateId": template["connectionTemplateId"],
            "connection": {"name": "Login", "credentials": [credential]},
        }
        self.connection = caller.ok("POST", "/connections", body, status=201)
        self.credential_id = self.connection["credentials"][0]["credential"]["id"]
        self.token = account_token(kubectl, org, self.project)

    def told(self) -> dict[str, Any]:
        """The credential as the pod's configuration has it."""
        credential: dict[str, Any] = _ask(self.caller, self.token).json["connections"]["shop"]["credentials"][
            0
        ]
        return credential

    def ask(self, rejected: Any = "at-given", *, url: str = "", token: str = "", **ids: str) -> Answer:
        connection = ids.get("connection", self.connection["id"])
        path = f"/internal/v1/connections/{connection}/credentials/{ids.get('credential', self.credential_id)}/token"
        pod = Client(url or self.caller.url, token or self.token, self.caller.organisation)
        return pod.at(path, method="POST", body={"rejected": rejected})

    def secret(self) -> dict[str, Any]:
        name = tokens_name(self.connection["id"].lower(), "login")
        found = self.kubectl("get", "secret", name, "-o", "json", namespace=self.org.namespace)
        secret: dict[str, Any] = json.loads(found.stdout)
        return secret

    def grow_old(self) -> None:
        """As if the tokens had been issued long ago."""
        name = self.secret()["metadata"]["name"]
        old = f"{stored.ISSUED_AT}={OLD}"
        self.kubectl("annotate", "secret", name, old, "--overwrite", namespace=self.org.namespace)


@pytest.fixture
def pod(caller: Client, kubectl: Kubectl, org: Organisation, login: Provider) -> Pod:
    return Pod(caller, kubectl, org, login)


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
    for text in (_ask(pod.caller, pod.token).raw.decode(), pod.ask().raw.decode()):
        for secret in ("rt-given", refresh_token, CLIENT_SECRET, "refreshToken", "clientSecret"):
            assert secret not in text


def test_many_pods_at_two_replicas_make_one_request(
    pod: Pod, login: Provider, replicas: list[Server]
) -> None:
    login.slow = 0.3
    with ThreadPoolExecutor(20) as pool:
        urls = [replicas[number % 2].url for number in range(20)]
        answers = list(pool.map(lambda url: pod.ask(url=url), urls))
    assert {answer.status for answer in answers} == {200}
    assert len({answer.json["accessToken"] for answer in answers}) == 1
    assert len(login.requests) == 1


def test_a_brand_new_token_is_not_replaced_again_and_again(pod: Pod, login: Provider) -> None:
    new = pod.ask().json["accessToken"]
    assert pod.ask(new).json["accessToken"] == new
    assert len(login.requests) == 1
    pod.grow_old()
    for _ in range(50):
        if (another := pod.ask(new).json["accessToken"]) != new:
            break
    assert another != new
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
    pod: Pod, caller: Client, kubectl: Kubectl, org: Organisation, login: Provider
) -> None:
    stranger = Pod(caller, kubectl, org, login)
    assert pod.ask(token=stranger.token).status == 404
    assert pod.ask(connection=stranger.connection["id"]).status == 404
    assert pod.ask(credential=stranger.credential_id).status == 404
    assert pod.ask(connection="nonsense").status == 404
    assert pod.ask(token=str(caller.token)).status == 401
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
