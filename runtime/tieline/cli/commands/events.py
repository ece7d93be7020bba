"""``tieline events publish`` and ``tieline call``."""

import base64
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated
from urllib.parse import parse_qs

import typer

from tieline.cli.bodies import RequestOptions, write_body
from tieline.cli.event_lines import batches
from tieline.cli.exit_codes import CommandError, UsageError
from tieline.cli.option_groups import Commands
from tieline.cli.options import InEnvironment, OutputOption, Platform, json_value, seconds_of
from tieline.cli.remote.client import Json
from tieline.cli.terminal import Output, note, say, write

events = Commands(no_args_is_help=True, help="Send events to an environment.")


@events.command("publish")
def publish(
    task: Annotated[
        str | None,
        typer.Argument(
            metavar="[EVENT]",
            help="The event's name, such as order.created. With --lines, the default of lines.",
        ),
    ] = None,
    payload: Annotated[
        str | None, typer.Argument(metavar="[JSON]", help="The payload: JSON, @FILE or - (standard input).")
    ] = None,
    *,
    named_payload: Annotated[
        str | None,
        typer.Option("--payload", metavar="JSON", help="The same as the argument JSON. Default: {}."),
    ] = None,
    key: Annotated[str | None, typer.Option(help="Events with one key run one at a time, in order.")] = None,
    id: Annotated[
        str | None, typer.Option("--id", help="Events with one id are stored once (two minutes).")
    ] = None,
    delay: Annotated[str | None, typer.Option(help="When to run: 30s, 10m, 2h, 1d from now.")] = None,
    user: Annotated[str | None, typer.Option(metavar="ID", help="The user's id or external id.")] = None,
    lines: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Send the events of a file, or of - (standard input): a JSON object a line, with task, payload and "
            "the other fields of an event.",
        ),
    ] = None,
    where: InEnvironment,
    platform: Platform,
    output: OutputOption = Output.TABLE,
) -> None:
    """Send an event, or those of a file. They are stored once the command ends with 0."""
    if lines is not None:
        if any(one is not None for one in (payload, named_payload, key, id, delay, user)):
            raise UsageError("With --lines, the payload and the options of an event are in the lines")
        _publish_lines(lines, task, where, platform, output)
        return
    if task is None:
        raise UsageError("Name the EVENT, or give a file of events with --lines")
    if payload is not None and named_payload is not None:
        raise UsageError("The payload is given twice: as an argument and with --payload. Give it once")
    content = json_value(payload or named_payload or "{}")
    remote = platform.client()
    _, found = where.find_environment(remote)
    given = {"key": key, "id": id, "user": user, "delay": seconds_of(delay) if delay else None}
    body = {"task": task, "payload": content}
    body |= {name: value for name, value in given.items() if value is not None}
    answer = remote.request("POST", f"environments/{found['id']}/events", body=body)
    if output is not Output.TABLE:
        write(answer, output)
        return
    say(f"Stored as run {answer['runId']}; `tieline runs show {answer['runId']}` says what becomes of it")


def _publish_lines(
    name: str, task: str | None, where: InEnvironment, platform: Platform, output: Output
) -> None:
    remote = platform.client()
    _, found = where.find_environment(remote)
    counts: Counter[str] = Counter()
    for batch in batches(_lines_of(name), task):
        try:
            answer = remote.request(
                "POST", f"environments/{found['id']}/events/batch", body={"events": batch.events}
            )
        except CommandError as error:
            last = f"{batch.numbers[0]:,} to {batch.numbers[-1]:,}"
            stored = counts["stored"] + counts["duplicate"]
            raise CommandError(
                f"Lines {last} are not sent, after {stored:,} events were stored: {error}", error.code
            ) from None
        results = [
            {"line": number, **one} for number, one in zip(batch.numbers, answer["results"], strict=False)
        ]
        counts.update(one["status"] for one in results)
        if output is not Output.TABLE:
            write(results, output)
        for one in results:
            if one["status"] == "refused":
                note(f"Line {one['line']}: {one['error']}")
    if output is Output.TABLE:
        known = f"; {counts['duplicate']:,} were stored before" if counts["duplicate"] else ""
        say(f"Stored {counts['stored']:,} events{known}")
    if counts["refused"]:
        raise CommandError(f"{counts['refused']:,} events were refused: send their lines again")


def _lines_of(name: str) -> Iterator[bytes]:
    """Raises UsageError."""
    if name == "-":
        yield from typer.get_binary_stream("stdin")
        return
    try:
        with Path(name).open("rb") as file:
            yield from file
    except OSError as error:
        raise UsageError(f"{name} cannot be read: {error.strerror}") from None


def call(
    path: Annotated[
        str, typer.Argument(metavar="PATH", help="The webhook's name, with a query if you like.")
    ],
    *,
    sent: RequestOptions,
    where: InEnvironment,
    platform: Platform,
) -> None:
    """Call a webhook through the API, also where its address cannot be reached from here.

    Exits with 1 if the answer is an error (400 and above).
    """
    remote = platform.client()
    found, chosen = where.find_environment(remote)
    name, _, query = path.partition("?")
    body: Json = {
        "urlPath": name if name.startswith("/") else f"/{name}",
        "method": sent.chosen_method(),
        "headers": sent.headers(),
        "query": _query(query),
    }
    if (content := sent.body()) is not None:
        body["body"] = base64.b64encode(content).decode()
    answer = remote.request(
        "POST",
        f"projects/{found['id']}/environments/call",
        query={"env_id": chosen["id"]},
        body=body,
        read_seconds=120,
    )
    if sent.include:
        note(f"HTTP {answer['status']}")
        for item, values in dict(answer["headers"]).items():
            for one in values:
                note(f"{item}: {one}")
    write_body(base64.b64decode(answer["body"]))
    if answer["status"] >= 400:
        raise CommandError(f"The webhook answers {answer['status']}; `tieline logs` may say why")


def _query(text: str) -> dict[str, list[str]]:
    return parse_qs(text, keep_blank_values=True)
