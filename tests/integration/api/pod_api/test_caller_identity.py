"""Every internal endpoint, asked by every wrong caller: a pod gets what is its own environment's, and nothing else."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import pytest

from tests.harness.cluster.kubectl import Kubectl, Organisation
from tests.harness.processes.nats_server import NatsServer
from tests.harness.session.waiting import eventually
from tests.integration.api.conftest import Answer, Client, Server
from tests.integration.api.engine_objects import make_streams
from tests.integration.api.oauth_provider import Provider
from tests.integration.api.objects import activate, make_project, make_system, make_template
from tests.integration.api.pods import account_token
from tests.unit.api.runs.run_records import NOW, record
from tests.unit.api.traces.otlp_requests import attribute, body_json, span_json
from tieline_core.identity.ids import new_id
from tieline_protocol.run_records import encode

pytestmark = pytest.mark.cluster

MARK = "s3cr3t-of-the-owner"
"""Is in everything that is the owner's, and in nothing of anybody else's."""


@dataclass(frozen=True)
class Case:
    """A request to an internal endpoint about what is the owner's."""

    method: str
    route: str
    body: Any = None
    names: bool = False
    """Whether the path names something of the owner's; others have no path that could."""

    @property
    def id(self) -> str:
        return f"{self.method} {self.route.removeprefix('/internal/v1')}"


ENVIRONMENT = "/internal/v1/environment"
VALUE = {"value": "of somebody else"}
_ENDED = record(status="succeeded", attempt=1, kind="webhook", task="forged", started_at=NOW, ended_at=NOW)
RUNS = json.loads(encode([_ENDED]))
SPAN = span_json(1, attributes=[attribute("task", "forged")])


def _kept(route: str, *, names: bool = False) -> list[Case]:
    """What is done with a document: in this order the deletion comes last."""
    methods = {"GET": None, "PUT": VALUE, "DELETE": {}}
    return [Case(method, f"{ENVIRONMENT}{route}", body, names) for method, body in methods.items()]


CASES = [
    Case("GET", ENVIRONMENT),
    Case("PUT", f"{ENVIRONMENT}/activity", {"working": True}),
    Case("POST", f"{ENVIRONMENT}/event-rate"),
    Case("GET", f"{ENVIRONMENT}/users"),
    Case("GET", f"{ENVIRONMENT}/users/{{external_id}}", names=True),
    Case("PUT", f"{ENVIRONMENT}/schedules", {"version": "v1", "schedules": []}),
    *_kept("/schedules/{key}"),
    Case("GET", f"{ENVIRONMENT}/state"),
    *_kept("/state/{key}"),
    Case("GET", f"{ENVIRONMENT}/users/{{external_id}}/state", names=True),
    *_kept("/users/{external_id}/state/{key}", names=True),
    Case(
        "POST",
        "/internal/v1/connections/{connection_id}/credentials/{credential_id}/token",
        {"rejected": "x"},
        names=True,
    ),
    Case(
        "POST",
        "/internal/v1/connections/{connection_id}/limits",
        {"pod": "p", "waiting": 0, "in_use": 0, "slots": 0},
        names=True,
    ),
    Case("POST", "/internal/v1/connections/{connection_id}/outcome", {"status": 401, "count": 1}, names=True),
    Case("POST", "/internal/v1/traces", SPAN),
    Case("POST", "/internal/v1/runs", RUNS),
]


@dataclass(frozen=True)
class Owner:
    """An environment with a bit of everything."""

    client: Client
    token: str
    project: dict[str, Any]
    ids: dict[str, str]

    def ask(self, case: Case, token: str | None) -> Answer:
        path = case.route
        for name, value in self.ids.items():
            path = path.replace(f"{{{name}}}", quote(value, safe=""))
        caller = Client(self.client.url, token, "")
        if case.route.endswith("/traces"):
            return caller.at(path, method="POST", raw=body_json(case.body))
        return caller.at(path, method=case.method, body=case.body)

    def kept(self) -> list[Any]:
        """What is kept for it, as it sees it itself."""
        cases = [case for case in CASES if case.method == "GET" and "{key}" in case.route]
        return [self.ask(case, self.token).json["value"] for case in cases]


@pytest.fixture(scope="module")
def owner(client: Client, kubectl: Kubectl, org: Organisation, engine: NatsServer) -> Owner:
    make_streams(engine, org.id, new_id())
    with Provider() as login:
        scheme = login.scheme(pkce=False)
    project, shop = make_template(client, system=make_system(client, [scheme])["id"], name=MARK)
    tokens = {"accessToken": MARK, "refreshToken": "rt", "scopes": ["orders"]}
    credential = {
        "id": "login",
        "authSchemeConfig": scheme,
        "credential": {"type": "oauth2-token", "data": {"oauth2Token": tokens}},
    }
    connection = client.ok(
        "POST",
        "/connections",
        {
            "connectionTemplateId": shop["connectionTemplateId"],
            "connection": {"name": "Login", "credentials": [credential]},
        },
        status=201,
    )
    _, template = make_template(client, project=project, name="each", dynamic=True)
    user, _ = activate(client, project, template, MARK)
    ids = {
        "key": "cursor",
        "external_id": user["externalId"],
        "connection_id": connection["id"],
        "credential_id": connection["credentials"][0]["credential"]["id"],
    }
    made = Owner(client, account_token(kubectl, org, project), project, ids)
    for case in CASES:
        if case.method == "PUT" and "{key}" in case.route:
            answer = made.ask(Case("PUT", case.route, {"value": MARK}), made.token)
            assert answer.status == 200, answer.raw
    return made


@pytest.fixture(scope="module")
def strangers(
    owner: Owner,
    client: Client,
    kubectl: Kubectl,
    org: Organisation,
    other_org: Organisation,
    neighbour: Client,
    engine: NatsServer,
) -> dict[str, str | None]:
    """Tokens of those who are pods of something else, and of those who are no pods."""
    make_streams(engine, other_org.id, new_id())
    more = {"spec": {"environments": [{"name": "production"}, {"name": "staging"}]}}
    name = owner.project["id"].lower()
    kubectl("patch", "project", name, "--type=merge", "-p", json.dumps(more), namespace=org.namespace)
    staging = account_token(kubectl, org, owner.project, "staging")
    eventually("the other environment", lambda: owner.ask(CASES[0], staging).status == 200)
    elsewhere = kubectl(
        "create", "token", "default", "--audience=tieline", namespace=org.namespace
    ).stdout.strip()
    return {
        "another environment of the project": staging,
        "another project's environment": account_token(kubectl, org, make_project(client)),
        "another organisation's environment": account_token(kubectl, other_org, make_project(neighbour)),
        "a pod that is no environment's": elsewhere,
        "a person": str(client.token),
        "somebody without a token": None,
    }


def test_every_internal_route_is_in_the_table(server: Server) -> None:
    routes = {
        (route.method, route.resource.canonical)
        for route in server.apps.internal.router.routes()
        if route.resource is not None
        and route.resource.canonical.startswith("/internal/")
        and route.method != "HEAD"
    }
    packages = {(method, f"{ENVIRONMENT}/packages/{{key}}") for method in ("GET", "PUT")}
    assert routes == {(case.method, case.route) for case in CASES} | packages, "test_packages.py has those"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_what_is_an_environments_is_answered_to_its_own_pods_alone(
    owner: Owner, strangers: dict[str, str | None], case: Case
) -> None:
    for who, token in strangers.items():
        answer = owner.ask(case, token)
        if who == "a pod that is no environment's":
            expected = {403}
        elif who in ("a person", "somebody without a token"):
            expected = {401}
        elif case.names:
            expected = {403, 404}
        else:
            # Their own place, since the token says which it is: there is nothing of the owner's in it.
            expected = {200, 204, 404}
        assert answer.status in expected, (who, answer.status, answer.raw)
        assert MARK not in answer.raw.decode(), who
    assert owner.kept() == [MARK] * 3, "what is the owner's was touched"
    if case.method == "GET":
        own = owner.ask(case, owner.token)
        assert own.status == 200
        assert case.route.endswith(("/users", "/state")) or MARK in own.raw.decode()


def test_another_access_token_is_the_owners_to_ask_for(owner: Owner) -> None:
    case = next(case for case in CASES if case.route.endswith("/token"))
    # The provider is at an inner address, where this API does not go; it was about to.
    assert owner.ask(case, owner.token).status in (200, 409, 503)


def test_spans_that_strangers_send_are_their_own(
    owner: Owner, strangers: dict[str, str | None], server: Server, client: Client
) -> None:
    case = next(case for case in CASES if case.route.endswith("/traces"))
    before = server.platform.traces.written
    assert owner.ask(case, strangers["another project's environment"]).status == 200
    eventually("the span", lambda: server.platform.traces.written > before)
    assert client.ok("GET", f"/projects/{owner.project['id']}/traces?task=forged&project_env=production") == {
        "items": []
    }
