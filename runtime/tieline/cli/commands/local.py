"""``tieline run``, ``check`` and ``types``: what needs no platform."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer

from tieline.cli.check import CheckReport, check, shown
from tieline.cli.exit_codes import CommandError, ExitCode, UsageError
from tieline.cli.options import HERE, FolderArgument, Platform, ProjectOption
from tieline.cli.remote.lookup import project_name
from tieline.cli.task_list import task_lines
from tieline.cli.terminal import safe
from tieline.configuration.project_folder import Folder, find

if TYPE_CHECKING:
    from tieline.cli.remote.client import Client
    from tieline.cli.sleepers import SleepersReport

ConnectionsOption = Annotated[
    Path | None,
    typer.Option(
        "--connections",
        metavar="FILE",
        help="Connections. Default: connections.yaml beside main.py, or above.",
    ),
]
SchemaOption = Annotated[
    Path | None,
    typer.Option("--schema", metavar="FILE", help="Default: variables.schema.json beside main.py, or above."),
]
ImageHasOption = Annotated[
    list[str] | None,
    typer.Option("--image-has", metavar="MODULE", help="A module of the project's own image."),
]


def run(
    folder: FolderArgument = HERE,
    *,
    connections: ConnectionsOption = None,
    schema: SchemaOption = None,
    port: Annotated[int, typer.Option(help="Where webhooks are served; 0 for a free port.")] = 8080,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    once: Annotated[
        str | None, typer.Option("--once", metavar="TASK", help="Run this schedule or event now, and end.")
    ] = None,
    user: Annotated[str | None, typer.Option(metavar="ID", help="With --once: for this user alone.")] = None,
    payload: Annotated[str, typer.Option(metavar="JSON", help="With --once: the event's payload.")] = "{}",
    replay: Annotated[
        Path | None,
        typer.Option(
            "--replay",
            metavar="FILE",
            help="Run the last attempt of a run that `tieline runs download` wrote.",
        ),
    ] = None,
    image_has: ImageHasOption = None,
) -> None:
    """Serve a project on this machine, and again when its files change."""
    from tieline.cli.run import once as run_once  # noqa: PLC0415  (imported by the command that needs it)
    from tieline.cli.run import replay as run_replay  # noqa: PLC0415
    from tieline.cli.run import run as serve  # noqa: PLC0415

    def found() -> Folder:
        return find(folder, connections=connections, schema=schema)

    modules = image_has or []
    if replay is not None:
        if once:
            raise UsageError("--replay and --once are two ways to run something: give one of them")
        code = run_replay(found(), replay, modules=modules)
    elif once:
        code = run_once(found(), once, user=user, payload=_json(payload), modules=modules)
    else:
        code = serve(found, host=host, port=port, modules=modules)
    raise typer.Exit(code)


def check_folder(
    folder: FolderArgument = HERE,
    *,
    connections: ConnectionsOption = None,
    schema: SchemaOption = None,
    format: Annotated[str, typer.Option("--format", help="text or json.")] = "text",
    template: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="A connection template of the environment.")
    ] = None,
    label: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="A label of the project.")
    ] = None,
    image_has: ImageHasOption = None,
    load: Annotated[
        bool, typer.Option(" /--no-load", help="Do not import main.py, only look at the files.")
    ] = True,
    sleeping: Annotated[
        str | None,
        typer.Option(
            "--sleeping", metavar="ENVIRONMENT", help="Also replay the runs that wait in this environment."
        ),
    ] = None,
    project: ProjectOption = None,
    platform: Platform,
) -> None:
    """Find what a deploy would refuse."""
    if format not in ("text", "json"):
        raise typer.BadParameter("must be text or json", param_hint="--format")
    found = find(folder, connections=connections, schema=schema)
    report = check(
        found,
        labels=dict(item.partition("=")[::2] for item in label or ()),
        templates=template or (),
        modules=image_has or (),
        load=load,
    )
    asked = None
    if sleeping is not None and report.ok:
        asked = _asked(platform.client(), project_name(folder, project), sleeping, found, report)
    ok = report.ok and (asked is None or asked.ok)
    if format == "json":
        print(orjson.dumps(_as_json(report, asked, ok=ok), option=orjson.OPT_INDENT_2).decode())
    else:
        for finding in report.findings:
            print(safe(shown(finding)))
        for line in task_lines(report.loaded) if report.loaded else ():
            print(line)
        for line in asked.lines() if asked else ():
            print(line)
        print(_summary(report, asked))
    raise typer.Exit(0 if ok else ExitCode.FAILED)


def _asked(
    remote: "Client", name: str, environment: str, folder: Folder, report: CheckReport
) -> "SleepersReport":
    """What becomes of the runs that wait. Raises CommandError."""
    from tieline.cli.remote.lookup import environment_of, get_project  # noqa: PLC0415
    from tieline.cli.sleepers import ask_sleepers  # noqa: PLC0415

    chosen = environment_of(get_project(remote, name), environment)
    return ask_sleepers(remote, chosen, folder.code, packages=report.packages)


def _summary(report: CheckReport, asked: "SleepersReport | None") -> str:
    if not report.ok:
        count = len(report.findings)
        return f"{count} {'error' if count == 1 else 'errors'}"
    return "Nothing refuses a deploy" if asked is None or asked.ok else "Runs that wait would stop"


def types(
    folder: FolderArgument = HERE,
    *,
    connections: ConnectionsOption = None,
    schema: SchemaOption = None,
    check_only: Annotated[
        bool, typer.Option("--check", help="Write nothing; fail if the file is out of date.")
    ] = False,
) -> None:
    """Write the types of the project's variables for editors and type checkers."""
    from tieline.cli.type_stubs import TypesError, types_file  # noqa: PLC0415

    try:
        path, text = types_file(find(folder, connections=connections, schema=schema))
    except TypesError as error:
        raise CommandError(str(error)) from None
    if check_only:
        same = path.is_file() and path.read_text(encoding="utf-8") == text
        print(f"{path} is {'what the schema says' if same else 'out of date; run `tieline types` again'}")
        raise typer.Exit(0 if same else ExitCode.FAILED)
    path.write_text(text, encoding="utf-8")
    print(f"Wrote {path}; use it by `from {path.stem} import Variables` and `ctx: Context[Variables]`")


def _json(text: str) -> Any:
    try:
        return orjson.loads(text)
    except ValueError as error:
        raise typer.BadParameter(f"{text!r} is not JSON: {error}", param_hint="--payload") from None


def _as_json(report: CheckReport, asked: "SleepersReport | None", *, ok: bool) -> dict[str, object]:
    return {
        "ok": ok,
        **({} if asked is None else {"sleeping": asked.as_json()}),
        "findings": [
            {"severity": item.severity, "file": item.filename, "line": item.line, "message": item.message}
            for item in report.findings
        ],
        "webhooks": list(report.loaded.webhooks) if report.loaded else None,
        "events": list(report.loaded.events) if report.loaded else None,
        "waits": list(report.loaded.waits) if report.loaded else None,
        "schedules": list(report.loaded.schedules) if report.loaded else None,
    }
