"""The bills of materials: valid by CycloneDX' own schema, and complete."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL
from packaging.requirements import Requirement

from deploy.release import oci, sbom
from deploy.release.closure import closure
from deploy.release.errors import ReleaseError
from deploy.release.image_contents import contents
from deploy.release.images import write_image
from deploy.release.pins import bundled, imports, read_pins
from tests.harness.cluster.kubectl import ROOT
from tests.unit.release.releases import BASE, SOURCE, layout, packages


def of_image(target: str, folder: Path, *layers: dict[str, str]) -> dict[str, Any]:
    """The document about an image with these layers."""
    (folder / "layout").mkdir()
    write_image(SOURCE, target, layout(folder / "layout", *layers), folder)
    sbom.write_sboms(SOURCE, folder)
    (path,) = folder.glob("*.cdx.json")
    document: dict[str, Any] = json.loads(path.read_text())
    return document


def purls(document: dict[str, Any]) -> list[str]:
    return [one["purl"] for one in document["components"]]


@pytest.mark.parametrize("target", ["platform", "runtime"])
def test_it_is_valid_by_the_official_schema(target: str, tmp_path: Path) -> None:
    document = of_image(target, tmp_path, BASE, packages(f"{target}.txt", "aiohttp", "nats-py"))
    found = JsonStrictValidator(SchemaVersion.V1_6).validate_str(json.dumps(document))
    assert found is None, found
    for purl in purls(document):
        assert PackageURL.from_string(purl).to_string() == purl


def test_it_has_the_packages_of_debian_and_python_that_the_layers_have(tmp_path: Path) -> None:
    pins = read_pins(ROOT / "requirements" / "runtime.txt")
    document = of_image("runtime", tmp_path, BASE, packages("runtime.txt", "aiohttp", "nats-py"))
    assert purls(document) == [
        "pkg:deb/debian/libc6@2.41-12%2Bdeb13u1?arch=amd64&distro=trixie&upstream=glibc",
        "pkg:deb/debian/python3@3.13.5-1?arch=amd64&distro=trixie&upstream=python3-defaults",
        f"pkg:pypi/aiohttp@{pins['aiohttp'].version}",
        f"pkg:pypi/nats-py@{pins['nats-py'].version}",
    ]
    (distribution,) = document["components"][2]["externalReferences"]
    assert tuple(one["content"] for one in distribution["hashes"]) == pins["aiohttp"].hashes
    assert len(pins["aiohttp"].hashes) > 10


def test_the_platforms_has_the_packages_of_the_consoles_bundle(tmp_path: Path) -> None:
    found = purls(of_image("platform", tmp_path, BASE))
    react = json.loads((ROOT / "console/package.json").read_text())["dependencies"]["react"]
    assert f"pkg:npm/react@{react}" in found
    assert f"pkg:npm/scheduler@{_locked('scheduler')}" in found
    assert f"pkg:npm/%40codemirror/view@{_locked('@codemirror/view')}" in found
    assert not [one for one in found if "/vite@" in one or "/typescript@" in one]


def _locked(name: str) -> str:
    lock = json.loads((ROOT / "console/package-lock.json").read_text())
    return str(lock["packages"][f"node_modules/{name}"]["version"])


def test_a_package_that_no_lock_pins_is_refused(tmp_path: Path) -> None:
    found = {"opt/tieline/lib/python3.13/site-packages/stowaway-6.6.6.dist-info/METADATA": ""}
    with pytest.raises(ReleaseError, match=r"runtime has what its lock file does not pin: stowaway 6\.6\.6"):
        of_image("runtime", tmp_path, BASE, found)


def test_what_a_later_layer_removes_is_not_listed(tmp_path: Path) -> None:
    (tmp_path / "layout").mkdir()
    code = packages("runtime.txt", "aiohttp", "nats-py")
    gone = next(iter(code)).rpartition("/")[0]
    hidden = {f"{gone.rpartition('/')[0]}/.wh.{gone.rpartition('/')[2]}": ""}
    write_image(SOURCE, "runtime", layout(tmp_path / "layout", BASE, code, hidden), tmp_path)
    (archive,) = tmp_path.glob("*.oci.tar")
    assert [name for name, _ in contents(oci.checked(archive).layers()).python] == ["nats_py"]


def test_a_wheels_packages_are_followed_to_what_they_need() -> None:
    pins = read_pins(ROOT / "constraints.txt")
    found = {
        one.name: one for one in closure([Requirement("typer>=0.20"), Requirement("pyjwt[crypto]")], pins)
    }
    assert {"typer", "rich", "pyjwt", "cryptography", "cffi"} <= found.keys()
    assert "pytest" not in found
    assert found["typer"] == pins["typer"]


def wheel(folder: Path, name: str, *metadata: str) -> None:
    """A wheel that is nothing but its description."""
    described = "".join(f"{line}\n" for line in ("Metadata-Version: 2.4", f"Name: {name}", *metadata))
    with ZipFile(folder / f"{name.replace('-', '_')}-0.1.0-py3-none-any.whl", "w") as archive:
        archive.writestr(f"{name.replace('-', '_')}-0.1.0.dist-info/METADATA", described)


def test_a_wheels_document_has_its_extras_but_not_those_of_developers(tmp_path: Path) -> None:
    pins = read_pins(ROOT / "constraints.txt")
    extras = ("Provides-Extra: cli", "Provides-Extra: dev")
    needed = ('Requires-Dist: uv>=0.9; extra == "cli"', 'Requires-Dist: ruff; extra == "dev"')
    wheel(tmp_path, "tieline", *extras, *needed)
    wheel(tmp_path, "tieline-platform", "Requires-Dist: tieline==0.1.0")
    sbom.write_sboms(SOURCE, tmp_path)
    authors, platform = (json.loads(path.read_text()) for path in sorted(tmp_path.glob("*.cdx.json")))
    assert purls(authors) == [f"pkg:pypi/uv@{pins['uv'].version}"]
    assert {"pkg:pypi/tieline@0.1.0", f"pkg:pypi/orjson@{pins['orjson'].version}"} <= set(purls(platform))
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(json.dumps(platform)) is None


def test_a_package_without_a_pin_is_named() -> None:
    with pytest.raises(ReleaseError, match="does not pin left-pad"):
        closure([Requirement("left-pad")], {})


def test_imports_are_read_from_typescript() -> None:
    source = """\
import { lazy } from "react";
import type { A } from "./own";
import "wouter/use-browser-location";
export { b } from '@tanstack/react-query';
const editor = lazy(() => import("@codemirror/view"));
"""
    assert imports(source) == {"react", "wouter", "@tanstack/react-query", "@codemirror/view"}


def test_nested_packages_of_npm_are_found_where_node_looks(tmp_path: Path) -> None:
    digest = {"integrity": "sha512-" + 86 * "A" + "=="}
    lock = {
        "node_modules/a": {"version": "1.0.0", **digest, "dependencies": {"b": "^2", "c": "1"}},
        "node_modules/a/node_modules/b": {"version": "2.0.0", **digest, "dependencies": {"c": "1"}},
        "node_modules/b": {"version": "1.0.0", **digest},
        "node_modules/c": {"version": "1.0.0", **digest},
    }
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "main.tsx").write_text('import a from "a";\n')
    (tmp_path / "package-lock.json").write_text(json.dumps({"packages": lock}))
    assert [(one.name, one.version) for one in bundled(tmp_path)] == [
        ("a", "1.0.0"),
        ("b", "2.0.0"),
        ("c", "1.0.0"),
    ]
