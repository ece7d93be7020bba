"""``tieline deploy``, ``promote``, ``rollback``, ``versions``, ``suspend`` and ``resume``."""

from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, Any

import typer

from tieline.cli.check import CheckReport, check, shown
from tieline.cli.deploy_plan import events_without_task, show_changes, write_plan
from tieline.cli.exit_codes import CommandError, ExitCode, UsageError
from tieline.cli.file_diff import changes
from tieline.cli.git_revision import git_revision
from tieline.cli.options import (
    HERE,
    FolderArgument,
    InEnvironment,
    InProject,
    LimitOption,
    OutputOption,
    Platform,
    YesOption,
    confirm,
)
from tieline.cli.remote.client import Client, Json
from tieline.cli.remote.lookup import environment_of, find_project, get_project, project_name
from tieline.cli.rollout import deploy_version, first_line, follow, is_complete, show_result, stop
from tieline.cli.sleepers import require_sleepers, require_sleepers_of_files
from tieline.cli.terminal import Output, age, note, one_line, say, show, styled
from tieline.configuration.project_folder import Folder, find
from tieline_protocol.python_source import named_templates

WaitOption = Annotated[
    int, typer.Option("--wait", min=0, max=3600, metavar="SECONDS", help="Wait for the rollout; 0 does not.")
]

MessageOption = Annotated[str | None, typer.Option("--message", "-m", help="Why it is deployed.")]
_MAX_REVISION = 256


def deploy(
    folder: FolderArgument = HERE,
    *,
    where: InEnvironment,
    version: Annotated[
        str | None,
        typer.Option("--version-name", metavar="NAME", help="A name for the version, such as a commit."),
    ] = None,
    message: Annotated[
        str | None,
        typer.Option("--message", "-m", help="What is new in the version, and why it is deployed."),
    ] = None,
    revision: Annotated[
        str | None,
        typer.Option("--revision", help="The revision of the files. Default: the folder's Git commit."),
    ] = None,
    label: Annotated[
        list[str] | None, typer.Option("--label", metavar="KEY=VALUE", help="A label; replaces all labels.")
    ] = None,
    create: Annotated[
        bool,
        typer.Option("--create", help="Create the project, and templates named like a system, if missing."),
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check and compare; change nothing.")] = False,
    diff: Annotated[bool, typer.Option("--diff", help="Show the lines that change.")] = False,
    force: Annotated[
        bool,
        typer.Option("--force", help="Deploy also if nothing changed, or runs that wait would stop."),
    ] = False,
    image_has: Annotated[
        list[str] | None, typer.Option(metavar="MODULE", help="A module of the project's own image.")
    ] = None,
    wait: WaitOption = 300,
    platform: Platform,
    output: OutputOption = Output.TABLE,
) -> None:
    """Check a folder, deploy it, and wait for the outcome.

    Exits with 1 if a check or the rollout fails. The environment then keeps serving the version before.
    """
    found = find(folder)
    remote = platform.client()
    name = project_name(folder, where.project)
    labels = _labels(label)
    target = _target(remote, name, create=create and not dry_run)
    if target is None:
        if not create:
            find_project(remote, name)  # says that there is none, and what to do
        _check(found, labels, (), image_has or ())
        note(f"Would create the project {name} and deploy {len(found.files())} files to production")
        write_plan(output, name, "production", changes({}, _texts(found)))
        return
    chosen = environment_of(target, where.environment)
    templates = _templates(remote, target, chosen)
    if create and not dry_run:
        templates += _added_templates(remote, target, chosen, found, templates)
    report = _check(found, labels, templates, image_has or ())
    # The answer to a deploy has the same warnings.
    if dry_run and (loaded := report.loaded) is not None:
        for line in events_without_task(_waiting(remote), chosen["id"], loaded):
            note(f"warning: {line}")
    files = _texts(found)
    before = _deployed_files(remote, target, chosen)
    changed = changes(before, files)
    show_changes(changed, before, files, whole=diff)
    if changed:
        require_sleepers(remote, chosen, found.code, packages=report.packages, force=force or dry_run)
    # First: the new code reads the new variables.
    _set_schema(remote, target, report.schema, dry_run=dry_run)
    if not changed and labels is None and not force and chosen["status"] == "running" and is_complete(chosen):
        note(f"{chosen['name']} serves these files already ({chosen['deployedVersion']['name']})")
        show_result(output, target, chosen)
        return
    if dry_run:
        note(f"Nothing was deployed to {chosen['name']} of {target['name']} (--dry-run)")
        write_plan(output, target["name"], chosen["name"], changed)
        return
    body: Json = {"files": [{"filename": path, "content": text} for path, text in files.items()]}
    if labels is not None:
        body["labels"] = labels
    if version:
        body["versionName"] = version
    if message:
        body |= {"versionDescription": message, "message": first_line(message)}
    if found_revision := revision or git_revision(found.code):
        body["revision"] = found_revision[:_MAX_REVISION]
    answer = remote.request(
        "PUT", f"projects/{target['id']}/deploy", query={"env_id": chosen["id"]}, body=body
    )
    follow(remote, answer, chosen["id"], wait=wait, output=output)


def promote(
    source: Annotated[
        str, typer.Option("--from", metavar="NAME", help="The environment that has the version.")
    ],
    target: Annotated[str, typer.Option("--to", metavar="NAME", help="The environment that gets it.")],
    *,
    where: InProject,
    diff: Annotated[bool, typer.Option("--diff", help="Show the lines that change.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Compare; change nothing.")] = False,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="Promote also a version that does not serve in --from, or with which waiting runs stop.",
        ),
    ] = False,
    message: MessageOption = None,
    yes: YesOption = False,
    wait: WaitOption = 300,
    platform: Platform,
    output: OutputOption = Output.TABLE,
) -> None:
    """Deploy the version that serves in one environment to another, and wait for the outcome."""
    remote = platform.client()
    found = get_project(remote, where.project_name())
    origin, chosen = environment_of(found, source), environment_of(found, target)
    if origin["id"] == chosen["id"]:
        raise UsageError("--from and --to are the same environment")
    version = origin.get("deployedVersion")
    if not version:
        raise CommandError(f"Nothing is deployed to {origin['name']}; deploy to it first")
    if not force:
        _refuse_unhealthy(origin, version)
    before, after = _deployed_files(remote, found, chosen), _files_of_version(remote, found, version)
    changed = changes(before, after)
    show_changes(changed, before, after, whole=diff)
    if dry_run:
        note(f"Nothing was deployed to {chosen['name']} (--dry-run)")
        write_plan(output, found["name"], chosen["name"], changed)
        return
    require_sleepers_of_files(remote, chosen, after, force=force)
    confirm(f"Deploy {version['name']} of {origin['name']} to {chosen['name']}?", yes=yes)
    why = message or f"promoted from {origin['name']}"
    deploy_version(remote, found, chosen, version, message=why, wait=wait, output=output)


def rollback(
    *,
    to: Annotated[
        str | None,
        typer.Option(
            "--to",
            metavar="VERSION",
            help="The version's name or id. Default: the last one that was healthy there before.",
        ),
    ] = None,
    where: InEnvironment,
    message: MessageOption = None,
    yes: YesOption = False,
    wait: WaitOption = 300,
    platform: Platform,
    output: OutputOption = Output.TABLE,
) -> None:
    """Deploy an earlier version again, and wait for the outcome."""
    remote = platform.client()
    found = get_project(remote, where.project_name())
    chosen = environment_of(found, where.environment)
    versions = list(remote.pages(f"projects/{found['id']}/versions", limit=1000))
    version = _named(versions, to) if to else _healthy(versions, chosen)
    # It says so and goes on: the way back must be open.
    require_sleepers_of_files(remote, chosen, _files_of_version(remote, found, version), force=True)
    confirm(f"Deploy {version['name']} ({age(version['createdAt'])} old) to {chosen['name']}?", yes=yes)
    deploy_version(remote, found, chosen, version, message=message, wait=wait, output=output)


def versions(
    *,
    where: InProject,
    limit: LimitOption = 20,
    platform: Platform,
    output: OutputOption = Output.TABLE,
) -> None:
    """List a project's versions, newest first, where they are deployed and where they serve."""
    remote = platform.client()
    found = where.find_project(remote)
    items = list(remote.pages(f"projects/{found['id']}/versions", limit=limit))
    deployed, serving = (_places(found, field) for field in ("deployedVersion", "servingVersion"))
    show(
        output,
        items,
        ("name", "state", "age", "by", "deployed to", "serves in", "id"),
        lambda: [
            (
                item["name"],
                styled(item["state"]),
                age(item["createdAt"]),
                item.get("createdBy"),
                deployed.get(item["id"], ""),
                serving.get(item["id"], ""),
                item["id"],
            )
            for item in items
        ],
        empty=f"{found['name']} has no versions yet. Deploy one with `tieline deploy`.",
    )


def suspend(
    *,
    where: InEnvironment,
    yes: YesOption = False,
    wait: Annotated[
        int,
        typer.Option(
            "--wait", min=0, max=300, metavar="SECONDS", help="Wait until it has stopped; 0 does not."
        ),
    ] = 120,
    platform: Platform,
) -> None:
    """Stop an environment. It keeps its events, and runs them once you deploy to it again."""
    remote = platform.client()
    found, chosen = where.find_environment(remote)
    confirm(f"Stop {chosen['name']} of {found['name']}?", yes=yes)
    stop(remote, found, chosen, wait=wait)
    say(f"{'Suspended' if wait else 'Suspending'} {chosen['name']} of {found['name']}")


def resume(
    *,
    where: InEnvironment,
    yes: YesOption = False,
    wait: WaitOption = 300,
    platform: Platform,
    output: OutputOption = Output.TABLE,
) -> None:
    """Start a suspended environment again with its version, and wait for the outcome."""
    remote = platform.client()
    found, chosen = where.find_environment(remote)
    version = chosen.get("deployedVersion")
    if chosen["status"] != "suspended" or version is None:
        raise CommandError(f"{chosen['name']} is {chosen['status']}, so there is nothing to resume")
    confirm(f"Start {version['name']} in {chosen['name']} of {found['name']} again?", yes=yes)
    deploy_version(remote, found, chosen, version, wait=wait, output=output)


def _labels(given: list[str] | None) -> dict[str, str] | None:
    if given is None:
        return None
    for item in given:
        if "=" not in item:
            raise UsageError(f"{item!r} is no label: write KEY=VALUE")
    return dict(item.partition("=")[::2] for item in given)


def _target(remote: Client, name: str, *, create: bool) -> Json | None:
    """The project; None if it does not exist and is not to be created."""
    try:
        return get_project(remote, name)
    except CommandError as error:
        if error.code is not ExitCode.NOT_FOUND:
            raise
        if not create:
            return None
    created: Json = remote.request("POST", "projects", body={"name": name})
    note(f"Created the project {name}")
    return created


def _check(
    folder: Folder, labels: Mapping[str, str] | None, templates: Collection[str], modules: Collection[str]
) -> CheckReport:
    """What the checks found. Raises CommandError with what a deploy would refuse."""
    report = check(folder, labels=labels, templates=templates, modules=modules)
    for finding in report.findings:
        note(shown(finding))
    if not report.ok:
        raise CommandError("Nothing was deployed: the checks found errors")
    return report


def _set_schema(remote: Client, project: Json, schema: Mapping[str, Any] | None, *, dry_run: bool) -> None:
    """Make the schema of variables beside the code the project's, which all its environments share."""
    path = f"projects/{project['id']}/variables"
    if schema is None or remote.get(path) == schema:
        return
    if dry_run:
        note(f"Would replace the schema of variables of {project['name']}")
        return
    remote.request("PUT", path, body=dict(schema))
    note(f"Replaced the schema of variables of {project['name']}, which all its environments share")


def _waiting(remote: Client) -> list[Json]:
    """What waits, for a warning alone: an answer without it must not stop a deploy."""
    try:
        items: list[Json] = remote.get("backlog", first=500).get("items") or []
    except CommandError:
        return []
    return items


def _added_templates(
    remote: Client, project: Json, environment: Json, folder: Folder, known: Collection[str]
) -> list[str]:
    """Adds the templates that the code names and the environment lacks, where one system has the same name."""
    wanted = [name for name in named_templates(folder.files()) if name not in known]
    if not wanted:
        return []
    systems = list(remote.pages("systems", limit=10_000))
    added = []
    for name in wanted:
        same = [item for item in systems if item["name"].casefold() == name.casefold()]
        if len(same) != 1:
            note(
                f"No system is called {name!r}: add the template with `tieline templates add {one_line(name)} --system "
                "NAME`, after `tieline systems create` if there is none, and deploy again"
            )
            continue
        body = {"systemId": same[0]["id"], "name": name, "environmentId": environment["id"], "dynamic": False}
        remote.request("POST", f"projects/{project['id']}/connection-templates", body=body)
        note(
            f"Added the connection template {name} for the system {same[0]['name']}; link a connection to it"
        )
        added.append(name)
    return added


def _templates(remote: Client, project: Json, environment: Json) -> list[str]:
    page = remote.get(f"projects/{project['id']}/connection-templates", env_id=environment["id"])
    return [item["name"] for item in page["items"]]


def _texts(folder: Folder) -> dict[str, str]:
    # The checks refuse files that are not UTF-8.
    return {name: content.decode() for name, content in folder.files()}


def _deployed_files(remote: Client, project: Json, environment: Json) -> dict[str, str]:
    if "files" in environment:
        return _files_of(environment)
    version = environment.get("servingVersion") or environment.get("deployedVersion")
    return _files_of_version(remote, project, version) if version else {}


def _files_of_version(remote: Client, project: Json, version: Json) -> dict[str, str]:
    return _files_of(remote.get(f"projects/{project['id']}/versions/{version['id']}/files"))


def _files_of(holder: Json) -> dict[str, str]:
    return {item["filename"]: item["content"] for item in holder.get("files") or ()}


def _named(versions: Sequence[Json], name: str) -> Json:
    for version in versions:
        if name in (version["name"], version["id"]) or name.upper() == version["id"]:
            return version
    raise CommandError(f"There is no version {name!r}; `tieline versions` lists them", ExitCode.NOT_FOUND)


def _healthy(versions: Sequence[Json], environment: Json) -> Json:
    """The last version that was healthy in the environment before the one that is deployed."""
    wanted = (environment.get("rollbackVersion") or {}).get("id")
    for version in versions:
        if version["id"] == wanted:
            return version
    raise CommandError(
        f"No version was healthy in {environment['name']} before this one; `tieline versions` lists those that you can "
        "name with --to",
        ExitCode.NOT_FOUND,
    )


def _refuse_unhealthy(origin: Json, version: Json) -> None:
    """Raises CommandError unless the version that was deployed to an environment serves there."""
    serving = origin.get("servingVersion")
    if serving and serving["id"] == version["id"] and origin.get("rollout"):
        return
    rollout = origin.get("rollout") or {}
    instead = f"{serving['name']} serves" if serving else "nothing serves"
    reason = rollout.get("message") or rollout.get("state") or origin["status"]
    raise CommandError(
        f"{version['name']} does not serve in {origin['name']} ({instead}; {reason}). Deploy a version that runs, or "
        "use --force to promote this one as it is"
    )


def _places(project: Json, field: str) -> dict[str, str]:
    """The names of environments by the id of the version that they have in a field."""
    found: dict[str, list[str]] = {}
    for item in project["environments"]:
        if version := item.get(field):
            found.setdefault(version["id"], []).append(item["name"])
    return {version: ", ".join(names) for version, names in found.items()}
