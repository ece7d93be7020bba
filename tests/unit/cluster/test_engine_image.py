"""The image of the event engine that the built-in cluster loads, and the published one that other clusters pull."""

from __future__ import annotations

import hashlib
import io
import json
import re
import tarfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.harness.cluster.kubectl import ROOT
from tieline_cluster.definition.nats_server import OFFICIAL_IMAGE
from tieline_cluster.existing import Existing
from tieline_cluster.image_build.static_image import StaticImage, engine_image
from tieline_cluster.paths import nats_sources_folder

DEPLOY = ROOT / "deploy"
NAME = "tieline.local/engine:1"


@pytest.fixture
def image(tmp_path: Path) -> StaticImage:
    program = tmp_path / "nats-server"
    program.write_bytes(b"a program")
    return engine_image(program)


def _files(archive: bytes) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(archive)) as opened:
        return {member.name: _content(opened, member) for member in opened}


def _content(opened: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = opened.extractfile(member)
    assert file is not None
    return file.read()


def _json(content: bytes) -> Any:
    return json.loads(content)


def test_a_pod_finds_the_program_by_its_name_and_runs_it_as_nobody_special(image: StaticImage) -> None:
    files = _files(image.archive(NAME))
    (described,) = _json(files["manifest.json"])
    config = _json(files[described["Config"]])
    assert described["RepoTags"] == [NAME]
    assert config["config"] == {
        "Entrypoint": ["/usr/local/bin/nats-server"],
        "User": "65532:65532",
        "Env": ["PATH=/usr/local/bin"],
    }
    (layer,) = [files[name] for name in described["Layers"]]
    assert config["rootfs"]["diff_ids"] == [f"sha256:{hashlib.sha256(layer).hexdigest()}"]
    with tarfile.open(fileobj=io.BytesIO(layer)) as opened:
        (program,) = opened.getmembers()
        assert (program.name, program.mode) == ("usr/local/bin/nats-server", 0o755)
        assert _content(opened, program) == b"a program"


def test_another_program_is_another_image_and_the_same_one_is_not_loaded_twice(
    image: StaticImage, tmp_path: Path
) -> None:
    again, other = tmp_path / "again", tmp_path / "other"
    again.write_bytes(b"a program")
    other.write_bytes(b"another program")
    assert engine_image(again).tag == image.tag
    assert engine_image(other).tag != image.tag


def test_the_engine_is_of_one_version_wherever_it_comes_from() -> None:
    """What tests run is what users pull."""
    required = re.search(
        r"nats-server/v2 v(\d+\.\d+\.\d+)", (nats_sources_folder() / "go.mod").read_text(encoding="utf-8")
    )
    assert required is not None
    assert f"docker.io/library/nats:{required[1]}-alpine" == OFFICIAL_IMAGE
    values = yaml.safe_load((DEPLOY / "helm" / "tieline" / "values.yaml").read_text(encoding="utf-8"))
    assert values["engine"]["image"] == OFFICIAL_IMAGE
    engine = yaml.safe_load_all((DEPLOY / "base" / "engine.yaml").read_text(encoding="utf-8"))
    (pod,) = [one["spec"]["template"]["spec"] for one in engine if one["kind"] == "StatefulSet"]
    assert pod["containers"][0]["image"] == OFFICIAL_IMAGE


def test_a_cluster_of_ones_own_takes_the_image_that_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    existing = Existing(context=None)
    monkeypatch.delenv("TIELINE_ENGINE_IMAGE", raising=False)
    assert existing.engine_image() == OFFICIAL_IMAGE
    monkeypatch.setenv("TIELINE_ENGINE_IMAGE", "registry.example/nats:1")
    assert existing.engine_image() == "registry.example/nats:1"
