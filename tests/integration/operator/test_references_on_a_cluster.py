"""Systems, connections and templates on a real API server: they heal, and show it."""

from __future__ import annotations

import json

import pytest

from tests.harness.cluster.kubectl import Organisation, relabel
from tests.harness.session.waiting import eventually
from tests.integration.operator.cluster_objects import SYSTEM, NamespacedKubectl, connection_spec, ready
from tieline_core.identity.ids import new_id

pytestmark = pytest.mark.cluster


def test_a_connection_says_what_it_lacks_until_it_has_all(acting: NamespacedKubectl) -> None:
    acting.apply("Connection", "heals", connection_spec("heals", "heals"))
    acting.until_ready("connection", "heals", "False", "SystemNotFound")
    acting.apply("System", "heals", SYSTEM)
    acting.until_ready("connection", "heals", "False", "SecretNotFound")
    acting.run("create", "secret", "generic", "heals", "--from-literal=username=u")
    acting.run("delete", "secret", "heals")
    typed = "--type=tieline.dev/credential"
    acting.run("create", "secret", "generic", "heals", typed, "--from-literal=username=u")
    acting.until_ready("connection", "heals", "False", "SecretKeyMissing")
    acting.run("patch", "secret", "heals", "-p", '{"stringData": {"password": "p"}}')
    acting.until_ready("connection", "heals", "True", "Valid")
    acting.run("delete", "system", "heals")
    acting.until_ready("connection", "heals", "False", "SystemNotFound")


def test_a_secret_of_another_type_is_not_used(acting: NamespacedKubectl) -> None:
    acting.apply("System", "typed", SYSTEM)
    acting.run(
        "create", "secret", "generic", "typed", "--from-literal=username=u", "--from-literal=password=p"
    )
    acting.apply("Connection", "typed", connection_spec("typed", "typed"))
    acting.until_ready("connection", "typed", "False", "SecretTypeWrong")


def test_every_object_gets_an_id_and_its_transitions_are_events(acting: NamespacedKubectl) -> None:
    acting.apply("System", "told", SYSTEM)
    found = acting.until_ready("system", "told", "True", "Valid")
    eventually(
        "the id is a label",
        lambda: len(acting.get("system", "told")["metadata"]["labels"]["tieline.dev/id"]) == 26,
    )
    assert ready(found)["observedGeneration"] == found["metadata"]["generation"]
    told = lambda: acting.run("get", "events", "--field-selector=involvedObject.name=told", "-o", "name")  # noqa: E731
    eventually("there is an event", told)


def test_the_operator_leaves_no_finalizers_and_no_annotations_on_peoples_objects(
    acting: NamespacedKubectl,
) -> None:
    acting.apply("System", "clean", SYSTEM)
    acting.until_ready("system", "clean", "True", "Valid")
    metadata = acting.get("system", "clean")["metadata"]
    assert "finalizers" not in metadata
    assert "annotations" not in metadata


def test_an_activation_resolves_what_it_names(acting: NamespacedKubectl) -> None:
    schema = {"type": "object", "properties": {"region": {"type": "string"}}}
    spec = {"projectRef": {"name": "activated"}, "environment": "production", "variables": {"region": 3}}
    acting.apply("Activation", "static", spec)
    acting.until_ready("activation", "static", "False", "ProjectNotFound")
    acting.apply("Project", "activated", {"name": "Activated", "dynamicVariablesSchema": schema})
    acting.until_ready("activation", "static", "False", "VariablesInvalid")
    acting.apply("Activation", "static", {**spec, "variables": {"region": "eu"}})
    found = acting.until_ready("activation", "static", "True", "Active")
    assert found["status"]["lastValidVariables"] == {"region": "eu"}
    assert len(found["status"]["environmentId"]) == 26


def test_an_object_says_that_its_namespace_is_no_organisation_until_it_is_one(
    acting: NamespacedKubectl, organisations: tuple[Organisation, Organisation]
) -> None:
    usual = organisations[0]
    acting.apply("System", "early", SYSTEM)
    acting.until_ready("system", "early", "True", "Valid")

    def run_what_it_says(reason: str) -> None:
        found = acting.until_ready("system", "early", "False", reason)
        for command in str(ready(found)["message"]).split("`")[1].split(" && "):
            _, *words = command.split()
            acting.run(*words)
        acting.until_ready("system", "early", "True", "Valid")

    # A prune or an apply that takes the label away by mistake is refused.
    for label in ("tieline.dev/organisation-", f"tieline.dev/organisation={new_id()}"):
        done = acting.kubectl("label", "--overwrite", "namespace", usual.namespace, label, check=False)
        assert f"is the organisation {usual.id}" in done.stderr
    labels = json.dumps({"metadata": {"labels": {"tieline.dev/organisation": new_id()}}})
    status = ("patch", "namespace", usual.namespace, "--subresource=status", "--type=merge", "-p", labels)
    assert f"is the organisation {usual.id}" in acting.kubectl(*status, check=False).stderr
    try:
        relabel(acting.kubectl, usual.namespace, None)
        run_what_it_says("OrganisationMissing")
        assert organisation_id(acting) == usual.id, "the id that it had"
        relabel(acting.kubectl, usual.namespace, new_id())
        run_what_it_says("OrganisationChanged")
        assert organisation_id(acting) == usual.id
    finally:
        relabel(acting.kubectl, usual.namespace, usual.id)


def organisation_id(acting: NamespacedKubectl) -> str:
    labels = json.loads(acting.run("get", "namespace", acting.namespace, "-o", "json"))["metadata"]["labels"]
    return str(labels["tieline.dev/organisation"])


def test_a_connection_says_that_its_base_url_is_private(acting: NamespacedKubectl) -> None:
    acting.apply("System", "inside", {**SYSTEM, "templateBaseUrl": "http://inside.acme.svc/v1?key=k1"})
    acting.apply("Connection", "inside", {"name": "inside", "systemRef": {"name": "inside"}})
    found = acting.until_ready("connection", "inside", "False", "BaseUrlRefused")
    assert "k1" not in ready(found)["message"]
