"""Operator and API may use Secrets in organisations, and nowhere else."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from tests.harness.cluster.deployed_platform import Platform, administrator
from tests.harness.cluster.kubectl import Kubectl, Organisation, make_organisation, relabel
from tests.harness.cluster.service_accounts import PARTS, PLATFORM, deployed_account_of
from tests.harness.session.waiting import eventually
from tieline_core.identity.names import SECRETS_ROLE

pytestmark = pytest.mark.e2e

VERBS = ("get", "list", "watch", "create", "update", "patch", "delete")


EVERYWHERE = ""
"""In place of a namespace."""


class Question(NamedTuple):
    """Whether a part of the platform may do something with Secrets."""

    part: str
    namespace: str
    verb: str = "get"
    name: str = ""


def allowed(kubectl: Kubectl, *questions: Question) -> set[Question]:
    """Those that the API server says yes to, as ``kubectl auth can-i`` asks."""
    reviews = [
        {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {
                "user": deployed_account_of(part),
                "resourceAttributes": {
                    "namespace": namespace,
                    "verb": verb,
                    "resource": "secrets",
                    "name": name,
                },
            },
        }
        for part, namespace, verb, name in questions
    ]
    asked = {"apiVersion": "v1", "kind": "List", "items": reviews}
    template = 'jsonpath={.status.allowed}{"\\n"}'
    answers = kubectl("create", "-f", "-", "-o", template, stdin=json.dumps(asked)).stdout.split()
    return {question for question, answer in zip(questions, answers, strict=True) if answer == "true"}


def binding(kubectl: Kubectl, organisation: Organisation) -> dict[str, Any] | None:
    done = kubectl(
        "get", "rolebinding", SECRETS_ROLE, "-o", "json", namespace=organisation.namespace, check=False
    )
    found: dict[str, Any] | None = json.loads(done.stdout) if done.returncode == 0 else None
    return found


def has_rights(
    kubectl: Kubectl, organisation: Organisation, *, parts: int = len(PARTS)
) -> Callable[[], bool]:
    questions = [Question(part, organisation.namespace) for part in PARTS]
    return lambda: len(allowed(kubectl, *questions)) == parts


def test_secrets_can_be_read_in_organisations_alone(platform: Platform, organisation: Organisation) -> None:
    kubectl = platform.kubectl
    eventually("the rights", has_rights(kubectl, organisation))
    given = {Question(part, organisation.namespace, verb) for part in PARTS for verb in VERBS} | {
        Question("operator", PLATFORM, "get", f"tieline-engine-{name}") for name in ("trust", "config", "api")
    }
    others = {
        Question(part, namespace, verb)
        for part in PARTS
        for verb in VERBS
        for namespace in (EVERYWHERE, "kube-system", "default")
    }
    assert allowed(kubectl, *given, *others, Question("operator", PLATFORM)) == given


def test_a_secret_elsewhere_is_refused(platform: Platform) -> None:
    kubectl = platform.kubectl
    kubectl("create", "secret", "generic", "elses", namespace="default")
    try:
        for part in PARTS:
            account = f"--as={deployed_account_of(part)}"
            done = kubectl("get", "secret", "elses", account, namespace="default", check=False)
            assert "Forbidden" in done.stderr
    finally:
        kubectl("delete", "secret", "elses", namespace="default")


def test_rights_come_and_go_with_the_organisation(platform: Platform) -> None:
    kubectl = platform.kubectl
    made = make_organisation(kubectl)
    try:
        eventually("the rights", has_rights(kubectl, made))
        rest = administrator(platform, made)
        relabel(kubectl, made.namespace, None)
        eventually("no rights", has_rights(kubectl, made, parts=0))
        # Somebody takes the name: the role of a binding never changes, so the operator replaces it.
        taken = ("create", "rolebinding", SECRETS_ROLE, "--clusterrole=view", "--user=somebody")
        kubectl(*taken, namespace=made.namespace)
        relabel(kubectl, made.namespace, made.id)
        eventually("the rights again", has_rights(kubectl, made))
        eventually("answers again", lambda: rest("GET", "/projects").status == 200)
    finally:
        kubectl("delete", "namespace", made.namespace, "--wait=false")


def test_a_binding_that_somebody_deleted_or_changed_comes_back(
    platform: Platform, organisation: Organisation
) -> None:
    kubectl, namespace = platform.kubectl, organisation.namespace
    eventually("the rights", has_rights(kubectl, organisation))
    ours = binding(kubectl, organisation)
    assert ours is not None

    kubectl("delete", "rolebinding", SECRETS_ROLE, namespace=namespace)
    eventually("the binding again", lambda: binding(kubectl, organisation) is not None)

    more = [{"op": "add", "path": "/subjects/-", "value": {"kind": "User", "name": "somebody"}}]
    kubectl("patch", "rolebinding", SECRETS_ROLE, "--type=json", "-p", json.dumps(more), namespace=namespace)

    def subjects() -> Any:
        return (binding(kubectl, organisation) or {}).get("subjects")

    eventually("its own subjects", lambda: subjects() == ours["subjects"])


def test_nobody_extends_the_rights(platform: Platform, organisation: Organisation) -> None:
    """Neither an administrator of an organisation, nor the operator beyond organisations and its own role."""
    kubectl, namespace = platform.kubectl, organisation.namespace
    rules = [
        {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["rolebindings"], "verbs": ["*"]},
    ]
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "rules": rules}
    binder = {**role, "metadata": {"name": "binder", "namespace": namespace}}
    kubectl("apply", "-f", "-", namespace=namespace, stdin=json.dumps(binder))
    for kind, name in (("role", "binder"), ("clusterrole", "tieline-admin")):
        kubectl(
            "create",
            "rolebinding",
            f"hostile-{name}",
            f"--{kind}={name}",
            "--user=hostile",
            namespace=namespace,
        )
    operator = deployed_account_of("operator")
    mine = f"--serviceaccount={PLATFORM}:tieline-operator"
    for account, where, name, given, subject in (
        ("hostile", namespace, "more", SECRETS_ROLE, "--user=hostile"),
        (operator, namespace, "more", SECRETS_ROLE, mine),
        (operator, namespace, SECRETS_ROLE, "view", mine),
        (operator, "default", SECRETS_ROLE, SECRETS_ROLE, mine),
        (operator, PLATFORM, SECRETS_ROLE, SECRETS_ROLE, mine),
    ):
        done = kubectl(
            "create",
            "rolebinding",
            name,
            f"--clusterrole={given}",
            subject,
            f"--as={account}",
            "--dry-run=server",
            namespace=where,
            check=False,
        )
        assert done.returncode, (account, where, name)
        assert "orbidden" in done.stderr or "denied" in done.stderr, done.stderr
    everybody = kubectl("get", "clusterrolebindings", "-o", "json").stdout
    assert SECRETS_ROLE not in {one["roleRef"]["name"] for one in json.loads(everybody)["items"]}
