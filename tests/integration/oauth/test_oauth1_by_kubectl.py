"""What a user of OAuth 1.0 has come back with, applied by kubectl: the operator exchanges it."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from tests.harness.cluster.kubectl import Kubectl, Organisation
from tests.harness.session.waiting import eventually
from tests.integration.api.conftest import Client
from tests.integration.api.objects import bring_connection, make_system, stored
from tests.integration.operator.cluster_objects import NamespacedKubectl, ready
from tests.unit.oauth.oauth1_provider import OAuth1Provider
from tieline_core.identity.names import tokens_name

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("operator")]

ITEM = "login"


def come_back(caller: Client, signing: OAuth1Provider, system: dict[str, Any]) -> dict[str, str]:
    """What is brought back for a credential that does not exist yet."""
    named = {"id": ITEM, "organisationId": caller.organisation}
    body = {"credential": named, "params": {"shop": "north"}}
    return signing.agree(caller.ok("POST", f"/systems/{system['id']}/oauth1/initialise", body)["url"])


def apply(acting: NamespacedKubectl, name: str, system: dict[str, Any], returned: dict[str, str]) -> None:
    """A Secret with what was brought back, and a connection that refers to it."""
    item = {"id": ITEM, "authSchemeConfigId": "signed", "type": "oauth1"}
    bring_connection(
        acting.kubectl, acting.namespace, name=name, system=system["id"], credential=item, values=returned
    )


def test_the_operator_exchanges_what_was_applied_once_and_tells_what_was_replayed(
    caller: Client,
    acting: NamespacedKubectl,
    signing: OAuth1Provider,
    kubectl: Kubectl,
    oauth_org: Organisation,
) -> None:
    system = make_system(caller, [signing.scheme()])
    returned = come_back(caller, signing, system)
    apply(acting, "signed-by-kubectl", system, returned)
    acting.until_ready("connection", "signed-by-kubectl", "True", "Valid")
    kept = stored(kubectl, oauth_org, "secret", tokens_name("signed-by-kubectl", ITEM))["data"]
    token, secret = (base64.b64decode(kept[key]).decode() for key in ("accessToken", "oauthTokenSecret"))
    assert signing.issued == {token: secret}
    apply(acting, "signed-replayed", system, {**returned, "oauthVerifier": "stolen"})

    def told() -> str:
        condition = ready(acting.get("connection", "signed-replayed"))
        return condition.get("message", "") if condition.get("status") == "False" else ""

    message = eventually("a refusal", told)
    assert "connect again" in message
    assert "stolen" not in message
    assert sum(seen.url.path.endswith("/token") for seen in signing.seen) == 1
