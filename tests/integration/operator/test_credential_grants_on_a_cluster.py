"""CredentialGrants on a real API server: what they tell by kubectl, and how a borrower's objects follow them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.harness.cluster.kubectl import Organisation
from tests.harness.session.waiting import eventually
from tests.integration.operator.cluster_objects import SYSTEM, NamespacedKubectl
from tieline_core.identity.ids import new_id

pytestmark = pytest.mark.cluster

# Nothing answers there, and nothing has to: no token is asked for.
TOKEN_URL = "https://login.shop.invalid/token"
LENT = "lent-client"


def scheme(grant: str, **client: str) -> dict[str, Any]:
    oauth2 = {
        "tokenUrl": TOKEN_URL,
        "authorizeUrl": "https://login.shop.invalid/authorize",
        "grant": {"type": grant, grant: client},
    }
    if grant == "clientCredentials":
        oauth2.pop("authorizeUrl")
    return {**SYSTEM, "authSchemeConfigs": [{"id": "oauth", "type": "oauth2", "oauth2": oauth2}]}


def connection(kind: str, secret: str, **more: str) -> dict[str, Any]:
    credential = {
        "id": "main",
        "authSchemeConfigId": "oauth",
        "type": kind,
        "secretRef": {"name": secret},
        **more,
    }
    return {"name": secret, "systemRef": {"name": "lending"}, "credentials": [credential]}


def secret(acting: NamespacedKubectl, name: str, **values: str) -> None:
    given = [f"--from-literal={key}={value}" for key, value in values.items()]
    acting.run("create", "secret", "generic", name, "--type=tieline.dev/credential", *given)


def grant(borrower: str, **more: Any) -> dict[str, Any]:
    return {
        "from": [{"organisationId": borrower}],
        "to": [{"connection": "lender", "credentialId": "main", **more}],
    }


def test_a_borrowers_connection_follows_the_grant(
    acting: NamespacedKubectl,
    acting_crowded: NamespacedKubectl,
    organisations: tuple[Organisation, Organisation],
) -> None:
    owner, borrower = acting, acting_crowded
    owner_id, borrower_id = (one.id for one in organisations)
    owner.apply("CredentialGrant", "lent", grant(borrower_id))
    owner.until_ready("credentialgrant", "lent", "False", "ConnectionNotFound")
    owner.apply("System", "lending", scheme("clientCredentials"))
    secret(owner, "lender", clientId="app", clientSecret="s3cret")
    owner.apply("Connection", "lender", connection("oauth2-client", "lender", credentialId=LENT))
    found = owner.until_ready("credentialgrant", "lent", "True", "Granted")
    assert found["status"]["credentials"] == [
        {"connection": "lender", "credentialId": "main", "id": LENT, "tokenUrls": [TOKEN_URL]}
    ]
    shown = owner.run("get", "credentialgrant", "lent", "-o", "wide")
    assert borrower_id in shown
    assert LENT in shown

    named = {"credentialId": LENT, "organisationId": owner_id, "clientId": "app"}
    borrower.apply("System", "lending", scheme("authorizationCode", **named))
    borrower.until_ready("system", "lending", "True", "Valid")
    tokens = {"accessToken": "at", "refreshToken": "rt", "expiresAt": "2099-01-01T00:00:00Z"}
    secret(borrower, "tokens", **tokens)
    borrower.apply("Connection", "borrows", connection("oauth2-token", "tokens"))
    eventually(
        "nothing is wrong with it",
        lambda: (
            borrower.get("connection", "borrows").get("status", {}).get("credentials", [{}])[0].get("errors")
            == []
        ),
    )
    owner.run("delete", "credentialgrant", "lent")
    borrower.until_ready("connection", "borrows", "False", "CredentialNotFound")
    borrower.until_ready("system", "lending", "False", "CredentialNotFound")


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"from": [], "to": [{"connection": "c", "credentialId": "i"}]}, "from"),
        ({"from": [{"organisationId": new_id()}], "to": []}, "to"),
        (
            {
                "from": [{"organisationId": new_id().lower()}],
                "to": [{"connection": "c", "credentialId": "i"}],
            },
            "must be a ulid",
        ),
        (
            {"from": [{"organisationId": new_id()}], "to": [{"connection": "c/d", "credentialId": "i"}]},
            "must hold letters, digits",
        ),
        ({"from": [{"organisationId": new_id()}], "to": [{"connection": "c"}]}, "credentialId"),
        (
            {"from": [{"organisationId": new_id()}], "to": [{"connection": "c", "credentialId": "i"}] * 2},
            "duplicate",
        ),
        (
            {
                "from": [{"organisationId": new_id()}],
                "to": [{"connection": "c", "credentialId": "i", "tokenUrls": ["ftp://x"]}],
            },
            "tokenUrls",
        ),
    ],
)
def test_what_grants_nothing_is_refused_at_the_door(
    acting: NamespacedKubectl, spec: dict[str, Any], words: str
) -> None:
    manifest = {
        "apiVersion": "tieline.dev/v1alpha1",
        "kind": "CredentialGrant",
        "metadata": {"name": "wrong", "namespace": acting.namespace},
        "spec": spec,
    }
    done = acting.kubectl("create", "-f", "-", stdin=json.dumps(manifest), check=False)
    assert done.returncode
    assert words.lower() in done.stderr.lower()


def test_every_field_is_explained(acting: NamespacedKubectl) -> None:
    text = acting.run("explain", "credentialgrants.spec", "--recursive", "--api-version=tieline.dev/v1alpha1")
    assert "organisationId" in text
    assert "to which the client's secret may be sent" in acting.run(
        "explain", "tlcgrant.spec.to.tokenUrls", "--api-version=tieline.dev/v1alpha1"
    )


def test_a_certificate_is_linked_by_itself_and_the_link_is_shown(acting: NamespacedKubectl) -> None:
    oauth = scheme("clientCredentials")
    oauth["authSchemeConfigs"][0]["oauth2"]["mtlsEnabled"] = True
    oauth["authSchemeConfigs"].append({"id": "mtls", "type": "certificate"})
    acting.apply("System", "mutual", oauth)
    secret(acting, "mutual", clientId="app", clientSecret="s3cret")
    spec = {**connection("oauth2-client", "mutual"), "systemRef": {"name": "mutual"}}
    acting.apply("Connection", "mutual", spec)
    acting.until_ready("connection", "mutual", "False", "CertificateNotFound")
    certificate = {
        "id": "cert",
        "credentialId": "the-certificate",
        "authSchemeConfigId": "mtls",
        "type": "certificate",
        "secretRef": {"name": "pair"},
    }
    other = {"name": "Certificate", "systemRef": {"name": "mutual"}, "credentials": [certificate]}
    acting.apply("Connection", "certificate", other)
    eventually(
        "the link is in the status",
        lambda: (
            acting.get("connection", "mutual")["status"]["credentials"][0].get("mtlsCredentialId")
            == "the-certificate"
        ),
    )
