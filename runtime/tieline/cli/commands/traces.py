"""``tieline traces``."""

from typing import Annotated

import typer

from tieline.cli.commands.run_filters import SinceOption, TaskOption, UntilOption
from tieline.cli.option_groups import Commands
from tieline.cli.options import InEnvironment, InProject, LimitOption, OutputOption, Platform, moment
from tieline.cli.remote.client import segment
from tieline.cli.terminal import Output, age, out, show, styled, write
from tieline.cli.waterfall import waterfall

traces = Commands(no_args_is_help=True, help="List traces, and show one as a waterfall.")


@traces.command("list")
def list_traces(
    *,
    where: InEnvironment,
    failed: Annotated[bool, typer.Option("--failed", help="Only runs that failed.")] = False,
    task: TaskOption = None,
    attributes: Annotated[
        str | None, typer.Option("--filter", help="Pairs attribute:value, separated by spaces.")
    ] = None,
    since: SinceOption = None,
    until: UntilOption = None,
    limit: LimitOption = 20,
    platform: Platform,
    output: OutputOption = Output.TABLE,
) -> None:
    """List traces, newest first."""
    remote = platform.client()
    page = remote.get(
        f"projects/{where.project_id(remote)}/traces",
        project_env=where.environment,
        error=True if failed else None,
        task=task,
        filter=attributes,
        start=moment(since),
        end=moment(until),
        first=min(limit, 1000),
    )
    items = page["items"]
    show(
        output,
        items,
        ("trace", "name", "status", "age", "took", "run"),
        lambda: [
            (
                item["traceId"],
                item["name"],
                styled("failed" if item["status"]["code"] == "ERROR" else "succeeded"),
                age(item["startTime"]),
                f"{item['duration']:.0f}ms",
                item.get("executionId"),
            )
            for item in items
        ],
        empty="There are no such traces.",
    )


@traces.command("show")
def show_trace(
    trace: Annotated[str, typer.Argument(metavar="TRACE", help="The trace's id: 32 hexadecimal digits.")],
    *,
    where: InProject,
    platform: Platform,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show a trace as a waterfall."""
    remote = platform.client()
    found = remote.get(f"projects/{where.project_id(remote)}/traces/{segment(trace)}")
    if output is not Output.TABLE:
        write(found, output)
        return
    for line in waterfall(found["spans"]):
        out().print(line)
