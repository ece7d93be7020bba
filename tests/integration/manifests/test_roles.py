"""What the roles for people let them do, asked of a real API server as ``kubectl auth can-i`` does."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.harness.cluster.kubectl import Kubectl, Organisation, an_organisation
from tests.harness.cluster.service_accounts import ROLES
from tieline_core.resources import KINDS

pytestmark = pytest.mark.cluster

READ, WRITE = ("get", "list", "watch"), ("create", "update", "patch", "delete")
EVERY = {kind.kind_info.plural for kind in KINDS}
ADMINISTRATORS = {"systems", "connectors", "connectorversions", "credentialgrants"}
# The operator makes and deletes these with other objects.
DERIVED = {"environments"}
# Who may write what; everybody may read all kinds, and nobody more than these.
MAY_WRITE = {
    "tieline-viewer": set(),
    "tieline-editor": EVERY - ADMINISTRATORS,
    "tieline-admin": EVERY,
    # The cluster's own roles, which ours join.
    "view": set(),
    "edit": EVERY - ADMINISTRATORS,
    "admin": EVERY,
}
OURS = [role for role in MAY_WRITE if role.startswith("tieline-")]

Question = tuple[str, str, str, str]
"""Role, verb, group and resource."""


@pytest.fixture(scope="module")
def organisation(kubectl: Kubectl, crds_installed: None) -> Iterator[Organisation]:
    """Where one person has each role."""
    kubectl("apply", "-f", str(ROLES / "roles.yaml"))
    with an_organisation(kubectl) as made:
        for role in MAY_WRITE:
            kubectl(
                "create",
                "rolebinding",
                role,
                f"--clusterrole={role}",
                f"--user=has-{role}",
                namespace=made.namespace,
            )
        yield made


def may(kubectl: Kubectl, namespace: str, questions: set[Question]) -> set[Question]:
    """Those that the API server says yes to."""
    ordered = sorted(questions)
    reviews = [
        {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {
                "user": f"has-{role}",
                "groups": ["system:authenticated"],
                "resourceAttributes": {
                    "namespace": namespace,
                    "verb": verb,
                    "group": group,
                    "resource": resource.partition("/")[0],
                    "subresource": resource.partition("/")[2],
                },
            },
        }
        for role, verb, group, resource in ordered
    ]
    asked = {"apiVersion": "v1", "kind": "List", "items": reviews}
    template = 'jsonpath={.status.allowed}{"\\n"}'
    answers = kubectl("create", "-f", "-", "-o", template, stdin=json.dumps(asked)).stdout.split()
    assert len(answers) == len(ordered)
    return {question for question, answer in zip(ordered, answers, strict=True) if answer == "true"}


def test_each_role_may_do_what_it_is_for_and_nothing_else(
    kubectl: Kubectl, organisation: Organisation
) -> None:
    questions = {
        (role, verb, "tieline.dev", kind) for role in MAY_WRITE for verb in (*READ, *WRITE) for kind in EVERY
    }
    expected = {
        (role, verb, group, kind)
        for role, verb, group, kind in questions
        if verb in READ
        or (kind in MAY_WRITE[role] and not (kind in DERIVED and verb in ("create", "delete")))
    }
    assert may(kubectl, organisation.namespace, questions) == expected


def test_nobody_writes_a_status_and_our_roles_give_nothing_of_kubernetes_own(
    kubectl: Kubectl, organisation: Organisation
) -> None:
    statuses = {
        (role, verb, "tieline.dev", f"{kind}/status")
        for role in MAY_WRITE
        for verb in WRITE
        for kind in EVERY
    }
    others = {
        (role, verb, group, resource)
        for role in OURS
        for verb in ("get", "list", "create", "delete")
        for group, resource in (("", "secrets"), ("", "pods"), ("", "configmaps"), ("apps", "deployments"))
    }
    assert may(kubectl, organisation.namespace, statuses | others) == set()


def test_a_role_in_one_organisation_is_nothing_in_another(
    kubectl: Kubectl, organisation: Organisation
) -> None:
    questions = {(role, verb, "tieline.dev", "projects") for role in MAY_WRITE for verb in (*READ, *WRITE)}
    assert may(kubectl, "default", questions) == set()
