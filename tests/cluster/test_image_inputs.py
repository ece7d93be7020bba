"""What a build of images takes from the Dockerfile and from the machine."""

import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from tests.harness.identity.certificate_authority import Authority
from tieline_cluster.errors import ClusterError
from tieline_cluster.image_build.base_image import (
    LABEL,
    base_image,
    base_script,
    external_bases,
    local_base_arguments,
    mirror_in,
)
from tieline_cluster.image_build.pip_settings import (
    BUNDLE_VARIABLES,
    build_mounts,
    package_settings,
    pip_settings,
)
from tieline_operator.config import Config

DOCKERFILE = """\
# FROM nothing
FROM debian:bookworm-slim AS base
FROM base AS build
FROM --platform=linux/amd64 debian:trixie-slim as other
FROM scratch
"""


def test_only_images_that_the_dockerfile_does_not_make_are_bases() -> None:
    assert external_bases(DOCKERFILE) == ["debian:bookworm-slim", "debian:trixie-slim"]


def test_a_base_that_an_argument_names_is_its_default() -> None:
    dockerfile = "ARG BASE=debian:trixie-slim\nFROM ${BASE} AS base\nFROM base\nFROM $BASE\n"
    assert external_bases(dockerfile) == ["debian:trixie-slim"]
    assert local_base_arguments(dockerfile) == {}


def test_a_base_that_is_pinned_by_its_digest_is_built_on_the_image_made_here() -> None:
    pinned = f"debian:bookworm-slim@sha256:{'0123456789abcdef' * 4}"
    dockerfile = f"ARG BASE={pinned}\nARG OTHER=1\nFROM ${{BASE}} AS base\n"
    assert external_bases(dockerfile) == [pinned]
    assert base_image(pinned).name == "docker.io/library/debian:bookworm-slim"
    assert local_base_arguments(dockerfile) == {"BASE": "docker.io/library/debian:bookworm-slim"}


def test_a_base_has_the_full_name_that_from_means() -> None:
    base = base_image("debian:bookworm-slim")
    assert (base.name, base.release) == ("docker.io/library/debian:bookworm-slim", "bookworm")
    script = base_script(base, ["buildah"])
    assert f"{LABEL}={base.recipe}" in script
    assert "does not know bookworm or its key: apt-get install debootstrap debian-archive-keyring" in script


def test_a_base_with_a_time_has_debians_updates_and_nothing_of_this_machine() -> None:
    plain = base_image("debian:trixie-slim")
    base = replace(plain, timestamp=86_400 * 20_000, mirror="http://own.example/debian")
    assert base.recipe != plain.recipe
    script = base_script(base, ["buildah"])
    fetched, written = re.findall(r"deb (\S+-security) trixie-security main", script)
    assert (fetched, written) == (
        "http://own.example/debian-security",
        "http://deb.debian.org/debian-security",
    )
    upgraded, removed = script.index("apt-get -qq -y upgrade"), script.index('"$root"/etc/resolv.conf')
    assert (
        upgraded
        < removed
        < script.index("umount")
        < script.index("commit --quiet --rm --timestamp 1728000000 ")
    )
    assert "upgrade" not in base_script(plain, ["buildah"])
    shadow = "root:*:20000:0:99999:7:::\n"
    edited = re.search(r"^sed .*? '(.*)' ", script, re.MULTILINE)
    assert edited
    command = ["sed", "-E", edited[1]]
    done = subprocess.run(
        command, input="root:*:1234:0:99999:7:::\n", capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == shadow


def test_a_base_that_debian_does_not_have_is_refused_with_a_way_out() -> None:
    with pytest.raises(ClusterError, match="build this Dockerfile with Docker"):
        base_image("alpine:3")


@pytest.mark.parametrize(
    "sources",
    [
        "deb [signed-by=/k] http://mirror.example/debian bookworm main\n",
        "Types: deb\nURIs: http://mirror.example/debian\nSuites: bookworm\n",
        "deb http://mirror.example/debian-security x main\ndeb http://mirror.example/debian bookworm main\n",
    ],
)
def test_packages_come_from_the_machines_own_mirror(sources: str) -> None:
    assert mirror_in(sources) == "http://mirror.example/debian"


def test_pips_variables_win_over_its_files() -> None:
    files = ["[global]\nindex-url = https://a.example\ntimeout = 5\n", "[install]\ntimeout = 9\n"]
    settings = pip_settings(files, {"PIP_INDEX_URL": "https://b.example", "PATH": "/bin"})
    assert settings == {"index-url": "https://b.example", "timeout": "9"}


def test_a_machine_without_settings_or_authorities_mounts_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare(tmp_path, monkeypatch)
    assert build_mounts({}, tmp_path, tmp_path) == {}


def test_the_index_of_the_machine_is_mounted_into_the_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare(tmp_path, monkeypatch)
    environment = {"PIP_INDEX_URL": "https://b.example/simple", "PIP_FIND_LINKS": "/nowhere"}
    assert build_mounts(environment, tmp_path, tmp_path) == {tmp_path / "pip.conf": "/etc/pip.conf"}
    assert (tmp_path / "pip.conf").read_text() == "[global]\nindex-url = https://b.example/simple\n"


def test_certificates_are_mounted_where_the_machine_has_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare(tmp_path, monkeypatch)
    bundle = tmp_path / "bundle.pem"
    bundle.write_text("")
    paths = build_mounts({"SSL_CERT_FILE": str(bundle)}, tmp_path, tmp_path)
    assert paths[bundle] == str(bundle)
    assert paths[Path("/etc/ssl/certs")] == "/etc/ssl/certs"


def test_the_demo_installs_packages_as_pip_does_on_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare(tmp_path, monkeypatch)
    public, own, more = Authority().ca, Authority().ca, Authority().ca
    (tmp_path / "mozilla").mkdir()
    (tmp_path / "mozilla" / "Public_Root.crt").write_text(public)
    (tmp_path / "bundle.pem").write_text(f"{public}\n# ours\n{own}")
    (tmp_path / "none").mkdir()
    (tmp_path / "none" / "more.crt").write_text(more)
    for name in BUNDLE_VARIABLES:
        environment = {name: str(tmp_path / "bundle.pem"), "PIP_INDEX_URL": "https://b.example/simple"}
        found = package_settings(environment, tmp_path)
        assert found == {
            "TIELINE_PACKAGES_INDEX_URL": "https://b.example/simple",
            "TIELINE_PACKAGES_CA": own + more,
        }
        engine = {"TIELINE_ENGINE_URL": "nats://a"}
        Config.from_environment(
            {"TIELINE_RUNTIME_IMAGE": "r", "TIELINE_API_URL": "http://a", **engine, **found}
        )


@pytest.mark.parametrize(
    "index",
    ["", "http://127.0.0.1:8080/simple", "http://localhost/simple", "https://me:secret@b.example/simple"],
)
def test_the_demo_takes_no_index_that_pods_cannot_use(
    index: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare(tmp_path, monkeypatch)
    assert package_settings({"PIP_INDEX_URL": index}, tmp_path) == {}


def test_a_bundle_with_the_public_authorities_is_not_given_to_the_demo(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare(tmp_path, monkeypatch)
    bundle = tmp_path / "bundle.pem"
    bundle.write_text("".join(Authority().ca for _ in range(150)))
    assert package_settings({"SSL_CERT_FILE": str(bundle)}, tmp_path) == {}


def bare(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without settings of its own."""
    monkeypatch.setattr("tieline_cluster.image_build.pip_settings.OWN_AUTHORITIES", folder / "none")
    monkeypatch.setattr("tieline_cluster.image_build.pip_settings.SYSTEM_FILE", folder / "none.conf")
    monkeypatch.setattr("tieline_cluster.image_build.pip_settings.PUBLIC_AUTHORITIES", folder / "mozilla")
