"""The Secrets that the operator keeps tokens in: only those that the platform has made, for as long as they serve."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.harness.session.waiting import eventually
from tests.integration.api.conftest import Client
from tests.integration.api.oauth_provider import Provider
from tests.integration.api.objects import make_system
from tests.integration.oauth.test_codes_by_kubectl import ITEM, apply, come_back
from tests.integration.operator.cluster_objects import NamespacedKubectl
from tieline_core.identity.names import tokens_name

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("operator")]


@pytest.fixture
def login() -> Iterator[Provider]:
    with Provider() as running:
        yield running


def tokens_secret(acting: NamespacedKubectl, connection: str) -> dict[str, Any] | None:
    """The Secret of the name that the connection's tokens are kept under, whosever it is."""
    name = tokens_name(connection, ITEM)
    found = acting.run("get", "secret", name, "--ignore-not-found", "-o", "json")
    return json.loads(found) if found else None


def messages(acting: NamespacedKubectl, connection: str, reason: str) -> list[str]:
    events = json.loads(acting.run("get", "events", "-o", "json"))["items"]
    return [
        event["message"]
        for event in events
        if event["involvedObject"]["name"] == connection and event["reason"] == reason
    ]


@pytest.mark.parametrize("owned", [False, True], ids=["of a stranger", "owned, and not made by the platform"])
def test_a_secret_of_somebody_else_under_the_name_is_told_and_left_alone(
    caller: Client, acting: NamespacedKubectl, login: Provider, owned: bool
) -> None:
    connection = f"squatted-{'owned' if owned else 'foreign'}"
    name = tokens_name(connection, ITEM)
    system = make_system(caller, [login.scheme()])
    returned = come_back(caller, login, system)
    acting.run("create", "secret", "generic", name, "--from-literal=mine=precious")
    apply(acting, connection, system, {**returned, "code": ""})  # nothing to exchange yet
    if owned:
        uid = acting.get("connection", connection)["metadata"]["uid"]
        owner = {"apiVersion": "tieline.dev/v1alpha1", "kind": "Connection", "name": connection, "uid": uid}
        patch = json.dumps({"metadata": {"ownerReferences": [owner]}})
        acting.run("patch", "secret", name, "--type=merge", "-p", patch)
    before = tokens_secret(acting, connection)
    code = json.dumps({"stringData": {"code": returned["code"]}})
    acting.run("patch", "secret", connection, "--type=merge", "-p", code)
    acting.until_ready("connection", connection, "False", "SecretNameTaken")
    [told] = eventually("an event", lambda: messages(acting, connection, "SecretNameTaken"))
    assert name in told
    assert "delete it" in told
    assert tokens_secret(acting, connection) == before
    assert login.requests == []
    acting.run("delete", "secret", name)
    acting.run("annotate", "secret", connection, "looked-at=again")
    acting.until_ready("connection", connection, "True", "Valid")
    assert len(login.requests) == 1, "the code is still good"


def test_tokens_go_with_their_credential_and_those_of_a_new_one_stay(
    caller: Client, acting: NamespacedKubectl, login: Provider
) -> None:
    system = make_system(caller, [login.scheme()])
    apply(acting, "comes-and-goes", system, come_back(caller, login, system))
    acting.until_ready("connection", "comes-and-goes", "True", "Valid")
    first = tokens_secret(acting, "comes-and-goes")
    assert first is not None
    spec = {"name": "comes-and-goes", "systemRef": {"name": system["id"].lower()}}
    acting.apply("Connection", "comes-and-goes", spec)
    eventually("the tokens are gone", lambda: tokens_secret(acting, "comes-and-goes") is None)
    assert acting.run("get", "secret", "comes-and-goes", "-o", "name"), "what a person made stays"
    acting.run("delete", "secret", "comes-and-goes")
    apply(acting, "comes-and-goes", system, come_back(caller, login, system))
    acting.until_ready("connection", "comes-and-goes", "True", "Valid")
    acting.run("annotate", "connection", "comes-and-goes", "looked-at=again")
    second = tokens_secret(acting, "comes-and-goes")
    assert second is not None
    assert second["metadata"]["uid"] != first["metadata"]["uid"]
