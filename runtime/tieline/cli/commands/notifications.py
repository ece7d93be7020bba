"""``tieline channels`` and ``tieline notifications``."""

import time
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from tieline.cli.exit_codes import CommandError, UsageError
from tieline.cli.option_groups import Commands
from tieline.cli.options import (
    InEnvironment,
    InProject,
    OutputOption,
    Platform,
    YesOption,
    confirm,
    read_secret,
)
from tieline.cli.remote.client import Client, Json, segment
from tieline.cli.remote.lookup import find_in_pages, named
from tieline.cli.terminal import Output, age, note, say, show

channels = Commands(no_args_is_help=True, help="Manage where notifications go: e-mail, webhook or Slack.")
notifications = Commands(no_args_is_help=True, help="Manage which events of an environment are notified.")

_CHANNELS = "notification_channels"
_MOST = 1000
_TEST_SECONDS = 60.0
_POLL_SECONDS = 1.0


class ChannelType(StrEnum):
    """How messages are delivered."""

    EMAIL = "email"
    WEBHOOK = "webhook"
    SLACK = "slack"


_SECRETS = {
    ChannelType.EMAIL: ("password", "Password"),
    ChannelType.WEBHOOK: ("secret", "Signing secret (whsec_…)"),
    ChannelType.SLACK: ("url", "URL of the incoming webhook"),
}

ChannelArgument = Annotated[str, typer.Argument(metavar="CHANNEL", help="The channel's name or id.")]
SecretFileOption = Annotated[
    Path | None,
    typer.Option(
        "--secret-file",
        metavar="FILE",
        help="The file with the password of email, the signing secret of webhook, or the URL of slack; "
        "- is standard input. Default: you are asked.",
    ),
]


@channels.command("list")
def list_channels(*, platform: Platform, output: OutputOption = Output.TABLE) -> None:
    """List the organisation's notification channels."""
    items = list(platform.client().pages(_CHANNELS, limit=_MOST))
    show(
        output,
        items,
        ("id", "name", "type", "to", "ready", "delivered", "message"),
        lambda: [
            (
                item["id"],
                item["name"],
                item["type"],
                _target(item["config"]),
                _ready(item),
                age(item["last_delivered_at"]) if item.get("last_delivered_at") else "never",
                item.get("message"),
            )
            for item in items
        ],
        empty="There are no notification channels. Create one with `tieline channels create`.",
    )


@channels.command("create")
def create_channel(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The channel's name.")],
    *,
    type_: Annotated[ChannelType, typer.Option("--type", "-t", help="How messages are delivered.")],
    url: Annotated[
        str | None, typer.Option("--url", metavar="URL", help="webhook: where it posts to.")
    ] = None,
    host: Annotated[
        str | None, typer.Option("--host", metavar="HOST", help="email: the SMTP server.")
    ] = None,
    port: Annotated[
        int | None, typer.Option("--port", help="email: the server's port. Default: 587.")
    ] = None,
    security: Annotated[
        str | None, typer.Option("--security", help="email: starttls (the default), tls or none.")
    ] = None,
    sender: Annotated[
        str | None, typer.Option("--from", metavar="ADDRESS", help="email: the sender's address.")
    ] = None,
    to: Annotated[
        list[str] | None,
        typer.Option("--to", metavar="ADDRESS", help="email: a recipient; may be repeated."),
    ] = None,
    username: Annotated[
        str | None, typer.Option("--username", metavar="NAME", help="email: the user to sign in as.")
    ] = None,
    secret_file: SecretFileOption = None,
    platform: Platform,
) -> None:
    """Create a notification channel. Its secret is stored in a Kubernetes Secret, and never shown."""
    plain = {
        "url": url,
        "host": host,
        "port": port,
        "security": security,
        "from": sender,
        "to": to,
        "username": username,
    }
    config: Json = {key: value for key, value in plain.items() if value is not None}
    if type_ is ChannelType.SLACK and url is not None:
        raise UsageError("The URL of slack is a secret: give it with --secret-file")
    if type_ is not ChannelType.EMAIL or username is not None:
        field, question = _SECRETS[type_]
        config[field] = read_secret(secret_file, question, option="--secret-file")
    elif secret_file is not None:
        raise UsageError("--secret-file has the password of --username: give both")
    body = {"name": name, "type": type_.value, "config": config}
    made = platform.client().request("POST", _CHANNELS, body=body)
    say(f"Created the channel {made['name']} ({made['id']})")
    note(f"Try it with: tieline channels test {made['id']}")


@channels.command("test")
def test_channel(channel: ChannelArgument, *, platform: Platform) -> None:
    """Send a test message, and wait until it is delivered."""
    remote = platform.client()
    found = _channel(remote, channel)
    sent = remote.request("POST", f"{_CHANNELS}/{found['id']}/test")
    until = time.monotonic() + _TEST_SECONDS
    while (state := sent["test"]["state"]) == "sending" and time.monotonic() < until:
        time.sleep(_POLL_SECONDS)
        sent = _channel(remote, found["id"])
    if state != "delivered":
        problem = (
            "did not deliver the test message" if state == "failed" else "is still sending the test message"
        )
        raise CommandError(f"{found['name']} {problem}. {sent.get('message', '')}".rstrip())
    say(f"{found['name']} delivered the test message")


@channels.command("delete")
def delete_channel(channel: ChannelArgument, *, yes: YesOption = False, platform: Platform) -> None:
    """Delete a notification channel that no notification uses."""
    remote = platform.client()
    found = _channel(remote, channel)
    confirm(f"Delete the channel {found['name']}?", yes=yes)
    remote.request("DELETE", f"{_CHANNELS}/{found['id']}")
    say(f"Deleted the channel {found['name']}")


@notifications.command("list")
def list_notifications(*, where: InProject, platform: Platform, output: OutputOption = Output.TABLE) -> None:
    """List a project's notifications, and what is wrong now."""
    remote = platform.client()
    project = where.find_project(remote)
    items = list(remote.pages(_notifications(project), limit=_MOST))
    environments = {each["id"]: each["name"] for each in project["environments"]}
    show(
        output,
        items,
        ("id", "name", "environment", "channel", "events", "incidents", "ready"),
        lambda: [
            (
                item["id"],
                item["name"],
                environments.get(item["environment_id"], item["environment_id"]),
                item["channelName"] or "deleted",
                ", ".join(item["events"]) or "all failures",
                sum("ended_at" not in one for one in item["incidents"]),
                _ready(item),
            )
            for item in items
        ],
        empty="There are no notifications. Create one with `tieline notifications create`.",
    )


@notifications.command("create")
def create_notification(
    channel: ChannelArgument,
    *,
    name: Annotated[
        str | None, typer.Option("--name", help="The notification's name. Default: the channel's.")
    ] = None,
    event: Annotated[
        list[str] | None,
        typer.Option("--event", metavar="EVENT", help="An event; may be repeated. Default: all failures."),
    ] = None,
    where: InEnvironment,
    platform: Platform,
) -> None:
    """Notify a channel of events of an environment."""
    remote = platform.client()
    project, environment = where.find_environment(remote)
    found = _channel(remote, channel)
    body: Json = {
        "name": name or found["name"],
        "channel_id": found["id"],
        "environment_id": environment["id"],
        "events": event or [],
    }
    made = remote.request("POST", _notifications(project), body=body)
    what = ", ".join(made["events"]) or "all failures"
    say(f"{found['name']} is notified of {what} of {environment['name']} of {project['name']} ({made['id']})")


@notifications.command("delete")
def delete_notification(
    notification: Annotated[
        str, typer.Argument(metavar="NOTIFICATION", help="The notification's name or id.")
    ],
    *,
    yes: YesOption = False,
    where: InProject,
    platform: Platform,
) -> None:
    """Delete a notification. Nothing more is sent, not even that something is over."""
    remote = platform.client()
    path = _notifications(where.find_project(remote))
    found = named("notification", list(remote.pages(path, limit=_MOST)), notification)
    confirm(f"Delete the notification {found['name']}?", yes=yes)
    remote.request("DELETE", f"{path}/{found['id']}")
    say(f"Deleted the notification {found['name']}")


def _channel(remote: Client, name: str) -> Json:
    return find_in_pages(remote, "channel", _CHANNELS, name)


def _notifications(project: Json) -> str:
    return f"projects/{segment(project['id'])}/notifications"


def _target(config: Json) -> str:
    return ", ".join(config.get("to") or ()) or config.get("url") or ""


def _ready(item: Json) -> str:
    ready = item.get("ready")
    return "checking" if ready is None else "yes" if ready is True else "no"
