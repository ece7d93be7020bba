"""examples/gitops with the operator at work: quiet, promoted by one line, put right after drift."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness.cluster.kubectl import ROOT, Kubectl, Organisation, make_organisation
from tests.harness.session.waiting import eventually
from tests.integration.operator.cluster_objects import NamespacedKubectl
from tests.integration.operator.running_operator import RunningOperator
from tieline_core.project_files.config_maps import files_digest, version_name

pytestmark = pytest.mark.cluster

EXAMPLE = ROOT / "examples" / "gitops"
TOOLS_LABEL = "app.kubernetes.io/instance"
# The kinds of applying that GitOps tools have.
SERVER_SIDE = ("--server-side",)
CLIENT_SIDE: tuple[str, ...] = ()


class Repository:
    """A clone of the example for an organisation of the test's own, and kubectl to apply it."""

    def __init__(self, folder: Path, kubectl: Kubectl, organisation: Organisation) -> None:
        shutil.copytree(EXAMPLE, folder)
        self.folder = folder
        self._kubectl = kubectl
        for path in folder.rglob("*.yaml"):
            text = path.read_text().replace("namespace: cedar", f"namespace: {organisation.namespace}")
            text = text.replace("name: cedar", f"name: {organisation.namespace}")
            path.write_text(re.sub(r"(tieline.dev/organisation): \S+", rf"\1: {organisation.id}", text))

        # As tools do that know their objects by a label.
        with (folder / "kustomization.yaml").open("a") as file:
            file.write(f"labels:\n  - pairs: {{{TOOLS_LABEL}: cedar}}\n")

    def apply(self, how: tuple[str, ...]) -> str:
        return self._kubectl("apply", *how, "-k", str(self.folder)).stdout

    def diff(self, how: tuple[str, ...]) -> str:
        """What applying would change. kubectl leaves with 1 for differences, with more for errors."""
        done = self._kubectl("diff", *how, "-k", str(self.folder), check=False)
        assert done.returncode in {0, 1}, done.stderr
        return done.stdout

    def changes_nothing(self, how: tuple[str, ...]) -> None:
        """Waits until applying would change nothing: kubectl also shows what the operator writes while it compares."""
        eventually("applying changes nothing", lambda: self.diff(how) == "", seen=lambda: self.diff(how))

    def change(self, path: str, old: str, new: str) -> None:
        file = self.folder / path
        assert old in file.read_text()
        file.write_text(file.read_text().replace(old, new))

    def version(self) -> str:
        """The version that its code becomes."""
        code = (self.folder / "project/integration/main.py").read_bytes()
        return version_name("order-sync", files_digest({"main.py": code}), {})


@pytest.fixture(scope="module")
def two(kubectl: Kubectl, crds_installed: None) -> Iterator[tuple[Organisation, Organisation]]:
    made = make_organisation(kubectl), make_organisation(kubectl)
    for organisation in made:
        for environment in ("staging", "production"):
            kubectl(
                "create",
                "secret",
                "generic",
                f"shop-key-{environment}",
                "--type=tieline.dev/credential",
                "--from-literal=value=k3y",
                namespace=organisation.namespace,
            )
    yield made
    kubectl("delete", "namespace", *(one.namespace for one in made), "--wait=false")


@pytest.fixture(scope="module")
def working(
    operator_kubeconfig: Path,
    two: tuple[Organisation, Organisation],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[RunningOperator]:
    running = RunningOperator(
        kubeconfig=operator_kubeconfig,
        namespaces=tuple(organisation.namespace for organisation in two),
        log=tmp_path_factory.mktemp("operator") / "log",
    )
    with running:
        yield running


def serving(acting: NamespacedKubectl) -> dict[str, str]:
    """The version that each environment should serve."""
    environments = acting.get("project", "order-sync").get("status", {}).get("environments", [])
    return {entry["name"]: entry.get("desiredVersion", "") for entry in environments}


def specs(acting: NamespacedKubectl) -> dict[str, Any]:
    """All that Git and people said, and how often it was changed."""
    return {
        f"{obj['kind']}/{obj['metadata']['name']}": (obj["spec"], obj["metadata"]["generation"])
        for obj in acting.list("tieline")
        if obj["kind"] != "ProjectVersion"
    }


@pytest.mark.parametrize(
    ("number", "how"), [(0, SERVER_SIDE), (1, CLIENT_SIDE)], ids=["server-side apply", "client-side apply"]
)
def test_a_second_apply_changes_nothing_and_a_version_is_promoted_by_one_line(
    kubectl: Kubectl,
    two: tuple[Organisation, Organisation],
    working: RunningOperator,
    tmp_path: Path,
    number: int,
    how: tuple[str, ...],
) -> None:
    organisation = two[number]
    acting = NamespacedKubectl(kubectl=kubectl, namespace=organisation.namespace)
    repository = Repository(tmp_path / "repository", kubectl, organisation)

    repository.apply(how)
    first = repository.version()
    both = {"staging": first, "production": first}
    eventually("both have the first version", lambda: serving(acting) == both, seen=lambda: serving(acting))
    for environment in both:
        acting.until_ready("connectiontemplate", f"order-sync-shop-{environment}", "True", "Linked")
        acting.until_ready("activation", f"order-sync-{environment}", "True", "Active")
    repository.changes_nothing(how)
    for kind in ("deployment", "service", "serviceaccount", "networkpolicy", "projectversion"):
        children = acting.list(kind, "tieline.dev/project=order-sync")
        assert children, kind
        assert not [one for one in children if one["metadata"]["labels"].get(TOOLS_LABEL) == "cedar"], (
            "it would be pruned"
        )
    before = specs(acting)
    repository.apply(how)
    repository.changes_nothing(how)
    assert specs(acting) == before

    # New code goes to staging, and nowhere else.
    repository.change("project/integration/main.py", "one order in", "an order in")
    second = repository.version()
    assert second != first
    repository.apply(how)
    wanted = {"staging": second, "production": first}
    eventually("staging has it", lambda: serving(acting) == wanted, seen=lambda: serving(acting))
    assert acting.get("project", "order-sync")["status"]["latestVersion"] == second
    repository.changes_nothing(how)

    # The promotion: one line.
    repository.change("project/project.yaml", f"version: {first}", f"version: {second}")
    assert len(re.findall(r"^\+ ", repository.diff(how), re.M)) <= 2  # the line, and the generation
    repository.apply(how)
    both = {"staging": second, "production": second}
    eventually("production has it", lambda: serving(acting) == both, seen=lambda: serving(acting))
    repository.changes_nothing(how)


def test_drift_in_a_child_is_put_right_without_a_difference_for_git(
    kubectl: Kubectl, two: tuple[Organisation, Organisation], working: RunningOperator, tmp_path: Path
) -> None:
    organisation = two[0]
    acting = NamespacedKubectl(kubectl=kubectl, namespace=organisation.namespace)
    repository = Repository(tmp_path / "repository", kubectl, organisation)
    repository.apply((*SERVER_SIDE, "--force-conflicts"))
    eventually(
        "production has a workload",
        lambda: (
            acting.workload("deployment", "order-sync", "production")
            and acting.workload("service", "order-sync", "production")
        ),
    )
    name = acting.workload("deployment", "order-sync", "production")[0]["metadata"]["name"]
    uid = acting.get("service", name)["metadata"]["uid"]

    acting.run("set", "env", f"deployment/{name}", "TIELINE_ENVIRONMENT=elsewhere")
    acting.run("delete", "service", name)

    def put_right() -> bool:
        deployment = acting.get("deployment", name)
        variables = deployment["spec"]["template"]["spec"]["containers"][0]["env"]
        services = acting.workload("service", "order-sync", "production")
        return {"name": "TIELINE_ENVIRONMENT", "value": "production"} in variables and any(
            service["metadata"]["uid"] != uid for service in services
        )

    eventually("both are as before", put_right)
    repository.changes_nothing(SERVER_SIDE)
