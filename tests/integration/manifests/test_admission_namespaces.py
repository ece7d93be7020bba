"""What the platform's accounts may write, by label of the namespace, which RBAC cannot ask for."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.harness.cluster.kubectl import ROOT, Kubectl, an_organisation, relabel
from tests.harness.cluster.service_accounts import account_of
from tests.harness.session.waiting import eventually
from tests.integration.operator.cluster_objects import NamespacedKubectl
from tests.integration.operator.running_operator import RunningOperator
from tieline_core.identity.ids import parse_time

pytestmark = pytest.mark.cluster

POLICY = ROOT / "deploy" / "base" / "admission-namespaces.yaml"
PARTS = ("tieline-operator", "tieline-api")
OTHERS = ("somebody-else", "my-tieline-api", "tieline-operator-2")


def config_map(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}


def deployment(name: str) -> dict[str, Any]:
    labels = {"app": name}
    container = {"name": "main", "image": "none"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    spec = {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}


@dataclass(frozen=True)
class Place:
    """Accounts that RBAC lets write everywhere, and the policy that restricts those of the platform."""

    kubectl: Kubectl
    home: str
    """Namespace of the accounts."""
    organisation: str
    elsewhere: str
    """A namespace that is no organisation."""

    def writes(self, account: str, *command: str, namespace: str, body: Any = None) -> tuple[bool, str]:
        """Whether it succeeds, and what is said."""
        done = self.kubectl(
            *command,
            f"--as=system:serviceaccount:{self.home}:{account}",
            namespace=namespace,
            stdin=json.dumps(body) if body else None,
            check=False,
        )
        return done.returncode == 0, done.stdout + done.stderr

    def creates(self, account: str, body: Any, *, namespace: str) -> tuple[bool, str]:
        return self.writes(account, "create", "-f", "-", namespace=namespace, body=body)


@pytest.fixture(scope="module")
def place(kubectl: Kubectl, crds_installed: None) -> Iterator[Place]:
    with an_organisation(kubectl) as org, an_organisation(kubectl) as other:
        home = other.namespace
        relabel(kubectl, home, None)
        elsewhere = home
        accounts = [*PARTS, *OTHERS]
        for name in accounts:
            kubectl("create", "serviceaccount", name, namespace=home)
            account = f"--serviceaccount={home}:{name}"
            kubectl("create", "clusterrolebinding", f"{home}-{name}", "--clusterrole=cluster-admin", account)
        # Of this test alone: sessions that share a cluster have policies of their own.
        policy = POLICY.read_text().replace("tieline-namespaces", f"tieline-namespaces-{home}")
        kubectl("apply", "-f", "-", stdin=policy)
        made = Place(kubectl, home, org.namespace, elsewhere)
        eventually(
            "the policy in force",
            lambda: (
                not made.writes(PARTS[0], "create", "configmap", "probe", "--dry-run=server", namespace=home)[
                    0
                ]
            ),
        )
        yield made
        kubectl("delete", "-f", "-", stdin=policy)
        for name in accounts:
            kubectl("delete", "clusterrolebinding", f"{home}-{name}")


@pytest.mark.parametrize("account", PARTS)
def test_the_platform_makes_nothing_where_no_organisation_is(place: Place, account: str) -> None:
    for body in (deployment(f"taken-{account}"), config_map(f"taken-{account}")):
        done, said = place.creates(account, body, namespace=place.elsewhere)
        assert not done
        assert f"The namespace {place.elsewhere} is no organisation" in said
        done, said = place.creates(account, body, namespace=place.organisation)
        assert done, said


def test_what_others_have_made_is_neither_changed_nor_deleted(place: Place) -> None:
    place.kubectl("create", "configmap", "theirs", namespace=place.elsewhere)
    for command in (("label", "configmap", "theirs", "a=b"), ("delete", "configmap", "theirs")):
        done, said = place.writes(PARTS[0], *command, namespace=place.elsewhere)
        assert not done
        assert "is no organisation" in said


def test_the_operator_writes_the_engines_keys_in_its_own_namespace_and_no_other_secret(place: Place) -> None:
    for name, account, allowed in (
        ("tieline-engine-trust", PARTS[0], True),
        ("tieline-engine-trust", PARTS[1], False),
        ("somebody-elses", PARTS[0], False),
    ):
        body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}}
        command = ("apply", "--server-side", "-f", "-", "--dry-run=server")
        done, said = place.writes(account, *command, namespace=place.elsewhere, body=body)
        assert done is allowed, said


def test_the_api_writes_what_keeps_sessions_of_the_console_in_its_own_namespace_and_no_other_secret(
    place: Place,
) -> None:
    refresh = f"tieline-console-refresh-{'0a' * 20}"
    for name, account, allowed in (
        ("tieline-console-keys", PARTS[1], True),
        (refresh, PARTS[1], True),
        ("tieline-console-keys", PARTS[0], False),
        (f"{refresh}-more", PARTS[1], False),
        ("somebody-elses", PARTS[1], False),
    ):
        body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}}
        command = ("create", "-f", "-", "--dry-run=server")
        done, said = place.writes(account, *command, namespace=place.elsewhere, body=body)
        assert done is allowed, said
    for name, allowed in ((refresh, True), ("theirs", False)):
        place.kubectl("create", "secret", "generic", name, namespace=place.elsewhere)
        done, said = place.writes(PARTS[1], "delete", "secret", name, namespace=place.elsewhere)
        assert done is allowed, said


@pytest.mark.parametrize("account", OTHERS)
def test_nobody_else_is_restricted(place: Place, account: str) -> None:
    done, said = place.creates(account, deployment(f"of-{account}"), namespace=place.elsewhere)
    assert done, said


@pytest.fixture
def operator(
    kubectl: Kubectl, place: Place, operator_kubeconfig: Path, tmp_path: Path
) -> Iterator[tuple[RunningOperator, str]]:
    """An operator under the policy, and a younger namespace with the id of the organisation."""
    home = place.home
    account = account_of("operator")
    policy = POLICY.read_text().replace("tieline-(operator|api)$", f"{account.rpartition(':')[2]}$")
    policy = policy.replace("tieline-namespaces", f"tieline-namespaces-of-a-process-{home}")
    copy = f"copy-{home}"
    kubectl("apply", "-f", "-", stdin=policy)
    try:
        identifier = kubectl(
            "get",
            "namespace",
            place.organisation,
            "-o",
            r"jsonpath={.metadata.labels.tieline\.dev/organisation}",
        ).stdout
        manifest = {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": copy, "labels": {"tieline.dev/organisation": identifier}},
        }
        # Ages are told apart by the second.
        eventually(
            "a later second", lambda: time.time() >= seconds_of(kubectl, place.organisation) + 1, within=5
        )
        kubectl("create", "-f", "-", stdin=json.dumps(manifest))
        eventually(
            "the policy in force",
            lambda: (
                kubectl(
                    "create",
                    "configmap",
                    "probe",
                    "--dry-run=server",
                    f"--as={account}",
                    namespace=home,
                    check=False,
                ).returncode
                != 0
            ),
        )
        running = RunningOperator(
            kubeconfig=operator_kubeconfig,
            namespaces=(home, place.organisation, copy),
            log=tmp_path / "log",
            variables={"TIELINE_LEASE_NAMESPACE": place.organisation},
        )
        with running:
            yield running, copy
    finally:
        kubectl("delete", "-f", "-", stdin=policy)
        kubectl("delete", "namespace", copy, "--wait=false", check=False)


def seconds_of(kubectl: Kubectl, namespace: str) -> float:
    """When a namespace was made."""
    found = kubectl("get", "namespace", namespace, "-o", "jsonpath={.metadata.creationTimestamp}").stdout
    return parse_time(found).timestamp()


def test_people_are_told_what_to_label(
    kubectl: Kubectl, place: Place, operator: tuple[RunningOperator, str]
) -> None:
    """By the condition of a Project where no organisation is, and by Events on namespaces that share an id."""
    _, copy = operator
    acting = NamespacedKubectl(kubectl=kubectl, namespace=place.home)
    acting.apply("Project", "orders", {"name": "Orders", "source": {"files": []}})
    found = acting.until_ready("Project", "orders", "False", "OrganisationMissing")
    assert "tieline.dev/id" not in found["metadata"].get("labels", {})

    def notes(namespace: str) -> list[str]:
        done = kubectl(
            "get",
            "events",
            "--field-selector=involvedObject.kind=Namespace,reason=OrganisationTaken",
            "-o",
            "jsonpath={.items[*].message}",
            namespace=namespace,
        )
        return [done.stdout] if done.stdout else []

    (younger,) = eventually("an Event on the younger namespace", lambda: notes(copy), within=30)
    assert f"The namespace {place.organisation} has the organisation id" in younger
    (older,) = eventually("an Event on the older namespace", lambda: notes(place.organisation))
    assert "Another namespace carries" in older
    assert copy not in older
