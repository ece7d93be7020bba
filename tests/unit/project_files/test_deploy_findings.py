"""Checks before a deploy: what would break in the pod is told before, with its place, and nothing runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tieline_core.project_files.deploy_findings import (
    MAX_FINDINGS,
    check_files,
    has_errors,
    summary,
)
from tieline_core.resources.project_versions import FileFinding
from tieline_protocol.python_source import named_templates

GOOD = {"main.py": b"import json\n\n\nasync def f(ctx):\n    return json.dumps(1)\n"}


def check(
    files: object = None, labels: dict[str, str] | None = None, templates: object = None
) -> list[FileFinding]:
    return check_files(GOOD if files is None else files, labels or {}, templates)  # type: ignore[arg-type]


def test_sound_files_have_no_findings() -> None:
    assert (
        check(
            {**GOOD, "shop/orders.py": b"", "data/é.json": b"{", ".env": b"", "a/..b": b""},
            {"team": "ops"},
            ["shop"],
        )
        == []
    )


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("../main.py", '".."'),
        ("a/../b.py", '".."'),
        ("..data", 'starts with ".."'),
        ("..2026/x.py", 'starts with ".."'),
        ("...", 'starts with ".."'),
        ("/etc/passwd", "absolute"),
        ("C:/x.py", "absolute"),
        ("a\\b.py", "backslash"),
        ("a//b.py", "empty parts"),
        ("./a.py", "empty parts"),
        ("a/", "empty parts"),
        ("a\x00.txt", "control characters"),
        ("x" * 300, "more than 255 bytes"),
        ("y/" * 300 + "z", "characters, at most 512"),
        ("", "has no name"),
    ],
)
def test_a_file_name_that_could_leave_the_project_or_not_be_stored_is_an_error(path: str, words: str) -> None:
    findings = check([*GOOD.items(), (path, b"")])
    assert has_errors(findings)
    assert words in findings[0].message


@given(st.text(max_size=600))
def test_any_name_is_judged_and_never_raises(path: str) -> None:
    for finding in check([(path, b"")]):
        assert finding.message


def test_two_files_of_one_name_are_an_error() -> None:
    assert "two files" in check([*GOOD.items(), *GOOD.items()])[0].message


def test_a_name_that_is_both_file_and_folder_is_an_error() -> None:
    findings = check({**GOOD, "shop": b"", "shop/orders.py": b""})
    assert [finding.filename for finding in findings] == ["shop"]


def test_sizes_are_limited_per_file_and_together() -> None:
    assert "1,048,577 bytes" in check({**GOOD, "a.bin": bytes(1024 * 1024 + 1)})[0].message
    many = {f"{n}.bin": bytes(1024 * 1024) for n in range(8)}
    assert "together" in check({**GOOD, **many})[0].message
    assert check({"main.py": b"", **{f"{n}.bin": bytes(1024 * 1024) for n in range(8)}}) == []


def test_a_missing_main_is_an_error() -> None:
    assert "main.py" in check({"other.py": b""})[0].message


def test_requirements_without_versions_are_refused_with_what_to_do_instead() -> None:
    (finding,) = check({**GOOD, "requirements.txt": b"requests"})
    assert finding.line == 1
    assert "tieline lock" in finding.message


@pytest.mark.parametrize(
    ("code", "line"),
    [
        (b"x = 1\ndef f(:\n", 2),
        (b"x = 1\n\nreturn 3\n", 3),
        (b"if True:\nx = 1\n", 2),
        (b"def f():\n    yield\n    await g()\n", 3),
    ],
)
def test_python_that_does_not_compile_is_told_with_its_line(code: bytes, line: int) -> None:
    (finding,) = check({**GOOD, "shop/x.py": code})
    assert (finding.filename, finding.line) == ("shop/x.py", line)
    assert summary([finding]).startswith(f"shop/x.py:{line}: ")


@pytest.mark.parametrize(
    "code", [b"\x00", b"\xff\xfe", b"(" * 5000, b"-" * 100000 + b"1", b"# coding: nope\n"]
)
def test_hostile_python_is_a_finding_and_not_a_crash(code: bytes) -> None:
    assert has_errors(check({**GOOD, "x.py": code}))


def test_checking_executes_nothing(tmp_path: Path) -> None:
    made = tmp_path / "made"
    check({"main.py": f"open({str(made)!r}, 'w')\n".encode()})
    assert not made.exists()


def test_label_keys_follow_the_specification() -> None:
    assert check(labels={"team": "ops", "a_1": "", "Z9": "any thing"}) == []
    for key in ("1a", "a-b", "", "é", "a" * 64):
        assert has_errors(check(labels={key: "x"}))


def test_templates_that_code_names_must_be_there() -> None:
    code = b"""
@app.webhook("orders", connection="crm")
async def f(ctx, other):
    await ctx.fetch("shop", "/orders")
    async with ctx.session("mail") as mail:
        await mail.fetch("not a template")
    await other.fetch("neither")
    await ctx.fetch(name)
    ctx.fetch()
"""
    assert named_templates([("main.py", code)]) == {
        "crm": ("main.py", 2),
        "shop": ("main.py", 4),
        "mail": ("main.py", 5),
    }
    findings = check({"main.py": code}, templates=["shop", "mail"])
    assert [(f.line, '"crm"' in f.message) for f in findings] == [(2, True)]
    assert check({"main.py": code}, templates=None) == []


def test_no_more_findings_than_a_status_holds() -> None:
    assert len(check([(f"/{n}", b"") for n in range(500)])) == MAX_FINDINGS
