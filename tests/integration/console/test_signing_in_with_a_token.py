"""Somebody pastes a token or an API key once; from then on a sealed cookie stands for it."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable

import pytest

from tests.harness.cluster.kubectl import Kubectl, Organisation
from tests.harness.session.waiting import eventually
from tests.integration.api.conftest import Server
from tests.integration.console.conftest import Visitor
from tieline_api.auth.api_keys import USER_PREFIX, manifest, new_key
from tieline_core.identity.ids import parse_time

pytestmark = pytest.mark.cluster


@pytest.fixture
def projects(org: Organisation) -> str:
    return f"/api/v2/o/{org.id}/projects"


def test_a_visitor_is_told_how_to_sign_in(visitor: Visitor) -> None:
    assert visitor.session() == {"signedIn": False, "methods": [{"type": "token"}]}
    assert visitor.set_cookies == []


def test_who_signs_in_with_a_token_calls_the_api_with_the_cookie(
    visitor: Visitor, projects: str, token_of: Callable[[str], str]
) -> None:
    token = token_of("admin")
    assert visitor.api(projects).status == 401
    answer = visitor.sign_in(token)
    assert (answer.status, answer.raw) == (204, b"")
    assert answer.headers["Cache-Control"] == "no-store"
    eventually("the role known", lambda: visitor.api(projects).status == 200)
    found = visitor.session()
    assert found["signedIn"] is True
    claims = json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))
    assert parse_time(found["expiresAt"]).timestamp() == claims["exp"], (
        "a token that ends first ends the session"
    )
    assert token not in json.dumps(found)


def test_the_token_is_in_no_cookie_that_anybody_can_read(
    visitor: Visitor, token_of: Callable[[str], str]
) -> None:
    token = token_of("admin")
    visitor.sign_in(token)
    everything = "".join(visitor.set_cookies)
    assert everything
    for part in token.split("."):
        assert part not in everything
    for header in visitor.set_cookies:
        assert {"Path=/", "Secure", "HttpOnly", "SameSite=Strict"} <= set(header.split("; "))


@pytest.mark.parametrize(("role", "status"), [("viewer", 403), ("editor", 200)])
def test_one_may_what_ones_role_allows(
    visitor: Visitor, projects: str, token_of: Callable[[str], str], role: str, status: int
) -> None:
    visitor.sign_in(token_of(role))
    eventually("the role known", lambda: visitor.api(projects).status == 200)
    made = visitor.api(projects, "POST", {"name": f"Of a {role}"})
    assert made.status == status, made.raw


def test_who_signs_out_is_signed_out(visitor: Visitor, projects: str, token_of: Callable[[str], str]) -> None:
    visitor.sign_in(token_of("admin"))
    assert visitor.session()["signedIn"] is True
    answer = visitor("DELETE", "/console/session")
    assert (answer.status, answer.raw) == (204, b"")
    assert visitor.cookies == {}
    assert visitor.session()["signedIn"] is False
    assert visitor.api(projects).status == 401


@pytest.mark.parametrize(
    "token",
    ["nobody", "tlk_01JD3Y7M5RZX9KQW8T2V4N6P0A_" + "x" * 43, "a.b.c", "two words", "ключ"],
)
def test_a_token_that_belongs_to_nobody_is_refused_and_leaves_no_cookie(visitor: Visitor, token: str) -> None:
    answer = visitor.sign_in(token)
    assert answer.status == 401, answer.raw
    assert answer.json["code"] == "unauthenticated"
    assert token not in answer.raw.decode()
    assert visitor.set_cookies == []


@pytest.mark.parametrize(
    ("body", "status"),
    [({}, 422), ({"token": ""}, 422), ({"token": 7}, 422), ({"token": "x" * 20000}, 422), ([], 422)],
)
def test_what_is_no_token_is_refused_by_its_field(visitor: Visitor, body: object, status: int) -> None:
    answer = visitor("POST", "/console/session", body)
    assert answer.status == status, answer.raw


def test_an_api_key_that_is_revoked_signs_out_its_holder(
    visitor: Visitor, projects: str, org: Organisation, kubectl: Kubectl
) -> None:
    key = new_key(org.id)
    secret = manifest(key, namespace=org.namespace, user="reader", groups=["console-readers"])
    kubectl("create", "-f", "-", stdin=json.dumps(secret))
    group = f"{USER_PREFIX}{org.id.lower()}:console-readers"
    kubectl(
        *("create", "rolebinding", "console-readers", "--clusterrole=tieline-viewer", f"--group={group}"),
        namespace=org.namespace,
    )
    eventually("the key known", lambda: visitor.sign_in(key).status == 204)
    eventually("the role known", lambda: visitor.api(projects).status == 200)
    assert visitor.session()["signedIn"] is True
    kubectl("delete", "secret", secret["metadata"]["name"], namespace=org.namespace)
    eventually("signed out", lambda: visitor.api(projects).status == 401)
    assert visitor.session()["signedIn"] is False
    assert visitor.cookies == {}


def test_the_session_is_good_at_every_replica(
    replicas: tuple[Server, Server], visitor: Visitor, projects: str, token_of: Callable[[str], str]
) -> None:
    visitor.sign_in(token_of("admin"))
    elsewhere = Visitor(replicas[1].url, dict(visitor.cookies))
    eventually("the role known", lambda: elsewhere.api(projects).status == 200)
    assert elsewhere.session()["signedIn"] is True


def test_without_the_header_the_cookie_counts_for_nothing(
    visitor: Visitor, projects: str, token_of: Callable[[str], str]
) -> None:
    visitor.sign_in(token_of("admin"))
    eventually("the role known", lambda: visitor.api(projects).status == 200)
    assert visitor("GET", projects).status == 401
    assert visitor.api(projects, X_Tieline_Console="yes").status == 401


def test_credentials_of_the_request_itself_come_before_the_cookie(
    visitor: Visitor, projects: str, token_of: Callable[[str], str]
) -> None:
    visitor.sign_in(token_of("admin"))
    eventually("the role known", lambda: visitor.api(projects).status == 200)
    assert visitor.api(projects, Authorization="Bearer nobody").status == 401
    assert visitor.api(projects, X_API_Key="nobody").status == 401
    viewer = f"Bearer {token_of('viewer')}"
    eventually("the viewer known", lambda: visitor.api(projects, Authorization=viewer).status == 200)
    assert visitor.api(projects, "POST", {"name": "As a viewer"}, Authorization=viewer).status == 403
