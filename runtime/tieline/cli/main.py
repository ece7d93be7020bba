"""The command line: ``tieline run``, ``tieline check``, ``tieline types``."""

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tieline.configuration.project_folder import Folder, FolderError, find

if TYPE_CHECKING:
    from tieline.cli.check import CheckReport


def main() -> None:
    """Run the command; exits with 0, with 1 for what was found, with 2 for a command that cannot be."""
    arguments = _parser().parse_args()
    try:
        sys.exit(arguments.command(_find_folder(arguments), arguments))
    except FolderError as error:
        print(f"tieline: {error}", file=sys.stderr)
        sys.exit(2)
    except ModuleNotFoundError as error:
        if error.name not in {"jsonschema_rs", "yaml", "orjson"}:
            raise
        print(f"tieline: {error.name} is missing; run `pip install 'tieline[desk]'`", file=sys.stderr)
        sys.exit(2)


def _run(folder: Folder, arguments: argparse.Namespace) -> int:
    from tieline.cli.run import once, run  # noqa: PLC0415  (imported by the command that needs it)

    if arguments.once:
        return once(
            folder,
            arguments.once,
            user=arguments.user,
            payload=arguments.payload,
            modules=arguments.image_has,
        )
    return run(
        lambda: _find_folder(arguments), host=arguments.host, port=arguments.port, modules=arguments.image_has
    )


def _find_folder(arguments: argparse.Namespace) -> Folder:
    return find(arguments.folder, connections=arguments.connections, schema=arguments.schema)


def _check(folder: Folder, arguments: argparse.Namespace) -> int:
    from tieline.cli.check import check, shown  # noqa: PLC0415
    from tieline.cli.task_list import task_lines  # noqa: PLC0415

    report = check(
        folder,
        labels=dict(label.partition("=")[::2] for label in arguments.label),
        templates=arguments.template,
        modules=arguments.image_has,
        load=arguments.load,
    )
    if arguments.format == "json":
        print(json.dumps(_as_json(report), indent=2))
    else:
        for finding in report.findings:
            print(shown(finding))
        for line in task_lines(report.loaded) if report.loaded else ():
            print(line)
        count = len(report.findings)
        print("Nothing refuses a deploy" if report.ok else f"{count} {'error' if count == 1 else 'errors'}")
    return 0 if report.ok else 1


def _types(folder: Folder, arguments: argparse.Namespace) -> int:
    from tieline.cli.type_stubs import TypesError, types_file  # noqa: PLC0415

    try:
        path, text = types_file(folder)
    except TypesError as error:
        print(f"tieline: {error}", file=sys.stderr)
        return 1
    if arguments.check:
        same = path.is_file() and path.read_text(encoding="utf-8") == text
        print(f"{path} is {'what the schema says' if same else 'out of date; run `tieline types` again'}")
        return 0 if same else 1
    path.write_text(text, encoding="utf-8")
    print(f"Wrote {path}; use it by `from {path.stem} import Variables` and `ctx: Context[Variables]`")
    return 0


def _as_json(report: "CheckReport") -> dict[str, object]:
    return {
        "ok": report.ok,
        "findings": [
            {"severity": item.severity, "file": item.filename, "line": item.line, "message": item.message}
            for item in report.findings
        ],
        "webhooks": list(report.loaded.webhooks) if report.loaded else None,
        "events": list(report.loaded.events) if report.loaded else None,
        "schedules": list(report.loaded.schedules) if report.loaded else None,
    }


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="tieline", description="Tieline at your own desk.")
    commands = parser.add_subparsers(required=True, metavar="command")
    run = _command(commands, "run", "serve a project on this machine, and again when its files change")
    run.add_argument(
        "--port", type=int, default=8080, help="where webhooks are served (8080); 0 for a free one"
    )
    run.add_argument("--host", default="127.0.0.1", help="the address to listen on (127.0.0.1)")
    run.add_argument("--once", metavar="TASK", help="run this schedule or event now, and end")
    run.add_argument("--user", metavar="ID", help="with --once: for this user alone")
    run.add_argument(
        "--payload", type=_json, default={}, metavar="JSON", help="with --once: the event's payload ({})"
    )
    _image_has(run)
    run.set_defaults(command=_run)
    check = _command(commands, "check", "find what a deploy would refuse")
    check.add_argument("--format", choices=("text", "json"), default="text")
    check.add_argument(
        "--template",
        action="append",
        default=[],
        metavar="NAME",
        help="a connection template of the environment",
    )
    check.add_argument(
        "--label", action="append", default=[], metavar="KEY=VALUE", help="a label of the project"
    )
    _image_has(check)
    check.add_argument(
        "--no-load", dest="load", action="store_false", help="do not import main.py, only look at the files"
    )
    check.set_defaults(command=_check)
    types = _command(
        commands, "types", "write the types of the project's variables for editors and type checkers"
    )
    types.add_argument(
        "--check", action="store_true", help="write nothing; fail when the file is out of date"
    )
    types.set_defaults(command=_types)
    return parser


def _json(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not JSON: {error}") from None


def _image_has(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--image-has",
        action="append",
        default=[],
        metavar="MODULE",
        help="a module of the project's own image",
    )


def _command(
    commands: "argparse._SubParsersAction[argparse.ArgumentParser]", name: str, text: str
) -> argparse.ArgumentParser:
    command = commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
    command.add_argument("folder", type=Path, nargs="?", default=Path(), help="the folder with main.py (.)")
    command.add_argument(
        "--connections", type=Path, metavar="FILE", help="connections.yaml beside main.py, or above"
    )
    command.add_argument(
        "--schema", type=Path, metavar="FILE", help="variables.schema.json beside main.py, or above"
    )
    return command
