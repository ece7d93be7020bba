"""What an image has: the packages of Debian and of Python in its layers."""

from __future__ import annotations

import re
import tarfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from email.parser import Parser
from pathlib import PurePosixPath
from typing import IO

_STATUS = "var/lib/dpkg/status"
_OS_RELEASE = ("etc/os-release", "usr/lib/os-release")
_DIST_INFO = re.compile(r"opt/(?:.*/)?([^/]+)-([^-/]+)\.dist-info/METADATA")
_HIDDEN, _HIDES_ALL = ".wh.", ".wh..wh..opq"
_MOST_BYTES = 64 << 20


@dataclass(frozen=True)
class DebianPackage:
    """A binary package that is installed, and the source package that it was built from."""

    name: str
    version: str
    architecture: str
    source: str


@dataclass(frozen=True)
class Contents:
    """The packages of an image; ``release`` is Debian's code name."""

    debian: tuple[DebianPackage, ...]
    python: tuple[tuple[str, str], ...]
    release: str


def contents(layers: Iterable[IO[bytes]]) -> Contents:
    """Read the layers, lowest first: later ones replace and hide files of earlier ones."""
    kept: dict[str, str] = {}
    for layer in layers:
        kept = _applied(layer, kept)
    os_release = next((kept[name] for name in _OS_RELEASE if name in kept), "")
    release = re.search(r"^VERSION_CODENAME=(\w+)", os_release, re.MULTILINE)
    found = {(match[1], match[2]) for name in kept if (match := _DIST_INFO.fullmatch(name))}
    return Contents(
        debian=installed(kept.get(_STATUS, "")),
        python=tuple(sorted(found)),
        release=release[1] if release else "",
    )


def _applied(layer: IO[bytes], below: Mapping[str, str]) -> dict[str, str]:
    """The files to know, by name, with those of a layer on top of those below it."""
    hidden: list[str] = []
    found: dict[str, str] = {}
    with tarfile.open(fileobj=layer, mode="r|*") as archive:
        for member in archive:
            path = PurePosixPath(member.name.removeprefix("./"))
            if path.name == _HIDES_ALL:
                hidden.append(f"{path.parent}/")
            elif path.name.startswith(_HIDDEN):
                hidden.append(f"{path.with_name(path.name.removeprefix(_HIDDEN))}/")
            elif member.isfile() and _is_wanted(str(path)):
                file = archive.extractfile(member)
                found[str(path)] = file.read(_MOST_BYTES).decode("utf-8", "replace") if file else ""
    return {name: text for name, text in below.items() if not f"{name}/".startswith(tuple(hidden))} | found


def _is_wanted(name: str) -> bool:
    return name in {_STATUS, *_OS_RELEASE} or _DIST_INFO.fullmatch(name) is not None


def installed(status: str) -> tuple[DebianPackage, ...]:
    """The packages that dpkg's status file calls installed, by name."""
    found = []
    for text in status.split("\n\n"):
        fields = Parser().parsestr(text, headersonly=True)
        if fields.get("Status", "").endswith(" installed"):
            name = fields["Package"]
            source = fields.get("Source", name).partition(" ")[0]
            found.append(DebianPackage(name, fields["Version"], fields["Architecture"], source))
    return tuple(sorted(found, key=lambda one: (one.name, one.architecture)))
