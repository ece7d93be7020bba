"""The chart is whole however it is fetched, and refuses to render when it is not."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.harness.cluster import chart_archives
from tests.harness.cluster.manifest_tools import ManifestTools
from tests.integration.manifests.test_manifests import CHART, NAMESPACE, Objects, objects, tools
from tieline_core.resources import KINDS

__all__ = ["tools"]


def rendered(tools: ManifestTools, chart: Path, *more: str) -> subprocess.CompletedProcess[str]:
    arguments = [tools.helm, "template", "tieline", chart, "-n", NAMESPACE, "--kube-version", "1.34.0", *more]
    return subprocess.run(arguments, capture_output=True, text=True, timeout=60, check=False)


def kinds(found: Objects) -> list[str]:
    return [kind for kind, _, _ in found]


def test_an_archive_of_the_chart_installs_every_object(tools: ManifestTools, tmp_path: Path) -> None:
    repository = chart_archives.checkout(tmp_path / "repository")
    charts = {
        "Flux": chart_archives.from_flux(repository, tmp_path / "flux"),
        "git archive": chart_archives.from_git(repository, tmp_path / "git"),
        "helm package": chart_archives.packaged(tools.helm, repository, tmp_path),
        "a release": chart_archives.released(repository, tmp_path / "release"),
    }
    here = objects(rendered(tools, CHART).stdout)
    assert kinds(here).count("CustomResourceDefinition") == len(KINDS)
    # One for each file, and that of the namespaces.
    policies = len(list((CHART / "files" / "policies").iterdir())) + 1
    assert kinds(here).count("ValidatingAdmissionPolicy") == policies
    assert kinds(here).count("ValidatingAdmissionPolicyBinding") == policies
    for way, chart in charts.items():
        assert objects(rendered(tools, chart).stdout) == here, way


@pytest.mark.parametrize("lost", ["crds", "policies"])
def test_a_chart_without_its_files_is_refused(tools: ManifestTools, tmp_path: Path, lost: str) -> None:
    chart = shutil.copytree(CHART, tmp_path / "tieline")
    shutil.rmtree(chart / "files" / lost)
    done = rendered(tools, chart)
    assert done.returncode != 0
    assert f"this chart has lost files/{lost}" in done.stderr


def test_a_chart_without_definitions_has_no_rights_to_grant(tools: ManifestTools, tmp_path: Path) -> None:
    """Rights of operator and API follow from the definitions, also where the cluster has these already."""
    chart = shutil.copytree(CHART, tmp_path / "tieline")
    shutil.rmtree(chart / "files" / "crds")
    done = rendered(tools, chart, "--set", "crds=false")
    assert (done.returncode != 0, "this chart has lost files/crds" in done.stderr) == (True, True)
