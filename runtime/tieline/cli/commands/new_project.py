"""``tieline init`` and ``tieline manifests``."""

import os
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
import yaml

from tieline.cli.exit_codes import CommandError, UsageError
from tieline.cli.manifests import Wanted, manifests_of
from tieline.cli.options import HERE, FolderArgument, InProject, Platform
from tieline.cli.remote.lookup import get_project, project_name
from tieline.cli.scaffold import CI_FILES, scaffold
from tieline.cli.terminal import Output, note, say, show
from tieline.configuration.project_folder import find

if TYPE_CHECKING:
    from tieline_catalogue.project_templates import ProjectTemplate

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._-]{0,62}")


def init(
    folder: Annotated[
        Path | None, typer.Argument(metavar="FOLDER", help="The new project's folder.", show_default=False)
    ] = None,
    *,
    name: Annotated[
        str | None, typer.Option(help="The project's name. Default: the folder's.", show_default=False)
    ] = None,
    ci: Annotated[
        str, typer.Option("--ci", help="github, gitlab or none: the pipeline that tests and deploys.")
    ] = "github",
    template: Annotated[
        str, typer.Option("--template", metavar="KEY", help="What the project begins with; see --list.")
    ] = "queued-orders",
    listed: Annotated[
        bool, typer.Option("--list", help="Only list the templates: what projects can begin with.")
    ] = False,
) -> None:
    """Create a project with code, a test, connections for this machine, and a pipeline."""
    from tieline_catalogue.project_templates import (  # noqa: PLC0415  (it is not in the runtime image)
        UnknownTemplateError,
        project_template,
        project_templates,
    )

    if listed:
        _list(project_templates())
        return
    if folder is None:
        raise UsageError(
            "name the new project's folder, such as `tieline init orders`; --list lists templates"
        )
    chosen = name or folder.resolve().name
    if not _NAME.fullmatch(chosen):
        raise UsageError(
            f"{chosen!r} is no project's name: letters, digits, ' ', '.', '_' and '-', at most 63; use --name"
        )
    if ci not in (*CI_FILES, "none"):
        raise UsageError(f"--ci is {', '.join(CI_FILES)} or none")
    try:
        files = scaffold(chosen, ci, project_template(template))
    except UnknownTemplateError as error:
        raise UsageError(str(error)) from None
    taken = [path for path in files if os.path.lexists(folder / path)]
    if taken:
        raise CommandError(f"{folder / taken[0]} exists already; nothing was written")
    for path, content in files.items():
        _write(folder / path, content)
        note(f"Wrote {folder / path}")
    say(f"Next: cd {shlex.quote(str(folder))} && tieline check && pytest")


def manifests(
    folder: FolderArgument = HERE,
    *,
    to: Annotated[
        Path, typer.Option("--to", metavar="FOLDER", help="Where the manifests are written.")
    ] = Path("deploy"),
    where: InProject,
    offline: Annotated[
        bool, typer.Option("--offline", help="Ask no platform: only what the folder says.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace files that are there.")] = False,
    platform: Platform,
) -> None:
    """Write a folder's project, and what the organisation has for it, as manifests for kubectl and GitOps.

    Secrets are not written: the manifests name those that you have to create.
    """
    found = find(folder)
    name = project_name(folder, where.project)
    from tieline.cli.config_check import describe  # noqa: PLC0415  (loads the SDK)

    schema = describe(None, found.schema).schema or None
    wanted = Wanted(name=name, folder=found, target=to.resolve(), schema=schema)
    if not offline:
        remote = platform.client()
        target = get_project(remote, name)
        wanted.project = target
        for environment in target["environments"]:
            page = remote.get(f"projects/{target['id']}/connection-templates", env_id=environment["id"])
            static = remote.pages(
                f"projects/{target['id']}/connections", limit=10_000, env_id=environment["id"]
            )
            wanted.templates += [(environment["name"], item) for item in page["items"]]
            wanted.connections += static
        wanted.systems = list(remote.pages("systems", limit=10_000))
    files, secrets = manifests_of(wanted)
    taken = [path for path in files if os.path.lexists(to / path)]
    if taken and not force:
        raise CommandError(f"{to / taken[0]} exists already; use --force to replace it")
    for path, documents in files.items():
        text = yaml.safe_dump_all(documents, sort_keys=False, allow_unicode=True, width=120)
        _write(to / path, text)
        note(f"Wrote {to / path}")
    for secret in secrets:
        note(f"Create the Secret {secret.name} of type tieline.dev/credential ({secret.purpose})")
    say(f"Check them with: kubectl kustomize {shlex.quote(str(to))} --load-restrictor=LoadRestrictionsNone")


def _list(templates: "Sequence[ProjectTemplate]") -> None:
    value = [one.model_dump(mode="json", include={"key", "name", "summary"}) for one in templates]
    columns = ("template", "name", "what it does")
    show(Output.TABLE, value, columns, lambda: [(one.key, one.name, one.summary) for one in templates])


def _write(path: Path, content: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # A link that is there is replaced, not written through.
        if path.is_symlink():
            path.unlink()
        path.write_text(content, encoding="utf-8")
    except OSError as error:
        raise CommandError(f"{path} cannot be written: {error.strerror}") from None
