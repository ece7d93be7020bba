"""Codes that arrive by kubectl: the operator exchanges them by the same rules as the API."""

from __future__ import annotations

from typing import Any

import pytest

from tests.harness.session.waiting import eventually
from tests.integration.api.conftest import Client
from tests.integration.api.oauth_provider import CLIENT_ID, Provider
from tests.integration.api.objects import bring_connection, make_system
from tests.integration.operator.cluster_objects import NamespacedKubectl, ready

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("operator")]

ITEM = "login"


def come_back(caller: Client, login: Provider, system: dict[str, Any]) -> dict[str, str]:
    """Code and state for a credential that does not exist yet."""
    body = {
        "credential": {"id": ITEM, "organisationId": caller.organisation},
        "authorizeUrl": f"{login.url}/authorize",
        "clientId": CLIENT_ID,
    }
    url = caller.ok("POST", f"/systems/{system['id']}/oauth2/initialise", body)["url"]
    return login.agree(url)


def apply(acting: NamespacedKubectl, name: str, system: dict[str, Any], returned: dict[str, str]) -> None:
    """A Secret with code and state, and a connection that refers to it."""
    item = {"id": ITEM, "authSchemeConfigId": "oauth", "type": "oauth2-code"}
    bring_connection(
        acting.kubectl, acting.namespace, name=name, system=system["id"], credential=item, values=returned
    )


def shown(caller: Client, system: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The system's connections' credentials as REST shows them, by the connection's name."""
    items = caller.ok("GET", f"/connections?system_id={system['id']}")["items"]
    return {item["name"]: item["credentials"][0]["credential"] for item in items}


def test_a_code_in_a_secret_of_ones_own_is_exchanged_by_the_operator(
    caller: Client, acting: NamespacedKubectl, login: Provider
) -> None:
    system = make_system(caller, [login.scheme()])
    returned = come_back(caller, login, system)
    apply(acting, "by-kubectl", system, returned)
    acting.until_ready("connection", "by-kubectl", "True", "Valid")
    eventually("shown as tokens", lambda: shown(caller, system)["by-kubectl"]["type"] == "oauth2-token")
    assert shown(caller, system)["by-kubectl"]["data"]["oauth2Token"]["scopes"] == ["orders"]
    assert len(login.requests) == 1
    assert login.requests[0]["code_verifier"], "PKCE: the verifier comes from the state"


def test_a_state_that_was_used_is_told_in_the_status_and_no_provider_is_asked(
    caller: Client, acting: NamespacedKubectl, login: Provider
) -> None:
    system = make_system(caller, [login.scheme()])
    returned = come_back(caller, login, system)
    apply(acting, "honest", system, returned)
    acting.until_ready("connection", "honest", "True", "Valid")
    apply(acting, "replayed", system, {**returned, "code": "stolen"})

    def told() -> str:
        condition = ready(acting.get("connection", "replayed"))
        return condition.get("message", "") if condition.get("status") == "False" else ""

    message = eventually("a refusal", told)
    assert "connect again" in message
    assert "stolen" not in message
    assert len(login.requests) == 1
