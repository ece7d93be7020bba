"""What is installed is pinned by version and by hash, everywhere the same."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = ("constraints.txt", "requirements/platform.txt", "requirements/runtime.txt", "requirements/build.txt")


def pins(name: str) -> dict[str, tuple[str, frozenset[str]]]:
    """The packages of a requirements file, each with its version and hashes."""
    text = (ROOT / name).read_text().replace("\\\n", " ")
    found: dict[str, tuple[str, frozenset[str]]] = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            match = re.match(r"([\w.-]+)==([^\s;]+)", line)
            assert match, f"{name}: {line[:80]} is not pinned"
            hashes = re.findall(r"--hash=sha256:([0-9a-f]{64})(?=\s|$)", line)
            found[normal(match[1])] = (match[2], frozenset(hashes))
    return found


def normal(name: str) -> str:
    """The package's name as PEP 503 compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


PROJECTS = ("pyproject.toml", "deploy/platform/pyproject.toml")


def wanted(name: str, extras: list[str]) -> set[str]:
    """The packages that a distribution asks for with these extras, and by the others of Tieline that it needs."""
    projects = {
        project["name"]: project
        for project in (tomllib.loads((ROOT / path).read_text())["project"] for path in PROJECTS)
    }
    names: set[str] = set()
    waiting = [f"{name}[{','.join(extras)}]"]
    while waiting:
        match = re.match(r"([\w.-]+)(?:\[([\w,]*)\])?", waiting.pop())
        assert match
        project = projects.get(match[1])
        if project is None:
            names.add(normal(match[1]))
            continue
        waiting += project["dependencies"]
        for extra in filter(None, (match[2] or "").split(",")):
            waiting += project["optional-dependencies"][extra]
    return names


@pytest.mark.parametrize("name", FILES)
def test_each_package_has_the_hashes_of_its_files(name: str) -> None:
    found = pins(name)
    assert found
    assert not [package for package, (_, hashes) in found.items() if not hashes]


@pytest.mark.parametrize("name", FILES[1:])
def test_images_install_what_the_tests_ran_with(name: str) -> None:
    everything = pins("constraints.txt")
    assert {package: everything.get(package) for package in pins(name)} == pins(name)


def test_each_direct_dependency_is_pinned() -> None:
    platform = wanted("tieline-platform", ["operator", "api"])
    missing = {
        "constraints.txt": (wanted("tieline", ["dev"]) | platform) - pins("constraints.txt").keys(),
        "requirements/platform.txt": platform - pins("requirements/platform.txt").keys(),
    }
    assert not {file: names for file, names in missing.items() if names}, "run: make constraints KEEP=1"


def test_the_runtime_image_has_the_runtime_and_not_the_platform() -> None:
    found = pins("requirements/runtime.txt").keys()
    assert "aiohttp" in found
    assert not found & {"pydantic", "kubernetes", "kopf"}


def test_every_installation_of_images_and_checkouts_demands_hashes() -> None:
    for name in ("Dockerfile", "Makefile"):
        text = (ROOT / name).read_text().replace("\\\n", " ")
        installs = re.findall(r"(?:pip|python|\$\(PIP\)) +install [^&\n]*", text)
        assert installs
        assert not [one for one in installs if "--require-hashes" not in one and "--no-index" not in one]
