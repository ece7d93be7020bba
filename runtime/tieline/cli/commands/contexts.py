"""``tieline context``."""

import os
from typing import Annotated

import typer

from tieline.cli.option_groups import Commands
from tieline.cli.options import OutputOption, YesOption, confirm
from tieline.cli.remote.contexts import CONTEXT, URL, ContextFile
from tieline.cli.remote.token_store import token_store
from tieline.cli.terminal import Output, say, show, warn

contexts = Commands(no_args_is_help=True, help="List, select and delete contexts.")


@contexts.command("list")
def list_contexts(output: OutputOption = Output.TABLE) -> None:
    """List the contexts."""
    file = ContextFile()
    current = file.current
    found = sorted(file.contexts().values(), key=lambda item: item.name)
    values = [
        {
            "name": item.name,
            "current": item.name == current,
            "url": item.url,
            "organisation": item.organisation,
            "signIn": item.sign_in.as_dict(),
        }
        for item in found
    ]
    show(
        output,
        values,
        ("", "name", "url", "organisation", "sign-in"),
        lambda: [
            ("*" if item.name == current else "", item.name, item.url, item.organisation, item.sign_in.kind)
            for item in found
        ],
        empty="There are no contexts. Create one with `tieline login URL`.",
    )


@contexts.command("use")
def use_context(name: Annotated[str, typer.Argument(help="The context's name.")]) -> None:
    """Make a context the current one."""
    context = ContextFile().use(name)
    say(f"Commands now use {context.name}: {context.url}, organisation {context.organisation}")
    note_environment()


@contexts.command("delete")
def delete_context(
    name: Annotated[str, typer.Argument(help="The context's name.")], *, yes: YesOption = False
) -> None:
    """Delete a context and its token."""
    file = ContextFile()
    file.named(name)
    confirm(f"Delete the context {name}?", yes=yes)
    token_store(file.folder).delete(name)
    file.delete(name)
    say(f"Deleted {name}")


def note_environment() -> None:
    """Warns if another context is used all the same."""
    name = next((name for name in (CONTEXT, URL) if os.environ.get(name)), None)
    if name:
        warn(f"{name} is set, so commands do not use this context until you unset it")
