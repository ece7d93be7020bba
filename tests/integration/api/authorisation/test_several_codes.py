"""Several codes in one request: nothing is exchanged while something is wrong, and nothing that was is thrown away."""

from typing import Any

import pytest

from tests.harness.cluster.kubectl import Kubectl, Organisation
from tests.integration.api.conftest import Answer, Client
from tests.integration.api.oauth_provider import CLIENT_ID, Provider
from tests.integration.api.objects import make_system, make_template, stored
from tieline_core.identity.ids import new_id
from tieline_core.identity.names import tokens_name

pytestmark = pytest.mark.cluster


class Place:
    """A system at which users log in in two ways, and a template to connect it for."""

    def __init__(self, client: Client, login: Provider, *, dynamic: bool = False) -> None:
        self.client, self.login = client, login
        self.schemes = [login.scheme(id=name, description=name) for name in ("one", "two")]
        self.system = make_system(client, self.schemes)["id"]
        self.project, self.template = make_template(client, system=self.system, dynamic=dynamic)

    def come_back(self, credential: str) -> dict[str, str]:
        """Code and state of a user who has agreed, for a credential of this id that is still to be made."""
        body = {
            "credential": {"id": credential, "organisationId": self.client.organisation},
            "authorizeUrl": f"{self.login.url}/authorize",
            "clientId": CLIENT_ID,
        }
        return self.login.agree(
            self.client.ok("POST", f"/systems/{self.system}/oauth2/initialise", body)["url"]
        )

    def item(self, name: str, returned: dict[str, str], **scheme: Any) -> dict[str, Any]:
        """The credential for one of the two ways."""
        oauth2 = {**self.login.scheme(id=name, description=name)["oauth2"], **scheme}
        return {
            "id": name,
            "authSchemeConfig": {"type": "oauth2", "oauth2": oauth2},
            "credential": {"type": "oauth2-code", "data": {"oauth2Code": returned}},
        }

    def create(self, *items: dict[str, Any], name: str = "Both") -> Answer:
        template = self.template["connectionTemplateId"]
        connection = {"name": name, "credentials": list(items)}
        return self.client(
            "POST", "/connections", {"connectionTemplateId": template, "connection": connection}
        )

    def connections(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.client.ok("GET", f"/connections?system_id={self.system}")["items"]
        return found

    @property
    def asked(self) -> int:
        return len(self.login.requests)


def wrong(returned: dict[str, str]) -> dict[str, str]:
    """The provider does not know this code."""
    return {**returned, "code": "made-up"}


def types(connection: dict[str, Any]) -> list[str]:
    return [one["credential"]["type"] for one in connection["credentials"]]


def test_all_codes_of_a_new_connection_become_tokens(first: Client, login: Provider) -> None:
    place = Place(first, login)
    answer = place.create(*(place.item(name, place.come_back(name)) for name in ("one", "two")))
    assert answer.status == 201, answer.raw
    assert types(answer.json) == ["oauth2-token", "oauth2-token"]


def test_nothing_is_exchanged_while_something_else_is_wrong(first: Client, login: Provider) -> None:
    place = Place(first, login)
    good = place.item("one", place.come_back("one"))
    returned = place.come_back("two")
    at = "connection.credentials[1]"
    for other, field in (
        (place.item("two", {"code": "c", "state": "made up"}), f"{at}.credential.data.oauth2Code.state"),
        (place.item("two", {**returned, "state": ""}), f"{at}.credential.data.oauth2Code.state"),
        (place.item("two", returned, tokenUrl="https://{shop}.example/t"), f"{at}.authSchemeConfig"),
        (
            place.item("two", good["credential"]["data"]["oauth2Code"]),
            f"{at}.credential.data.oauth2Code.state",
        ),
        ({**place.item("two", returned), "id": "one"}, f"{at}.id"),
    ):
        answer = place.create(good, other)
        assert (answer.status, answer.fields) == (422, [field]), answer.raw
    assert (place.asked, place.connections()) == (0, [])
    assert place.create(good, place.item("two", returned)).status == 201, "and all codes are good still"


def test_where_no_code_is_good_nothing_stays(
    first: Client, login: Provider, kubectl: Kubectl, org: Organisation
) -> None:
    place = Place(first, login)
    items = [place.item(name, wrong(place.come_back(name))) for name in ("one", "two")]
    answer = place.create(*items)
    assert answer.status == 422
    assert answer.fields == [f"connection.credentials[{n}].credential.data.oauth2Code" for n in (0, 1)]
    assert len(answer.json["errors"]) == 2
    assert place.connections() == []
    returned = [place.come_back(name) for name in ("one", "two")]
    login.failing = True
    items = [place.item(name, one) for name, one in zip(("one", "two"), returned, strict=True)]
    assert place.create(*items).status == 502
    login.failing = False
    assert place.connections() == []
    assert place.create(*items).status == 201, "a provider that was away has taken no code"


def test_what_one_code_has_brought_is_kept_and_the_answer_says_what_is_missing(
    first: Client, login: Provider, kubectl: Kubectl, org: Organisation
) -> None:
    place = Place(first, login)
    answer = place.create(
        place.item("one", wrong(place.come_back("one"))), place.item("two", place.come_back("two"))
    )
    assert (answer.status, answer.fields) == (422, ["connection.credentials[0].credential.data.oauth2Code"])
    [connection] = place.connections()
    assert answer.json["connections"] == [connection["id"]]
    assert "listed in connections" in answer.json["message"]
    assert types(connection) == ["oauth2-code", "oauth2-token"]
    assert "invalid_grant" in connection["credentials"][0]["credential"]["errors"][0]
    kept = stored(kubectl, org, "secret", tokens_name(connection["id"].lower(), "two"))["data"]
    missing = place.item("one", place.come_back("one"))
    body = {"credentials": [missing, {"id": "two"}]}
    whole = first.ok("PUT", f"/connections/{connection['id']}", body)
    assert types(whole) == ["oauth2-token", "oauth2-token"]
    assert stored(kubectl, org, "secret", tokens_name(connection["id"].lower(), "two"))["data"] == kept
    assert place.asked == 3


def test_a_change_keeps_what_its_good_codes_bring(first: Client, login: Provider) -> None:
    place = Place(first, login)
    connection = place.create(place.item("one", place.come_back("one"))).json["id"]
    items = [place.item("two", wrong(place.come_back("two"))), place.item("one", place.come_back("one"))]
    answer = first("PUT", f"/connections/{connection}", {"credentials": items})
    assert (answer.status, answer.fields) == (422, ["credentials[0].credential.data.oauth2Code"])
    [shown] = place.connections()
    assert types(shown) == ["oauth2-code", "oauth2-token"]
    assert place.asked == 3, "the good one was exchanged all the same"


class Activating(Place):
    """A user, and two dynamic templates of one environment."""

    def __init__(self, client: Client, login: Provider) -> None:
        super().__init__(client, login, dynamic=True)
        _, other = make_template(client, project=self.project, system=self.system, name="other", dynamic=True)
        self.templates = [self.template["connectionTemplateId"], other["connectionTemplateId"]]
        self.user = client.ok("POST", "/users", {"externalId": f"customer-{new_id()}"}, status=201)
        self.environment = self.project["environments"][0]["id"]

    def activate(self, *connections: dict[str, Any]) -> Answer:
        body = {"userId": self.user["id"], "environmentId": self.environment, "connections": connections}
        return self.client("POST", "/activations", body)

    def given(self, number: int, returned: dict[str, str], *, name: str = "") -> dict[str, Any]:
        item = self.item(("one", "two")[number], returned)
        connection = {"name": name or f"C{number}", "credentials": [item]}
        return {"connectionTemplateId": self.templates[number], "connection": connection}

    def active(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.client.ok("GET", f"/environments/{self.environment}/activations")
        return found


def test_an_activation_exchanges_nothing_while_one_of_its_connections_is_wrong(
    first: Client, login: Provider
) -> None:
    place = Activating(first, login)
    good = place.given(0, place.come_back("one"))
    returned = place.come_back("two")
    for other, status in (
        (place.given(1, returned, name="C0"), 409),
        ({**place.given(1, returned), "connectionTemplateId": place.templates[0]}, 422),
        ({"connectionTemplateId": place.templates[1], "existingConnectionId": new_id()}, 422),
        (place.given(1, {"code": "c", "state": "made up"}), 422),
    ):
        assert place.activate(good, other).status == status
    assert (place.asked, place.connections(), place.active()) == (0, [], [])
    answer = place.activate(good, place.given(1, returned))
    assert answer.status == 200, answer.raw
    assert len(answer.json["connections"]) == 2


def test_an_activation_keeps_the_connections_that_were_made_and_takes_the_others_back(
    first: Client, login: Provider
) -> None:
    place = Activating(first, login)
    answer = place.activate(
        place.given(0, place.come_back("one")), place.given(1, wrong(place.come_back("two")))
    )
    field = "connections[1].connection.credentials[0].credential.data.oauth2Code"
    assert (answer.status, answer.fields) == (422, [field])
    [connection] = place.connections()
    [activation] = place.active()
    assert answer.json["connections"] == [connection["id"]]
    assert answer.json["activationId"] == activation["id"]
    assert [one["id"] for one in activation["connections"]] == [connection["id"]]
    again = place.activate(place.given(1, place.come_back("two")))
    assert again.status == 200, "what was missing, alone"
    assert again.json["id"] == activation["id"]
    assert len(again.json["connections"]) == 2
    nothing = Activating(first, login)
    assert nothing.activate(nothing.given(0, wrong(nothing.come_back("one")))).status == 422
    assert (nothing.connections(), nothing.active()) == ([], [])
