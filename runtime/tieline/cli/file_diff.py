"""What differs between two sets of files."""

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class FileChange:
    """A file that differs."""

    name: str
    sign: str
    """``+`` added, ``-`` removed, ``~`` changed."""
    added: int
    """Lines that are new."""
    removed: int
    """Lines that are gone."""


def changes(before: Mapping[str, str], after: Mapping[str, str]) -> list[FileChange]:
    """The files that differ, by name.

    >>> changes({"a": "1\\n", "b": ""}, {"a": "1\\n2\\n", "c": "3"})
    [FileChange(name='a', sign='~', added=1, removed=0), FileChange(name='b', sign='-', added=0, removed=0), \
FileChange(name='c', sign='+', added=1, removed=0)]
    """
    found = []
    for name in sorted({*before, *after}):
        old, new = before.get(name), after.get(name)
        if old == new:
            continue
        lines = list(patch(name, old, new))[2:]
        found.append(
            FileChange(
                name=name,
                sign="+" if old is None else "-" if new is None else "~",
                added=sum(line.startswith("+") for line in lines),
                removed=sum(line.startswith("-") for line in lines),
            )
        )
    return found


def patch(name: str, before: str | None, after: str | None) -> Iterator[str]:
    """The difference of one file as a unified diff, line by line without line ends."""
    yield from difflib.unified_diff(
        (before or "").splitlines(),
        (after or "").splitlines(),
        fromfile="/dev/null" if before is None else f"a/{name}",
        tofile="/dev/null" if after is None else f"b/{name}",
        lineterm="",
    )
