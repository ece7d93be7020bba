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
from tieline_cluster.image_build.static_image import ENGINE_TOOLS, StaticImage, engine_image
from tieline_cluster.paths import nats_sources_folder

DEPLOY = ROOT / "deploy"
NAME = "tieline.local/engine:1"


@pytest.fixture
def image(tmp_path: Path) -> StaticImage:
    program = tmp_path / "nats-server"
    program.write_bytes(b"a program")
    return _image_of(program)


def _image_of(program: Path) -> StaticImage:
    busybox = program.parent / "busybox"
    busybox.write_bytes(b"a busybox")
    (program.parent / "wget").write_bytes(b"a wget")
    return engine_image(program, busybox)


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
        "Env": ["PATH=/usr/local/bin:/bin"],
    }
    (layer,) = [files[name] for name in described["Layers"]]
    assert config["rootfs"]["diff_ids"] == [f"sha256:{hashlib.sha256(layer).hexdigest()}"]
    with tarfile.open(fileobj=io.BytesIO(layer)) as opened:
        members = opened.getmembers()
        found = {one.name: (one.mode, _content(opened, one)) for one in members if one.isfile()}
        links = {one.name: one.linkname for one in members if one.issym()}
    assert found == {
        "usr/local/bin/nats-server": (0o755, b"a program"),
        "usr/local/bin/wget": (0o755, b"a wget"),
        "bin/busybox": (0o755, b"a busybox"),
    }
    assert links == {f"bin/{tool}": "/bin/busybox" for tool in ENGINE_TOOLS}


def test_what_the_manifest_runs_is_in_the_image() -> None:
    """Of the published image all is known to be there."""
    engine = _engine_container()
    start = engine["command"]
    assert start[:2] == ["sh", "-ec"]
    assert "$$" not in start[2], "Kubernetes makes one of two"
    builtin = {"echo", "exec", "shift", "read", "[", "kill", "while", "do", "done", "if", "then", "fi"}
    commands = r"(?:^ *(?:while |if )?|\$\(|&& |\| )([a-z-]+|\[)(?= |$)"
    words = set(re.findall(commands, start[2], re.MULTILINE)) | {"sh"}
    probes = {engine[f"{name}Probe"]["exec"]["command"][0] for name in ("startup", "readiness", "liveness")}
    assert probes == {"wget"}
    assert words - builtin - {"nats-server"} == set(ENGINE_TOOLS)


def test_another_program_is_another_image_and_the_same_one_is_not_loaded_twice(
    image: StaticImage, tmp_path: Path
) -> None:
    again, other = tmp_path / "again", tmp_path / "other"
    again.write_bytes(b"a program")
    other.write_bytes(b"another program")
    assert _image_of(again).tag == image.tag
    assert _image_of(other).tag != image.tag


def test_the_engine_is_of_one_version_wherever_it_comes_from() -> None:
    """What tests run is what users pull."""
    required = re.search(
        r"nats-server/v2 v(\d+\.\d+\.\d+)", (nats_sources_folder() / "go.mod").read_text(encoding="utf-8")
    )
    assert required is not None
    assert f"docker.io/library/nats:{required[1]}-alpine" == OFFICIAL_IMAGE
    values = yaml.safe_load((DEPLOY / "helm" / "tieline" / "values.yaml").read_text(encoding="utf-8"))
    assert values["engine"]["image"] == OFFICIAL_IMAGE
    assert _engine_container()["image"] == OFFICIAL_IMAGE


def _engine_container() -> dict[str, Any]:
    engine = yaml.safe_load_all((DEPLOY / "base" / "engine.yaml").read_text(encoding="utf-8"))
    (pod,) = [one["spec"]["template"]["spec"] for one in engine if one["kind"] == "StatefulSet"]
    container: dict[str, Any] = pod["containers"][0]
    return container


def test_a_cluster_of_ones_own_takes_the_image_that_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    existing = Existing(context=None)
    monkeypatch.delenv("TIELINE_ENGINE_IMAGE", raising=False)
    assert existing.engine_image() == OFFICIAL_IMAGE
    monkeypatch.setenv("TIELINE_ENGINE_IMAGE", "registry.example/nats:1")
    assert existing.engine_image() == "registry.example/nats:1"
