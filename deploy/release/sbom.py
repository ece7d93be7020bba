"""Software bills of materials: CycloneDX 1.6 in JSON."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from deploy.release.archives import sha256
from deploy.release.closure import closure, wheel_requirements
from deploy.release.errors import ReleaseError
from deploy.release.image_contents import Contents, contents
from deploy.release.oci import checked
from deploy.release.pins import NpmPackage, Pin, bundled, normal, read_pins
from deploy.release.source import Source

ENDING = ".cdx.json"
_NAMESPACE = uuid.uuid5(uuid.NAMESPACE_URL, "https://tieline.dev/docs/releasing")
_INDEX = "https://pypi.org/project"

Component = dict[str, Any]


def write_sboms(source: Source, folder: Path) -> None:
    """Write one beside each wheel and each image in a folder."""
    wheels = {normal(path.name.partition("-")[0]): path for path in sorted(folder.glob("*.whl"))}
    own = {name: Pin(name, source.version, (sha256(wheel),)) for name, wheel in wheels.items()}
    pins = read_pins(source.files / "constraints.txt") | own
    for name, wheel in wheels.items():
        components = [python_component(pin) for pin in closure(wheel_requirements(wheel), pins)]
        described = {"type": "library", "name": name, "purl": _purl("pypi", name, source.version)}
        _write(source, wheel, described, components)
    for target in ("platform", "runtime"):
        for image in sorted(folder.glob(f"tieline-{target}-*.image.oci.tar")):
            described = {"type": "container", "name": f"tieline-{target}"}
            _write(
                source, image, described, image_components(source, target, contents(checked(image).layers()))
            )


def image_components(source: Source, target: str, found: Contents) -> list[Component]:
    """What an image has, with the hashes of the lock files. Raises ReleaseError for what they do not pin."""
    pins = read_pins(source.files / f"requirements/{target}.txt")
    if target == "runtime":
        pins |= read_pins(source.files / "requirements/installer.txt")
    own = {"tieline", "tieline-platform"}
    python = [(normal(name), version) for name, version in found.python if normal(name) not in own]
    foreign = [
        f"{name} {version}" for name, version in python if name not in pins or pins[name].version != version
    ]
    if foreign:
        raise ReleaseError(f"The image {target} has what its lock file does not pin: {', '.join(foreign)}")
    return [
        *(debian_component(one, found.release) for one in found.debian),
        *(python_component(pins[name]) for name, _ in python),
        *(npm_component(one) for one in (bundled(source.files / "console") if target == "platform" else ())),
    ]


def python_component(pin: Pin) -> Component:
    """A Python package. The lock has the digests of all its files, one of which was installed."""
    distribution = {
        "type": "distribution",
        "url": f"{_INDEX}/{pin.name}/{quote(pin.version)}/",
        "hashes": [{"alg": "SHA-256", "content": one} for one in pin.hashes],
    }
    purl = _purl("pypi", pin.name, pin.version)
    return _component(pin.name, pin.version, purl, externalReferences=[distribution])


def npm_component(package: NpmPackage) -> Component:
    """A package of npm."""
    purl = _purl("npm", package.name, package.version)
    hashes = [{"alg": "SHA-512", "content": package.sha512}]
    return _component(package.name, package.version, purl, hashes=hashes)


def debian_component(package: Any, release: str) -> Component:
    """A package of Debian."""
    qualifiers = {"arch": package.architecture, "distro": release, "upstream": package.source}
    purl = _purl("deb", f"debian/{package.name}", package.version, qualifiers)
    return _component(package.name, package.version, purl)


def document(source: Source, described: Component, components: Iterable[Component]) -> dict[str, Any]:
    """The document about ``described``. Its serial number follows from its content."""
    listed = sorted(components, key=lambda one: one["bom-ref"])
    content = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "timestamp": source.time,
            "tools": {
                "components": [{"type": "application", "name": "deploy.release", "version": source.version}]
            },
            "component": described,
        },
        "components": listed,
        "dependencies": [{"ref": described["bom-ref"], "dependsOn": [one["bom-ref"] for one in listed]}],
    }
    serial = uuid.uuid5(_NAMESPACE, json.dumps(content, sort_keys=True))
    return {**content, "serialNumber": f"urn:uuid:{serial}"}


def _write(source: Source, artefact: Path, described: Component, components: Iterable[Component]) -> None:
    whole = {
        **described,
        "bom-ref": artefact.name,
        "version": source.version,
        "hashes": [{"alg": "SHA-256", "content": sha256(artefact)}],
        "licenses": [{"license": {"id": "Apache-2.0"}}],
    }
    text = json.dumps(document(source, whole, components), indent=1, sort_keys=True)
    artefact.with_name(f"{artefact.name}{ENDING}").write_text(f"{text}\n", encoding="utf-8")


def _component(name: str, version: str, purl: str, **more: Any) -> Component:
    return {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl, **more}


def _purl(kind: str, name: str, version: str, qualifiers: Mapping[str, str] | None = None) -> str:
    """A package URL (ECMA-427)."""
    path = "/".join(quote(part, safe="") for part in name.split("/"))
    given = "&".join(
        f"{key}={quote(value, safe=':')}" for key, value in sorted((qualifiers or {}).items()) if value
    )
    return f"pkg:{kind}/{path}@{quote(version, safe=':')}{f'?{given}' if given else ''}"
