"""Objects that refer to others: what is missing is named with what to do, and heals when it comes."""

# ruff: noqa: E501  (a table reads best with a case a line)

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from tests.unit.operator import objects as o
from tests.unit.operator.fake_cluster import FakeCluster
from tests.unit.operator.reconcile_loop import ReconcileLoop
from tieline_core.identity.ids import ID_LABEL, format_time
from tieline_core.kubernetes import Resource
from tieline_core.kubernetes import resources as r

SCHEMA = {"type": "object", "properties": {"region": {"type": "string"}}}
ACTIVATED = {"connectionTemplate": "shop-template", "connectionRef": {"name": "login"}}


def cluster(*changes: Callable[[dict[str, Any]], None]) -> FakeCluster:
    """Everything in place and ready, except for what ``changes`` do to it."""
    there: dict[str, Any] = {
        "system": o.system(),
        "connection": o.connection(),
        "template": o.template(connectionRef={"name": "login"}),
        "project": o.project(dynamicVariablesSchema=SCHEMA, environments=[{"name": "production"}]),
        "end_user": o.end_user(),
        "activation": o.activation(variables={"region": "eu"}),
    }
    secrets = {"login": o.secret("login")}
    there["secrets"] = secrets
    for change in changes:
        change(there)
    made = FakeCluster(*(value for key, value in there.items() if key != "secrets" and value))
    made.put(r.SECRETS, *secrets.values())
    made.put(r.NAMESPACES, o.namespace())
    return made


def without(what: str) -> Callable[[dict[str, Any]], None]:
    return lambda there: there.update({what: None})


def spec(what: str, **values: Any) -> Callable[[dict[str, Any]], None]:
    return lambda there: there[what]["spec"].update(values)


def credential(**values: Any) -> Callable[[dict[str, Any]], None]:
    return lambda there: there["connection"]["spec"]["credentials"][0].update(values)


def secret(*keys: str) -> Callable[[dict[str, Any]], None]:
    return lambda there: there["secrets"].update(login=o.secret("login", *keys))


def no_secret(there: dict[str, Any]) -> None:
    there["secrets"].clear()


def dynamic(there: dict[str, Any]) -> None:
    there["template"]["spec"].pop("connectionRef")
    there["template"]["spec"]["dynamic"] = True


CONNECTION, TEMPLATE, ACTIVATION = (
    (r.CONNECTIONS, "login"),
    (r.CONNECTION_TEMPLATES, "shop-template"),
    (r.ACTIVATIONS, "for-ann"),
)
EXPIRED = format_time(o.NOW - timedelta(seconds=1))
CASES = [
    ("all is there: connection", CONNECTION, (), "Valid", "shop"),
    ("all is there: template", TEMPLATE, (), "Linked", "login"),
    ("all is there: activation", ACTIVATION, (), "Active", "production"),
    ("the system is missing", CONNECTION, (without("system"),), "SystemNotFound", "delete this connection"),
    ("the scheme is missing", CONNECTION, (credential(authSchemeConfigId="nope"),), "AuthSchemeNotFound", '"nope"'),
    ("the secret is missing", CONNECTION, (no_secret,), "SecretNotFound", "tieline.dev/credential"),
    ("the secret lacks a key", CONNECTION, (secret("username"),), "SecretKeyMissing", "password"),
    ("the credential does not fit the scheme", CONNECTION, (credential(type="string"),), "CredentialTypeWrong", "basic-auth"),
    ("the credential has expired", CONNECTION, (credential(expiresAt=EXPIRED),), "CredentialExpired", "replace it"),
    ("the connection's user is missing", CONNECTION, (spec("connection", endUserRef={"name": "bob"}),), "EndUserNotFound", '"bob"'),
    ("the project is missing", TEMPLATE, (without("project"),), "ProjectNotFound", "create one with another projectRef"),
    ("the environment is missing", TEMPLATE, (spec("template", environment="nope"),), "EnvironmentNotFound", "it has production"),
    ("the template's system is missing", TEMPLATE, (without("system"),), "SystemNotFound", "delete this template"),
    ("nothing is linked", TEMPLATE, (lambda t: t["template"]["spec"].pop("connectionRef"),), "TemplateNotLinked", "spec.connectionRef"),
    ("the linked connection is missing", TEMPLATE, (without("connection"),), "ConnectionNotFound", "login"),
    ("the linked connection cannot be used", TEMPLATE, (no_secret,), "ConnectionNotReady", "Secret"),
    ("the linked connection is for another system", TEMPLATE, (spec("connection", systemRef={"name": "mail"}),), "SystemDiffers", "mail"),
    ("the activation's project is missing", ACTIVATION, (without("project"),), "ProjectNotFound", "create one with another projectRef"),
    ("the activation's environment is missing", ACTIVATION, (spec("activation", environment="nope"),), "EnvironmentNotFound", "nope"),
    ("the activation's user is missing", ACTIVATION, (without("end_user"),), "EndUserNotFound", "ann"),
    ("the variables break the schema", ACTIVATION, (spec("activation", variables={"region": 3}),), "VariablesInvalid", "region"),
    ("the schema is invalid", ACTIVATION, (spec("project", dynamicVariablesSchema={"type": "nope"}),), "SchemaInvalid", "dynamicVariablesSchema"),
    ("a dynamic template has no connection", ACTIVATION, (dynamic,), "ConnectionMissing", "shop"),
    ("a dynamic template has one", ACTIVATION, (dynamic, spec("activation", connections=[ACTIVATED])), "Active", "production"),
    ("a connection is given for a static template", ACTIVATION, (spec("activation", connections=[ACTIVATED]),), "TemplateNotUsable", "not a dynamic"),
    ("the named template is missing", ACTIVATION, (without("template"), spec("activation", connections=[ACTIVATED])), "TemplateNotFound", "shop-template"),
    ("the named connection is missing", ACTIVATION, (dynamic, without("connection"), spec("activation", connections=[ACTIVATED])), "ConnectionNotFound", "login"),
    ("the connection is for another system", ACTIVATION, (dynamic, spec("connection", systemRef={"name": "mail"}), spec("activation", connections=[ACTIVATED])), "SystemDiffers", "login"),
    ("the connection cannot be used", ACTIVATION, (dynamic, no_secret, spec("activation", connections=[ACTIVATED])), "ConnectionNotReady", "Secret"),
    ("the connection is another user's", ACTIVATION, (dynamic, spec("connection", endUserRef={"name": "bob"}), spec("activation", connections=[ACTIVATED])), "ConnectionOfAnotherUser", "bob"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("which", "changes", "reason", "words"), [c[1:] for c in CASES], ids=[c[0] for c in CASES]
)
async def test_what_is_missing_is_told_and_heals(
    which: tuple[Resource, str], changes: Any, reason: str, words: str
) -> None:
    there = ReconcileLoop(cluster(*changes))
    await there.until_quiet()
    status, got, message = there.ready(*which)
    assert got == reason
    assert words in message
    assert status == ("True" if reason in ("Valid", "Linked", "Active") else "False")
    if status == "False":
        for resource, stored in cluster().objects.items():
            for obj in stored.values():
                await there.changed(resource, obj)
        assert there.ready(*which)[0] == "True"


UNUSABLE = [
    ((no_secret,), "ConnectionNotReady", "Secret"),
    ((without("connection"),), "ConnectionNotFound", "login"),
    ((without("system"),), "SystemNotFound", "shop"),
    ((lambda t: t["template"]["spec"].pop("connectionRef"),), "TemplateNotLinked", "spec.connectionRef"),
]


@pytest.mark.parametrize(("changes", "reason", "words"), UNUSABLE, ids=[case[1] for case in UNUSABLE])
async def test_a_project_that_needs_an_unusable_connection_is_not_ready_until_it_can_be_used(
    changes: Any, reason: str, words: str
) -> None:
    deployed = spec("project", environments=[{"name": "production", "version": "latest"}])
    there = ReconcileLoop(cluster(deployed, *changes))
    await there.until_quiet()
    there.kubelet()
    await there.until_quiet()
    status, got, message = there.ready(r.PROJECTS, "order-sync")
    assert (status, got) == ("False", reason)
    assert 'connection template "shop"' in message
    assert words in message
    assert there.environment()["status"] == "running", "its pods serve"
    for resource, stored in cluster().objects.items():
        for obj in stored.values():
            if resource not in (r.PROJECTS, r.NAMESPACES):
                await there.changed(resource, obj)
    assert there.ready(r.PROJECTS, "order-sync")[:2] == ("True", "Running")


async def test_a_secret_of_another_type_is_refused_with_what_to_do() -> None:
    there = ReconcileLoop(cluster(no_secret))
    there.cluster.other_secrets.add("login")
    await there.until_quiet()
    assert there.ready(*CONNECTION)[1] == "SecretTypeWrong"
    assert "delete it and create it again" in there.ready(*CONNECTION)[2]


async def test_a_secret_that_the_watch_brings_after_its_connection_is_not_missed() -> None:
    there = ReconcileLoop(cluster(no_secret))
    there.cluster.late_secrets["login"] = o.secret("login")
    await there.once(*CONNECTION)
    assert there.ready(*CONNECTION)[0] == "True"


async def test_a_credential_that_will_expire_is_looked_at_again_then() -> None:
    expires = format_time(o.NOW + timedelta(minutes=5))
    there = ReconcileLoop(cluster(credential(expiresAt=expires)))
    await there.once(*CONNECTION)
    assert there.requeue_after == 300


async def test_while_variables_are_invalid_the_last_valid_ones_stay() -> None:
    there = ReconcileLoop(cluster())
    await there.until_quiet()
    there.cluster.edited(r.ACTIVATIONS, "for-ann")["spec"]["variables"] = {"region": 3}
    await there.until_quiet()
    stored = there.cluster.objects[r.ACTIVATIONS][o.NAMESPACE, "for-ann"]
    assert stored["status"]["lastValidVariables"] == {"region": "eu"}
    assert stored["status"]["variableErrors"][0].startswith("region: ")


async def test_a_schema_that_changes_under_values_is_told_on_the_activation_and_drops_nothing() -> None:
    there = ReconcileLoop(cluster())
    await there.until_quiet()
    changed = {**SCHEMA, "properties": {"region": {"type": "integer"}}}
    environments = [{"name": "production"}]
    await there.changed(r.PROJECTS, o.project(dynamicVariablesSchema=changed, environments=environments))
    assert there.ready(*ACTIVATION)[:2] == ("False", "VariablesInvalid")
    stored = there.cluster.objects[r.ACTIVATIONS][o.NAMESPACE, "for-ann"]
    assert stored["spec"]["variables"] == {"region": "eu"}
    assert stored["status"]["lastValidVariables"] == {"region": "eu"}
    await there.changed(r.PROJECTS, o.project(dynamicVariablesSchema=SCHEMA, environments=environments))
    assert there.ready(*ACTIVATION)[0] == "True"


async def test_variables_that_do_not_fit_are_told_also_where_something_else_is_wrong() -> None:
    there = ReconcileLoop(cluster(without("end_user"), spec("activation", variables={"region": 3})))
    await there.until_quiet()
    assert there.ready(*ACTIVATION)[1] == "EndUserNotFound"
    stored = there.cluster.objects[r.ACTIVATIONS][o.NAMESPACE, "for-ann"]
    assert stored["status"]["variableErrors"][0].startswith("region: ")


@pytest.mark.parametrize(
    ("resource", "make", "reason"),
    [
        (r.CONNECTION_TEMPLATES, lambda name, age: o.template(name, age=age, connectionRef={"name": "login"}), "NameTaken"),
        (r.CONNECTIONS, lambda name, age: o.connection(name, age=age, title="same"), "NameTaken"),
        (r.END_USERS, lambda name, age: o.end_user(name, age=age, external="99"), "ExternalIdTaken"),
        (r.ACTIVATIONS, lambda name, age: o.activation(name, age=age), "ActivationTaken"),
    ],
    ids=["template name", "connection name", "external id", "activation of a user"],
)  # fmt: skip
async def test_of_two_that_claim_the_same_the_oldest_has_it_until_it_goes(
    resource: Resource, make: Any, reason: str
) -> None:
    there = ReconcileLoop(cluster(without("activation"), without("template")))
    there.cluster.put(resource, make("younger", 10), make("older", 900))
    await there.until_quiet()
    assert there.ready(resource, "older")[0] == "True"
    assert there.ready(resource, "younger")[:2] == ("False", reason)
    assert "older" in there.ready(resource, "younger")[2]
    there.cluster.remove(resource, "older")
    await there.until_quiet()
    assert there.ready(resource, "younger")[0] == "True"


async def test_of_two_objects_with_one_id_the_oldest_keeps_it() -> None:
    there = ReconcileLoop(cluster())
    labels = {"labels": {ID_LABEL: "01ARZ3NDEKTSV4RRFFQ69G5FAV"}}
    for name, age in (("older", 900), ("younger", 10)):
        user = o.end_user(name, age=age, external=name)
        user["metadata"] |= labels
        there.cluster.put(r.END_USERS, user)
    await there.until_quiet()
    assert there.ready(r.END_USERS, "older")[0] == "True"
    assert there.ready(r.END_USERS, "younger")[:2] == ("False", "IdTaken")


async def test_who_gives_up_a_taken_id_gets_another() -> None:
    there = ReconcileLoop(cluster())
    for name, age in (("older", 900), ("younger", 10)):
        user = o.end_user(name, age=age, external=name)
        user["metadata"]["labels"] = {ID_LABEL: "01ARZ3NDEKTSV4RRFFQ69G5FAV"}
        there.cluster.put(r.END_USERS, user)
    await there.until_quiet()
    there.cluster.edited(r.END_USERS, "younger")["metadata"]["labels"] = {}
    await there.until_quiet()
    assert there.ready(r.END_USERS, "younger")[0] == "True"
    (own,) = there.cluster.objects[r.END_USERS][o.NAMESPACE, "younger"]["metadata"]["labels"].values()
    assert own != "01ARZ3NDEKTSV4RRFFQ69G5FAV"


async def test_a_label_that_was_removed_comes_back_with_the_same_id() -> None:
    there = ReconcileLoop(cluster())
    restored = o.end_user("bob", external="7")
    restored["metadata"]["labels"] = {ID_LABEL: "01ARZ3NDEKTSV4RRFFQ69G5FAV"}
    there.cluster.put(r.END_USERS, restored)
    await there.until_quiet()
    there.cluster.edited(r.END_USERS, "bob")["metadata"]["labels"] = {}
    await there.until_quiet()
    bob = there.cluster.objects[r.END_USERS][o.NAMESPACE, "bob"]
    assert bob["metadata"]["labels"] == {ID_LABEL: "01ARZ3NDEKTSV4RRFFQ69G5FAV"}
    assert bob["status"]["id"] == "01ARZ3NDEKTSV4RRFFQ69G5FAV"


async def test_every_object_gets_its_id_as_a_label_and_one_that_has_one_keeps_it() -> None:
    there = ReconcileLoop(cluster())
    own = o.end_user("bob", external="7")
    own["metadata"]["labels"] = {ID_LABEL: "01ARZ3NDEKTSV4RRFFQ69G5FAV"}
    there.cluster.put(r.END_USERS, own)
    await there.until_quiet()
    users = there.cluster.objects[r.END_USERS]
    assert len(users[o.NAMESPACE, "ann"]["metadata"]["labels"][ID_LABEL]) == 26
    assert users[o.NAMESPACE, "bob"]["metadata"]["labels"] == {ID_LABEL: "01ARZ3NDEKTSV4RRFFQ69G5FAV"}


async def test_a_system_with_an_incomplete_scheme_says_which() -> None:
    scheme = {
        "id": "oauth",
        "type": "oauth2",
        "oauth2": {
            "tokenUrl": "https://shop.example/token",
            "grant": {"type": "authorizationCode", "authorizationCode": {"secretRef": {"name": "client"}}},
        },
    }
    there = ReconcileLoop(cluster(spec("system", authSchemeConfigs=[scheme])))
    await there.until_quiet()
    status, reason, message = there.ready(r.SYSTEMS, "shop")
    assert (status, reason) == ("False", "SecretNotFound")
    assert "authorizeUrl" in message
    stored = there.cluster[r.SYSTEMS].get(o.NAMESPACE, "shop")
    messages = stored["status"]["authSchemes"][0]["validationMessages"]
    assert [message["severity"] for message in messages].count("error") == 2


async def test_conditions_follow_kstatus_and_keep_their_time() -> None:
    there = ReconcileLoop(cluster(without("system")))
    await there.until_quiet()
    stored = there.cluster.objects[r.CONNECTIONS][o.NAMESPACE, "login"]
    first = {c["type"]: c for c in stored["status"]["conditions"]}
    assert (first["Ready"]["status"], first["Stalled"]["status"]) == ("False", "True")
    there.now += timedelta(hours=1)
    there.cluster.edited(r.CONNECTIONS, "login")["metadata"]["generation"] = 2
    await there.until_quiet()
    stored = there.cluster.objects[r.CONNECTIONS][o.NAMESPACE, "login"]
    second = {c["type"]: c for c in stored["status"]["conditions"]}
    assert second["Ready"]["lastTransitionTime"] == first["Ready"]["lastTransitionTime"]
    assert second["Ready"]["observedGeneration"] == stored["status"]["observedGeneration"] == 2
    there.cluster.put(r.SYSTEMS, o.system())
    await there.until_quiet()
    stored = there.cluster.objects[r.CONNECTIONS][o.NAMESPACE, "login"]
    third = {c["type"]: c for c in stored["status"]["conditions"]}
    assert third.keys() == {"Ready", "CredentialsAccepted"}
    assert third["Ready"]["lastTransitionTime"] != first["Ready"]["lastTransitionTime"]
