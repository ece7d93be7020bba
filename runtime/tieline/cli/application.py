"""All commands of ``tieline``."""

from typing import Annotated

import typer

from tieline.cli.commands import (
    access,
    approvals,
    audit,
    catalogue,
    connect,
    connections,
    connectors,
    contexts,
    deploy,
    emulate,
    environments,
    events,
    issues,
    local,
    login,
    logs,
    new_project,
    notifications,
    organisations,
    packages,
    releases,
    runs,
    schedules,
    state,
    systems,
    templates,
    tools,
    traces,
    users,
)
from tieline.cli.option_groups import Commands

LOCAL = "On this machine"
DEPLOY = "Deploy"
OBSERVE = "Observe and repair"
MANAGE = "Manage"
PLATFORM = "Sign in"

app = Commands(
    name="tieline",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Write, run, deploy and observe integrations.",
)

app.command("init", rich_help_panel=LOCAL)(new_project.init)
app.command("run", rich_help_panel=LOCAL)(local.run)
app.command("emulate", rich_help_panel=LOCAL)(emulate.emulate)
app.command("check", rich_help_panel=LOCAL)(local.check_folder)
app.command("lock", rich_help_panel=LOCAL)(packages.lock)
app.command("types", rich_help_panel=LOCAL)(local.types)
app.command("manifests", rich_help_panel=LOCAL)(new_project.manifests)

app.command("login", rich_help_panel=PLATFORM)(login.login)
app.command("logout", rich_help_panel=PLATFORM)(login.logout)
app.command("whoami", rich_help_panel=PLATFORM)(login.whoami)
app.add_typer(contexts.contexts, name="context", rich_help_panel=PLATFORM)

app.command("deploy", rich_help_panel=DEPLOY)(deploy.deploy)
app.command("promote", rich_help_panel=DEPLOY)(deploy.promote)
app.command("rollback", rich_help_panel=DEPLOY)(deploy.rollback)
app.command("versions", rich_help_panel=DEPLOY)(deploy.versions)
app.add_typer(releases.releases, name="releases", rich_help_panel=DEPLOY)
app.command("suspend", rich_help_panel=DEPLOY)(deploy.suspend)
app.command("resume", rich_help_panel=DEPLOY)(deploy.resume)

app.command("logs", rich_help_panel=OBSERVE)(logs.logs)
app.add_typer(runs.runs, name="runs", rich_help_panel=OBSERVE)
app.command("replay", rich_help_panel=OBSERVE)(runs.replay)
app.add_typer(issues.issues, name="issues", rich_help_panel=OBSERVE)
app.add_typer(approvals.approvals, name="approvals", rich_help_panel=OBSERVE)
app.add_typer(traces.traces, name="traces", rich_help_panel=OBSERVE)
app.command("call", rich_help_panel=OBSERVE)(events.call)
app.add_typer(events.events, name="events", rich_help_panel=OBSERVE)
app.add_typer(schedules.schedules, name="schedules", rich_help_panel=OBSERVE)
app.add_typer(state.state, name="state", rich_help_panel=OBSERVE)
app.command("open", rich_help_panel=OBSERVE)(tools.open_console)

app.add_typer(environments.projects, name="projects", rich_help_panel=MANAGE)
app.add_typer(environments.environments, name="env", rich_help_panel=MANAGE)
app.add_typer(templates.templates, name="templates", rich_help_panel=MANAGE)
app.add_typer(systems.systems, name="systems", rich_help_panel=MANAGE)
systems.systems.command("add")(catalogue.add)
systems.systems.command("search")(catalogue.search)
app.add_typer(connections.connections, name="connections", rich_help_panel=MANAGE)
app.add_typer(users.users, name="users", rich_help_panel=MANAGE)
app.add_typer(organisations.organisation, name="org", rich_help_panel=MANAGE)
app.add_typer(notifications.channels, name="channels", rich_help_panel=MANAGE)
app.add_typer(notifications.notifications, name="notifications", rich_help_panel=MANAGE)
app.add_typer(access.roles, name="roles", rich_help_panel=MANAGE)
app.add_typer(access.keys, name="keys", rich_help_panel=MANAGE)
app.add_typer(audit.audit, name="audit", rich_help_panel=MANAGE)
connections.connections.command("connect")(connect.connect)
app.add_typer(connectors.connectors, name="connectors", rich_help_panel=MANAGE)
app.command("api", rich_help_panel=MANAGE)(tools.api)


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version  # noqa: PLC0415

        print(version("tieline"))
        raise typer.Exit


@app.callback()
def _global(
    *,
    _version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Options of ``tieline`` itself."""
