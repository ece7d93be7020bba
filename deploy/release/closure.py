"""The packages that an installation of a wheel brings, in the versions that the release was tested with."""

from __future__ import annotations

from collections.abc import Mapping
from email.parser import BytesParser
from importlib import metadata
from pathlib import Path
from zipfile import ZipFile

from packaging.requirements import Requirement

from deploy.release.errors import ReleaseError
from deploy.release.pins import Pin, normal

EXTRAS_OF_DEVELOPERS = frozenset({"dev"})
ENVIRONMENT = {
    "implementation_name": "cpython",
    "os_name": "posix",
    "platform_machine": "x86_64",
    "platform_python_implementation": "CPython",
    "platform_system": "Linux",
    "python_full_version": "3.13.0",
    "python_version": "3.13",
    "sys_platform": "linux",
}
"""Where it is installed: what the publisher's machine is makes no difference."""


def wheel_requirements(wheel: Path) -> list[Requirement]:
    """What a wheel needs, with all of its extras but those for developers."""
    with ZipFile(wheel) as archive:
        (name,) = [one for one in archive.namelist() if one.endswith(".dist-info/METADATA")]
        described = BytesParser().parsebytes(archive.read(name))
    own = normal(described["Name"])
    extras = set(described.get_all("Provides-Extra", [])) - EXTRAS_OF_DEVELOPERS
    found = [Requirement(one) for one in described.get_all("Requires-Dist", [])]
    return [one for one in found if _applies(one, {"", *extras}) and normal(one.name) != own]


def closure(requirements: list[Requirement], pins: Mapping[str, Pin]) -> list[Pin]:
    """The pins of these packages and of all that they need, by name. Raises ReleaseError if one has no pin."""
    found: dict[str, Pin] = {}
    seen: set[tuple[str, frozenset[str]]] = set()
    waiting = list(requirements)
    while waiting:
        requirement = waiting.pop()
        name, extras = normal(requirement.name), frozenset(requirement.extras)
        if (name, extras) in seen:
            continue
        seen.add((name, extras))
        if name not in pins:
            raise ReleaseError(f"constraints.txt does not pin {name}: run `make constraints KEEP=1`")
        found[name] = pins[name]
        waiting += [one for one in _needs(name) if _applies(one, {"", *extras})]
    return [found[name] for name in sorted(found)]


def _needs(name: str) -> list[Requirement]:
    try:
        return [Requirement(one) for one in metadata.requires(name) or []]
    except metadata.PackageNotFoundError:
        # It is for another Python or system than this one.
        return []


def _applies(requirement: Requirement, extras: set[str]) -> bool:
    marker = requirement.marker
    return marker is None or any(marker.evaluate({**ENVIRONMENT, "extra": extra}) for extra in extras)
