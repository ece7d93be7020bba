"""The lock of a project's packages: ``requirements.txt`` with exact versions and hashes.

It is the part of pip's format that says what to install and nothing else: no options, no URLs, no other files. So who
installs it decides where from, and gets what the author had.
"""

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from tieline_protocol.findings import Finding
from tieline_protocol.runtime_image import REQUIREMENTS

MAX_PACKAGES = 300
MAX_LOCK_BYTES = 512 * 1024
MAX_HASHES = 500
"""Of one package: a release of NumPy has about 80 files."""
_MAX_PROBLEMS = 64

_NAME = r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,98}[A-Za-z0-9])?"
_EXTRAS = r"\[[A-Za-z0-9._, -]{1,200}\]"
_PINNED = re.compile(
    rf"(?P<name>{_NAME}) ?(?P<extras>{_EXTRAS})? ?== ?(?P<version>[A-Za-z0-9.!+_-]{{1,100}})"
    r"(?: ?;(?P<marker>[^;]{1,500}))?"
)
_FIRST_WORD = re.compile(rf"(?P<name>{_NAME})(?P<rest>.{{0,200}})", re.DOTALL)
_HASH = re.compile(r"\s--hash=(?P<algorithm>[a-z0-9]{1,16}):(?P<value>[0-9a-fA-F]{1,128})(?=\s|$)")
_COMMENT = re.compile(r"(?:^|\s)#.*$")
_OPTION = re.compile(r"(?:^|\s)--")
_SEPARATORS = re.compile(r"[-_.]+")
_MARKER = re.compile(r"[A-Za-z0-9_.,<>=!~'\"()* +-]+")
_SHA256 = 64

_LOCK = "write the file with `tieline lock`, or with another tool that locks with hashes"


@dataclass(frozen=True, kw_only=True)
class LockedPackage:
    """A package of the lock."""

    name: str
    """Normalised, as in an index: ``python-dateutil``."""
    extras: str
    version: str
    marker: str
    """Where it is needed, as in PEP 508; empty for everywhere."""
    hashes: tuple[str, ...]
    """SHA-256 of the files that are allowed."""
    line: int

    @property
    def requirement(self) -> str:
        """The package as a line of ``requirements.txt``."""
        marker = f" ; {self.marker}" if self.marker else ""
        hashes = "".join(f" --hash=sha256:{value}" for value in self.hashes)
        return f"{self.name}{self.extras}=={self.version}{marker}{hashes}"


@dataclass(frozen=True, kw_only=True)
class PackageLock:
    """All packages of a project."""

    packages: tuple[LockedPackage, ...]

    @property
    def text(self) -> str:
        """The lock as pip reads it, the same for two files that say the same."""
        return "".join(f"{line}\n" for line in sorted(one.requirement for one in self.packages))

    @property
    def digest(self) -> str:
        """SHA-256 of the text, in hexadecimal."""
        return hashlib.sha256(self.text.encode()).hexdigest()


def parse_lock(content: bytes) -> PackageLock | list[Finding]:
    """The lock in a file's content, or the first things that are wrong with it; an empty one has no packages."""
    if len(content) > MAX_LOCK_BYTES:
        return [_error(f"the file has {len(content):,} bytes, at most {MAX_LOCK_BYTES:,} are allowed")]
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return [_error("the file is not UTF-8; save it as UTF-8")]
    packages: list[LockedPackage] = []
    problems: list[Finding] = []
    for line, statement in _statements(text):
        found = _package(statement, line)
        if isinstance(found, Finding):
            problems.append(found)
            if len(problems) == _MAX_PROBLEMS:
                return problems
        else:
            packages.append(found)
    problems += islice(_conflicts(packages), _MAX_PROBLEMS - len(problems))
    return problems or PackageLock(packages=tuple(packages))


def lock_digest(content: bytes) -> str | None:
    """The digest of the lock in a file's content; None where it is none, or has no packages."""
    found = parse_lock(content)
    return found.digest if isinstance(found, PackageLock) and found.packages else None


def normalised(name: str) -> str:
    """A package's name as an index knows it.

    >>> normalised("Python_DateUtil")
    'python-dateutil'
    """
    return _SEPARATORS.sub("-", name).lower()


def _statements(text: str) -> Iterator[tuple[int, str]]:
    """What the lines say, with the number of the first line of each: a backslash continues a line."""
    first, parts = 0, [""]
    for number, line in enumerate(text.splitlines(), 1):
        bare = _COMMENT.sub("", line).rstrip() if "#" in line else line.rstrip()
        first = first or number
        is_continued = bare.endswith("\\")
        parts.append(bare.removesuffix("\\"))
        if not is_continued:
            if statement := " ".join(parts).strip():
                yield first, statement
            first, parts = 0, [""]
    if statement := " ".join(parts).strip():
        yield first, statement


def _package(statement: str, line: int) -> LockedPackage | Finding:
    if statement.startswith("-"):
        option = re.split(r"[\s=]", statement, maxsplit=1)[0][:40]
        return _error(
            f"the option {option} is not allowed: the file lists packages with hashes alone. Where they are installed "
            f"from is a setting of the platform; {_LOCK}",
            line,
        )
    if problem := _url_problem(statement, line):
        return problem
    matches = list(_HASH.finditer(statement))
    requirement = statement[: matches[0].start()] if matches else statement
    if _OPTION.search(requirement) or (matches and statement[matches[-1].end() :].strip()):
        return _error(f"only --hash may follow a package; {_LOCK}", line)
    pinned = _PINNED.fullmatch(" ".join(requirement.split()))
    name = _FIRST_WORD.match(requirement)
    shown = name["name"] if name else requirement[:40]
    if pinned is None:
        return _error(f"{shown} has no exact version: every package needs name==version; {_LOCK}", line)
    if not matches:
        return _error(f"{shown} has no --hash: every package needs the hashes of its files; {_LOCK}", line)
    return _locked(pinned, matches, line)


def _locked(pinned: re.Match[str], matches: list[re.Match[str]], line: int) -> LockedPackage | Finding:
    name, marker = pinned["name"], (pinned["marker"] or "").strip()
    hashes = tuple(sorted({found["value"].lower() for found in matches if found["algorithm"] == "sha256"}))
    if not hashes or any(len(value) != _SHA256 for value in hashes):
        return _error(f"{name} needs hashes of SHA-256: --hash=sha256: and 64 hexadecimal digits", line)
    if len(hashes) > MAX_HASHES:
        return _error(f"{name} has {len(hashes)} hashes, at most {MAX_HASHES} are allowed", line)
    # To pip, a word that begins with a dash ends the package, and is an option.
    if marker and (not _MARKER.fullmatch(marker) or any(word[0] == "-" for word in marker.split())):
        return _error(f"the condition of {name} after the semicolon cannot be read; {_LOCK}", line)
    extras = re.sub(r"\s", "", pinned["extras"] or "")
    return LockedPackage(
        name=normalised(name),
        extras=extras.lower(),
        version=pinned["version"],
        marker=" ".join(marker.split()),
        hashes=hashes,
        line=line,
    )


def _url_problem(statement: str, line: int) -> Finding | None:
    before = statement.partition(";")[0].partition(" --hash")[0]
    if " @ " in before or "://" in before or before.startswith((".", "/")) or "/" in before:
        name = _FIRST_WORD.match(before)
        shown = name["name"] if name else before[:40]
        return _error(
            f"{shown} comes from a URL or a file: packages come from the platform's index alone; publish it there, or "
            "put its code among the project's files",
            line,
        )
    return None


def _conflicts(packages: list[LockedPackage]) -> Iterator[Finding]:
    if len(packages) > MAX_PACKAGES:
        yield _error(f"the file has {len(packages)} packages, at most {MAX_PACKAGES} are allowed")
    known: dict[tuple[str, str], int] = {}
    for one in packages:
        earlier = known.setdefault((one.name, one.marker), one.line)
        if earlier != one.line:
            yield _error(f"{one.name} is already on line {earlier}; keep one of them", one.line)


def _error(message: str, line: int | None = None) -> Finding:
    return Finding(message=message, filename=REQUIREMENTS, line=line)
