"""Adding environments to a project, and removing them: changes of what the API owns of it."""

from collections.abc import Iterator, Mapping
from typing import Any

from tieline_api import errors
from tieline_api.cluster.field_managers import Step
from tieline_api.cluster.writer import refuse_removal, set_or_drop
from tieline_api.conversion import projects as convert
from tieline_api.views.project_lookup import set_environment
from tieline_core.objects import Object
from tieline_core.resources.objects import ProjectObject
from tieline_core.resources.projects import MAX_ENVIRONMENTS


def refuse_new_name(project: ProjectObject, name: str) -> None:
    """ApiError 409 where the project cannot have one more environment of this name."""
    names = [item["name"] for item in convert.environment_items(project)]
    if name in names:
        raise errors.conflict(f'The project has an environment "{name}" already: choose another name')
    if len(names) >= MAX_ENVIRONMENTS:
        raise errors.conflict(
            f"The project has {len(names)} environments, at most {MAX_ENVIRONMENTS} are allowed: delete one first"
        )


def add_environment(
    live: ProjectObject, mine: Object, name: str, runtime: Mapping[str, Any] | None = None
) -> None:
    """Adds a draft to the environments. Those that the project has stay, also the one that it has by default."""
    refuse_new_name(live, name)
    items = mine["spec"].setdefault("environments", [])
    if not live["spec"].get("environments"):
        items += [{"name": item["name"]} for item in convert.environment_items(live)]
    items.append({"name": name, **({"runtime": dict(runtime)} if runtime else {})})


def set_runtime(live: ProjectObject, mine: Object, name: str, changes: Mapping[str, Any]) -> None:
    """Sets fields of an environment's runtime; an empty value leaves a field out. 409 for what others own of it."""
    set_environment(live, mine, name)
    item = next(one for one in mine["spec"]["environments"] if one["name"] == name)
    there = convert.environment_item(live, name)
    for path in _removed(there.get("runtime") or {}, changes):
        shown = ".".join(step if isinstance(step, str) else step["name"] for step in path)
        refuse_removal(
            live,
            ("environments", {"name": name}, "runtime", *path),
            what=f'environments["{name}"].runtime.{shown}',
        )
    runtime = item.get("runtime") or {}
    for field, value in changes.items():
        if field == "replicas":
            runtime[field] = value
        else:
            set_or_drop(runtime, field, value)
    set_or_drop(item, "runtime", runtime)


def _removed(before: Mapping[str, Any], changes: Mapping[str, Any]) -> Iterator[tuple[Step, ...]]:
    """What the changes leave out of a runtime."""
    if "image" in changes and not changes["image"] and before.get("image"):
        yield ("image",)
    if "env" in changes:
        kept = {one["name"] for one in changes["env"]}
        yield from (
            ("env", {"name": one["name"]}) for one in before.get("env") or () if one["name"] not in kept
        )
    if "scaling" in changes:
        yield from (("scaling", one) for one in before.get("scaling") or () if one not in changes["scaling"])
    if "resources" in changes:
        for part, amounts in (before.get("resources") or {}).items():
            new = changes["resources"].get(part) or {}
            yield from (("resources", part, one) for one in amounts or () if one not in new)


def remove_environment(live: ProjectObject, mine: Object, name: str) -> None:
    """Removes an environment; ApiError 404, and 409 for the last one and for what others own of it."""
    names = [item["name"] for item in convert.environment_items(live)]
    if name not in names:
        raise errors.ApiError(404, "not_found", f'The environment "{name}" was removed meanwhile')
    if len(names) == 1:
        raise errors.conflict(
            f'"{name}" is the only environment of the project: create another one first, or delete the project'
        )
    refuse_removal(live, ("environments", {"name": name}), what=f'environments["{name}"]')
    kept = [item for item in mine["spec"].get("environments") or () if item["name"] != name]
    set_or_drop(mine["spec"], "environments", kept)
