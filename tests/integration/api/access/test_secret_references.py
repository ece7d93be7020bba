"""REST sends no Secret elsewhere for a caller who may not read it, although the API itself may read all."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.harness.cluster.kubectl import Kubectl, Organisation
from tests.harness.session.waiting import eventually
from tests.integration.api.conftest import Answer, Client
from tests.integration.api.objects import connect, make_system, make_template
from tests.unit.oauth.oauth1_provider import OAuth1Provider
from tieline_core.identity.ids import new_id

pytestmark = pytest.mark.cluster

Json = dict[str, Any]
TOKEN_URL, ELSEWHERE = "https://login.shop.example/token", "https://elsewhere.example/token"


class Brought:
    """A Connection from Git with one credential, whose Secret is Git's too, and an editor who may not read that."""

    def __init__(self, kubectl: Kubectl, administrator: Client, editor: Client, namespace: str) -> None:
        self._kubectl, self._namespace, self._administrator = kubectl, namespace, administrator
        self.editor = editor
        self.name = f"brought-{new_id().lower()}"

    def apply(self, system: Json, credential: Json, **values: str) -> str:
        """Returns the Connection's id, once REST knows Connection and Secret."""
        reference = {"secretRef": {"name": self.name}}
        secret = {"type": "tieline.dev/credential", "stringData": values}
        spec = {
            "name": self.name,
            "systemRef": {"name": system["id"].lower()},
            "credentials": [{**reference, **credential}],
        }
        for kind, version, more in (
            ("Secret", "v1", secret),
            ("Connection", "tieline.dev/v1alpha1", {"spec": spec}),
        ):
            obj = {"apiVersion": version, "kind": kind, "metadata": {"name": self.name}, **more}
            self._kubectl(
                *("apply", "--server-side", "--field-manager=git", "-f", "-"),
                namespace=self._namespace,
                stdin=json.dumps(obj),
            )
        return str(eventually("the connection known", self._found)["id"])

    def _found(self) -> Json | None:
        """Labels come from the operator, which does not run here: it is found by its name."""
        path = "/connections?first=200"
        items = self._administrator.ok("GET", path)["items"]
        return next((one for one in items if one["name"] == self.name), None)

    def grant(self, verb: str) -> None:
        """Lets the editor do something with the Secret."""
        role = {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "Role",
            "metadata": {"name": self.name},
            "rules": [
                {"apiGroups": [""], "resources": ["secrets"], "resourceNames": [self.name], "verbs": [verb]}
            ],
        }
        self._kubectl("create", "-f", "-", namespace=self._namespace, stdin=json.dumps(role))
        account = f"--serviceaccount={self._namespace}:deputy"
        binding = ("create", "rolebinding", self.name, f"--role={self.name}", account)
        self._kubectl(*binding, namespace=self._namespace)

    def refused(self, answer: Answer) -> None:
        assert (answer.status, answer.json["code"]) == (403, "forbidden"), answer.raw
        assert f"Secrets {self.name}:" in answer.json["message"]
        assert "Ask for a Role with the verb get or use on these secrets" in answer.json["message"]


@pytest.fixture
def brought(
    kubectl: Kubectl, client: Client, org: Organisation, token_for: Callable[..., str], first: Client
) -> Brought:
    editor = Client(first.url, token_for(org.namespace, "deputy", "tieline-editor"), org.id)
    editor.until_known()
    return Brought(kubectl, first, editor, org.namespace)


@pytest.mark.parametrize("verb", ["get", "use"])
def test_the_base_url_of_a_credential_of_git_is_changed_by_who_may_get_or_use_its_secret(
    client: Client, brought: Brought, verb: str
) -> None:
    identifier = brought.apply(
        make_system(client), {"id": "key", "type": "string", "authSchemeConfigId": "key"}, value="k"
    )
    path, moved = f"/connections/{identifier}", {"baseUrl": "https://elsewhere.example"}
    brought.refused(brought.editor("PUT", path, moved))
    brought.refused(brought.editor("PUT", path, {"variables": [{"name": "host", "value": "evil.example"}]}))
    assert "baseUrl" not in client.ok("GET", path)
    brought.grant(verb)
    changed = eventually(
        "the right known", lambda: (told := brought.editor("PUT", path, moved)).status == 200 and told
    )
    assert changed.json["baseUrl"] == moved["baseUrl"]


def test_fields_that_git_left_open_in_a_scheme_send_its_secret_nowhere(
    client: Client, brought: Brought
) -> None:
    grant = {"type": "authorizationCode", "authorizationCode": {"clientId": "app"}}
    scheme = {"id": "own", "type": "oauth2", "oauth2": {"tokenUrl": TOKEN_URL, "grant": grant}}
    credential = {"id": "own", "type": "oauth2-token", "authSchemeConfig": scheme}
    identifier = brought.apply(make_system(client), credential, refreshToken="r")
    more = {"type": "oauth2", "oauth2": {"id": "own", "tokenUrl": TOKEN_URL, "grant": grant}}
    same = {"credentials": [{"id": "own", "authSchemeConfig": more}]}
    answer = brought.editor("PUT", f"/connections/{identifier}", same)
    assert answer.status == 200, answer.raw
    more["oauth2"]["refreshUrl"] = ELSEWHERE
    brought.refused(brought.editor("PUT", f"/connections/{identifier}", same))


def test_a_part_of_a_credentials_values_does_not_bring_the_others_out_of_gits_secret(
    client: Client, brought: Brought
) -> None:
    system = make_system(client, [{"type": "basic-auth", "basicAuth": {"id": "login"}}])
    credential = {"id": "login", "type": "basic-auth", "authSchemeConfigId": "login"}
    identifier = brought.apply(system, credential, username="ann", password="p4ss")
    data = {"type": "basic-auth", "data": {"basicAuth": {"username": "mallory"}}}
    body = {"credentials": [{"id": "login", "credential": data}]}
    for person in (brought.editor, client):
        answer = person("PUT", f"/connections/{identifier}", body)
        assert (answer.status, answer.json["code"]) == (409, "conflict"), answer.raw
        assert f'in the Secret "{brought.name}", which "git" sets' in answer.json["message"]


def test_a_systems_scheme_of_git_is_changed_by_who_may_use_its_secret(
    kubectl: Kubectl, client: Client, org: Organisation
) -> None:
    grant = {"type": "authorizationCode", "authorizationCode": {"secretRef": {"name": "app-of-git"}}}
    scheme = {"id": "users", "type": "oauth2", "oauth2": {"tokenUrl": TOKEN_URL, "grant": grant}}
    name = new_id()
    system = {
        "apiVersion": "tieline.dev/v1alpha1",
        "kind": "System",
        "metadata": {"name": name.lower(), "labels": {"tieline.dev/id": name}},
        "spec": {
            "name": "Shop",
            "domain": "shop.example",
            "templateBaseUrl": "https://shop.example",
            "authSchemeConfigs": [scheme],
        },
    }
    manager = ("--server-side", "--field-manager=git")
    kubectl("apply", *manager, "-f", "-", namespace=org.namespace, stdin=json.dumps(system))
    path = f"/systems/{name}"
    eventually("the system known", lambda: client("GET", path).status == 200)
    body = {
        "type": "oauth2",
        "oauth2": {
            "id": "users",
            "tokenUrl": TOKEN_URL,
            "refreshUrl": ELSEWHERE,
            "grant": {"type": "authorizationCode", "authorizationCode": {}},
        },
    }
    answer = client("PUT", f"{path}/auth-scheme-configs/users", body)
    assert (answer.status, answer.json["code"]) == (403, "forbidden"), answer.raw
    assert "Secrets app-of-git:" in answer.json["message"]


def test_what_came_by_rest_belongs_to_its_connection(first: Client, brought: Brought) -> None:
    """An editor who may not read any Secret goes on changing connections of REST as before."""
    _, template = make_template(first)
    made = connect(first, template, "k")
    answer = brought.editor("PUT", f"/connections/{made['id']}", {"baseUrl": "https://other.shop.example"})
    assert (answer.status, answer.json.get("baseUrl")) == (200, "https://other.shop.example"), answer.raw
    # Its credential's id gives no other connection its values.
    stolen = {
        "id": "key",
        "authSchemeConfig": made["credentials"][0]["authSchemeConfig"],
        "credential": {"id": made["credentials"][0]["credential"]["id"], "type": "string"},
    }
    body = {
        "connectionTemplateId": template["connectionTemplateId"],
        "connection": {"name": "Stolen", "credentials": [stolen], "baseUrl": "https://elsewhere.example"},
    }
    answer = brought.editor("POST", "/connections", body)
    assert (answer.status, answer.fields) == (422, ["connection.credentials[0].credential.data"]), answer.raw


def test_a_scheme_of_ones_own_borrows_no_client_of_another_connection(
    client: Client, first: Client, brought: Brought
) -> None:
    lent = new_id()
    credential = {"id": "client", "type": "oauth2-client", "credentialId": lent, "authSchemeConfigId": "key"}
    brought.apply(make_system(client), credential, clientId="app", clientSecret="s3cret")
    _, template = make_template(first)
    client_of_another = {"credentialId": lent, "organisationId": client.organisation}
    scheme = {
        "type": "oauth2",
        "oauth2": {
            "id": "own",
            "tokenUrl": ELSEWHERE,
            "grant": {"type": "password", "password": client_of_another},
        },
    }
    password = {"type": "oauth2-password", "data": {"oauth2Password": {"username": "m", "password": "m"}}}
    body = {
        "connectionTemplateId": template["connectionTemplateId"],
        "connection": {
            "name": "Borrowing",
            "credentials": [{"id": "own", "authSchemeConfig": scheme, "credential": password}],
        },
    }
    made = brought.editor.ok("POST", "/connections", body, status=201)
    (error,) = made["credentials"][0]["credential"]["errors"]
    assert error.startswith("tokenUrl is not one that the credential's owner has granted")


def test_an_authorisation_takes_no_client_of_git_to_a_url_of_the_connections_own(
    client: Client, brought: Brought
) -> None:
    grant = {"type": "authorizationCode", "authorizationCode": {"clientId": "app"}}
    users = {"type": "oauth2", "oauth2": {"id": "users", "tokenUrl": TOKEN_URL, "grant": grant}}
    system, lent = make_system(client, [users]), new_id()
    item = {"id": "client", "type": "oauth2-client", "credentialId": lent, "authSchemeConfigId": "users"}
    identifier = brought.apply(system, item, clientId="app", clientSecret="s3cret")
    begin = {
        "credential": {"id": lent, "organisationId": client.organisation},
        "authorizeUrl": "https://login.shop.example/authorize",
        "clientId": "app",
    }
    url = brought.editor.ok("POST", f"/systems/{system['id']}/oauth2/initialise", begin)["url"]
    [state] = parse_qs(urlsplit(url).query)["state"]
    scheme = {"type": "oauth2", "oauth2": {"id": "own", "tokenUrl": ELSEWHERE, "grant": grant}}
    code = {"type": "oauth2-code", "data": {"oauth2Code": {"code": "c", "state": state}}}
    own = {"id": "own", "authSchemeConfig": scheme, "credential": code}
    answer = brought.editor("PUT", f"/connections/{identifier}", {"credentials": [{"id": "client"}, own]})
    assert answer.status == 422, answer.raw
    assert f"its secret may be sent to {TOKEN_URL} only" in answer.raw.decode()


def test_an_authorisation_signs_as_no_client_of_git_that_the_scheme_in_the_request_names(
    client: Client, brought: Brought, signing: OAuth1Provider
) -> None:
    system, lent, login = make_system(client), new_id(), new_id()
    item = {"id": "client", "type": "oauth2-client", "credentialId": lent, "authSchemeConfigId": "key"}
    identifier = brought.apply(system, item, clientId="app", clientSecret="s3cret")
    scheme = signing.scheme("mine")
    scheme["oauth1"].pop("consumerSecret", None)
    signed = {"id": login, "type": "oauth1", "data": {"oauth1": {"oauthToken": "t"}}}
    own = {"id": "login", "authSchemeConfig": scheme, "credential": signed}
    stored = brought.editor("PUT", f"/connections/{identifier}", {"credentials": [{"id": "client"}, own]})
    assert stored.status == 200, stored.raw
    scheme["oauth1"] = {**scheme["oauth1"], "signatureMethod": "PLAINTEXT", "credentialId": lent}
    body = {
        "credential": {"id": login, "organisationId": client.organisation},
        "params": {"shop": "north"},
        "authSchemeConfig": {**scheme, "oauth1": {**scheme["oauth1"], "id": "mine2"}},
    }
    brought.refused(brought.editor("POST", f"/systems/{system['id']}/oauth1/initialise", body))
    assert signing.seen == []


def test_an_authorisation_that_names_its_own_endpoints_signs_with_no_consumer_of_git(
    client: Client, brought: Brought, signing: OAuth1Provider
) -> None:
    of_system = {"type": "oauth1", "oauth1": {"id": "old", "consumerKey": "k"}}
    system = make_system(client, [of_system])
    lent = new_id()
    credential = {"id": "old", "type": "oauth1", "credentialId": lent, "authSchemeConfigId": "old"}
    brought.apply(system, credential, consumerSecret="cs", oauthToken="t")
    scheme = signing.scheme("mine")
    scheme["oauth1"] = {**scheme["oauth1"], "signatureMethod": "PLAINTEXT"}
    scheme["oauth1"].pop("consumerSecret", None)
    named = {"id": lent, "organisationId": client.organisation}
    body = {"credential": named, "params": {"shop": "north"}, "authSchemeConfig": scheme}
    brought.refused(brought.editor("POST", f"/systems/{system['id']}/oauth1/initialise", body))
    assert signing.seen == []
