"""What authors install has no operator and API inside, and needs none."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

from deploy.release.source import PROJECTS
from tests.harness.cluster.kubectl import ROOT

AUTHORS, PLATFORM = (tomllib.loads((ROOT / path).read_text()) for path in PROJECTS)


def folders(project: dict[str, Any]) -> dict[str, Path]:
    """Where the packages of a distribution's wheel are, by name."""
    packages = project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    return {Path(one).name: ROOT / one for one in packages}


def test_each_package_is_in_one_distribution() -> None:
    packages = {path.parent.name for path in ROOT.glob("*/tieline*/__init__.py")}
    authors, platform = folders(AUTHORS).keys(), folders(PLATFORM).keys()
    assert not authors & platform
    assert authors | platform | {"tieline_cluster"} == packages
    assert {"tieline_core", "tieline_operator", "tieline_api"} == platform


def test_the_authors_packages_import_none_of_the_platform() -> None:
    found = {
        f"{path.relative_to(ROOT)}: {name}"
        for folder in folders(AUTHORS).values()
        for path in folder.rglob("*.py")
        for name in re.findall(r"^\s*(?:from|import) (tieline\w*)", path.read_text("utf-8"), re.MULTILINE)
        if name not in folders(AUTHORS)
    }
    assert not found


def test_a_source_distribution_has_what_its_wheel_is_built_from() -> None:
    for project in (AUTHORS, PLATFORM):
        included = project["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
        for package in project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]:
            assert any(f"/{package}/".startswith(f"{one}/") for one in included), package


def test_each_command_is_in_the_distribution_of_its_package() -> None:
    for project in (AUTHORS, PLATFORM):
        for target in project["project"]["scripts"].values():
            assert target.partition(".")[0] in folders(project)
