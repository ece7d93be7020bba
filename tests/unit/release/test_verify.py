"""``--verify`` accepts a release as it was written, and no other."""

from __future__ import annotations

import hashlib
import io
import json
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from deploy.release import checksums, provenance
from deploy.release.main import main
from tests.unit.release.releases import SOURCE, write_release

CHART = "tieline-0.1.0.tgz"
IMAGE = "tieline-runtime-0.1.0-linux-amd64.image.oci.tar"


@pytest.fixture
def release(tmp_path: Path) -> Path:
    work = tmp_path / "work"
    work.mkdir()
    write_release(tmp_path / "dist", work)
    return tmp_path / "dist"


def test_a_release_is_as_its_checksums_say(release: Path) -> None:
    assert main(["--verify", str(release)]) == 0
    command = ["sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS"]
    assert subprocess.run(command, cwd=release, timeout=60, check=False).returncode == 0


def test_signatures_that_are_added_later_change_nothing(release: Path) -> None:
    (release / "SHA256SUMS.sigstore.json").write_text("{}")
    assert main(["--verify", str(release)]) == 0


def _tamper(release: Path) -> None:
    path = release / CHART
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def _tamper_and_sum(release: Path) -> None:
    _tamper(release)
    checksums.write_checksums(release)


def _exchange_a_layer(release: Path) -> None:
    """As somebody does who also writes checksums and provenance anew."""
    path = release / IMAGE
    with tarfile.open(path) as archive:
        members = {one.name: archive.extractfile(one).read() for one in archive}  # type: ignore[union-attr]
    largest = max(
        (name for name in members if name.startswith("blobs/")), key=lambda name: len(members[name])
    )
    members[largest] = bytes(len(members[largest]))
    with tarfile.open(path, "w") as archive:
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    provenance.write_provenance(SOURCE, release)
    checksums.write_checksums(release)


def _truncate(release: Path) -> None:
    path = release / IMAGE
    path.write_bytes(path.read_bytes()[:1000])
    provenance.write_provenance(SOURCE, release)
    checksums.write_checksums(release)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_tamper, f"{CHART} has another digest"),
        (_tamper_and_sum, "provenance.intoto.json is about other files than SHA256SUMS"),
        (_exchange_a_layer, "has another digest"),
        (_truncate, f"{IMAGE} is no OCI image layout"),
        (lambda release: (release / CHART).unlink(), f"{CHART} is missing"),
        (
            lambda release: (release / "tieline-extra.whl").write_text(""),
            "tieline-extra.whl is not in SHA256SUMS",
        ),
        (lambda release: (release / "SHA256SUMS").unlink(), "is not the folder of a release"),
        (lambda release: (release / "SHA256SUMS").write_text("../x  y\n"), "no digest and name"),
    ],
)
def test_a_tampered_release_is_refused(
    release: Path, change: Callable[[Path], object], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    change(release)
    assert main(["--verify", str(release)]) == 1
    assert said in capsys.readouterr().err


def test_the_statement_names_the_commit_and_what_pins_its_dependencies(release: Path) -> None:
    statement = json.loads((release / provenance.NAME).read_text())
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    assert statement["predicateType"] == "https://slsa.dev/provenance/v1"
    definition = statement["predicate"]["buildDefinition"]
    source, *materials = definition["resolvedDependencies"]
    assert source["digest"] == {"gitCommit": SOURCE.commit}
    assert {one["name"]: one["digest"]["sha256"] for one in materials} == {
        name: hashlib.sha256((SOURCE.files / name).read_bytes()).hexdigest() for name in provenance.MATERIALS
    }
    described = {one["name"] for one in statement["subject"]}
    assert described == {path.name for path in release.iterdir()} - {provenance.NAME, checksums.NAME}


def test_githubs_runner_is_named_as_the_builder() -> None:
    environment = {
        "GITHUB_SERVER_URL": "https://forge.example",
        "GITHUB_REPOSITORY": "tieline/tieline",
        "GITHUB_WORKFLOW_REF": "tieline/tieline/.github/workflows/release.yaml@refs/tags/v0.1.0",
        "GITHUB_RUN_ID": "7",
        "GITHUB_RUN_ATTEMPT": "1",
    }
    predicate = provenance.statement(SOURCE, {}, environment)["predicate"]
    source = predicate["buildDefinition"]["resolvedDependencies"][0]
    assert source["uri"] == "git+https://forge.example/tieline/tieline"
    assert predicate["runDetails"] == {
        "builder": {
            "id": "https://forge.example/tieline/tieline/.github/workflows/release.yaml@refs/tags/v0.1.0"
        },
        "metadata": {"invocationId": "https://forge.example/tieline/tieline/actions/runs/7/attempts/1"},
    }


def test_a_release_twice_is_the_same_bytes(release: Path, tmp_path: Path) -> None:
    work = tmp_path / "again"
    work.mkdir()
    write_release(tmp_path / "twice", work)
    assert {path.name: path.read_bytes() for path in release.iterdir()} == {
        path.name: path.read_bytes() for path in (tmp_path / "twice").iterdir()
    }
