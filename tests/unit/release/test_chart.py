"""The packaged chart: whole, the same bytes twice, and described as it is."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.release import oci
from deploy.release.chart import CONFIG, CONTENT, write_chart
from deploy.release.source import CHART
from tests.harness.cluster.kubectl import ROOT
from tests.harness.session import fast_yaml
from tests.unit.release.releases import SOURCE

DESCRIBED = yaml.safe_load((ROOT / CHART / "Chart.yaml").read_text())
ANNOTATIONS = {
    name.removeprefix("artifacthub.io/"): yaml.safe_load(text)
    for name, text in DESCRIBED["annotations"].items()
}


@pytest.fixture
def written(tmp_path: Path) -> Path:
    write_chart(SOURCE, tmp_path)
    return tmp_path


def test_the_chart_twice_is_the_same_bytes(written: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    again = tmp_path_factory.mktemp("again")
    write_chart(SOURCE, again)
    names = sorted(path.name for path in written.iterdir())
    assert names == ["tieline-0.1.0.chart.oci.tar", "tieline-0.1.0.tgz"]
    for name in names:
        assert (written / name).read_bytes() == (again / name).read_bytes()


def test_the_archive_has_every_file_of_the_chart(written: Path) -> None:
    with tarfile.open(written / "tieline-0.1.0.tgz") as archive:
        packed = {member.name: archive.extractfile(member).read() for member in archive}  # type: ignore[union-attr]
    folder = ROOT / CHART
    assert packed == {
        f"tieline/{path.relative_to(folder)}": path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }
    assert next(iter(packed)) == "tieline/Chart.yaml"


def test_the_artefact_is_what_helm_pulls(written: Path) -> None:
    artefact = oci.checked(written / "tieline-0.1.0.chart.oci.tar")
    assert artefact.manifest["config"]["mediaType"] == CONFIG
    assert [layer["mediaType"] for layer in artefact.manifest["layers"]] == [CONTENT]
    (content,) = [layer.read() for layer in artefact.layers()]
    assert content == (written / "tieline-0.1.0.tgz").read_bytes()
    with tarfile.open(artefact.path) as archive:
        digest = artefact.manifest["config"]["digest"].removeprefix("sha256:")
        config = json.load(archive.extractfile(f"blobs/sha256/{digest}"))  # type: ignore[arg-type]
    assert config == DESCRIBED


def test_artifact_hub_lists_the_definitions_that_the_chart_has() -> None:
    definitions = [fast_yaml.load(path.read_text()) for path in (ROOT / CHART / "files/crds").glob("*.yaml")]
    assert ANNOTATIONS["crds"] == sorted((_listed(one) for one in definitions), key=lambda one: one["name"])


def _listed(definition: dict[str, Any]) -> dict[str, str]:
    (version,) = definition["spec"]["versions"]
    kind = definition["spec"]["names"]["kind"]
    return {
        "kind": kind,
        "version": version["name"],
        "name": definition["metadata"]["name"],
        "displayName": kind,
        "description": " ".join(version["schema"]["openAPIV3Schema"]["description"].split()),
    }


def test_artifact_hub_lists_the_images_that_the_values_name() -> None:
    engine = yaml.safe_load((ROOT / CHART / "values.yaml").read_text())["engine"]
    images = [one["image"] for one in ANNOTATIONS["images"]]
    assert images == [engine["image"], engine["exporter"]["image"]]
