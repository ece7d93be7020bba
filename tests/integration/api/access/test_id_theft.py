"""An organisation that claims the ids of another one, by kubectl and by REST, gets nothing and takes nothing away."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.harness.cluster.kubectl import Kubectl, Organisation, an_organisation
from tests.harness.session.waiting import eventually
from tests.integration.api.conftest import Client, Server
from tests.integration.operator.cluster_objects import NamespacedKubectl, ready
from tests.integration.operator.running_operator import RunningOperator

pytestmark = pytest.mark.cluster

FILES = {"files": [{"filename": "main.py", "content": "print('one')\n"}], "labels": {}}


@dataclass(frozen=True)
class Party:
    """An organisation with an administrator by REST and an editor by kubectl."""

    rest: Client
    kubectl: NamespacedKubectl

    def as_editor(self, *command: str, stdin: str | None = None) -> tuple[bool, str]:
        namespace = self.kubectl.namespace
        done = self.kubectl.kubectl(
            *command,
            f"--as=system:serviceaccount:{namespace}:editor",
            namespace=namespace,
            stdin=stdin,
            check=False,
        )
        return done.returncode == 0, done.stdout + done.stderr


def manifest(name: str, identifier: str | None = None) -> str:
    labels = {"tieline.dev/id": identifier} if identifier else {}
    return json.dumps(
        {
            "apiVersion": "tieline.dev/v1alpha1",
            "kind": "Project",
            "metadata": {"name": name, "labels": labels},
            "spec": {
                "name": name,
                "source": {"files": FILES["files"]},
                "environments": [{"name": "production", "version": "latest"}],
            },
        }
    )


@pytest.fixture
def parties(
    kubectl: Kubectl,
    server: Server,
    operator_kubeconfig: Path,
    token_for: Callable[..., str],
    tmp_path: Path,
) -> Iterator[tuple[Party, Party]]:
    """The thief, whose organisation is older, and the victim, with an operator that serves both."""

    def party(organisation: Organisation) -> Party:
        token_for(organisation.namespace, "editor", "tieline-editor")
        token = token_for(organisation.namespace, "admin", "tieline-admin")
        return Party(
            Client(server.url, token, organisation.id),
            NamespacedKubectl(kubectl=kubectl, namespace=organisation.namespace),
        )

    with an_organisation(kubectl) as older, an_organisation(kubectl) as younger:
        operator = RunningOperator(
            kubeconfig=operator_kubeconfig,
            namespaces=(older.namespace, younger.namespace),
            log=tmp_path / "operator.log",
        )
        with operator:
            thief, victim = party(older), party(younger)
            for one in (thief, victim):
                one.rest.until_known()
            yield thief, victim


def test_ids_cannot_be_taken_by_kubectl_or_rest(parties: tuple[Party, Party]) -> None:
    thief, victim = parties
    done, said = thief.as_editor("create", "-f", "-", stdin=manifest("older"))
    assert done, said
    own = eventually(
        "the thief's own id", lambda: thief.kubectl.get("project", "older").get("status", {}).get("id")
    )
    project = victim.rest.ok("POST", "/projects", {"name": "Orders"})
    stolen, name = project["id"], project["id"].lower()
    victim.rest.ok("PUT", f"/projects/{stolen}/deploy", FILES)
    (before,) = eventually("a Deployment", lambda: victim.kubectl.list("deployment"))

    # By label: the policy refuses it, and the status is the operator's alone.
    done, said = thief.as_editor("label", "project", "older", f"tieline.dev/id={stolen}", "--overwrite")
    assert not done
    assert f"The id of this object is {own} and never changes" in said
    patch = json.dumps({"status": {"id": stolen}})
    done, said = thief.as_editor(
        "patch", "project", "older", "--subresource=status", "--type=merge", "-p", patch
    )
    assert not done
    assert "forbidden" in said.lower()
    for label in (f"tieline.dev/id={own.lower()}", "tieline.dev/id-"):
        done, said = thief.as_editor("label", "project", "older", label, "--overwrite")
        assert done, said

    # By a new object, with kubectl and with REST.
    done, said = thief.as_editor("create", "-f", "-", stdin=manifest("newer", stolen))
    assert done, said
    thief.kubectl.until_ready("project", "newer", "False", "IdTaken")
    thief.as_editor("delete", "project", "newer")
    thief.rest.ok("POST", "/projects", {"name": "Mine", "id": stolen})
    thief.kubectl.until_ready("project", name, "False", "IdTaken")

    def owner(obj: Any) -> tuple[str, str]:
        return obj["metadata"]["uid"], obj["metadata"]["generation"]

    (after,) = victim.kubectl.list("deployment")
    assert owner(after) == owner(before)
    found = victim.kubectl.get("project", name)
    assert found["status"]["id"] == stolen
    assert ready(found)["reason"] != "IdTaken"
    assert victim.rest.ok("GET", f"/projects/{stolen}")["name"] == "Orders"
    assert not thief.kubectl.workload("deployment", name)

    # Made again by its owner, while the thief waits for the id.
    victim.kubectl.run("delete", "project", name)
    again = victim.kubectl.kubectl(
        "create", "-f", "-", namespace=victim.kubectl.namespace, stdin=manifest("again", stolen)
    )
    assert "created" in again.stdout
    eventually(
        "the id back", lambda: victim.kubectl.get("project", "again").get("status", {}).get("id") == stolen
    )
    assert "id" not in thief.kubectl.get("project", name)["status"]
