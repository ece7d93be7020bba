"""Operations on projects as records."""

from tieline_api.auth.permissions import Permission, permission
from tieline_api.conversion import projects as convert
from tieline_api.conversion.lists import readable
from tieline_api.http.operation import ORGANISATION, Call, Operation, Reply
from tieline_api.schemas import projects as rest
from tieline_api.use_cases.project_copy import copy_project
from tieline_api.use_cases.project_lookup import change_project, need_project, project_reply, versions_of
from tieline_core.identity.ids import new_id
from tieline_core.objects import Object

PROJECT = f"{ORGANISATION}/projects/{{project_id}}"


async def list_projects(call: Call[None, None]) -> Reply:
    """Returns all projects of the organisation, oldest first, without their files."""
    world = call.platform.world
    found = world.ordered.projects.objects(call.namespace)
    shown = readable(found, lambda obj: convert.project_item(obj, versions=versions_of(world, obj)))
    return Reply(body=rest.ProjectList(projects=shown.items), warnings=shown.warnings)


async def create_project(call: Call[None, rest.ProjectCreate]) -> Reply:
    """Creates a project with one draft environment named production. The answer is 409 when the id is taken."""
    platform = call.platform
    obj = await platform.writer.create(
        platform.world.projects,
        call.namespace,
        call.body.id or new_id(),
        convert.new_project_spec(call.body),
        chosen_by_client=call.body.id is not None,
    )
    return await project_reply(platform, obj)


async def get_project(call: Call[None, None]) -> Reply:
    """Returns a project with its current files and the files that each environment serves."""
    return await project_reply(call.platform, need_project(call))


async def update_project(call: Call[None, rest.ProjectUpdate]) -> Reply:
    """Updates name and settings. Files and running environments stay as they are."""
    body = call.body

    def change(_live: Object, mine: Object) -> None:
        if body.name is not None:
            mine["spec"]["name"] = body.name
        given = body.settings.model_dump(by_alias=True, exclude_none=True) if body.settings else {}
        if given:
            mine["spec"].setdefault("settings", {}).update(given)

    return await project_reply(call.platform, await change_project(call, need_project(call), change))


async def delete_project(call: Call[None, None]) -> Reply:
    """Stops what a project runs and deletes it with its templates, activations and notifications. You can repeat the
    request if it was interrupted."""
    platform = call.platform
    world = platform.world
    obj = need_project(call)
    name = obj["metadata"]["name"]
    for cache in (world.activations, world.templates, world.notifications):
        for one in await world.referring_now(cache, "projectRef", call.namespace, name):
            await platform.writer.delete_if_ours(cache, one)
    await platform.writer.delete(world.projects, obj)
    return Reply()


async def clone_project(call: Call[None, rest.ProjectClone]) -> Reply:
    """Copies a project: its files, labels, settings, variables schema, environments and connection templates, with the
    connections that static ones are linked to. Nothing is deployed in the copy, users are not activated, and variables
    are not copied."""
    obj = await copy_project(call, need_project(call), call.body.name)
    return await project_reply(call.platform, obj)


OPERATIONS = (
    Operation(
        id="createProject",
        method="POST",
        path=f"{ORGANISATION}/projects",
        summary="Create project",
        handler=create_project,
        permissions=permission("create", "projects"),
        link_sources={"project_id": "/id", "environment_id": "/environments/0/id"},
        response=rest.Project,
    ),
    Operation(
        id="listProjects",
        path=f"{ORGANISATION}/projects",
        summary="List projects",
        handler=list_projects,
        permissions=permission("list", "projects"),
        response=rest.ProjectList,
    ),
    Operation(
        id="getProject",
        path=PROJECT,
        summary="Get project",
        handler=get_project,
        permissions=permission("get", "projects"),
        response=rest.Project,
        errors=(409,),
        conditional=True,
    ),
    Operation(
        id="updateProject",
        method="PUT",
        path=PROJECT,
        summary="Update project",
        handler=update_project,
        permissions=permission("patch", "projects"),
        response=rest.Project,
        conditional=True,
    ),
    Operation(
        id="cloneProject",
        method="POST",
        path=f"{PROJECT}/clone",
        summary="Copy project",
        handler=clone_project,
        permissions=(
            Permission("get", "projects"),
            Permission("create", "projects"),
            Permission("create", "connectiontemplates"),
        ),
        body_optional=True,
        link_sources={"project_id": "/id", "environment_id": "/environments/0/id"},
        response=rest.Project,
    ),
    Operation(
        id="deleteProject",
        method="DELETE",
        path=PROJECT,
        summary="Delete project",
        handler=delete_project,
        permissions=permission("delete", "projects"),
        success=204,
    ),
)
