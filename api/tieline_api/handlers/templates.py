"""Systems in a project's environment: connection templates, and the twins that speak of systems."""

from typing import Any

from tieline_api import cursors, errors
from tieline_api.auth.permissions import permission
from tieline_api.cache.cluster_cache import ClusterCache
from tieline_api.cache.sorted_lists import position
from tieline_api.conversion.lists import readable
from tieline_api.conversion.systems import auth_scheme_items, template_to_rest
from tieline_api.handlers.connections import page_of_connections
from tieline_api.handlers.projects import PROJECT
from tieline_api.http.operation import Call, Operation, Reply
from tieline_api.schemas import templates as rest
from tieline_api.schemas.base import Empty
from tieline_api.schemas.connections import ConnectionPage
from tieline_api.schemas.projects import EnvironmentPageQuery, EnvironmentQuery
from tieline_api.store.writer import set_or_drop
from tieline_api.use_cases import end_user_checks
from tieline_api.use_cases.project_lookup import need_environment, need_of_project, need_project
from tieline_api.use_cases.status_overlay import system_with_findings
from tieline_core.identity.ids import new_id, object_id
from tieline_core.objects import Object

TEMPLATES = f"{PROJECT}/connection-templates"
TEMPLATE = f"{TEMPLATES}/{{template_id}}"
SYSTEMS = f"{PROJECT}/systems"


async def list_templates(call: Call[EnvironmentQuery, None]) -> Reply:
    """Returns the connection templates of an environment, or of all environments. Templates whose system does not exist
    are left out."""
    world = call.platform.world
    known = [
        template
        for template in _templates(call, call.query.env_id)
        if world.referred(world.systems, template, "systemRef") is not None
    ]
    shown = readable(known, lambda template: _shown(call, template, _system_of(world, template)))
    return Reply(
        body=rest.TemplatePage(total_count=len(shown.items), items=shown.items), warnings=shown.warnings
    )


async def list_static_connections(call: Call[EnvironmentPageQuery, None]) -> Reply:
    """Returns a page of the connections that static templates are linked to."""
    world = call.platform.world
    linked = [
        connection
        for template in _templates(call, call.query.env_id)
        if not template["spec"].get("dynamic")
        and (connection := world.referred(world.connections, template, "connectionRef")) is not None
    ]
    distinct = list({connection["metadata"]["name"]: connection for connection in linked}.values())
    kind = f"static-connections/{object_id(need_project(call))}"
    page = cursors.cut(distinct, kind=kind, position=position, **call.query.window)
    return page_of_connections(world, page, organisation=call.organisation.id)


async def create_template(call: Call[None, rest.TemplateCreate]) -> Reply:
    """Adds a system to an environment under the name by which code refers to it."""
    template, system = await _create(call)
    return Reply(body=_shown(call, template, system))


async def add_system(call: Call[None, rest.TemplateCreate]) -> Reply:
    """Adds a system to an environment, as createConnectionTemplate does, and returns nothing."""
    await _create(call)
    return Reply()


async def update_template(call: Call[None, rest.TemplateUpdate]) -> Reply:
    """Updates name, dynamic and the auth schemes that the template offers. Fields that you leave out stay."""
    platform, body = call.platform, call.body
    world = platform.world
    project = need_project(call)
    template = _need_template(call, project)
    if body.name is not None and body.name != template["spec"]["name"]:
        _refuse_taken_name(world, project, template["spec"]["environment"], body.name)
    offered = list(dict.fromkeys(body.auth_scheme_config_ids or ()))
    _refuse_unknown_schemes(world, template, offered)

    def change(live: Object, mine: Object) -> None:
        if body.name is not None:
            mine["spec"]["name"] = body.name
        if body.dynamic is not None:
            if body.dynamic and live["spec"].get("connectionRef"):
                raise errors.conflict(
                    "The template is linked with a connection: unlink it before it becomes dynamic"
                )
            mine["spec"]["dynamic"] = body.dynamic
        if body.auth_scheme_config_ids is not None:
            set_or_drop(mine["spec"], "authSchemeConfigIds", offered)
        if body.expose_to_code is not None:
            mine["spec"]["exposeToCode"] = body.expose_to_code

    name = template["metadata"]["name"]
    changed = await platform.writer.change(
        world.templates, call.namespace, name, change, if_match=call.if_match
    )
    return Reply(body=_shown(call, changed, _system_of(world, changed)))


async def delete_template(call: Call[None, None]) -> Reply:
    """Deletes a connection template. Its connections stay."""
    template = _need_template(call, need_project(call))
    await call.platform.writer.delete(call.platform.world.templates, template)
    return Reply()


async def remove_system(call: Call[None, rest.TemplateCreate]) -> Reply:
    """Removes a system from an environment: deletes the template with this system and name."""
    world = call.platform.world
    project = need_project(call)
    environment = need_environment(
        project, identifier=call.body.environment_id, fields=("environmentId", "environmentId")
    )
    system = world.need(world.systems, call.namespace, call.body.system_id)
    for template in _in_environment(world, project, environment):
        spec = template["spec"]
        if spec["name"] == call.body.name and spec["systemRef"]["name"] == system["metadata"]["name"]:
            await call.platform.writer.delete(world.templates, template)
            return Reply()
    raise errors.ApiError(
        404,
        "not_found",
        f'The environment "{environment}" does not have this system under the name that was given',
    )


async def _create(call: Call[None, rest.TemplateCreate]) -> tuple[Object, Object]:
    world, body = call.platform.world, call.body
    project = need_project(call)
    environment = need_environment(
        project, identifier=body.environment_id, fields=("environmentId", "environmentId")
    )
    system = world.find(world.systems, call.namespace, body.system_id)
    if system is None:
        raise errors.invalid("systemId", "is no system of this organisation")
    _refuse_taken_name(world, project, environment, body.name)
    template = await call.platform.writer.create(
        world.templates,
        call.namespace,
        new_id(),
        {
            "name": body.name,
            "projectRef": {"name": project["metadata"]["name"]},
            "environment": environment,
            "systemRef": {"name": system["metadata"]["name"]},
            "dynamic": body.dynamic,
            **({"exposeToCode": True} if body.expose_to_code else {}),
        },
    )
    return template, system


def _shown(call: Call[Any, Any], template: Object, system: Object) -> rest.ConnectionTemplate:
    world = call.platform.world
    judged = system_with_findings(world, system)
    static = not template["spec"].get("dynamic")
    linked = world.referred(world.connections, template, "connectionRef") if static else None
    return template_to_rest(template, judged, organisation=call.organisation.id, connection=linked)


def _refuse_unknown_schemes(world: ClusterCache, template: Object, offered: list[str]) -> None:
    if not offered:
        return
    known = {item["id"] for item in auth_scheme_items(_system_of(world, template))}
    for index, identifier in enumerate(offered):
        if identifier not in known:
            raise errors.invalid(
                f"authSchemeConfigIds[{index}]", "is the id of no auth scheme of the template's system"
            )


def _need_template(call: Call[Any, Any], project: Object) -> Object:
    return need_of_project(call, call.platform.world.templates, project, call.path["template_id"])


def _templates(call: Call[Any, Any], env_id: str | None) -> list[Object]:
    world = call.platform.world
    project = need_project(call)
    if env_id:
        found = _in_environment(world, project, need_environment(project, identifier=env_id))
    else:
        found = world.referring(world.templates, "project", call.namespace, project["metadata"]["name"])
    return found if call.reach is None else [one for one in found if call.reach.has_template(one)]


def _in_environment(world: ClusterCache, project: Object, environment: str) -> list[Object]:
    metadata = project["metadata"]
    return world.referring(
        world.templates, "environment", metadata["namespace"], metadata["name"], environment
    )


def _system_of(world: ClusterCache, template: Object) -> Object:
    system = world.referred(world.systems, template, "systemRef")
    if system is None:
        raise errors.conflict("The template's system does not exist (any more): create it first")
    return system


def _refuse_taken_name(world: ClusterCache, project: Object, environment: str, name: str) -> None:
    if any(template["spec"]["name"] == name for template in _in_environment(world, project, environment)):
        raise errors.conflict(f'The environment has a template named "{name}" already: choose another name')


def _removal(method: str, identifier: str) -> Operation:
    return Operation(
        id=identifier,
        method=method,
        path=SYSTEMS,
        summary="Remove a system from a project environment",
        handler=remove_system,
        permissions=permission("delete", "connectiontemplates"),
        success=204,
    )


OPERATIONS = (
    Operation(
        id="listStaticConnections",
        path=f"{PROJECT}/connections",
        summary="List static connections for a project environment",
        handler=list_static_connections,
        permissions=permission("list", "connections"),
        response=ConnectionPage,
    ),
    Operation(
        id="createConnectionTemplate",
        method="POST",
        path=TEMPLATES,
        summary="Create connection template",
        handler=create_template,
        permissions=permission("create", "connectiontemplates"),
        link_sources={
            "template_id": "/connectionTemplateId",
            "connection_template_id": "/connectionTemplateId",
        },
        link_parameters={"systemId": "system_id", "environmentId": "environment_id"},
        response=rest.ConnectionTemplate,
    ),
    Operation(
        id="updateConnectionTemplate",
        method="PUT",
        path=TEMPLATE,
        summary="Update connection template",
        handler=update_template,
        permissions=permission("patch", "connectiontemplates"),
        response=rest.ConnectionTemplate,
        conditional=True,
    ),
    Operation(
        id="deleteConnectionTemplate",
        method="DELETE",
        path=TEMPLATE,
        summary="Delete connection template",
        handler=delete_template,
        permissions=permission("delete", "connectiontemplates"),
        response=Empty,
        empty=True,
    ),
    Operation(
        id="listConnectionTemplates",
        path=TEMPLATES,
        summary="List project environment connection templates",
        handler=list_templates,
        permissions=permission("list", "connectiontemplates"),
        end_user=end_user_checks.project_with_environment,
        response=rest.TemplatePage,
    ),
    Operation(
        id="listEnvironmentSystems",
        path=SYSTEMS,
        summary="List the systems linked to a project environment",
        handler=list_templates,
        permissions=permission("list", "connectiontemplates"),
        end_user=end_user_checks.project_with_environment,
        response=rest.TemplatePage,
    ),
    Operation(
        id="addSystemToEnvironment",
        method="POST",
        path=SYSTEMS,
        summary="Add a system to a project environment",
        handler=add_system,
        permissions=permission("create", "connectiontemplates"),
        link_parameters={"systemId": "system_id", "environmentId": "environment_id"},
        success=204,
    ),
    _removal("DELETE", "removeSystemFromEnvironment"),
    _removal("PUT", "removeSystemFromEnvironmentByPut"),
)
