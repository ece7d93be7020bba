"""What end users' own tokens reach: the whole table of operations, and others' ids wherever an id fits."""

import json
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.harness.clients import typed_client
from tests.harness.cluster.kubectl import Organisation
from tests.harness.session.waiting import eventually
from tests.integration.api.conftest import Answer, Client, Server
from tests.integration.api.objects import API_KEY, activate, key, make_project, make_system, make_template
from tieline_api.handlers import OPERATIONS
from tieline_api.http.operation import Operation
from tieline_core.identity.ids import new_id, static_activation_id

pytestmark = pytest.mark.cluster

# What end users may do at all; everything else is closed, a new operation too.
_OPEN = """
    getMe createUser getUser activateUser getActivation deleteActivation listUserActivations getActivationConnection
    updateActivationVariables setActivationVariable listConnections createConnection getConnection updateConnection
    deleteConnection initialiseOAuth2 initialiseOAuth1 listConnectionTemplates listEnvironmentSystems
    getVariablesSchema getCurrentConnectSession endCurrentConnectSession testConnection
"""
MAY = set(_OPEN.split())
ISSUER = "https://users.example"
PRIVATE = rsa.generate_private_key(public_exponent=65537, key_size=2048)
OAUTH = {
    "type": "oauth2",
    "oauth2": {
        "id": "code",
        "authorizeUrl": "https://shop.example/authorize",
        "tokenUrl": "https://shop.example/token",
        "defaultScopes": [],
        "tokenRequestParameters": "body",
        "grant": {
            "type": "authorizationCode",
            "authorizationCode": {"clientId": "app", "clientSecret": "s3cr3t"},
        },
    },
}
KINDS = ("session", "jwt")


@pytest.fixture(scope="module")
def trusting(
    api_kubeconfig: Path, org: Organisation, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """A server that trusts an issuer of end users, for one organisation."""
    folder = tmp_path_factory.mktemp("issuers")
    public = jwt.algorithms.RSAAlgorithm.to_jwk(PRIVATE.public_key(), as_dict=True)
    (folder / "jwks.json").write_text(json.dumps({"keys": [{**public, "kid": "one"}]}))
    issuer = {
        "issuer": ISSUER,
        "jwksFile": str(folder / "jwks.json"),
        "audiences": ["tieline"],
        "endUsers": True,
        "organisations": [org.id],
    }
    (folder / "issuers.json").write_text(json.dumps([issuer]))
    with Server(api_kubeconfig, issuers_file=str(folder / "issuers.json")) as started:
        yield started


def user_token(subject: str, **claims: Any) -> str:
    """A JWT of an end user."""
    payload = {"iss": ISSUER, "aud": "tieline", "sub": subject, "exp": time.time() + 300, **claims}
    return jwt.encode(payload, PRIVATE, algorithm="RS256", headers={"kid": "one"})


@dataclass(frozen=True)
class Scene:
    """An environment with two users, Ann and Bob, and another project with its own."""

    admin: Client
    project: dict[str, Any]
    environment: str
    shop: dict[str, Any]
    """A dynamic template."""
    other: dict[str, Any]
    """Another dynamic template of the environment."""
    static: dict[str, Any]
    foreign: dict[str, Any]
    """A dynamic template of the other project."""
    elsewhere: dict[str, Any]
    """The other project."""
    ann: dict[str, Any]
    anns: dict[str, Any]
    """Ann's activation."""
    bob: dict[str, Any]
    bobs: dict[str, Any]
    everybodys: dict[str, Any]
    """A connection of the organisation itself."""

    @property
    def ann_connection(self) -> str:
        return str(self.anns["connections"][0]["id"])

    @property
    def bob_connection(self) -> str:
        return str(self.bobs["connections"][0]["id"])


@pytest.fixture(scope="module")
def scene(trusting: Server, client: Client) -> Scene:
    admin = replace(client, url=trusting.url)
    project = make_project(admin)
    environment = project["environments"][0]["id"]
    schemes = [API_KEY, OAUTH]
    _, shop = make_template(admin, project=project, dynamic=True, schemes=schemes)
    _, other = make_template(admin, project=project, name="other", dynamic=True, schemes=schemes)
    _, static = make_template(admin, project=project, name="static", system=shop["id"])
    elsewhere, foreign = make_template(admin, dynamic=True, schemes=schemes)
    ann, anns = activate(admin, project, shop, "of-ann")
    bob, bobs = activate(admin, project, shop, "of-bob")
    body = {
        "connectionTemplateId": static["connectionTemplateId"],
        "connection": {"name": "Everybody's", "credentials": [key("of-everybody")]},
    }
    everybodys = admin.ok("POST", "/connections", body, status=201)
    return Scene(
        admin, project, environment, shop, other, static, foreign, elsewhere, ann, anns, bob, bobs, everybodys
    )  # fmt: skip


def begin(scene: Scene, user: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A new session of a user."""
    body = {"user": {"externalId": user["externalId"]}, "environmentId": scene.environment, **more}
    made: dict[str, Any] = scene.admin.ok("POST", "/connect-sessions", body, status=201)
    return made


@pytest.fixture(scope="module")
def anns_clients(scene: Scene) -> dict[str, Client]:
    """Ann by a token of each kind."""
    tokens = {"session": begin(scene, scene.ann)["token"], "jwt": user_token(scene.ann["externalId"])}
    return {kind: replace(scene.admin, token=token) for kind, token in tokens.items()}


@pytest.fixture(params=KINDS)
def ann(request: pytest.FixtureRequest, anns_clients: dict[str, Client]) -> Client:
    """Ann herself."""
    return anns_clients[request.param]


def test_what_end_users_may_do_is_what_the_rows_say() -> None:
    assert {operation.id for operation in OPERATIONS if operation.end_user is not None} == MAY


@pytest.mark.parametrize(
    "operation", [one for one in OPERATIONS if one.id not in MAY], ids=lambda operation: operation.id
)
def test_everything_else_is_forbidden_whatever_it_names(
    ann: Client, scene: Scene, operation: Operation
) -> None:
    ids = {
        "organisation_id": scene.admin.organisation,
        "project_id": scene.project["id"],
        "environment_id": scene.environment,
        "activation_id": scene.anns["id"],
        "connection_id": scene.ann_connection,
        "user_id": scene.ann["id"],
        "system_id": scene.shop["id"],
        "template_id": scene.shop["connectionTemplateId"],
    }
    path = re.sub(r"\{(\w+)\}", lambda found: ids.get(found[1], new_id()), operation.path)
    answer = ann.at(path, method=operation.method, body={})
    assert answer.status == 403
    if operation.method != "HEAD":
        assert answer.json["code"] == "forbidden"
        assert answer.json["message"].startswith("End users may not do this")


@pytest.mark.parametrize(
    "operation",
    [one for one in OPERATIONS if one.id in MAY and "{organisation_id}" in one.path],
    ids=lambda operation: operation.id,
)
def test_other_organisations_are_not_there(ann: Client, neighbour: Client, operation: Operation) -> None:
    def asked(organisation: str) -> Answer:
        path = operation.path.replace("{organisation_id}", organisation)
        return ann.at(re.sub(r"\{\w+\}", new_id(), path), method=operation.method, body={})

    theirs, missing = asked(neighbour.organisation), asked(unknown := new_id())
    assert theirs.status == 404
    assert theirs.raw.decode().replace(neighbour.organisation, unknown) == missing.raw.decode()


def test_they_are_told_who_they_are_and_nothing_of_the_cluster(ann: Client, scene: Scene) -> None:
    me = ann.at("/api/v2/me").json
    assert (me["kind"], me["externalId"], me["groups"]) == ("endUser", scene.ann["externalId"], [])
    assert me["organisations"] == [
        {"id": ann.organisation, "name": ann.organisation, "namespace": "", "role": "endUser"}
    ]


def test_they_see_their_own(ann: Client, scene: Scene) -> None:
    user = scene.ann["externalId"]
    quoted = user.replace("/", "%2F").replace(" ", "%20").replace("ü", "%C3%BC")
    listed = ann.ok("GET", f"/environment/{scene.environment}/users/{quoted}/activations")
    assert [one["id"] for one in listed] == [scene.anns["id"]]
    assert [one["id"] for one in ann.ok("GET", "/connections")["items"]] == [scene.ann_connection]
    assert ann.ok("GET", f"/users/{quoted}")["id"] == scene.ann["id"]
    assert ann.ok("GET", f"/users/{scene.ann['id']}")["externalId"] == user
    activation = f"/environments/{scene.environment}/activations/{scene.anns['id']}"
    assert ann.ok("GET", activation)["connections"][0]["id"] == scene.ann_connection
    assert ann.ok("GET", f"/connections/{scene.ann_connection}")["name"] == f"Of {scene.ann['id']}"
    template = scene.shop["connectionTemplateId"]
    used = ann.ok("GET", f"/environment-systems/{template}/activations/{scene.anns['id']}")
    assert used["id"] == scene.ann_connection
    assert ann.ok("GET", f"/projects/{scene.project['id']}/variables")["type"] == "object"
    assert ann.ok("PATCH", f"{activation}/variables", {"region": "eu"}) == {"region": "eu"}
    assert ann.ok("PUT", f"{activation}/variables/region", {"value": "us"}) == {"region": "us"}


def test_they_learn_of_an_environment_its_name_and_not_how_it_runs(ann: Client, scene: Scene) -> None:
    admin, project = scene.admin, scene.project["id"]
    config = {"env": [{"name": "INTERNAL", "value": "not-for-users"}], "image": "registry.example/own:1"}
    assert admin("PUT", f"/environments/{scene.environment}/config", config).status == 204
    shown = ann.ok("GET", f"/environments/{scene.environment}/activations/{scene.anns['id']}")
    assert shown["environment"]["config"] == {"deploymentSpec": {"replicas": 1, "resources": {}}}
    assert shown["environment"]["publicUrl"] == ""
    for path in (f"/projects/{project}/systems", f"/environments/{scene.environment}/activations"):
        assert "not-for-users" not in ann("GET", path).raw.decode()


def test_of_templates_they_see_those_that_users_connect(ann: Client, scene: Scene) -> None:
    for words in ("connection-templates", "systems"):
        path = f"/projects/{scene.project['id']}/{words}?env_id={scene.environment}"
        shown = {one["connectionTemplateId"] for one in ann.ok("GET", path)["items"]}
        assert shown == {scene.shop["connectionTemplateId"], scene.other["connectionTemplateId"]}


Attack = Callable[[Scene, "dict[str, str]"], tuple[str, str, Any]]


def _activation(scene: Scene, **more: Any) -> dict[str, Any]:
    return {"userId": scene.ann["id"], "environmentId": scene.environment, "connections": [], **more}


def _new(**more: Any) -> dict[str, Any]:
    return {"name": new_id(), "credentials": [key("k")], **more}


def _initialise(credential: str, **more: Any) -> dict[str, Any]:
    return {
        "credential": {"id": credential, "organisationId": None},
        "authorizeUrl": "https://shop.example/authorize",
        "clientId": "app",
        **more,
    }


def _credential(scene: Scene, activation: dict[str, Any]) -> str:
    return str(activation["connections"][0]["credentials"][0]["credential"]["id"])


def _existing(scene: Scene, template: dict[str, Any], connection: str) -> dict[str, Any]:
    given = {"connectionTemplateId": template["connectionTemplateId"], "existingConnectionId": connection}
    return _activation(scene, connections=[given])


def _created(scene: Scene, template: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"connectionTemplateId": template["connectionTemplateId"], "connection": _new(**more)}


# Where somebody else's id fits, and the same request with an id that nobody has: the answers must not differ.
OTHERS: dict[str, Callable[[Scene, str], tuple[str, str, Any]]] = {
    "getUser": lambda s, x: ("GET", f"/users/{x or s.bob['id']}", None),
    "listUserActivations": lambda s, x: (
        "GET", f"/environment/{s.environment}/users/{x or s.bob['id']}/activations", None,
    ),
    "getActivation": lambda s, x: (
        "GET", f"/environments/{s.environment}/activations/{x or s.bobs['id']}", None,
    ),
    "getActivation static": lambda s, x: (
        "GET", f"/environments/{s.environment}/activations/{x or static_activation_id(s.environment)}", None,
    ),
    "deleteActivation": lambda s, x: (
        "DELETE", f"/environments/{s.environment}/activations/{x or s.bobs['id']}", None,
    ),
    "updateActivationVariables": lambda s, x: (
        "PATCH", f"/environments/{s.environment}/activations/{x or s.bobs['id']}/variables", {"a": 1},
    ),
    "updateActivationVariables static": lambda s, x: (
        "PATCH",
        f"/environments/{s.environment}/activations/{x or static_activation_id(s.environment)}/variables",
        {"a": 1},
    ),
    "setActivationVariable": lambda s, x: (
        "PUT", f"/environments/{s.environment}/activations/{x or s.bobs['id']}/variables/a", {"value": 1},
    ),
    "getActivationConnection": lambda s, x: (
        "GET", f"/environment-systems/{s.shop['connectionTemplateId']}/activations/{x or s.bobs['id']}", None,
    ),
    "getActivationConnection static template": lambda s, x: (
        "GET",
        f"/environment-systems/{x or s.static['connectionTemplateId']}/activations/{s.anns['id']}",
        None,
    ),
    "listConnections": lambda s, x: ("GET", f"/connections?end_user_id={x or s.bob['id']}", None),
    "getConnection": lambda s, x: ("GET", f"/connections/{x or s.bob_connection}", None),
    "getConnection of everybody": lambda s, x: ("GET", f"/connections/{x or s.everybodys['id']}", None),
    "updateConnection": lambda s, x: ("PUT", f"/connections/{x or s.bob_connection}", {"name": "Mine"}),
    "updateConnection of everybody": lambda s, x: (
        "PUT", f"/connections/{x or s.everybodys['id']}", {"name": "Mine"},
    ),
    "deleteConnection": lambda s, x: ("DELETE", f"/connections/{x or s.bob_connection}", None),
    "deleteConnection of everybody": lambda s, x: ("DELETE", f"/connections/{x or s.everybodys['id']}", None),
    "testConnection": lambda s, x: ("POST", f"/connections/{x or s.bob_connection}/test", {}),
    "testConnection of everybody": lambda s, x: (
        "POST", f"/connections/{x or s.everybodys['id']}/test", {},
    ),
    "createConnection static template": lambda s, x: (
        "POST",
        "/connections",
        _created(s, {"connectionTemplateId": x or s.static["connectionTemplateId"]}, name="A"),
    ),
    "createConnection user": lambda s, x: (
        "POST", "/connections", _created(s, s.shop, name="A", externalId=x or s.bob["id"]),
    ),
    "activateUser": lambda s, x: ("POST", "/activations", _activation(s, userId=x or s.bob["id"])),
    "activateUser static template": lambda s, x: (
        "POST",
        "/activations",
        _activation(
            s, connections=[_created(s, {"connectionTemplateId": x or s.static["connectionTemplateId"]}, name="A")]
        ),
    ),
    "activateUser foreign template": lambda s, x: (
        "POST",
        "/activations",
        _activation(
            s, connections=[_created(s, {"connectionTemplateId": x or s.foreign["connectionTemplateId"]}, name="A")]
        ),
    ),
    "activateUser connection": lambda s, x: (
        "POST", "/activations", _existing(s, s.shop, x or s.bob_connection),
    ),
    "activateUser connection of everybody": lambda s, x: (
        "POST", "/activations", _existing(s, s.shop, x or s.everybodys["id"]),
    ),
    "activateUser nested user": lambda s, x: (
        "POST",
        "/activations",
        _activation(s, connections=[_created(s, s.shop, name="A", externalId=x or s.bob["id"])]),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", OTHERS)
def test_what_is_others_is_answered_as_what_does_not_exist(ann: Client, scene: Scene, case: str) -> None:
    unknown = new_id()
    before = scene.admin.ok("GET", f"/connections/{scene.bob_connection}")
    real, missing = (ann(*OTHERS[case](scene, given)) for given in ("", unknown))
    assert real.status in (404, 422), real.raw
    assert real.status == missing.status
    # The id is repeated in both answers; nothing else may tell them apart.
    assert re.sub(r"[0-9A-Z]{26}", "ID", real.raw.decode()) == re.sub(
        r"[0-9A-Z]{26}", "ID", missing.raw.decode()
    )
    assert scene.admin.ok("GET", f"/connections/{scene.bob_connection}") == before
    assert scene.admin.ok("GET", f"/environments/{scene.environment}/activations/{scene.bobs['id']}")


@pytest.mark.parametrize("whose", ["bob", "everybody"])
def test_an_authorisation_is_for_their_own_credentials_alone(ann: Client, scene: Scene, whose: str) -> None:
    credential = (
        _credential(scene, scene.bobs)
        if whose == "bob"
        else scene.everybodys["credentials"][0]["credential"]["id"]
    )
    path = f"/systems/{scene.shop['id']}/oauth2/initialise"
    refused = ann("POST", path, _initialise(credential))
    assert (refused.status, refused.fields) == (422, ["credential.id"])
    assert ann("POST", path, _initialise(new_id())).status == 200


def test_an_authorisation_leads_where_the_system_says(ann: Client, scene: Scene) -> None:
    path = f"/systems/{scene.shop['id']}/oauth2/initialise"
    refused = ann("POST", path, _initialise(new_id(), authorizeUrl="https://evil.example/authorize"))
    assert (refused.status, refused.fields) == (422, ["authorizeUrl"])
    inline = ann("POST", path, _initialise(new_id(), authSchemeConfig=OAUTH))
    assert (inline.status, inline.fields) == (422, ["authSchemeConfig"])
    static = make_system(scene.admin, [OAUTH])
    assert ann("POST", f"/systems/{static['id']}/oauth2/initialise", _initialise(new_id())).status == 404


CHANGED = {"type": "api-key", "apiKey": {"id": "key", "name": "X-API-Key", "in": "query"}}
OWN_SCHEME = {"type": "api-key", "apiKey": {"id": "mine", "name": "X-Mine", "in": "query"}}


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"baseUrl": "http://169.254.169.254"}, "baseUrl"),
        ({"variables": [{"name": "host", "value": "evil.example"}]}, "variables[0]"),
        ({"limits": {"concurrency": 1}}, "limits"),
        ({"credentials": [{**key("k"), "authSchemeConfig": OWN_SCHEME}]}, "credentials[0].authSchemeConfig"),
        ({"credentials": [{**key("k"), "authSchemeConfig": CHANGED}]}, "credentials[0].authSchemeConfig"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("how", ["create", "activate", "update"])
def test_they_bring_credentials_and_no_addresses_or_schemes_of_their_own(
    ann: Client, scene: Scene, how: str, more: dict[str, Any], field: str
) -> None:
    if how == "update":
        answer = ann("PUT", f"/connections/{scene.ann_connection}", more)
        prefix = ""
    elif how == "create":
        answer = ann("POST", "/connections", _created(scene, scene.other, **more))
        prefix = "connection."
    else:
        answer = ann(
            "POST", "/activations", _activation(scene, connections=[_created(scene, scene.other, **more)])
        )
        prefix = "connections[0].connection."
    assert (answer.status, answer.fields) == (422, [f"{prefix}{field}"]), answer.raw


def test_a_credential_takes_nobodys_id(ann: Client, scene: Scene) -> None:
    system = scene.admin.ok("GET", f"/systems/{scene.shop['id']}")
    client_id = system["authSchemeConfigs"][1]["oauth2"]["grant"]["authorizationCode"]["credentialId"]
    for taken in (_credential(scene, scene.bobs), client_id):
        credential = {**key("k"), "credential": {"id": taken, **key("k")["credential"]}}
        answer = ann("POST", "/connections", _created(scene, scene.other, credentials=[credential]))
        assert (answer.status, answer.fields) == (422, ["connection.credentials[0].credential.id"]), (
            answer.raw
        )


def test_what_they_read_they_may_write_back(ann: Client, scene: Scene) -> None:
    path = f"/connections/{scene.ann_connection}"
    read = ann.ok("GET", path)
    assert ann.ok("PUT", path, read)["credentials"] == read["credentials"]


def test_a_user_connects_and_disconnects(trusting: Server, scene: Scene, client: Client) -> None:
    name = f"customer-{new_id()}"
    user = replace(client, url=trusting.url, token=user_token(name))
    assert user.ok("GET", f"/environment/{scene.environment}/users/{name}/activations") == []
    assert user("POST", "/users", {"externalId": "somebody-else"}).status == 422
    user.ok("POST", "/users", {"externalId": name}, status=201)
    given = [_created(scene, template) for template in (scene.shop, scene.other)]
    body = {"userId": name, "environmentId": scene.environment, "connections": given}
    made = user.ok("POST", "/activations", body)
    assert len(made["connections"]) == 2
    alone = user.ok("POST", "/connections", _created(scene, scene.shop), status=201)
    listed = {one["id"] for one in user.ok("GET", "/connections")["items"]}
    assert listed == {alone["id"], *(one["id"] for one in made["connections"])}
    assert scene.admin.ok("GET", f"/connections?end_user_id={name}")["totalCount"] == 3
    user.ok("DELETE", f"/connections/{alone['id']}", status=204)
    user.ok("DELETE", f"/environments/{scene.environment}/activations/{made['id']}")
    assert user.ok("GET", f"/environment/{scene.environment}/users/{name}/activations") == []


def test_a_subject_that_is_the_id_of_another_user_is_nobody(scene: Scene) -> None:
    posing = replace(scene.admin, token=user_token(scene.bob["id"]))
    assert posing("GET", f"/users/{scene.bob['id']}").status == 404
    assert posing("GET", "/connections").status == 404
    path = f"/environments/{scene.environment}/activations/{scene.bobs['id']}"
    assert posing("GET", path).status == 404
    assert posing("POST", "/activations", _activation(scene, userId=scene.bob["id"])).status == 404


# --- sessions -------------------------------------------------------------------------------------------


def test_a_session_is_good_for_its_environment_and_templates_alone(scene: Scene) -> None:
    admin = scene.admin
    named = begin(scene, scene.ann, templates=[scene.other["connectionTemplateId"]])
    ann = replace(admin, token=named["token"])
    assert ann("GET", f"/connections/{scene.ann_connection}").status == 404, "it is for another template"
    assert ann("POST", "/connections", _created(scene, scene.shop)).status == 404
    made = ann.ok("POST", "/connections", _created(scene, scene.other), status=201)
    assert [one["id"] for one in ann.ok("GET", "/connections")["items"]] == [made["id"]]
    elsewhere = scene.elsewhere["environments"][0]["id"]
    _, theirs = activate(admin, scene.elsewhere, scene.foreign, "k")
    for path in (
        f"/environments/{elsewhere}/activations/{theirs['id']}",
        f"/projects/{scene.elsewhere['id']}/variables",
        f"/projects/{scene.elsewhere['id']}/systems",
    ):
        assert ann("GET", path).status == 404
    assert ann("POST", "/connections", _created(scene, scene.foreign)).status == 404
    answer = ann("POST", "/activations", _activation(scene, environmentId=elsewhere))
    assert (answer.status, answer.fields) == (422, ["environmentId"])


def test_a_session_to_connect_again_reaches_that_connection_alone(scene: Scene) -> None:
    more = scene.admin.ok(
        "POST", "/connections", _created(scene, scene.other, externalId=scene.ann["externalId"]), status=201
    )
    ann = replace(scene.admin, token=begin(scene, scene.ann, connection=scene.ann_connection)["token"])
    assert [one["id"] for one in ann.ok("GET", "/connections")["items"]] == [scene.ann_connection]
    assert ann("GET", f"/connections/{more['id']}").status == 404
    assert ann("PUT", f"/connections/{scene.ann_connection}", {"credentials": [key("new")]}).status == 200
    assert ann("DELETE", f"/connections/{scene.ann_connection}").status == 403
    assert ann("POST", "/connections", _created(scene, scene.shop)).status == 403
    assert ann("POST", "/activations", _activation(scene)).status == 403


def test_a_session_can_be_listed_and_revoked_and_its_token_is_shown_once(scene: Scene) -> None:
    made = begin(scene, scene.ann, allowedOrigins=["https://App.example:443"])
    ann = replace(scene.admin, token=made["token"])
    assert ann("GET", "/connections").status == 200
    shown = scene.admin.ok("GET", f"/connect-sessions/{made['id']}")
    assert shown["allowedOrigins"] == ["https://app.example"]
    assert shown["user"]["externalId"] == scene.ann["externalId"]
    listed = scene.admin("GET", "/connect-sessions?first=200")
    assert made["id"] in {one["id"] for one in listed.json["items"]}
    assert made["token"] not in listed.raw.decode()
    scene.admin.ok("DELETE", f"/connect-sessions/{made['id']}", status=204)
    assert ann("GET", "/connections").status == 401
    assert scene.admin("GET", f"/connect-sessions/{made['id']}").status == 404
    assert scene.admin("DELETE", f"/connect-sessions/{made['id']}").status == 404


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"environmentId": "01JD3Y9D3E5TQ0M3H7RS8XA1BG"}, "environmentId"),
        ({"templates": ["static"]}, "templates[0]"),
        ({"templates": ["foreign"]}, "templates[0]"),
        ({"connection": "bob"}, "connection"),
        ({"connection": "everybody"}, "connection"),
        ({"allowedOrigins": ["https://app.example/path"]}, "allowedOrigins[0]"),
        ({"allowedOrigins": ["*"]}, "allowedOrigins[0]"),
        ({"allowedOrigins": ["null"]}, "allowedOrigins[0]"),
        ({"returnUrl": "javascript:alert(1)"}, "returnUrl"),
        ({"returnUrl": "https://a:b@evil.example/"}, "returnUrl"),
        ({"expiresIn": 59}, "expiresIn"),
        ({"expiresIn": 14401}, "expiresIn"),
        ({"user": {"externalId": ""}}, "user.externalId"),
    ],
)
def test_a_session_that_cannot_be_is_refused_at_its_field(
    scene: Scene, more: dict[str, Any], field: str
) -> None:
    ids = {
        "static": scene.static["connectionTemplateId"],
        "foreign": scene.foreign["connectionTemplateId"],
        "bob": scene.bob_connection,
        "everybody": scene.everybodys["id"],
    }
    given = json.loads(
        re.sub(r'"(static|foreign|bob|everybody)"', lambda m: f'"{ids[m[1]]}"', json.dumps(more))
    )
    body = {"user": {"externalId": scene.ann["externalId"]}, "environmentId": scene.environment, **given}
    answer = scene.admin("POST", "/connect-sessions", body)
    assert (answer.status, answer.fields) == (422, [field]), answer.raw


def test_a_session_may_be_used_from_its_origins_alone(scene: Scene) -> None:
    made = begin(scene, scene.ann, allowedOrigins=["https://mine.example"])
    ann = replace(scene.admin, token=made["token"])
    good = ann("GET", "/connections", Origin="https://mine.example")
    assert (good.status, good.headers["Access-Control-Allow-Origin"]) == (200, "https://mine.example")
    for origin in ("https://other.example", "https://app.example", "null"):
        refused = ann("GET", "/connections", Origin=origin)
        assert refused.status == 403
        assert "Access-Control-Allow-Origin" not in refused.headers
    preflight = {"Origin": "https://mine.example", "Access-Control-Request-Method": "PUT"}
    asked = ann.at("/api/v2/me", method="OPTIONS", **preflight)
    assert asked.headers["Access-Control-Allow-Origin"] == "https://mine.example"
    admins = scene.admin("GET", "/connections", Origin="https://mine.example")
    assert "Access-Control-Allow-Origin" not in admins.headers, "the origin is the session's alone"
    scene.admin.ok("DELETE", f"/connect-sessions/{made['id']}", status=204)


def test_a_page_learns_all_that_its_user_can_connect_and_has(scene: Scene) -> None:
    made = begin(scene, scene.ann, returnUrl="https://app.example/done")
    ann = replace(scene.admin, token=made["token"])
    shown = ann.at("/api/v2/connect/session")
    assert shown.status == 200, shown.raw
    page = shown.json
    typed_client.ANSWERS["getCurrentConnectSession"].model_validate_json(shown.raw)
    assert (page["id"], page["organisationId"]) == (made["id"], ann.organisation)
    assert page["user"] == {"externalId": scene.ann["externalId"], "displayName": "Ann"}
    assert page["environment"]["id"] == scene.environment
    assert page["returnUrl"] == "https://app.example/done"
    templates = {one["connectionTemplateId"] for one in page["templates"]}
    assert templates == {scene.shop["connectionTemplateId"], scene.other["connectionTemplateId"]}
    listed = ann.ok("GET", "/connections?first=200")["items"]
    assert sorted(one["id"] for one in page["connections"]) == sorted(one["id"] for one in listed)
    assert page["activation"]["id"] == scene.anns["id"]
    assert page["activation"]["environment"]["publicUrl"] == ""
    assert page["variablesSchema"]["type"] == "object"
    for secret in ("s3cr3t", scene.bob["id"], scene.bob_connection, scene.everybodys["id"]):
        assert secret not in shown.raw.decode()


def test_a_page_for_one_connection_shows_its_system_alone(scene: Scene) -> None:
    ann = replace(scene.admin, token=begin(scene, scene.ann, connection=scene.ann_connection)["token"])
    page = ann.at("/api/v2/connect/session").json
    assert page["connection"] == scene.ann_connection
    assert [one["connectionTemplateId"] for one in page["templates"]] == [scene.shop["connectionTemplateId"]]
    assert [one["id"] for one in page["connections"]] == [scene.ann_connection]


def test_only_a_session_has_a_page_and_its_user_can_end_it(
    scene: Scene, anns_clients: dict[str, Client]
) -> None:
    for nobody in (scene.admin, anns_clients["jwt"]):
        assert nobody.at("/api/v2/connect/session").status == 403
        assert nobody.at("/api/v2/connect/session", method="DELETE").status == 403
    made = begin(scene, scene.ann)
    ann = replace(scene.admin, token=made["token"])
    assert ann.at("/api/v2/connect/session", method="DELETE").status == 204
    assert ann.at("/api/v2/connect/session").status == 401
    assert scene.admin("GET", f"/connect-sessions/{made['id']}").status == 404


def test_a_session_ends_with_its_user(scene: Scene) -> None:
    user = {"externalId": f"passing-{new_id()}"}
    ann = replace(scene.admin, token=begin(scene, user)["token"])
    assert ann("GET", "/connections").status == 200
    assert scene.admin("DELETE", f"/users/{user['externalId']}").status == 204
    assert ann("POST", "/users", user).status == 401, "a session does not make its user again"
    assert ann("POST", "/connections", _created(scene, scene.shop)).status == 401
    eventually("the session gone", lambda: ann("GET", "/connections").status == 401)


def test_another_replica_knows_a_session_at_once(scene: Scene, server: Server) -> None:
    for _ in range(5):
        token = begin(scene, scene.ann)["token"]
        assert replace(scene.admin, url=server.url, token=token)("GET", "/connections").status == 200


def test_an_editor_may_begin_sessions_and_a_viewer_may_not(
    scene: Scene, org: Organisation, token_for: Callable[..., str]
) -> None:
    for role, status in (("tieline-editor", 201), ("tieline-viewer", 403)):
        caller = replace(scene.admin, token=token_for(org.namespace, f"sessions-{role}", role))
        body = {"user": {"externalId": scene.ann["externalId"]}, "environmentId": scene.environment}
        assert (
            eventually(
                "a role",
                lambda c=caller, b=body: (a := c("POST", "/connect-sessions", b)).status != 404 and a,
            ).status
            == status
        )
