"""Operations on projects as records."""

from functools import partial
from typing import Any

from tieline_api.auth.permissions import Permission, permission
from tieline_api.conversion import projects as convert
from tieline_api.conversion.lists import readable
from tieline_api.http.operation import ORGANISATION, Call, Operations, Reply
from tieline_api.schemas import projects as rest
from tieline_api.use_cases.project_copy import copy_project
from tieline_api.views.project_lookup import change_project, project_reply, require_project, versions_of
from tieline_core.identity.ids import new_id
from tieline_core.kubernetes import Informer
from tieline_core.objects import Object
from tieline_core.resources.objects import ProjectObject

PROJECT = f"{ORGANISATION}/projects/{{project_id}}"

OPERATIONS = Operations("Projects")


@OPERATIONS.add(
    "GET",
    f"{ORGANISATION}/projects",
    id="listProjects",
    summary="List projects",
    permissions=permission("list", "projects"),
)
async def list_projects(call: Call[None, None]) -> Reply[rest.ProjectList]:
    """Returns all projects of the organisation, oldest first, without their files."""
    cluster = call.platform.cluster
    found = cluster.ordered.projects.objects(call.namespace)
    shown = readable(
        found,
        lambda obj: convert.project_item(
            obj, versions=versions_of(cluster, obj), scale=partial(cluster.scale, obj)
        ),
    )
    return Reply(body=rest.ProjectList(projects=shown.items), warnings=shown.warnings)


@OPERATIONS.add(
    "POST",
    f"{ORGANISATION}/projects",
    id="createProject",
    summary="Create project",
    permissions=permission("create", "projects"),
    link_sources={"project_id": "/id", "environment_id": "/environments/0/id"},
)
async def create_project(call: Call[None, rest.ProjectCreate]) -> Reply[rest.Project]:
    """Creates a project with one draft environment named production. The answer is 409 when the id is taken."""
    platform = call.platform
    obj = await platform.writer.create(
        platform.cluster.projects,
        call.namespace,
        call.body.id or new_id(),
        convert.new_project_spec(call.body),
        chosen_by_client=call.body.id is not None,
    )
    return await project_reply(platform, obj)


@OPERATIONS.add(
    "GET",
    PROJECT,
    id="getProject",
    summary="Get project",
    permissions=permission("get", "projects"),
    errors=(409,),
    conditional=True,
)
async def get_project(call: Call[None, None]) -> Reply[rest.Project]:
    """Returns a project with its current files and the files that each environment serves."""
    return await project_reply(call.platform, require_project(call))


@OPERATIONS.add(
    "PUT",
    PROJECT,
    id="updateProject",
    summary="Update project",
    permissions=permission("patch", "projects"),
    conditional=True,
)
async def update_project(call: Call[None, rest.ProjectUpdate]) -> Reply[rest.Project]:
    """Updates name and settings. Files and running environments stay as they are."""
    body = call.body

    def change(_live: ProjectObject, mine: Object) -> None:
        if body.name is not None:
            mine["spec"]["name"] = body.name
        given = body.settings.model_dump(by_alias=True, exclude_none=True) if body.settings else {}
        if given:
            mine["spec"].setdefault("settings", {}).update(given)

    return await project_reply(call.platform, await change_project(call, require_project(call), change))


@OPERATIONS.add(
    "DELETE",
    PROJECT,
    id="deleteProject",
    summary="Delete project",
    permissions=permission("delete", "projects"),
    success=204,
)
async def delete_project(call: Call[None, None]) -> Reply[None]:
    """Stops what a project runs and deletes it with its templates, activations and notifications. You can repeat the
    request if it was interrupted."""
    platform = call.platform
    cluster = platform.cluster
    obj = require_project(call)
    name = obj["metadata"]["name"]
    caches: tuple[Informer[Any], ...] = (cluster.activations, cluster.templates, cluster.notifications)
    for cache in caches:
        for one in await cluster.referring_now(cache, "projectRef", call.namespace, name):
            await platform.writer.delete_if_ours(cache, one)
    await platform.writer.delete(cluster.projects, obj)
    return Reply()


@OPERATIONS.add(
    "POST",
    f"{PROJECT}/clone",
    id="cloneProject",
    summary="Copy project",
    permissions=(
        Permission("get", "projects"),
        Permission("create", "projects"),
        Permission("create", "connectiontemplates"),
    ),
    body_optional=True,
    link_sources={"project_id": "/id", "environment_id": "/environments/0/id"},
)
async def clone_project(call: Call[None, rest.ProjectClone]) -> Reply[rest.Project]:
    """Copies a project: its files, labels, settings, variables schema, environments and connection templates, with the
    connections that static ones are linked to. Nothing is deployed in the copy, users are not activated, and variables
    are not copied."""
    obj = await copy_project(call, require_project(call), call.body.name)
    return await project_reply(call.platform, obj)
