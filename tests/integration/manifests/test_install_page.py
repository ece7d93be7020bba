"""docs/install.md: its values and its overlay make what it says."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.harness.cluster.kubectl import ROOT
from tests.harness.cluster.manifest_tools import ManifestTools, manifest_tools
from tests.harness.session import fast_yaml
from tests.harness.session.uncaptured_progress import UncapturedProgress
from tests.unit.docs.doc_pages import page

PAGE = page("docs/install.md")
IMAGES = {"registry.example/tieline-platform:0.1.0"}
RUNTIME = "registry.example/tieline-runtime:0.1.0"


@pytest.fixture(scope="module")
def tools(request: pytest.FixtureRequest) -> ManifestTools:
    return manifest_tools(UncapturedProgress(request.config.pluginmanager.getplugin("capturemanager")))


def marked(mark: str) -> str:
    (block,) = [one for one in PAGE.blocks("yaml") if one.mark == mark]
    return block.text


def rendered(*command: str | Path) -> list[dict[str, Any]]:
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return [document for document in fast_yaml.load_all(done.stdout) if document]


def images(objects: list[dict[str, Any]]) -> set[str]:
    deployments = [one for one in objects if one["kind"] == "Deployment"]
    return {one["spec"]["template"]["spec"]["containers"][0]["image"] for one in deployments}


def settings(objects: list[dict[str, Any]]) -> dict[str, str]:
    (found,) = [one["data"] for one in objects if one["kind"] == "ConfigMap"]
    return dict(found)


@pytest.fixture
def from_overlay(tools: ManifestTools, tmp_path: Path) -> list[dict[str, Any]]:
    for folder in ("deploy", "crds"):
        shutil.copytree(ROOT / folder, tmp_path / folder, symlinks=True)
    yours = tmp_path / "deploy" / "overlays" / "yours"
    yours.mkdir()
    (yours / "kustomization.yaml").write_text(marked("overlay"))
    return rendered(tools.kustomize, "build", yours)


def test_the_pages_values_name_images_and_settings(tools: ManifestTools, tmp_path: Path) -> None:
    (tmp_path / "values.yaml").write_text(marked("values"))
    chart = ["deploy/helm/tieline", "-n", "tieline-system", "--kube-version", "1.34.0"]
    objects = rendered(tools.helm, "template", "tieline", *chart, "-f", tmp_path / "values.yaml")
    assert images(objects) == IMAGES
    found = settings(objects)
    assert found["TIELINE_RUNTIME_IMAGE"] == RUNTIME
    assert found["TIELINE_PUBLIC_API_URL"] == "https://tieline.example"


def test_the_pages_helm_commands_name_images_and_the_organisation(tools: ManifestTools) -> None:
    # The chart of a release is the same as a file.
    commands = [
        shlex.split(line.replace("tieline-0.1.0.tgz", "deploy/helm/tieline"))[2:]
        for block in PAGE.blocks("console")
        for line in block.text.replace("\\\n", " ").splitlines()
        if line.startswith("helm install")
    ]
    served = []
    for arguments in commands:
        objects = rendered(tools.helm, "template", *arguments, "--kube-version", "1.34.0")
        assert images(objects) == IMAGES
        assert settings(objects)["TIELINE_RUNTIME_IMAGE"] == RUNTIME
        served.append(settings(objects).get("TIELINE_NAMESPACES"))
    assert served == [None, None, "acme"]


def test_the_pages_overlay_names_images_and_its_namespace_is_restricted(
    from_overlay: list[dict[str, Any]],
) -> None:
    assert images(from_overlay) == IMAGES
    assert settings(from_overlay)["TIELINE_RUNTIME_IMAGE"] == RUNTIME
    (namespace,) = [one for one in from_overlay if one["kind"] == "Namespace"]
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"


def test_what_the_page_deletes_by_label_is_all_that_is_not_in_the_namespace(
    from_overlay: list[dict[str, Any]],
) -> None:
    policies = {"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}
    outside = [one for one in from_overlay if not one["metadata"].get("namespace") or one["kind"] in policies]
    by_label = {"ClusterRole", "ClusterRoleBinding", *policies}
    assert {one["kind"] for one in outside} == {*by_label, "Namespace", "CustomResourceDefinition"}
    assert all(one["metadata"]["labels"]["app.kubernetes.io/part-of"] == "tieline" for one in outside)
    found = re.findall(r"kubectl delete (\S+) -l app.kubernetes.io/part-of=tieline", PAGE.text)
    with_the_platform, with_the_definitions = (set(kinds.split(",")) for kinds in found)
    plurals = {kind.lower().removesuffix("y") + ("ies" if kind.endswith("y") else "s") for kind in by_label}
    assert with_the_platform | with_the_definitions == plurals
    assert with_the_platform == {"clusterroles", "clusterrolebindings"}, "policies guard what stays"
