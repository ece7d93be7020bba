"""A credential of another organisation: lent by a CredentialGrant, used, never read, and gone with the grant."""

from __future__ import annotations

import base64
import json
import re
import time
from collections.abc import Collection, Iterator
from typing import Any

import pytest

from tests.harness.cluster.kubectl import Kubectl, Organisation
from tests.harness.session.waiting import eventually
from tests.integration.api.conftest import Answer, Client, Server
from tests.integration.api.oauth_provider import CLIENT_ID, CLIENT_SECRET, Provider
from tests.integration.api.objects import make_project, make_system, make_template
from tests.integration.api.pods import account_token
from tieline_core.identity.ids import new_id

pytestmark = pytest.mark.cluster

LENT = new_id()
"""The id of the owner's credential, which both organisations know."""


@pytest.fixture(scope="module")
def owner(other_org: Organisation) -> Organisation:
    return other_org


@pytest.fixture
def borrower(first: Client) -> Client:
    return first


def apply(kubectl: Kubectl, organisation: Organisation, kind: str, name: str, **content: Any) -> None:
    api = "v1" if kind == "Secret" else "tieline.dev/v1alpha1"
    manifest = {
        "apiVersion": api,
        "kind": kind,
        "metadata": {"name": name, "namespace": organisation.namespace},
        **content,
    }
    kubectl("apply", "--server-side", "-f", "-", stdin=json.dumps(manifest))


def lend(kubectl: Kubectl, owner: Organisation, to: str, **more: Any) -> None:
    item = {"connection": "clients", "credentialId": "client", **more}
    spec = {"from": [{"organisationId": to}], "to": [item]}
    apply(kubectl, owner, "CredentialGrant", "lent", spec=spec)


@pytest.fixture
def lent(kubectl: Kubectl, owner: Organisation, org: Organisation, login: Provider) -> Iterator[None]:
    """The owner's client at ``login``, and a grant of it for the borrower."""
    oauth2 = {
        "tokenUrl": f"{login.url}/token",
        "grant": {"type": "clientCredentials", "clientCredentials": {}},
    }
    apply(
        kubectl,
        owner,
        "System",
        "shop",
        spec={
            "name": "Shop",
            "domain": "shop.example",
            "templateBaseUrl": "https://shop.example",
            "authSchemeConfigs": [{"id": "oauth", "type": "oauth2", "oauth2": oauth2}],
        },
    )
    values = {"clientId": CLIENT_ID, "clientSecret": CLIENT_SECRET}
    apply(kubectl, owner, "Secret", "client", type="tieline.dev/credential", stringData=values)
    credential = {
        "id": "client",
        "credentialId": LENT,
        "type": "oauth2-client",
        "authSchemeConfigId": "oauth",
        "secretRef": {"name": "client"},
    }
    spec = {"name": "Clients", "systemRef": {"name": "shop"}, "credentials": [credential]}
    apply(kubectl, owner, "Connection", "clients", spec=spec)
    lend(kubectl, owner, org.id)
    yield
    kubectl("delete", "credentialgrants", "--all", namespace=owner.namespace)


class Borrowing:
    """A system of the borrower whose scheme names the owner's credential."""

    def __init__(self, client: Client, owner: Organisation, login: Provider, **changes: Any) -> None:
        self.client, self.login = client, login
        self.named = {"id": LENT, "organisationId": owner.id}
        grant = {"clientId": CLIENT_ID, "credentialId": LENT, "organisationId": owner.id}
        self.scheme = login.scheme(
            **{"grant": {"type": "authorizationCode", "authorizationCode": grant}, **changes}
        )
        self.system = make_system(client, [self.scheme])["id"]
        self.project = make_project(client)
        _, self.template = make_template(client, project=self.project, system=self.system)

    def initialise(self, **changes: Any) -> Answer:
        body = {
            "credential": {**self.named, **changes},
            "authorizeUrl": f"{self.login.url}/authorize",
            "clientId": CLIENT_ID,
            "scopes": ["orders"],
        }
        return self.client("POST", f"/systems/{self.system}/oauth2/initialise", body)

    def begun(self) -> dict[str, str]:
        """Code and state of a user who has agreed. The grant may be news to the API for a moment."""

        def url() -> str | None:
            answer = self.initialise()
            assert answer.status == 200, answer.raw
            return str(answer.json["url"])

        return self.login.agree(eventually("the grant heard of", url))

    def credential(self, returned: dict[str, str]) -> dict[str, Any]:
        return {
            "id": "login",
            "authSchemeConfig": self.scheme,
            "credential": {"type": "oauth2-code", "data": {"oauth2Code": returned}},
        }

    def connect(self, returned: dict[str, str]) -> Answer:
        body = {
            "connectionTemplateId": self.template["connectionTemplateId"],
            "connection": {"name": "Login", "credentials": [self.credential(returned)]},
        }
        return self.client("POST", "/connections", body)


def objects_of(kubectl: Kubectl, organisation: Organisation) -> list[dict[str, Any]]:
    kinds = "systems,connections,secrets,configmaps,events,credentialgrants"
    found = json.loads(kubectl("get", kinds, "-o", "json", namespace=organisation.namespace).stdout)
    return list(found["items"])


def uids(kubectl: Kubectl, organisation: Organisation) -> set[str]:
    return {item["metadata"]["uid"] for item in objects_of(kubectl, organisation)}


def everything(kubectl: Kubectl, organisation: Organisation, but: Collection[str] = ()) -> str:
    """All objects of an organisation as text, the values of Secrets decoded.

    ``but`` are uids of objects to leave out: tests that ran before have clients of their own with the same secret.
    """
    items = [item for item in objects_of(kubectl, organisation) if item["metadata"]["uid"] not in but]
    for item in items:
        if item["kind"] == "Secret":
            item["data"] = {
                key: base64.b64decode(value).decode("utf-8", "replace")
                for key, value in (item.get("data") or {}).items()
            }
    return json.dumps(items, ensure_ascii=False)


def test_a_lent_client_connects_and_its_secret_is_nowhere_to_be_read(
    borrower: Client, owner: Organisation, org: Organisation, login: Provider, kubectl: Kubectl, lent: None
) -> None:
    earlier = uids(kubectl, org)
    borrowing = Borrowing(borrower, owner, login)
    answer = borrowing.connect(borrowing.begun())
    assert answer.status == 201, answer.raw
    assert answer.json["credentials"][0]["credential"].get("errors", []) == []
    assert [request["grant_type"] for request in login.requests] == ["authorization_code"]
    token = account_token(kubectl, org, borrowing.project)
    pod = Client(borrower.url, token, borrower.organisation).at("/internal/v1/environment")
    assert pod.status == 200
    assert list(pod.json["connections"]) == ["shop"]
    seen = [
        answer.raw.decode(),
        pod.raw.decode(),
        borrower("GET", f"/systems/{borrowing.system}").raw.decode(),
        borrower("GET", f"/connections/{answer.json['id']}").raw.decode(),
        everything(kubectl, org, but=earlier),
    ]
    assert all(CLIENT_SECRET not in text for text in seen)
    assert CLIENT_SECRET in everything(kubectl, owner), "the search finds what is there"


def test_without_a_grant_the_answer_is_that_of_what_does_not_exist(
    borrower: Client, owner: Organisation, login: Provider, kubectl: Kubectl, lent: None
) -> None:
    borrowing = Borrowing(borrower, owner, login)
    borrowing.begun()
    lend(kubectl, owner, new_id())  # the same grant, for somebody else now
    eventually("the grant gone", lambda: borrowing.initialise().status != 200)
    ungranted = borrowing.initialise()
    absent = new_id()
    for other in (
        borrowing.initialise(id=absent),
        borrowing.initialise(organisationId=absent),
        borrowing.initialise(id=absent, organisationId=new_id()),
    ):
        assert (other.status, ungranted.status) == (422, 422)
        assert _shape(other) == _shape(ungranted)
        assert dict(other.headers).keys() == dict(ungranted.headers).keys()
    assert login.requests == []


def _shape(answer: Answer) -> str:
    """The answer without the ids in it."""
    return re.sub("[0-9A-Z]{26}", "ID", answer.raw.decode())


def test_a_borrower_cannot_have_the_secret_sent_to_a_server_of_its_own(
    borrower: Client, owner: Organisation, login: Provider, lent: None
) -> None:
    with Provider() as evil:
        for stolen in (
            {"tokenUrl": f"{evil.url}/token"},
            {"refreshUrl": f"{evil.url}/token"},
        ):
            borrowing = Borrowing(borrower, owner, login, **stolen)
            answer = borrowing.connect(borrowing.begun())
            assert answer.status == 422
            assert "its secret may be sent to" in answer.raw.decode()
        assert evil.requests == []
    assert login.requests == []


def test_with_the_grant_the_use_ends_at_once(
    borrower: Client,
    owner: Organisation,
    org: Organisation,
    login: Provider,
    kubectl: Kubectl,
    lent: None,
    reaching: tuple[Server, Server],
) -> None:
    borrowing = Borrowing(borrower, owner, login)
    first, second = borrowing.begun(), borrowing.begun()
    connected = borrowing.connect(first)
    assert connected.status == 201
    pod = Client(borrower.url, account_token(kubectl, org, borrowing.project), borrower.organisation)

    def another_token() -> Answer:
        """What a pod gets whose token was answered with 401."""
        shop = pod.at("/internal/v1/environment").json["connections"]["shop"]
        (credential,) = shop["credentials"]
        path = f"/internal/v1/connections/{shop['id']}/credentials/{credential['id']}/token"
        return pod.at(path, method="POST", body={"rejected": credential["data"]["accessToken"]})

    def refreshed() -> bool:
        reaching[0].let_tokens_age()
        assert another_token().status == 200
        return bool(login.requests[-1]["grant_type"] == "refresh_token")

    eventually("the token refreshed", refreshed)
    time.sleep(1)  # the cache hears of the new one
    reaching[0].let_tokens_age()
    asked = len(login.requests)
    kubectl("delete", "credentialgrant", "lent", namespace=owner.namespace)
    eventually("the grant gone", lambda: borrowing.initialise().status != 200)
    assert another_token().status == 409
    body = {"credentials": [borrowing.credential(second)]}
    answer = borrower("PUT", f"/connections/{connected.json['id']}", body)
    assert answer.status == 422
    assert "CredentialGrant" in answer.raw.decode()
    assert len(login.requests) == asked, "nothing is refreshed, and what was begun before is not finished"
