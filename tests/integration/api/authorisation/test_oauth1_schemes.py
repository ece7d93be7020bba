"""Where an authorisation by OAuth 1.0 takes its auth scheme from: wherever a credential may have its own from."""

from typing import Any

import pytest

from tests.integration.api.conftest import Answer, Client
from tests.integration.api.objects import make_system, make_template
from tests.unit.oauth.oauth1_provider import CONSUMER, SECRET, OAuth1Provider
from tieline_core.identity.ids import new_id

pytestmark = pytest.mark.cluster


class Place:
    """A system with some auth schemes, and a template to connect it for."""

    def __init__(self, client: Client, signing: OAuth1Provider, *schemes: dict[str, Any]) -> None:
        self.client, self.signing = client, signing
        self.system = make_system(client, list(schemes))["id"]
        _, self.template = make_template(client, system=self.system)
        self.credential = new_id()

    def begin(self, *, credential: str = "", **more: Any) -> Answer:
        named = {"id": credential or self.credential, "organisationId": self.client.organisation}
        body = {"credential": named, "params": {"shop": "north"}, **more}
        return self.client("POST", f"/systems/{self.system}/oauth1/initialise", body)

    def come_back(self, **more: Any) -> dict[str, str]:
        answer = self.begin(**more)
        assert answer.status == 200, answer.raw
        return self.signing.agree(answer.json["url"])

    def create(
        self, scheme: dict[str, Any], returned: dict[str, str], name: str = "Signed"
    ) -> dict[str, Any]:
        """The connection that a user has come back for."""
        credential = {"id": self.credential, "type": "oauth1", "data": {"oauth1": returned}}
        item = {"id": "login", "authSchemeConfig": scheme, "credential": credential}
        template = self.template["connectionTemplateId"]
        body = {"connectionTemplateId": template, "connection": {"name": name, "credentials": [item]}}
        found: dict[str, Any] = self.client.ok("POST", "/connections", body, status=201)
        return found


def test_a_connection_that_is_still_to_be_made_may_bring_a_scheme_of_its_own(
    first: Client, signing: OAuth1Provider
) -> None:
    place, own = Place(first, signing), signing.scheme("own")
    assert place.begin().fields == ["authSchemeConfigId"]
    connection = place.create(own, place.come_back(authSchemeConfig=own))
    assert connection["credentials"][0]["credential"]["errors"] == []
    assert connection["credentials"][0]["authSchemeConfig"]["oauth1"]["id"] == "own"
    assert len(signing.issued) == 1
    # To connect again, the credential alone says which scheme, and has the consumer's secret.
    again = place.come_back()
    assert place.come_back(authSchemeConfigId="own")
    own["oauth1"].pop("consumerSecret")
    assert place.come_back(authSchemeConfig=own)
    nobody = Client(first.url, None, first.organisation)
    answer = nobody.at("/oauth2/callback", method="POST", body=again)
    assert answer.status == 200, answer.raw
    assert len(signing.issued) == 2


def test_of_several_schemes_it_is_the_one_that_the_credential_is_for_or_is_named_by(
    first: Client, signing: OAuth1Provider
) -> None:
    shared = new_id()
    plain = signing.scheme("plain", consumerKey="somebody-else")
    named = signing.scheme("named", consumerSecret=None, consumerKey="", credentialId=shared)
    place = Place(first, signing, plain, named)
    several = place.begin()
    assert (several.status, several.fields) == (422, ["authSchemeConfigId"])
    assert "plain, named" in several.json["message"]
    grant = {"type": "clientCredentials", "clientCredentials": {}}
    oauth2 = {"id": "app", "tokenUrl": "https://x.example/t", "grant": grant}
    values = {"oauth2Client": {"clientId": CONSUMER, "clientSecret": SECRET}}
    consumer = {
        "id": "app",
        "authSchemeConfig": {"type": "oauth2", "oauth2": oauth2},
        "credential": {"id": shared, "type": "oauth2-client", "data": values},
    }
    template = place.template["connectionTemplateId"]
    body = {"connectionTemplateId": template, "connection": {"name": "Consumer", "credentials": [consumer]}}
    first.ok("POST", "/connections", body, status=201)
    # By the id of the consumer's credential, as by that of the client's with OAuth 2.0.
    place.create(named, place.come_back(credential=shared))
    # By the id of the credential itself, now that it is there.
    place.come_back()
    assert len(signing.issued) == 1


def test_a_scheme_that_is_sent_along_is_judged_like_any_other(first: Client, signing: OAuth1Provider) -> None:
    place = Place(first, signing, signing.scheme())
    for changes, field in (
        ({"authSchemeConfig": signing.scheme("own", tokenEndpoint=None)}, "authSchemeConfig"),
        ({"authSchemeConfig": signing.scheme("own", consumerSecret=None)}, "authSchemeConfig"),
        ({"authSchemeConfig": {"type": "none", "none": {"id": "own"}}}, "authSchemeConfig.type"),
        ({"authSchemeConfig": signing.scheme("own"), "authSchemeConfigId": "signed"}, "authSchemeConfigId"),
    ):
        answer = place.begin(**changes)
        assert (answer.status, answer.fields) == (422, [field]), answer.raw
    assert signing.seen == []
    same = signing.scheme()
    same["oauth1"].pop("consumerSecret")
    assert place.begin(authSchemeConfig=same).status == 200, "it is the system's, whose secret is there"


def test_a_scheme_with_some_of_the_endpoints_says_which_it_lacks(
    first: Client, signing: OAuth1Provider
) -> None:
    system = make_system(first, [signing.scheme(tokenEndpoint=None)])
    [message] = first.ok("GET", f"/systems/{system['id']}")["authSchemeConfigs"][0]["oauth1"][
        "validationMessages"
    ]
    assert (message["severity"], message["detail"]) == ("warning", ["tokenEndpoint"])
    assert "add what is missing" in message["text"]
