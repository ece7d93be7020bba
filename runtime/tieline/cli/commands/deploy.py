"""``tieline deploy``, ``promote``, ``rollback``, ``versions`` and ``suspend``."""

from collections.abc import Collection, Mapping, Sequence
from typing import Annotated

import typer

from tieline.cli.check import check, shown
from tieline.cli.deploy_plan import show_changes, write_plan
from tieline.cli.exit_codes import CommandError, ExitCode, UsageError
from tieline.cli.file_diff import changes
from tieline.cli.options import (
    HERE,
    ContextOption,
    EnvironmentOption,
    FolderArgument,
    LimitOption,
    OrganisationOption,
    OutputOption,
    ProjectOption,
    YesOption,
    client,
    confirm,
)
from tieline.cli.remote.client import Client, Json
from tieline.cli.remote.lookup import environment_of, find_project, get_project, project_name
from tieline.cli.rollout import deploy_version, follow, is_complete, show_result
from tieline.cli.terminal import Output, age, note, say, show, styled
from tieline.configuration.project_folder import Folder, find

WaitOption = Annotated[
    int, typer.Option("--wait", min=0, max=3600, metavar="SECONDS", help="Wait for the rollout; 0 does not.")
]


def deploy(
    folder: FolderArgument = HERE,
    *,
    project: ProjectOption = None,
    environment: EnvironmentOption = None,
    version: Annotated[
        str | None,
        typer.Option("--version-name", metavar="NAME", help="A name for the version, such as a commit."),
    ] = None,
    message: Annotated[
        str | None, typer.Option("--message", "-m", help="What is new in the version.")
    ] = None,
    label: Annotated[
        list[str] | None, typer.Option("--label", metavar="KEY=VALUE", help="A label; replaces all labels.")
    ] = None,
    create: Annotated[
        bool, typer.Option("--create", help="Create the project if it does not exist.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check and compare; change nothing.")] = False,
    diff: Annotated[bool, typer.Option("--diff", help="Show the lines that change.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Deploy also if nothing changed.")] = False,
    image_has: Annotated[
        list[str] | None, typer.Option(metavar="MODULE", help="A module of the project's own image.")
    ] = None,
    wait: WaitOption = 300,
    context: ContextOption = None,
    organisation: OrganisationOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Check a folder, deploy it, and wait for the outcome.

    Exits with 1 if a check or the rollout fails. The environment then keeps serving the version before.
    """
    found = find(folder)
    remote = client(context, organisation)
    name = project_name(folder, project)
    labels = _labels(label)
    target = _target(remote, name, create=create and not dry_run)
    if target is None:
        if not create:
            find_project(remote, name)  # says that there is none, and what to do
        _check(found, labels, (), image_has or ())
        note(f"Would create the project {name} and deploy {len(found.files())} files to production")
        write_plan(output, name, "production", changes({}, _texts(found)))
        return
    chosen = environment_of(target, environment)
    _check(found, labels, _templates(remote, target, chosen), image_has or ())
    files = _texts(found)
    before = _deployed_files(remote, target, chosen)
    changed = changes(before, files)
    show_changes(changed, before, files, whole=diff)
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
        body["versionDescription"] = message
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
    project: ProjectOption = None,
    diff: Annotated[bool, typer.Option("--diff", help="Show the lines that change.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Compare; change nothing.")] = False,
    yes: YesOption = False,
    wait: WaitOption = 300,
    context: ContextOption = None,
    organisation: OrganisationOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Deploy the version of one environment to another, and wait for the outcome."""
    remote = client(context, organisation)
    found = get_project(remote, project_name(HERE, project))
    origin, chosen = environment_of(found, source), environment_of(found, target)
    if origin["id"] == chosen["id"]:
        raise UsageError("--from and --to are the same environment")
    version = origin.get("deployedVersion")
    if not version:
        raise CommandError(f"{origin['name']} serves no version yet; deploy to it first")
    before, after = _deployed_files(remote, found, chosen), _files_of(origin)
    changed = changes(before, after)
    show_changes(changed, before, after, whole=diff)
    if dry_run:
        note(f"Nothing was deployed to {chosen['name']} (--dry-run)")
        write_plan(output, found["name"], chosen["name"], changed)
        return
    confirm(f"Deploy {version['name']} of {origin['name']} to {chosen['name']}?", yes=yes)
    deploy_version(remote, found, chosen, version, wait=wait, output=output)


def rollback(
    *,
    to: Annotated[
        str | None,
        typer.Option("--to", metavar="VERSION", help="The version's name or id. Default: the one before."),
    ] = None,
    project: ProjectOption = None,
    environment: EnvironmentOption = None,
    yes: YesOption = False,
    wait: WaitOption = 300,
    context: ContextOption = None,
    organisation: OrganisationOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Deploy an earlier version again, and wait for the outcome."""
    remote = client(context, organisation)
    found = get_project(remote, project_name(HERE, project))
    chosen = environment_of(found, environment)
    versions = list(remote.pages(f"projects/{found['id']}/versions", limit=1000))
    version = _named(versions, to) if to else _before(versions, chosen)
    confirm(f"Deploy {version['name']} ({age(version['createdAt'])} old) to {chosen['name']}?", yes=yes)
    deploy_version(remote, found, chosen, version, wait=wait, output=output)


def versions(
    *,
    project: ProjectOption = None,
    limit: LimitOption = 20,
    context: ContextOption = None,
    organisation: OrganisationOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """List a project's versions, newest first, and where they serve."""
    remote = client(context, organisation)
    found = find_project(remote, project_name(HERE, project))
    items = list(remote.pages(f"projects/{found['id']}/versions", limit=limit))
    served: dict[str, list[str]] = {}
    for item in found["environments"]:
        if version := item.get("deployedVersion"):
            served.setdefault(version["id"], []).append(item["name"])
    show(
        output,
        items,
        ("name", "state", "age", "by", "serves in", "id"),
        lambda: [
            (
                item["name"],
                styled(item["state"]),
                age(item["createdAt"]),
                item.get("createdBy"),
                ", ".join(served.get(item["id"], ())),
                item["id"],
            )
            for item in items
        ],
        empty=f"{found['name']} has no versions yet. Deploy one with `tieline deploy`.",
    )


def suspend(
    *,
    project: ProjectOption = None,
    environment: EnvironmentOption = None,
    yes: YesOption = False,
    context: ContextOption = None,
    organisation: OrganisationOption = None,
) -> None:
    """Stop an environment. It keeps its events, and runs them once you deploy to it again."""
    remote = client(context, organisation)
    found = find_project(remote, project_name(HERE, project))
    chosen = environment_of(found, environment)
    confirm(f"Stop {chosen['name']} of {found['name']}?", yes=yes)
    remote.request("POST", f"projects/{found['id']}/suspend", query={"environment": chosen["id"]})
    say(f"Suspended {chosen['name']} of {found['name']}")


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
) -> None:
    """Raises CommandError with what a deploy would refuse."""
    report = check(folder, labels=labels, templates=templates, modules=modules)
    for finding in report.findings:
        note(shown(finding))
    if not report.ok:
        raise CommandError("Nothing was deployed: the checks found errors")


def _templates(remote: Client, project: Json, environment: Json) -> list[str]:
    page = remote.get(f"projects/{project['id']}/connection-templates", env_id=environment["id"])
    return [item["name"] for item in page["items"]]


def _texts(folder: Folder) -> dict[str, str]:
    # The checks refuse files that are not UTF-8.
    return {name: content.decode() for name, content in folder.files()}


def _deployed_files(remote: Client, project: Json, environment: Json) -> dict[str, str]:
    if "files" in environment:
        return _files_of(environment)
    version = environment.get("deployedVersion")
    if not version:
        return {}
    return _files_of(remote.get(f"projects/{project['id']}/versions/{version['id']}/files"))


def _files_of(holder: Json) -> dict[str, str]:
    return {item["filename"]: item["content"] for item in holder.get("files") or ()}


def _named(versions: Sequence[Json], name: str) -> Json:
    for version in versions:
        if name in (version["name"], version["id"]) or name.upper() == version["id"]:
            return version
    raise CommandError(f"There is no version {name!r}; `tieline versions` lists them", ExitCode.NOT_FOUND)


def _before(versions: Sequence[Json], environment: Json) -> Json:
    """The newest version that could run before the one that is deployed."""
    deployed = (environment.get("deployedVersion") or {}).get("id")
    ids = [version["id"] for version in versions]
    older = versions[ids.index(deployed) + 1 :] if deployed in ids else versions
    for version in older:
        if version["state"] in ("ready", "superseded"):
            return version
    raise CommandError(
        f"{environment['name']} has no earlier version that is kept; `tieline versions` lists them",
        ExitCode.NOT_FOUND,
    )
