"""Every command of ``tieline`` that a page shows exists, with its options."""

from __future__ import annotations

import re
import shlex

import pytest
import typer

from tests.unit.docs.doc_pages import Page, pages
from tieline.cli.application import app

_COMMAND = re.compile(r"(?:^|&& )(?:[A-Z_]+=\S+ )*(?:\S*/)?tieline ([^\n]*)")
_INLINE = re.compile(r"`tieline ([a-z][^`\n]*)`")
_END = re.compile(r"\s(?:&&|\|\||[|>;&])(?:\s|$)|\s#")


def commands(read: Page) -> list[str]:
    """What stands behind ``tieline``, in blocks for a shell and in the text."""
    shown = "\n".join(block.text.replace("\\\n", " ") for block in read.blocks("console", "sh", "bash"))
    lines = [line for line in shown.splitlines() if not line.lstrip().startswith("#")]
    found = [match for line in lines for match in _COMMAND.findall(line)]
    return [_END.split(one)[0].strip() for one in (*found, *_INLINE.findall(read.prose))]


WITH_COMMANDS = [read for read in pages() if commands(read)]


COMMAND = typer.main.get_command(app)


@pytest.mark.parametrize("read", WITH_COMMANDS, ids=lambda one: one.name)
def test_every_command_exists_with_its_options(read: Page) -> None:
    for text in commands(read):
        words = shlex.split(re.sub(r"\$\([^)]*\)", "computed", text))
        group, name = COMMAND, "tieline"
        while words and (named := getattr(group, "commands", {}).get(words[0])) is not None:
            group, name = named, f"{name} {words.pop(0)}"
        assert words or not hasattr(group, "commands"), f"{read.name}: tieline {text}"
        assert not hasattr(group, "commands") or words[0].startswith("-"), f"{read.name}: tieline {text}"
        known = {
            option for parameter in group.params for option in (*parameter.opts, *parameter.secondary_opts)
        }
        known |= {"--help", "-h"}
        for word in words:
            if word.startswith("-") and word != "-" and not re.match(r"-\d", word):
                assert word.partition("=")[0] in known, f"{read.name}: {name} has no {word}: tieline {text}"


def test_there_are_commands_on_the_page_about_them() -> None:
    (page,) = [read for read in WITH_COMMANDS if read.name == "docs/cli.md"]
    assert len(commands(page)) > 20
