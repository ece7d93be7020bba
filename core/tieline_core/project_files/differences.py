"""What differs between two sets of files, within bounds of time and size."""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import Match, SequenceMatcher
from typing import Literal

Files = Mapping[str, bytes]
"""Contents by relative path."""
Opcode = tuple[str, int, int, int, int]

MAX_FILE_DIFF = 128 * 1024
"""Characters of the diff of one file."""
MAX_DIFFS = 2 * 1024 * 1024
"""Characters of all diffs of an answer."""
MAX_LINES = 20_000
"""Lines of a file that are compared, without those at its beginning and end that are the same."""
_CPU_SECONDS = 2.0
_CONTEXT = 3


@dataclass(frozen=True, kw_only=True)
class FileDiff:
    """How a file differs."""

    filename: str
    change: Literal["added", "removed", "changed"]
    binary: bool = False
    """Whether it is no text in one of the versions; then it has no diff."""
    truncated: bool = False
    """Whether the diff is too large, or takes too long to find: it ends early, or is missing."""
    diff: str | None = None
    """A unified diff with three lines of context."""


def compare(before: Files, after: Files, *, cpu_seconds: float = _CPU_SECONDS) -> list[FileDiff]:
    """The files that differ, by name. Of what would take longer, or be larger, there is no diff."""
    until = time.thread_time() + cpu_seconds
    left = MAX_DIFFS
    found = []
    for path in sorted(before.keys() | after.keys()):
        old, new = before.get(path), after.get(path)
        if old == new:
            continue
        one = _compare(path, old, new, until=until, most=min(left, MAX_FILE_DIFF))
        left -= len(one.diff or "")
        found.append(one)
    return found


def _compare(path: str, old: bytes | None, new: bytes | None, *, until: float, most: int) -> FileDiff:
    change: Literal["added", "removed", "changed"] = (
        "added" if old is None else "removed" if new is None else "changed"
    )
    try:
        before, after = _lines(old or b""), _lines(new or b"")
    except ValueError:
        return FileDiff(filename=path, change=change, binary=True)
    names = ("/dev/null" if old is None else f"a/{path}", "/dev/null" if new is None else f"b/{path}")
    parts: list[str] = []
    size = 0
    try:
        for line in _unified(before, after, names, until=until):
            size += len(line)
            if size > most:
                raise _TooMuchError
            parts.append(line)
    except _TooMuchError:
        return FileDiff(filename=path, change=change, truncated=True, diff="".join(parts) or None)
    return FileDiff(filename=path, change=change, diff="".join(parts))


class _TooMuchError(Exception):
    """The diff is too large, or takes too long to find."""


def _lines(content: bytes) -> list[str]:
    """The lines of a text, each with the line feed that ends it; ValueError for what is no text."""
    if b"\0" in content:
        raise ValueError("a zero byte")
    *whole, last = content.decode().split("\n")
    return [f"{line}\n" for line in whole] + ([last] if last else [])


def _unified(
    before: Sequence[str], after: Sequence[str], names: tuple[str, str], *, until: float
) -> Iterator[str]:
    """The lines of a unified diff, as ``diff -u`` writes it."""
    matcher = _Matcher(before, after, until=until)
    yield f"--- {names[0]}\n+++ {names[1]}\n" if before or after else ""
    for group in matcher.get_grouped_opcodes(_CONTEXT):
        (_, a, _, b, _), (_, _, a_end, _, b_end) = group[0], group[-1]
        yield f"@@ -{_range(a, a_end)} +{_range(b, b_end)} @@\n"
        for tag, i, i_end, j, j_end in group:
            if tag == "equal":
                yield from _marked(" ", before[i:i_end])
            else:
                yield from _marked("-", before[i:i_end])
                yield from _marked("+", after[j:j_end])


class _Matcher(SequenceMatcher[str]):
    """Compares what is between the first and the last line that differ, until a moment of the thread's clock."""

    def __init__(self, before: Sequence[str], after: Sequence[str], *, until: float) -> None:
        self._until = until
        self._start = _common(before, after)
        shorter = min(len(before), len(after)) - self._start
        self._end = _common(before[len(before) - shorter :][::-1], after[len(after) - shorter :][::-1])
        middle = (before[self._start : len(before) - self._end], after[self._start : len(after) - self._end])
        if max(map(len, middle)) > MAX_LINES:
            raise _TooMuchError
        super().__init__(None, *middle)
        self._sizes = (len(middle[0]), len(middle[1]))

    def find_longest_match(
        self, alo: int = 0, ahi: int | None = None, blo: int = 0, bhi: int | None = None
    ) -> Match:
        """As the base, which calls it again and again."""
        if time.thread_time() > self._until:
            raise _TooMuchError
        return super().find_longest_match(alo, ahi, blo, bhi)

    def get_opcodes(self) -> list[Opcode]:  # type: ignore[override]
        """The opcodes for the whole texts."""
        start, end = self._start, self._end
        found: list[Opcode] = [("equal", 0, start, 0, start)] if start else []
        for tag, i, i_end, j, j_end in super().get_opcodes():
            found.append((tag, i + start, i_end + start, j + start, j_end + start))
        if end:
            i, j = (size + start for size in self._sizes)
            found.append(("equal", i, i + end, j, j + end))
        return found


def _common(one: Iterable[str], other: Iterable[str]) -> int:
    count = 0
    for a, b in zip(one, other, strict=False):
        if a != b:
            break
        count += 1
    return count


def _marked(mark: str, lines: Sequence[str]) -> Iterator[str]:
    for line in lines:
        yield f"{mark}{line}" if line.endswith("\n") else f"{mark}{line}\n\\ No newline at end of file\n"


def _range(start: int, end: int) -> str:
    length = end - start
    if length == 1:
        return str(start + 1)
    return f"{start + 1 if length else start},{length}"
