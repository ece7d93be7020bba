"""What Flux and forges archive reaches a cluster whole, and generated manifests are complete."""

from pathlib import Path

import pytest

from deploy.manifests import KUSTOMIZATION, base, differences
from tests.harness.session import fast_yaml

ROOT = Path(__file__).parents[2]
RENDERED = """---
# Source: tieline/templates/api.yaml
# Why there is an account.
apiVersion: v1
kind: ServiceAccount
metadata:
  name: tieline-api
  labels:

    app.kubernetes.io/part-of: tieline
    app.kubernetes.io/instance: tieline
    app.kubernetes.io/version: "0.1.0"
    app.kubernetes.io/managed-by: Helm
    helm.sh/chart: tieline-0.1.0
---
# Source: tieline/templates/policies.yaml
kind: ValidatingAdmissionPolicy
---
# Source: tieline/templates/roles.yaml
kind: ClusterRole
---
# Source: tieline/templates/api.yaml
kind: Deployment
spec:
  template:
    metadata:
      annotations:
        checksum/configuration: 0a0a
    spec:
      annotations:
        kept: "true"
"""


@pytest.mark.parametrize("folder", ["deploy", "crds", "examples"])
def test_no_manifest_is_a_symbolic_link(folder: str) -> None:
    """Flux leaves links out of its archives, and an upgrade to a chart without policies deletes them."""
    assert not [path for path in (ROOT / folder).rglob("*") if path.is_symlink()]


def test_the_base_has_no_marks_of_a_helm_release() -> None:
    text = base(RENDERED)["api.yaml"]
    assert "# Why there is an account." in text
    account, deployment = fast_yaml.load_all(text)
    assert account["metadata"] == {
        "name": "tieline-api",
        "labels": {"app.kubernetes.io/part-of": "tieline"},
    }
    assert deployment["spec"]["template"] == {"metadata": None, "spec": {"annotations": {"kept": "true"}}}


def test_the_base_lists_every_file_of_the_chart_once() -> None:
    files = base(RENDERED)
    assert set(files) == {KUSTOMIZATION, "api.yaml", "roles.yaml"}
    listed = fast_yaml.load(files[KUSTOMIZATION])["resources"]
    assert listed == ["../../crds", "../policies", "namespace.yaml", "api.yaml", "roles.yaml"]


def test_stale_missing_and_leftover_manifests_are_reported(tmp_path: Path) -> None:
    folder = Path("deploy/base")
    (tmp_path / folder).mkdir(parents=True)
    for name in ("current", "stale", "leftover", "namespace"):
        (tmp_path / folder / f"{name}.yaml").write_text(name)
    wanted = {folder / "current.yaml": "current", folder / "stale.yaml": "new", folder / "missing.yaml": ""}
    found = differences(wanted, tmp_path)
    assert [path.stem for path in found] == ["leftover", "missing", "stale"]
