"""Differences between versions: a patch made of them gives the new files, and none takes long."""

import random
import re
import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tieline_core.project_files import differences
from tieline_core.project_files.differences import FileDiff, compare

LINES = st.lists(
    st.sampled_from(["a", "b", "c", "", "é\r", "\x0b", "\u2028", "-", "+x", "@@ -1 +1 @@"]), max_size=30
)
TEXT = st.builds(lambda lines, end: "\n".join(lines) + end, LINES, st.sampled_from(["", "\n"]))


def kept_ends(text: str) -> list[str]:
    """The lines of a text with the line feeds that end them."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def applied(diff: str, before: str) -> str:
    """``before`` with a unified diff applied, hunk by hunk."""
    header, _, hunks = diff.partition("\n+++ b/f\n")
    assert header == "--- a/f"
    old, at = kept_ends(before), 0
    result: list[str] = []
    last = ""
    for line in kept_ends(hunks):
        mark, rest = line[0], line[1:]
        if line.startswith("@@ -"):
            start, _, length = line.split(" ")[1].removeprefix("-").partition(",")
            first = int(start) if length == "0" else int(start) - 1
            result += old[at:first]
            at = first
        elif mark == "+":
            result.append(rest)
        elif mark == "\\" and last == "+":
            result[-1] = result[-1].removesuffix("\n")
        elif mark in " -":
            assert old[at].removesuffix("\n") == rest.removesuffix("\n")
            if mark == " ":
                result.append(old[at])
            at += 1
        last = mark
    return "".join(result + old[at:])


@given(TEXT, TEXT)
def test_the_diff_applied_to_the_old_text_is_the_new_text(before: str, after: str) -> None:
    found = compare({"f": before.encode()}, {"f": after.encode()})
    if before == after:
        assert found == []
        return
    (one,) = found
    assert (one.change, one.binary, one.truncated) == ("changed", False, False)
    assert one.diff is not None
    assert applied(one.diff, before) == after


@pytest.mark.parametrize("seed", range(10))
def test_patch_understands_it(tmp_path: Path, seed: int) -> None:
    picked = random.Random(seed)
    before = "\n".join(picked.choice("abcdefgh") for _ in range(60)) + picked.choice(["", "\n"])
    lines = before.split("\n")
    for _ in range(5):
        lines[picked.randrange(len(lines))] = "new"
        lines.insert(picked.randrange(len(lines)), "more")
    after = "\n".join(lines)
    (one,) = compare({"f": before.encode()}, {"f": after.encode()})
    (tmp_path / "f").write_text(before)
    subprocess.run(["patch", "-p1"], input=(one.diff or "").encode(), cwd=tmp_path, check=True, timeout=30)
    assert (tmp_path / "f").read_text() == after


def test_files_are_added_removed_and_changed_in_the_order_of_their_names() -> None:
    before = {"b": b"1\n", "c": b"1\n", "same": b"x"}
    after = {"a": b"1\n2\n", "c": b"2\n", "same": b"x"}
    assert compare(before, after) == [
        FileDiff(filename="a", change="added", diff="--- /dev/null\n+++ b/a\n@@ -0,0 +1,2 @@\n+1\n+2\n"),
        FileDiff(filename="b", change="removed", diff="--- a/b\n+++ /dev/null\n@@ -1 +0,0 @@\n-1\n"),
        FileDiff(filename="c", change="changed", diff="--- a/c\n+++ b/c\n@@ -1 +1 @@\n-1\n+2\n"),
    ]
    assert compare({}, {"empty": b""}) == [FileDiff(filename="empty", change="added", diff="")]


@pytest.mark.parametrize("content", [b"\xff\xfe", b"text\0more"])
def test_what_is_no_text_has_no_diff(content: bytes) -> None:
    assert compare({"f": b"a"}, {"f": content}) == [FileDiff(filename="f", change="changed", binary=True)]
    assert compare({"f": content}, {}) == [FileDiff(filename="f", change="removed", binary=True)]


def test_a_small_change_of_a_huge_file_is_shown() -> None:
    lines = [f"line {number}\n" for number in range(90_000)]
    before = "".join(lines).encode()
    lines[45_000] = "changed\n"
    (one,) = compare({"f": before}, {"f": "".join(lines).encode()})
    assert not one.truncated
    assert one.diff is not None
    assert "-line 45000\n+changed\n" in one.diff


def test_a_large_diff_ends_early() -> None:
    (one,) = compare({}, {"f": b"a line\n" * 100_000})
    assert one.truncated, "too many lines"
    (one,) = compare({}, {"f": b"a line\n" * 20_000})
    assert one.truncated
    assert one.diff is not None
    assert 0 < len(one.diff) <= differences.MAX_FILE_DIFF
    files = {f"f{number:03}": b"a line\n" * 15_000 for number in range(50)}
    found = compare({}, files)
    assert len(found) == 50, "all that differ are named"
    assert sum(len(one.diff or "") for one in found) <= differences.MAX_DIFFS
    assert found[-1].truncated


def test_a_comparison_that_would_take_long_is_given_up() -> None:
    picked = random.Random(1)
    before, after = ("".join(f"{picked.randrange(150)}\n" for _ in range(19_000)).encode() for _ in range(2))
    began = time.thread_time()
    found = compare({"f": before, "g": before}, {"f": after, "g": b"small\n"}, cpu_seconds=0.2)
    assert time.thread_time() - began < 10
    assert [(one.filename, one.truncated) for one in found] == [("f", True), ("g", True)]
