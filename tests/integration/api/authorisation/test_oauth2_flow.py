"""From initialise to a connected connection, by REST on a real API server, with a provider that checks."""

import base64
import hmac
import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from tests.harness.cluster.kubectl import Kubectl, Organisation, an_organisation
from tests.harness.session.waiting import eventually
from tests.integration.api.conftest import ORIGIN, OWN_PAGE, PUBLIC_URL, Answer, Client, Server
from tests.integration.api.oauth_provider import CLIENT_ID, CLIENT_SECRET, Provider
from tests.integration.api.objects import make_system, make_template, stored
from tieline_core.identity.ids import new_id
from tieline_core.identity.names import tokens_name

pytestmark = pytest.mark.cluster


class Flow:
    """A system with the login's scheme, and a template to connect it for."""

    def __init__(self, client: Client, login: Provider, **scheme: Any) -> None:
        self.client, self.login = client, login
        self.scheme = login.scheme(**scheme)
        self.system = make_system(client, [self.scheme])["id"]
        _, self.template = make_template(client, system=self.system)
        self.credential_id = new_id()
        self.scheme["oauth2"]["grant"]["authorizationCode"].pop("clientSecret", None)

    def begin(self, **changes: Any) -> str:
        """The URL that initialise gives."""
        answer = self.ask_to_begin(**changes)
        assert answer.status == 200, answer.raw
        url: str = answer.json["url"]
        return url

    def ask_to_begin(self, **changes: Any) -> Answer:
        """The answer of initialise."""
        body = {
            "credential": _named(self.client, self.credential_id),
            "authorizeUrl": f"{self.login.url}/authorize",
            "clientId": CLIENT_ID,
            "scopes": ["orders", "customers"],
            **changes,
        }
        return self.client("POST", f"/systems/{self.system}/oauth2/initialise", body)

    def come_back(self, **changes: Any) -> dict[str, str]:
        """Code and state of a user who has agreed."""
        return self.login.agree(self.begin(**changes))

    def credential(self, returned: dict[str, str]) -> dict[str, Any]:
        data = {"oauth2Code": returned}
        return {
            "id": "login",
            "authSchemeConfig": self.scheme,
            "credential": {"id": self.credential_id, "type": "oauth2-code", "data": data},
        }

    def create(self, returned: dict[str, str], *, name: str = "Login") -> Answer:
        """POST a connection with the code."""
        body = {
            "connectionTemplateId": self.template["connectionTemplateId"],
            "connection": {"name": name, "credentials": [self.credential(returned)]},
        }
        return self.client("POST", "/connections", body)

    def put(self, connection: str, returned: dict[str, str], *, client: Client | None = None) -> Answer:
        body = {"credentials": [self.credential(returned)]}
        return (client or self.client)("PUT", f"/connections/{connection}", body)

    def connect(self) -> str:
        """The id of a connection that is connected."""
        answer = self.create(self.come_back())
        assert answer.status == 201, answer.raw
        identifier: str = answer.json["id"]
        return identifier

    def shown(self, connection: str) -> dict[str, Any]:
        """The credential as REST shows it."""
        found: dict[str, Any] = self.client.ok("GET", f"/connections/{connection}")["credentials"][0]
        return found["credential"]

    def names(self) -> list[str]:
        page = self.client.ok("GET", f"/connections?system_id={self.system}")
        return [item["name"] for item in page["items"]]


def _tokens(kubectl: Kubectl, org: Organisation, connection: str) -> dict[str, str]:
    secret = stored(kubectl, org, "secret", tokens_name(connection.lower(), "login"))
    return {name: base64.b64decode(value).decode() for name, value in secret["data"].items()}


def test_connections_of_one_account_are_warned_about(first: Client, login: Provider) -> None:
    keep = [{"parameter": "team", "as": "accountId"}]
    flow = Flow(first, login, authorization={"grantsPerAccount": 1, "keep": keep})

    def connect(name: str, team: str) -> Any:
        flow.credential_id = new_id()
        return flow.create(flow.come_back() | {"callback": f"?team={team}"}, name=name).json

    def warnings(connection: str) -> list[str]:
        found: list[str] = flow.shown(connection).get("warnings") or []
        return found

    one, other = connect("One", "T1"), connect("Other", "T2")
    assert warnings(one["id"]) == warnings(other["id"]) == []
    again = connect("Again", "T1")
    (said,) = again["credentials"][0]["credential"]["warnings"]
    assert said.startswith("2 connections hold authorisations of this account")
    assert warnings(one["id"]) == [said]
    assert warnings(other["id"]) == []
    assert first.ok("GET", f"/connections/{again['id']}")["state"] == "not_checked", "a warning ends nothing"
    first.ok("DELETE", f"/connections/{one['id']}", status=204)
    eventually("a connection that has its account for itself", lambda: not warnings(again["id"]))


def test_a_callback_that_others_have_signed_is_refused(first: Client, login: Provider) -> None:
    flow = Flow(first, login, authorization={"callbackSignature": {"parameter": "hmac"}})

    def create(*, secret: str) -> Answer:
        back = flow.come_back()
        text = f"code={back['code']}&state={back['state']}"
        digest = hmac.new(secret.encode(), text.encode(), "sha256").hexdigest()
        return flow.create(back | {"callback": f"?{text}&hmac={digest}"})

    asked = len(login.requests)
    for refused in (create(secret="guessed"), flow.create(flow.come_back())):
        assert refused.status == 422, refused.raw
        assert "callback" in refused.json["message"]
    assert len(login.requests) == asked, "no code was exchanged"
    assert flow.names() == []
    assert create(secret=CLIENT_SECRET).status == 201


def test_the_scheme_says_what_is_asked_for_and_kept(
    first: Client, login: Provider, kubectl: Kubectl, org: Organisation
) -> None:
    keep = [{"parameter": "realmId", "variable": "realm", "pattern": "^[0-9]+$"}]
    flow = Flow(first, login, authorization={"prompt": "consent", "keep": keep})
    plain, url = flow.begin(), flow.begin(followScheme=True)
    asked = [dict(parse_qsl(urlsplit(one).query)) for one in (plain, url)]
    assert [(one["scope"], one["prompt"]) for one in asked] == [
        ("orders customers offline_access", "login"),
        ("orders customers", "consent"),
    ]
    wrong = flow.create(login.agree(plain) | {"callback": "?realmId=../../evil"})
    assert wrong.status == 422, wrong.raw
    assert "does not match its pattern" in wrong.json["message"]
    answer = flow.create(login.agree(url) | {"callback": "?realmId=9130347957983546"})
    assert answer.status == 201, answer.raw
    tokens = _tokens(kubectl, org, answer.json["id"])
    assert json.loads(tokens["kept"]) == {"variables": {"realm": "9130347957983546"}}
    shown = first.ok("GET", f"/connections/{answer.json['id']}")
    assert shown["kept"] == {"variables": [{"name": "realm", "value": "9130347957983546"}]}


@pytest.mark.parametrize("authentication", ["header", "body"])
def test_a_code_that_is_stored_is_exchanged_for_tokens_at_once(
    first: Client, login: Provider, kubectl: Kubectl, org: Organisation, authentication: str
) -> None:
    flow = Flow(first, login, clientAuthentication=authentication)
    returned = flow.come_back()
    answer = flow.create(returned)
    assert answer.status == 201, answer.raw
    [asked] = login.requests
    assert asked["redirect_uri"] == f"{PUBLIC_URL}/oauth2/callback"
    assert asked["audience"] == "shop"
    connection = answer.json["id"]
    tokens = _tokens(kubectl, org, connection)
    for shown in (answer.json["credentials"][0]["credential"], flow.shown(connection)):
        assert shown["type"] == "oauth2-token"
        assert shown["id"] == flow.credential_id
        data = shown["data"]["oauth2Token"]
        assert data == {"scopes": ["orders"], "tokenType": "Bearer", "expiresAt": tokens["expiresAt"]}
    for secret in (tokens["accessToken"], tokens["refreshToken"], returned["code"], returned["state"]):
        assert secret.encode() not in answer.raw
    resource = stored(kubectl, org, "connection", connection)
    item = resource["spec"]["credentials"][0]
    kept = stored(kubectl, org, "secret", item["secretRef"]["name"])
    assert sorted(kept["data"]) == ["code", "state"], "the person's own Secret is left as it is"


def test_what_was_read_may_be_written_back_and_keeps_the_tokens(first: Client, login: Provider) -> None:
    flow = Flow(first, login)
    connection = flow.connect()
    read = first.ok("GET", f"/connections/{connection}")
    again = first.ok("PUT", f"/connections/{connection}", {"credentials": read["credentials"], "name": "New"})
    assert again["name"] == "New"
    assert again["credentials"] == read["credentials"]
    assert len(login.requests) == 1


def test_a_credential_that_is_taken_away_takes_its_tokens_along(
    first: Client, login: Provider, kubectl: Kubectl, org: Organisation
) -> None:
    connection = Flow(first, login).connect()
    name = tokens_name(connection.lower(), "login")
    assert stored(kubectl, org, "secret", name)
    first.ok("PUT", f"/connections/{connection}", {"credentials": []})
    found = kubectl("get", "secret", name, "--ignore-not-found", "-o", "name", namespace=org.namespace)
    assert found.stdout == ""


def test_without_pkce_no_verifier_is_sent(first: Client, login: Provider) -> None:
    flow = Flow(first, login, pkce=False)
    assert "code_challenge" not in flow.begin()
    flow.connect()
    assert "code_verifier" not in login.requests[0]


def test_a_connection_with_a_scheme_of_its_own_uses_pkce_where_that_demands_it(
    first: Client, login: Provider
) -> None:
    flow = Flow(first, login, pkce=False)
    flow.scheme = login.scheme(id="own", pkce=True)
    refused = flow.create(flow.come_back())
    assert (refused.status, refused.fields) == (
        422,
        ["connection.credentials[0].credential.data.oauth2Code.state"],
    )
    assert "PKCE" in refused.json["message"]
    assert login.requests == [], "a code without a verifier is not exchanged"
    answer = flow.create(flow.come_back(authSchemeConfig=flow.scheme))
    assert answer.status == 201, answer.raw
    assert "code_verifier" in login.requests[0]
    # The connection is there now, so the platform knows whose scheme it is.
    again = flow.put(answer.json["id"], flow.come_back())
    assert again.status == 200, again.raw
    assert "code_verifier" in login.requests[1]


def test_an_application_may_have_its_users_sent_to_a_page_of_its_own(first: Client, login: Provider) -> None:
    flow = Flow(first, login)
    returned = flow.come_back(redirectUrl=OWN_PAGE)
    assert flow.create(returned).status == 201
    assert login.requests[0]["redirect_uri"] == OWN_PAGE


def test_a_state_is_good_once(first: Client, login: Provider) -> None:
    flow = Flow(first, login)
    returned = flow.come_back()
    connection = flow.create(returned).json["id"]
    before = first.ok("GET", f"/connections/{connection}")
    # The very same request again is no replay: it changes nothing, and asks nobody.
    assert flow.put(connection, returned).status == 200
    stolen = {"code": flow.come_back()["code"], "state": returned["state"]}
    answers = [flow.put(connection, stolen), flow.create(returned, name="Another")]
    for answer, at in zip(answers, ("credentials[0]", "connection.credentials[0]"), strict=True):
        assert (answer.status, answer.fields) == (422, [f"{at}.credential.data.oauth2Code.state"])
        assert "already used" in answer.json["message"]
    assert first.ok("GET", f"/connections/{connection}")["credentials"] == before["credentials"]
    assert flow.names() == ["Login"]
    assert len(login.requests) == 1


def test_a_state_expires(api_kubeconfig: Path, client: Client, login: Provider) -> None:
    with Server(api_kubeconfig, oauth_state_seconds=1.0) as server:
        flow = Flow(Client(server.url, client.token, client.organisation), login)
        returned = flow.come_back()
        time.sleep(2.1)  # a second, and the one that times are rounded to
        answer = flow.create(returned)
    assert answer.status == 422
    assert "expired" in answer.json["message"]
    assert login.requests == []


def test_a_state_of_another_organisation_system_or_credential_is_refused_and_stays_good(
    first: Client, login: Provider, kubectl: Kubectl, token_for: Callable[..., str]
) -> None:
    with an_organisation(kubectl) as other:
        stranger = Client(first.url, token_for(other.namespace, "admin", "tieline-admin"), other.id)
        theirs = Flow(stranger, login)
        returned = theirs.come_back()
        mine, elsewhere = Flow(first, login), Flow(first, login)
        answer = mine.create(returned)
        assert answer.status == 422
        assert "not known here" in answer.json["message"]
        for foreign in (elsewhere.come_back(), mine.come_back(credential=_named(first, new_id()))):
            answer = mine.create(foreign)
            assert answer.status == 422
            assert "another system or credential" in answer.json["message"]
        assert mine.names() == []
        assert login.requests == []
        assert theirs.create(returned).status == 201, "nobody has used it up"


def _named(client: Client, credential: str) -> dict[str, str]:
    return {"id": credential, "organisationId": client.organisation}


def test_a_refused_code_is_told_with_the_credentials_errors_and_leaves_no_new_connection(
    first: Client, login: Provider
) -> None:
    flow = Flow(first, login)
    wrong = {**flow.come_back(), "code": "made-up"}
    answer = flow.create(wrong)
    assert (answer.status, answer.fields) == (422, ["connection.credentials[0].credential.data.oauth2Code"])
    assert "invalid_grant" in answer.json["message"]
    assert answer.json["errors"] == [answer.json["fields"][0]["message"]]
    assert b"made-up" not in answer.raw
    assert flow.names() == []
    connection = flow.connect()
    assert flow.put(connection, {**flow.come_back(), "code": "made-up"}).status == 422
    shown = flow.shown(connection)
    assert "invalid_grant" in shown["errors"][0]
    assert flow.put(connection, flow.come_back()).status == 200
    assert flow.shown(connection)["errors"] == []


def test_a_provider_that_is_away_is_not_taken_for_bad_credentials(first: Client, login: Provider) -> None:
    flow = Flow(first, login)
    connection = flow.connect()
    returned = flow.come_back()
    login.failing = True
    answer = flow.put(connection, returned)
    assert (answer.status, answer.json["code"]) == (502, "provider_unreachable")
    assert answer.headers["Retry-After"] == "10"
    created = flow.create(returned_too := flow.come_back(), name="Second")
    assert created.status == 502
    assert flow.names() == ["Login"]
    login.failing = False
    assert flow.put(connection, returned).status == 200, "the code was never taken: it is good still"
    assert flow.create(returned_too, name="Second").status == 201


def test_two_replicas_that_are_given_one_code_at_once_ask_once(
    first: Client, second: Client, login: Provider, kubectl: Kubectl, org: Organisation
) -> None:
    flow = Flow(first, login)
    connection = flow.connect()
    for _ in range(3):
        returned = flow.come_back()
        asked = len(login.requests)
        login.slow = 0.3
        with ThreadPoolExecutor(2) as pool:
            puts = [pool.submit(flow.put, connection, returned, client=one) for one in (first, second)]
            answers = [put.result() for put in puts]
        assert [answer.status for answer in answers] == [200, 200], [answer.raw for answer in answers]
        assert len(login.requests) == asked + 1
        ends = {
            json.dumps(answer.json["credentials"][0]["credential"]["data"]["oauth2Token"], sort_keys=True)
            for answer in answers
        }
        assert len(ends) == 1
    assert _tokens(kubectl, org, connection)["accessToken"].startswith("at-")


def test_the_callback_page_is_ours_alone_and_says_nothing_of_what_came_with_it(first: Client) -> None:
    nobody = Client(first.url, None, first.organisation)
    page = nobody.at("/oauth2/callback?code=c0de&state=st&error_description=%3Cscript%3E")
    assert page.status == 200
    assert page.headers["Content-Type"] == "text/html; charset=utf-8"
    policy = page.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert page.headers["Referrer-Policy"] == "no-referrer"
    assert page.headers["Cache-Control"] == "no-store"
    for given in (b"c0de", b"<script>\n", b"error_description"):
        assert given not in page.raw
    for name in ("page.js", "page.css"):
        assert nobody.at(f"/oauth2/callback/{name}").status == 200
        assert f"callback/{name}".encode() in page.raw
    assert b"http" not in page.raw, "nothing comes from elsewhere"
    assert nobody.at("/oauth2/callback/callback.html").status == 404


def test_without_an_opener_the_page_has_the_code_exchanged_for_the_credential_of_the_state(
    first: Client, login: Provider
) -> None:
    flow = Flow(first, login)
    connection = flow.connect()
    before = flow.shown(connection)["data"]
    returned = flow.come_back()
    nobody = Client(first.url, None, first.organisation)
    time.sleep(1.1)  # so that the new tokens end at another second
    answer = nobody.at("/oauth2/callback", method="POST", body=returned)
    assert answer.status == 200, answer.raw
    assert answer.json["connection"] == "Login"
    assert answer.json["system"].startswith("Shop")
    assert flow.shown(connection)["data"] != before
    again = nobody.at("/oauth2/callback", method="POST", body={**returned, "code": "another"})
    assert again.status == 422
    assert "already used" in again.json["message"]
    assert len(login.requests) == 2


def test_the_page_cannot_finish_what_no_connection_waits_for(first: Client, login: Provider) -> None:
    returned = Flow(first, login).come_back()
    nobody = Client(first.url, None, first.organisation)
    answer = nobody.at("/oauth2/callback", method="POST", body=returned)
    assert answer.status == 409
    assert "go back" in answer.json["message"]
    for wrong in ({"code": "c", "state": "made up"}, {"code": "c", "state": f"{new_id()}.{'x' * 43}"}):
        assert nobody.at("/oauth2/callback", method="POST", body=wrong).status == 422
    assert login.requests == []


def test_a_state_that_comes_back_with_an_error_has_served(first: Client, login: Provider) -> None:
    flow = Flow(first, login)
    connection = flow.connect()
    returned = flow.come_back()
    nobody = Client(first.url, None, first.organisation)
    told = {"state": returned["state"], "error": "access_denied"}
    assert nobody.at("/oauth2/callback", method="POST", body=told).status == 204
    assert flow.put(connection, returned).status == 422


def test_only_front_ends_on_the_list_may_learn_the_result(first: Client) -> None:
    nobody = Client(first.url, None, first.organisation)
    for origin, status in ((ORIGIN, 204), ("https://evil.example", 403), ("null", 403)):
        answer = nobody.at("/oauth2/callback/opener", method="POST", body={"origin": origin})
        assert answer.status == status


def test_a_client_of_another_organisation_serves_where_it_has_granted_that(
    first: Client, login: Provider, kubectl: Kubectl, token_for: Callable[..., str]
) -> None:
    with an_organisation(kubectl) as owner:
        lender = Client(first.url, token_for(owner.namespace, "admin", "tieline-admin"), owner.id)
        theirs = Flow(lender, login)
        shared = new_id()
        credential = {
            "id": "client",
            "authSchemeConfig": theirs.scheme,
            "credential": {
                "id": shared,
                "type": "oauth2-client",
                "data": {"oauth2Client": {"clientId": CLIENT_ID, "clientSecret": CLIENT_SECRET}},
            },
        }
        body = {
            "connectionTemplateId": theirs.template["connectionTemplateId"],
            "connection": {"name": "Shared client", "credentials": [credential]},
        }
        lent = lender.ok("POST", "/connections", body, status=201)
        public = {"type": "authorizationCode", "authorizationCode": {"clientId": CLIENT_ID}}
        mine = Flow(first, login, grant=public)
        chosen = {"credential": {"id": shared, "organisationId": owner.id}}
        refused = mine.ask_to_begin(**chosen)
        assert (refused.status, refused.fields) == (422, ["credential"])
        grant = {
            "apiVersion": "tieline.dev/v1alpha1",
            "kind": "CredentialGrant",
            "metadata": {"name": "lend", "namespace": owner.namespace},
            "spec": {
                "from": [{"organisationId": first.organisation}],
                "to": [{"connection": lent["id"].lower(), "credentialId": "client"}],
            },
        }
        kubectl("apply", "-f", "-", stdin=json.dumps(grant))
        eventually("the grant heard of", lambda: mine.ask_to_begin(**chosen).status == 200)
        answer = mine.create(mine.come_back(**chosen))
        assert answer.status == 201, answer.raw
        assert len(login.requests) == 1
        assert CLIENT_SECRET.encode() not in answer.raw
