"""From initialise to signed requests by OAuth 1.0, by REST on a real API server, with a provider that checks."""

import base64
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.harness.cluster.kubectl import Kubectl, Organisation, an_organisation
from tests.integration.api.conftest import OWN_PAGE, PUBLIC_URL, Answer, Client
from tests.integration.api.objects import bring_connection, make_system, make_template, stored, wait_for
from tests.integration.api.pods import account_token, ask
from tests.unit.oauth.oauth1_provider import CONSUMER, SECRET, OAuth1Provider
from tieline_core.identity.ids import new_id
from tieline_core.identity.names import tokens_name

pytestmark = pytest.mark.cluster


class Flow:
    """A system with the provider's scheme, and a template to connect it for."""

    def __init__(self, client: Client, signing: OAuth1Provider, **scheme: Any) -> None:
        self.client, self.signing = client, signing
        self.scheme = signing.scheme(**scheme)
        self.system = make_system(client, [self.scheme])["id"]
        self.project, self.template = make_template(client, system=self.system)
        self.credential_id = new_id()
        self.scheme["oauth1"].pop("consumerSecret", None)

    def begin(self, **changes: Any) -> Answer:
        """The answer of initialise."""
        named = {"id": self.credential_id, "organisationId": self.client.organisation}
        body = {"credential": named, "params": {"shop": "north"}, **changes}
        return self.client("POST", f"/systems/{self.system}/oauth1/initialise", body)

    def come_back(self, **changes: Any) -> dict[str, str]:
        """What a user who has agreed brings."""
        answer = self.begin(**changes)
        assert answer.status == 200, answer.raw
        return self.signing.agree(answer.json["url"])

    def credential(self, returned: dict[str, str]) -> dict[str, Any]:
        data = {"oauth1": returned}
        return {
            "id": "login",
            "authSchemeConfig": self.scheme,
            "credential": {"id": self.credential_id, "type": "oauth1", "data": data},
        }

    def create(self, returned: dict[str, str], *, name: str = "Signed") -> Answer:
        body = {
            "connectionTemplateId": self.template["connectionTemplateId"],
            "connection": {"name": name, "credentials": [self.credential(returned)]},
        }
        return self.client("POST", "/connections", body)

    def put(self, connection: str, returned: dict[str, str]) -> Answer:
        body = {"credentials": [self.credential(returned)]}
        return self.client("PUT", f"/connections/{connection}", body)

    @property
    def asked(self) -> int:
        """Requests for token credentials."""
        return sum(seen.url.path.endswith("/token") for seen in self.signing.seen)


def _kept(kubectl: Kubectl, org: Organisation, connection: str) -> dict[str, str]:
    secret = stored(kubectl, org, "secret", tokens_name(connection.lower(), "login"))
    return {name: base64.b64decode(value).decode() for name, value in secret["data"].items()}


def _states(kubectl: Kubectl, org: Organisation) -> set[str]:
    """The authorisations that the organisation waits for; other tests have some too."""
    chosen = ("--field-selector", "type=tieline.dev/oauth-state", "-o", "name")
    return set(kubectl("get", "secret", *chosen, namespace=org.namespace).stdout.split())


def _told_to_pod(client: Client, kubectl: Kubectl, org: Organisation, flow: Flow) -> dict[str, Any]:
    answer = ask(client, account_token(kubectl, org, flow.project)).json
    found: dict[str, Any] = answer["connections"]["shop"]["credentials"][0]["data"]
    return found


def test_a_verifier_that_is_stored_becomes_the_token_that_pods_sign_with(
    first: Client, signing: OAuth1Provider, kubectl: Kubectl, org: Organisation
) -> None:
    flow, before = Flow(first, signing), _states(kubectl, org)
    began = flow.begin()
    assert began.status == 200, began.raw
    assert _states(kubectl, org) - before
    assert began.headers["Cache-Control"] == "no-store"
    assert began.json["url"].startswith(f"{signing.url}/north/authorize?oauth_token=temp-")
    callback = signing.parameters()["oauth_callback"]
    assert callback.startswith(f"{PUBLIC_URL}/oauth2/callback?state={first.organisation}.")
    returned = signing.agree(began.json["url"])
    assert began.json["state"] == returned["state"]
    answer = flow.create(returned)
    assert answer.status == 201, answer.raw
    ((token, secret),) = signing.issued.items()
    connection = answer.json["id"]
    assert _kept(kubectl, org, connection) == {
        "accessToken": token,
        "oauthTokenSecret": secret,
        "tokenType": "OAuth",
    }
    shown = answer.json["credentials"][0]["credential"]
    assert (shown["type"], shown["errors"], shown.get("data")) == ("oauth1", [], None)
    for hidden in (token, secret, SECRET, *returned.values()):
        assert hidden.encode() not in answer.raw
    first("POST", f"/connections/{connection}/link", _link(flow))
    told = {"oauthToken": token, "oauthTokenSecret": secret, "consumerSecret": SECRET}
    assert _told_to_pod(first, kubectl, org, flow) == told
    assert _states(kubectl, org) <= before, "what was remembered of the authorisation is gone"
    read = first.ok("GET", f"/connections/{connection}")
    first.ok("PUT", f"/connections/{connection}", {"credentials": read["credentials"], "name": "New"})
    assert flow.put(connection, returned).status == 200, "the very same request again changes nothing"
    assert flow.asked == 1


def _link(flow: Flow) -> dict[str, str]:
    return {"connectionTemplateId": flow.template["connectionTemplateId"]}


def test_pods_are_told_nothing_of_an_authorisation_that_has_not_ended(
    client: Client, kubectl: Kubectl, org: Organisation, signing: OAuth1Provider
) -> None:
    flow = Flow(client, signing)
    bring_connection(
        kubectl,
        org.namespace,
        name=f"pending-{flow.system.lower()}",
        system=flow.system,
        credential={"id": "login", "type": "oauth1", "authSchemeConfigId": "signed"},
        values={"state": f"{org.id}.{'x' * 43}", "oauthToken": "temp", "oauthVerifier": "ver1fier"},
    )
    found = wait_for(client, f"/connections?system_id={flow.system}")["items"]
    client.ok("POST", f"/connections/{found[0]['id']}/link", _link(flow), status=201)
    assert _told_to_pod(client, kubectl, org, flow) == {"consumerSecret": SECRET}


def test_a_state_is_good_once_and_for_its_organisation_system_credential_and_token_alone(
    first: Client, signing: OAuth1Provider, kubectl: Kubectl, token_for: Callable[..., str]
) -> None:
    flow, elsewhere = Flow(first, signing), Flow(first, signing)
    returned = flow.come_back()
    with an_organisation(kubectl) as other:
        stranger = Client(first.url, token_for(other.namespace, "admin", "tieline-admin"), other.id)
        theirs = Flow(stranger, signing).come_back()
        for wrong, told in (
            (theirs, "not known here"),
            (elsewhere.come_back(), "another system or credential"),
            (
                flow.come_back(credential={"id": new_id(), "organisationId": first.organisation}),
                "another system or credential",
            ),
            ({**returned, "oauthToken": "another"}, "another system or credential"),
        ):
            answer = flow.create(wrong)
            assert answer.status == 422
            assert answer.fields == ["connection.credentials[0].credential.data.oauth1.state"]
            assert told in answer.json["message"]
        assert flow.asked == 0
        assert flow.create(returned).status == 201, "nobody has used it up"
        again = flow.create(returned, name="Another")
        assert (again.status, flow.asked) == (422, 1)


def test_what_the_provider_says_is_told_in_words_and_leaves_no_new_connection(
    first: Client, signing: OAuth1Provider
) -> None:
    flow = Flow(first, signing)
    answer = flow.create({**flow.come_back(), "oauthVerifier": "made-up"})
    assert (answer.status, answer.fields) == (422, ["connection.credentials[0].credential.data.oauth1"])
    assert "verifier_invalid" in answer.json["message"]
    assert b"made-up" not in answer.raw
    returned = flow.come_back()
    signing.failing = 503
    assert flow.create(returned).status == 502
    begun = flow.begin()
    assert (begun.status, begun.json["code"]) == (502, "provider_unreachable")
    signing.failing = 0
    assert flow.client.ok("GET", f"/connections?system_id={flow.system}")["items"] == []
    assert flow.create(returned).status == 201
    signing.failing = 401
    assert flow.begin().fields == ["authSchemeConfigId"]


def test_a_request_that_cannot_begin_names_the_field(first: Client, signing: OAuth1Provider) -> None:
    flow = Flow(first, signing)
    for changes, field in (
        ({"params": {}}, "params.shop"),
        ({"params": {"shop": "north", "other": "1"}}, "params.other"),
        ({"authSchemeConfigId": "none-such"}, "authSchemeConfigId"),
        ({"credential": {"id": flow.credential_id, "organisationId": new_id()}}, "credential"),
        ({"redirectUrl": "https://evil.example/"}, "redirectUrl"),
    ):
        answer = flow.begin(**changes)
        assert (answer.status, answer.fields) == (422, [field]), answer.raw
    assert Flow(first, signing, tokenEndpoint=None).begin().fields == ["authSchemeConfigId"]
    assert Flow(first, signing, consumerSecret=None).begin().fields == ["authSchemeConfigId"]
    assert signing.seen == []


def test_an_address_that_may_not_be_reached_is_refused(client: Client, signing: OAuth1Provider) -> None:
    answer = Flow(client, signing).begin()
    assert (answer.status, answer.fields) == (422, ["authSchemeConfigId"])
    assert "may not be reached" in answer.json["message"]
    assert signing.seen == []


def test_an_application_may_have_its_users_sent_to_a_page_of_its_own(
    first: Client, signing: OAuth1Provider
) -> None:
    flow = Flow(first, signing)
    returned = flow.come_back(redirectUrl=OWN_PAGE)
    callback = signing.parameters()["oauth_callback"]
    assert callback == f"{OWN_PAGE}&state={returned['state']}"
    assert parse_qs(urlsplit(callback).query)["app"] == ["1"]
    assert flow.create(returned).status == 201


def test_without_an_opener_the_page_has_the_verifier_exchanged_for_the_credential_of_the_state(
    first: Client, signing: OAuth1Provider, kubectl: Kubectl, org: Organisation
) -> None:
    flow = Flow(first, signing)
    connection = flow.create(flow.come_back()).json["id"]
    before = _kept(kubectl, org, connection)
    nobody = Client(first.url, None, first.organisation)
    returned = flow.come_back()
    answer = nobody.at("/oauth2/callback", method="POST", body={"code": "c", "state": returned["state"]})
    assert (answer.status, answer.fields) == (422, ["state"]), "a code is no verifier"
    answer = nobody.at("/oauth2/callback", method="POST", body=returned)
    assert answer.status == 200, answer.raw
    assert answer.json["connection"] == "Signed"
    after = _kept(kubectl, org, connection)
    assert after["accessToken"] != before["accessToken"]
    assert signing.issued[after["accessToken"]] == after["oauthTokenSecret"]
    replayed = nobody.at("/oauth2/callback", method="POST", body={**returned, "oauthVerifier": "other"})
    assert replayed.status == 422
    denied = flow.come_back()
    told = {"state": denied["state"], "error": "access_denied"}
    assert nobody.at("/oauth2/callback", method="POST", body=told).status == 204
    assert flow.put(connection, denied).status == 422
    assert flow.asked == 2


def test_the_consumer_may_be_a_credential_that_the_scheme_names(
    first: Client, signing: OAuth1Provider, kubectl: Kubectl, org: Organisation
) -> None:
    shared = new_id()
    flow = Flow(first, signing, consumerSecret=None, consumerKey="", credentialId=shared)
    assert flow.begin().status == 422
    scheme = {"type": "oauth2", "oauth2": {"id": "app", "tokenUrl": "https://x.example/t"}}
    scheme["oauth2"] |= {"grant": {"type": "clientCredentials", "clientCredentials": {}}}  # type: ignore[operator]
    data = {"oauth2Client": {"clientId": CONSUMER, "clientSecret": SECRET}}
    holder = {
        "id": "app",
        "authSchemeConfig": scheme,
        "credential": {"id": shared, "type": "oauth2-client", "data": data},
    }
    body = {**_link(flow), "connection": {"name": "Consumer", "credentials": [holder]}}
    first.ok("POST", "/connections", body, status=201)
    answer = flow.create(flow.come_back())
    assert answer.status == 201, answer.raw
    first("POST", f"/connections/{answer.json['id']}/link", _link(flow))
    token, secret = next(iter(signing.issued.items()))
    assert _told_to_pod(first, kubectl, org, flow) == {
        "consumerKey": CONSUMER,
        "consumerSecret": SECRET,
        "oauthToken": token,
        "oauthTokenSecret": secret,
    }
