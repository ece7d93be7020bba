"""How projects are shown, and how their environments are found."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from tieline_api import errors
from tieline_api.cluster.cluster_cache import WORDS, ClusterCache
from tieline_api.cluster.etags import etag
from tieline_api.cluster.field_managers import described, other_managers
from tieline_api.cluster.files_manager import files_manager
from tieline_api.cluster.writer import Change
from tieline_api.conversion import projects as convert
from tieline_api.dependencies import Dependencies
from tieline_api.http.operation import AnyCall, Call, Reply
from tieline_api.schemas.projects import DeployReason, Project
from tieline_core.identity.gitops import is_gitops
from tieline_core.identity.ids import environment_id, new_id, object_id, parse_id
from tieline_core.identity.names import environment_object_name
from tieline_core.kubernetes import Informer, Stored
from tieline_core.objects import Object, ObjectView
from tieline_core.resources.objects import EnvironmentSpecDict, ProjectObject, ProjectVersionObject
from tieline_core.resources.releases import MAX_RELEASE_TEXT

_FIELDS = {
    "version": "version",
    "suspended": "suspension",
    "pausedSchedules": "list of paused schedules",
    "deployNote": "note",
}


async def project_reply(platform: Dependencies, obj: ProjectObject) -> Reply[Project]:
    """A project with its current files and with what is deployed in its environments."""
    served = {
        item["name"]: version
        for item in convert.environment_items(obj)
        if (version := _served_version(platform, obj, item)) is not None
    }
    files, *deployed = await asyncio.gather(
        platform.files.current(obj), *(platform.files.of_version(version) for version in served.values())
    )
    body = convert.project_to_rest(
        obj,
        versions=versions_of(platform.cluster, obj),
        scale=partial(platform.cluster.scale, obj),
        files=files,
        files_managed_by=files_manager(obj),
        deployed={
            name: (found, version["spec"].get("labels") or {})
            for (name, version), found in zip(served.items(), deployed, strict=True)
        },
    )
    return Reply(body=body, etag=etag(obj))


def require_project(call: AnyCall) -> ProjectObject:
    """The project in the path."""
    cluster = call.platform.cluster
    return cluster.require(cluster.projects, call.namespace, call.path["project_id"])


def require_of_project(
    call: AnyCall, cache: Informer[Stored], project: ProjectObject, identifier: str
) -> Stored:
    """The object with this id, such as a version, of a project; ApiError 404 for one of another project too."""
    found = call.platform.cluster.require(cache, call.namespace, identifier)
    if found["spec"]["projectRef"]["name"] != project["metadata"]["name"]:
        raise errors.not_found(WORDS[cache.resource.kind], identifier)
    return found


def require_version(call: AnyCall, project: ProjectObject, identifier: str) -> ProjectVersionObject:
    """The version of a project with this id; ApiError 404."""
    return require_of_project(call, call.platform.cluster.versions, project, identifier)


async def refuse_change(call: AnyCall, project: ProjectObject, change: Change[ProjectObject]) -> None:
    """The ApiError with which ``change_project`` would refuse this change, before anything is created for it."""
    projects, name = call.platform.cluster.projects, project["metadata"]["name"]
    await call.platform.writer.try_out(projects, call.namespace, name, change, if_match=call.if_match)


async def change_project(
    call: AnyCall,
    project: ProjectObject,
    change: Change[ProjectObject],
    *,
    prepare: Callable[[], Awaitable[None]] | None = None,
) -> ProjectObject:
    """The project after a change, which the caller's If-Match may refuse."""
    projects, name = call.platform.cluster.projects, project["metadata"]["name"]
    return await call.platform.writer.change(
        projects, call.namespace, name, change, if_match=call.if_match, prepare=prepare
    )


def require_environment(
    project: ProjectObject,
    *,
    name: str | None = None,
    identifier: str | None = None,
    fields: tuple[str, str] = ("project_env", "env_id"),
) -> str:
    """The name of an environment, chosen by name or by id; without either the only one there is.

    Raises ApiError: 404 for one that is not there, 422 when there are several to choose from.
    """
    names: list[str] = [item["name"] for item in convert.environment_items(project)]
    if identifier:
        wanted = parse_id(identifier)
        found = [one for one in names if environment_id(object_id(project), one) == wanted]
        if not found:
            raise errors.ApiError(
                404, "not_found", f"The project has no environment with this id; {_choices(names)}"
            )
        if name and name != found[0]:
            raise errors.invalid(
                fields[1], f'is the id of "{found[0]}", not of "{name}": give one of the two'
            )
        return found[0]
    if name:
        if name not in names:
            raise errors.ApiError(404, "not_found", f"The project has no such environment; {_choices(names)}")
        return name
    if len(names) != 1:
        raise errors.invalid(
            fields[0], f"is required, since the project has several environments; {_choices(names)}"
        )
    return names[0]


def environment_object(project: ProjectObject, environment: str) -> str:
    """The name of an environment's Environment."""
    return environment_object_name(project["metadata"]["name"], environment)


async def deployed_environment(call: Call[Any, Any]) -> tuple[str, ...]:
    """The Environment that a deploy of files or a version that are there already changes."""
    project = require_project(call)
    environment = require_environment(project, name=call.query.project_env, identifier=call.query.env_id)
    return (environment_object(project, environment),)


def environment_by_name_or_id(project: ProjectObject, text: str) -> str:
    """The environment that ``text`` names, or whose id it is."""
    names: list[str] = [item["name"] for item in convert.environment_items(project)]
    if text in names or parse_id(text) is None:
        return require_environment(project, name=text)
    return require_environment(project, identifier=text)


def set_environment(live: ProjectObject, mine: Object, name: str, **fields: Any) -> None:
    """Sets fields of one environment in what the API owns of a project; ApiError 409 for what others own of them."""
    for field, value in fields.items():
        _refuse_owned(live, name, field, value)
    items = mine["spec"].setdefault("environments", [])
    item = next((one for one in items if one["name"] == name), None)
    if item is None:
        item = {"name": name}
        items.append(item)
    item.update(fields)
    if not live["spec"].get("environments"):
        return
    known = {one["name"] for one in live["spec"]["environments"]}
    if name not in known:
        raise errors.conflict(f'The environment "{name}" was removed meanwhile')


def deploy_note(version: str, author: str, why: DeployReason, *, described: str = "") -> Object:
    """Who deploys a version and why, for ``set_environment``. Names that are too long to be kept are left out."""
    message = (why.message or described).strip().partition("\n")[0][:MAX_RELEASE_TEXT]
    known = {
        "by": author if len(author) <= MAX_RELEASE_TEXT else "",
        "message": message,
        "revision": why.revision or "",
    }
    return {
        "id": new_id(),
        "version": version,
        **{name: value for name, value in known.items() if value},
    }


def _refuse_owned(live: ProjectObject, name: str, field: str, value: Any) -> None:
    """ApiError 409 where another manager has set a field of an environment to another value."""
    there: ObjectView = convert.environment_item(live, name)
    if field not in there or there[field] == value:
        return
    managers = other_managers(live, ("spec", "environments", {"name": name}, field))
    if not managers:
        return
    manager = managers[0]
    change = "commit the change there" if is_gitops(manager) else "change it there, in the manifest"
    raise errors.ApiError(
        409,
        "conflict",
        f'The {_FIELDS.get(field, field)} of the environment "{name}" is managed by {described(live, manager)}: '
        f"{change}. To set it by REST, remove {field} of this environment from that manifest first",
        fields=[errors.FieldError(f'environments[name="{name}"].{field}', f'belongs to "{manager}"')],
        extra={"managers": managers},
    )


def _served_version(
    platform: Dependencies, project: ProjectObject, item: EnvironmentSpecDict
) -> ProjectVersionObject | None:
    """The version that serves in an environment, or that shall serve there."""
    status = convert.environment_status(project, item["name"])
    return convert.served_version(item, status, versions_of(platform.cluster, project))


def versions_of(cluster: ClusterCache, project: ProjectObject) -> convert.Versions:
    """Finds the versions of a project by their names."""
    metadata = project["metadata"]

    def find(name: str) -> ProjectVersionObject | None:
        found = cluster.versions.get(metadata["namespace"], name)
        return found if found and found["spec"]["projectRef"]["name"] == metadata["name"] else None

    return find


def _choices(names: list[str]) -> str:
    return "it has " + ", ".join(f'"{name}"' for name in names)
