"""What lock files say: Python packages with hashes, and the npm packages of the console's bundle."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_IMPORT = re.compile(r"""(?:from|import)\s*\(?\s*["']([^"'.][^"']*)["']""")


@dataclass(frozen=True)
class Pin:
    """A package in one version, and the SHA-256 digests of the files that may be installed."""

    name: str
    version: str
    hashes: tuple[str, ...]


@dataclass(frozen=True)
class NpmPackage:
    """A package of npm in one version, and the SHA-512 digest of its archive."""

    name: str
    version: str
    sha512: str


def normal(name: str) -> str:
    """A Python package's name as PEP 503 compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def read_pins(path: Path) -> dict[str, Pin]:
    """The packages of a requirements file, by their normal names."""
    found = {}
    for line in path.read_text("utf-8").replace("\\\n", " ").splitlines():
        match = re.match(r"([\w.-]+)==([^\s;]+)", line)
        if match:
            hashes = tuple(sorted(re.findall(r"--hash=sha256:([0-9a-f]{64})", line)))
            found[normal(match[1])] = Pin(normal(match[1]), match[2], hashes)
    return found


def bundled(console: Path) -> list[NpmPackage]:
    """The packages that the console's sources import, and those that these need, by name and version."""
    lock = json.loads((console / "package-lock.json").read_text("utf-8"))["packages"]
    sources = (path for path in (console / "src").rglob("*") if path.suffix in {".ts", ".tsx"})
    imported = {name for path in sources for name in imports(path.read_text("utf-8"))}
    places = _closure(lock, (f"node_modules/{name}" for name in imported))
    packages = {_npm_package(place, lock[place]) for place in places}
    return sorted(packages, key=lambda one: (one.name, one.version))


def imports(source: str) -> set[str]:
    """The packages that a module of TypeScript imports from, without the types of other programs."""
    return {_package(name) for name in _IMPORT.findall(source)}


def _package(name: str) -> str:
    parts = name.split("/")
    return "/".join(parts[: 2 if name.startswith("@") else 1])


def _closure(lock: Mapping[str, Any], places: Iterable[str]) -> set[str]:
    found: set[str] = set()
    waiting = [place for place in places if place in lock]
    while waiting:
        place = waiting.pop()
        if place not in found:
            found.add(place)
            waiting += _needed(lock, place)
    return found


def _needed(lock: Mapping[str, Any], place: str) -> Iterator[str]:
    """Where the dependencies of a package are: in its own folder, or in one above it, as Node looks."""
    for name in lock[place].get("dependencies", {}):
        above = place
        while f"{above}/node_modules/{name}" not in lock and above:
            above = above.rpartition("/node_modules/")[0]
        yield f"{above}/node_modules/{name}".lstrip("/")


def _npm_package(place: str, entry: Mapping[str, Any]) -> NpmPackage:
    algorithm, _, encoded = entry["integrity"].partition("-")
    assert algorithm == "sha512", f"{place} has a digest by {algorithm}"  # noqa: S101  (npm's own file)
    name = place.rpartition("node_modules/")[2]
    return NpmPackage(name, entry["version"], base64.b64decode(encoded).hex())
