"""Who may write Connections, and not expose them, cannot let code read their credentials: the admission policy."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.harness.cluster.kubectl import Kubectl, Organisation, an_organisation
from tests.harness.inputs.exposure_changes import CASES, OPEN, Case
from tests.integration.policies.test_references_on_a_cluster import Someone, changed, resource
from tieline_core.identity.ids import new_id

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def place(kubectl: Kubectl, policies_installed: None) -> Iterator[Organisation]:
    with an_organisation(kubectl) as made:
        yield made


@pytest.fixture(scope="module")
def editor(kubectl: Kubectl, place: Organisation) -> Someone:
    """Who may write connections, and use every Secret without reading it."""
    return Someone(kubectl, place.namespace, role="tieline-editor").may("use", "secrets")


@pytest.fixture(scope="module")
def administrator(kubectl: Kubectl, place: Organisation) -> Someone:
    return Someone(kubectl, place.namespace).may("use", "secrets")


def tried(case: Case, who: Someone, kubectl: Kubectl, place: Organisation) -> str:
    name = new_id().lower()
    if case.before is None:
        return who.tries("create", resource("Connection", case.after, name))
    before = resource("Connection", case.before, name)
    made = kubectl("create", "-f", "-", "-o", "json", namespace=place.namespace, stdin=json.dumps(before))
    return who.tries("replace", changed(json.loads(made.stdout), case.after))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_an_editor_who_may_use_a_secret_cannot_let_code_read_it(
    case: Case, editor: Someone, administrator: Someone, kubectl: Kubectl, place: Organisation
) -> None:
    told = tried(case, editor, kubectl, place)
    assert bool(told) is case.opens, told
    if case.opens:
        assert "permission to expose connections" in told
        assert "tieline-admin" in told
        assert not tried(case, administrator, kubectl, place)


def test_the_right_can_be_given_for_one_connection(kubectl: Kubectl, place: Organisation) -> None:
    someone = Someone(kubectl, place.namespace, role="tieline-editor").may("use", "secrets")
    name = new_id().lower()
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": name},
        "rules": [
            {
                "apiGroups": ["tieline.dev"],
                "resources": ["connections"],
                "resourceNames": [name],
                "verbs": ["expose"],
            }
        ],
    }
    kubectl("create", "-f", "-", namespace=place.namespace, stdin=json.dumps(role))
    kubectl(
        "create", "rolebinding", name, f"--role={name}", f"--user={someone.name}", namespace=place.namespace
    )
    assert not someone.tries("create", resource("Connection", OPEN, name))
    assert someone.tries("create", resource("Connection", OPEN, new_id().lower()))
