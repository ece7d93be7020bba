"""Finds objects by the names that people use."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import yaml

from tieline.cli.exit_codes import CommandError, ExitCode, UsageError
from tieline.cli.remote.client import Client, Json, segment

SETTINGS = "tieline.yaml"


def project_name(folder: Path, given: str | None) -> str:
    """The project that a folder belongs to: given, named in ``tieline.yaml`` there or above, or the folder's name.

    Raises UsageError.
    """
    if given:
        return given
    resolved = folder.resolve()
    for place in (resolved, *resolved.parents[:2]):
        path = place / SETTINGS
        if path.is_file():
            return _project_in(path)
    return resolved.parent.name if resolved.name == "integration" else resolved.name


def find_project(client: Client, name: str) -> Json:
    """A project in the list, by id or name. Raises CommandError."""
    projects: list[Json] = client.get("projects")["projects"]
    return named("project", projects, name, create="Create it with `tieline deploy --create`.")


def get_project(client: Client, name: str) -> Json:
    """A project with its environments and files, by id or name. Raises CommandError."""
    project: Json = client.get(f"projects/{segment(find_project(client, name)['id'])}")
    return project


def environment_of(project: Json, name: str | None) -> Json:
    """An environment of a project, by name or id; the only one without a name. Raises CommandError."""
    environments: list[Json] = project["environments"]
    if name is None:
        if len(environments) == 1:
            return environments[0]
        names = ", ".join(item["name"] for item in environments)
        raise UsageError(f"{project['name']} has several environments: {names}. Name one with --environment.")
    return named("environment", environments, name, inside=f" in {project['name']}")


def find_in_pages(client: Client, kind: str, path: str, name: str, **query: Any) -> Json:
    """An object of a paged list, by id or name. Raises CommandError."""
    return named(kind, list(client.pages(path, limit=10_000, **query)), name)


def template_of(client: Client, project: Json, environment: Json, name: str) -> Json:
    """A connection template of an environment, by name. Its ``id`` is that of its system."""
    items = client.get(f"projects/{project['id']}/connection-templates", env_id=environment["id"])["items"]
    by_own_id = [{**item, "id": item["connectionTemplateId"], "system": item["id"]} for item in items]
    found = named("connection template", by_own_id, name, create="Add it with `tieline templates add`.")
    return {**found, "id": found["system"]}


def named(kind: str, items: Sequence[Json], name: str, *, inside: str = "", create: str = "") -> Json:
    """The item with an id or a name. Raises CommandError, which says what there is."""
    found = [item for item in items if item["id"] == name.upper()]
    found = found or [item for item in items if item.get("name") == name]
    found = found or [item for item in items if str(item.get("name")).casefold() == name.casefold()]
    if len(found) == 1:
        return found[0]
    if found:
        ids = ", ".join(item["id"] for item in found)
        raise UsageError(f"There are {len(found)} of the {kind} {name!r}; use the id: {ids}")
    parts = [f"There is no {kind} {name!r}{inside}.", _known(items), create]
    raise CommandError(" ".join(filter(None, parts)), ExitCode.NOT_FOUND)


def _known(items: Iterable[Json], most: int = 10) -> str:
    names = sorted({str(item.get("name")) for item in items})
    if not names:
        return ""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"Known are: {', '.join(names[:most])}{more}."


def _project_in(path: Path) -> str:
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise UsageError(f"{path} cannot be read: {error}") from None
    name = content.get("project") if isinstance(content, dict) else None
    if not isinstance(name, str) or not name:
        raise UsageError(f"{path} needs the project's name, such as `project: order-sync`")
    return name
