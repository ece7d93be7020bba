"""Credentials that kubectl brings: judged by their values, expired at their time, and nothing of them told."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from tests.harness.identity.certificate_authority import Authority, pem
from tests.harness.session.waiting import eventually
from tests.integration.operator.cluster_objects import SYSTEM, NamespacedKubectl, ready
from tests.integration.operator.running_operator import RunningOperator
from tieline_core.identity.ids import format_time

pytestmark = pytest.mark.cluster

SCHEMES = [
    {"id": "basic", "type": "basic-auth"},
    {"id": "mutual", "type": "certificate"},
    {
        "id": "oauth",
        "type": "oauth2",
        "oauth2": {
            "tokenUrl": "http://{shop}.example/token",
            "pkce": True,
            "defaultScopes": ["write"],
            "scopes": [{"name": "read"}],
            "grant": {"type": "clientCredentials"},
        },
    },
]


def store(acting: NamespacedKubectl, name: str, owner: dict[str, Any] | None = None, **values: str) -> None:
    metadata: dict[str, Any] = {"name": name, "namespace": acting.namespace}
    if owner:
        reference = {key: owner["metadata"][key] for key in ("name", "uid")}
        metadata["ownerReferences"] = [
            {"apiVersion": owner["apiVersion"], "kind": owner["kind"], **reference}
        ]
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "tieline.dev/credential",
        "metadata": metadata,
        "data": {key: base64.b64encode(value.encode()).decode() for key, value in values.items()},
    }
    acting.kubectl("apply", "--server-side", "-f", "-", stdin=json.dumps(secret))


def connect(acting: NamespacedKubectl, name: str, *items: dict[str, Any]) -> None:
    system = {"name": "shop-of-credentials"}
    acting.apply("Connection", name, {"name": name, "systemRef": system, "credentials": list(items)})


def item(kind: str, scheme: str, secret: str, **more: Any) -> dict[str, Any]:
    return {
        "id": "main",
        "type": kind,
        "authSchemeConfigId": scheme,
        "secretRef": {"name": secret},
        **more,
    }


@pytest.fixture
def shop(acting: NamespacedKubectl) -> NamespacedKubectl:
    """The user of an organisation whose shop has these auth schemes."""
    acting.apply("System", "shop-of-credentials", {**SYSTEM, "authSchemeConfigs": SCHEMES})
    return acting


def errors(acting: NamespacedKubectl, name: str) -> list[str]:
    found: list[str] = acting.get("connection", name)["status"]["credentials"][0]["errors"]
    return found


def test_schemes_are_judged(shop: NamespacedKubectl) -> None:
    system = shop.until_ready("system", "shop-of-credentials", "False", "UrlWrong")
    (told,) = system["status"]["authSchemes"]
    assert told["id"] == "oauth"
    found = {(one["severity"], *one.get("detail", [])) for one in told["validationMessages"]}
    assert found == {("error",), ("warning",), ("warning", "write")}


def test_a_certificate_is_judged_by_its_key_and_heals(shop: NamespacedKubectl) -> None:
    certificate, key = Authority().issue("client")
    wrong = pem(ec.generate_private_key(ec.SECP256R1()))
    store(shop, "mutual", certificate=certificate, key=wrong)
    connect(shop, "mutual", item("certificate", "mutual", "mutual"))
    shop.until_ready("connection", "mutual", "False", "CertificateWrong")
    assert "does not belong" in errors(shop, "mutual")[0]
    store(shop, "mutual", certificate=certificate, key=pem(key))
    shop.until_ready("connection", "mutual", "True", "Valid")
    assert errors(shop, "mutual") == []


def test_what_expires_is_deleted_with_an_event_and_its_spec_stays(
    shop: NamespacedKubectl, operator: RunningOperator
) -> None:
    expires = format_time(datetime.now(UTC) + timedelta(seconds=6))
    connect(shop, "short", item("basic-auth", "basic", "short", expiresAt=expires))
    owner = shop.get("connection", "short")
    store(shop, "short", owner, username="ann", password="hush-hush")
    shop.until_ready("connection", "short", "True", "Valid")
    connection = shop.until_ready("connection", "short", "False", "CredentialExpired")
    assert connection["status"]["credentials"][0]["expired"] is True
    assert connection["spec"]["credentials"][0]["id"] == "main"
    eventually("the Secret is gone", lambda: not shop.run("get", "secret", "short", "--ignore-not-found"))
    events = eventually(
        "an event",
        lambda: [one for one in shop.list("events") if one["reason"] == "CredentialExpired"],
    )
    assert events[0]["type"] == "Warning"
    assert "has expired" in events[0]["message"]
    assert operator.at_rest() == operator.at_rest(), "it is told once"


def test_the_provider_that_cannot_be_reached_says_nothing_about_the_credential(
    shop: NamespacedKubectl,
) -> None:
    """Inner addresses are not opened for this operator: the request is refused before it is made."""
    oauth2 = {"tokenUrl": "http://127.0.0.1:9/token", "grant": {"type": "clientCredentials"}}
    scheme = {"id": "inner", "type": "oauth2", "oauth2": oauth2}
    store(shop, "inner", clientId="me", clientSecret="hush-hush")
    own = {"id": "main", "type": "oauth2-client", "secretRef": {"name": "inner"}}
    connect(shop, "inner", {**own, "authSchemeConfig": scheme})
    connection = shop.until_ready("connection", "inner", "False", "TokenUrlWrong")
    assert "not a public address" in ready(connection)["message"]
    assert connection["status"]["credentials"][0]["errors"] == []
    assert "hush-hush" not in json.dumps(connection)
