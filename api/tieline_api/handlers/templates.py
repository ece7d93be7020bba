"""Systems in a project's environment: connection templates, and the twins that speak of systems."""

from tieline_api import cursors, errors
from tieline_api.auth.permissions import permission
from tieline_api.cluster.cluster_cache import ClusterCache
from tieline_api.cluster.sorted_lists import position
from tieline_api.cluster.writer import set_or_drop
from tieline_api.conversion.lists import readable
from tieline_api.conversion.systems import auth_scheme_items, template_to_rest
from tieline_api.handlers.projects import PROJECT
from tieline_api.http.operation import AnyCall, Call, Operations, Reply
from tieline_api.schemas import templates as rest
from tieline_api.schemas.base import Empty
from tieline_api.schemas.connections import ConnectionPage
from tieline_api.schemas.projects import EnvironmentPageQuery, EnvironmentQuery
from tieline_api.use_cases import end_user_checks
from tieline_api.views.connections import page_of_connections
from tieline_api.views.project_lookup import require_environment, require_of_project, require_project
from tieline_api.views.status_overlay import system_with_findings
from tieline_core.identity.ids import new_id, object_id
from tieline_core.objects import Object
from tieline_core.resources.objects import ConnectionTemplateObject, ProjectObject, SystemObject

TEMPLATES = f"{PROJECT}/connection-templates"
TEMPLATE = f"{TEMPLATES}/{{template_id}}"
SYSTEMS = f"{PROJECT}/systems"

OPERATIONS = Operations("Systems in an environment")


@OPERATIONS.add(
    "GET",
    SYSTEMS,
    id="listEnvironmentSystems",
    summary="List the systems linked to a project environment",
    permissions=permission("list", "connectiontemplates"),
    end_user=end_user_checks.project_with_environment,
)
@OPERATIONS.add(
    "GET",
    TEMPLATES,
    id="listConnectionTemplates",
    summary="List project environment connection templates",
    permissions=permission("list", "connectiontemplates"),
    end_user=end_user_checks.project_with_environment,
)
async def list_templates(call: Call[EnvironmentQuery, None]) -> Reply[rest.TemplatePage]:
    """Returns the connection templates of an environment, or of all environments. Templates whose system does not exist
    are left out."""
    cluster = call.platform.cluster
    known = [
        template
        for template in _templates(call, call.query.env_id)
        if cluster.referred(cluster.systems, template, "systemRef") is not None
    ]
    shown = readable(known, lambda template: _shown(call, template, _system_of(cluster, template)))
    return Reply(
        body=rest.TemplatePage(total_count=len(shown.items), items=shown.items), warnings=shown.warnings
    )


@OPERATIONS.add(
    "GET",
    f"{PROJECT}/connections",
    id="listStaticConnections",
    summary="List static connections for a project environment",
    permissions=permission("list", "connections"),
)
async def list_static_connections(call: Call[EnvironmentPageQuery, None]) -> Reply[ConnectionPage]:
    """Returns a page of the connections that static templates are linked to."""
    cluster = call.platform.cluster
    linked = [
        connection
        for template in _templates(call, call.query.env_id)
        if not template["spec"].get("dynamic")
        and (connection := cluster.referred(cluster.connections, template, "connectionRef")) is not None
    ]
    distinct = list({connection["metadata"]["name"]: connection for connection in linked}.values())
    kind = f"static-connections/{object_id(require_project(call))}"
    page = cursors.cut(distinct, kind=kind, position=position, **call.query.window)
    return page_of_connections(call, page)


@OPERATIONS.add(
    "POST",
    TEMPLATES,
    id="createConnectionTemplate",
    summary="Create connection template",
    permissions=permission("create", "connectiontemplates"),
    link_sources={
        "template_id": "/connectionTemplateId",
        "connection_template_id": "/connectionTemplateId",
    },
    link_parameters={"systemId": "system_id", "environmentId": "environment_id"},
)
async def create_template(call: Call[None, rest.TemplateCreate]) -> Reply[rest.ConnectionTemplate]:
    """Adds a system to an environment under the name by which code refers to it."""
    template, system = await _create(call)
    return Reply(body=_shown(call, template, system))


@OPERATIONS.add(
    "POST",
    SYSTEMS,
    id="addSystemToEnvironment",
    summary="Add a system to a project environment",
    permissions=permission("create", "connectiontemplates"),
    link_parameters={"systemId": "system_id", "environmentId": "environment_id"},
    success=204,
)
async def add_system(call: Call[None, rest.TemplateCreate]) -> Reply[None]:
    """Adds a system to an environment, as createConnectionTemplate does, and returns nothing."""
    await _create(call)
    return Reply()


@OPERATIONS.add(
    "PUT",
    TEMPLATE,
    id="updateConnectionTemplate",
    summary="Update connection template",
    permissions=permission("patch", "connectiontemplates"),
    conditional=True,
)
async def update_template(call: Call[None, rest.TemplateUpdate]) -> Reply[rest.ConnectionTemplate]:
    """Updates name, dynamic and the auth schemes that the template offers. Fields that you leave out stay."""
    platform, body = call.platform, call.body
    cluster = platform.cluster
    project = require_project(call)
    template = _require_template(call, project)
    if body.name is not None and body.name != template["spec"]["name"]:
        _refuse_taken_name(cluster, project, template["spec"]["environment"], body.name)
    offered = list(dict.fromkeys(body.auth_scheme_config_ids or ()))
    _refuse_unknown_schemes(cluster, template, offered)

    def change(live: ConnectionTemplateObject, mine: Object) -> None:
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
        cluster.templates, call.namespace, name, change, if_match=call.if_match
    )
    return Reply(body=_shown(call, changed, _system_of(cluster, changed)))


@OPERATIONS.add(
    "DELETE",
    TEMPLATE,
    id="deleteConnectionTemplate",
    summary="Delete connection template",
    permissions=permission("delete", "connectiontemplates"),
    empty=True,
)
async def delete_template(call: Call[None, None]) -> Reply[Empty]:
    """Deletes a connection template. Its connections stay."""
    template = _require_template(call, require_project(call))
    await call.platform.writer.delete(call.platform.cluster.templates, template)
    return Reply()


@OPERATIONS.add(
    "PUT",
    SYSTEMS,
    id="removeSystemFromEnvironmentByPut",
    summary="Remove a system from a project environment",
    permissions=permission("delete", "connectiontemplates"),
    success=204,
)
@OPERATIONS.add(
    "DELETE",
    SYSTEMS,
    id="removeSystemFromEnvironment",
    summary="Remove a system from a project environment",
    permissions=permission("delete", "connectiontemplates"),
    success=204,
)
async def remove_system(call: Call[None, rest.TemplateCreate]) -> Reply[None]:
    """Removes a system from an environment: deletes the template with this system and name."""
    cluster = call.platform.cluster
    project = require_project(call)
    environment = require_environment(
        project, identifier=call.body.environment_id, fields=("environmentId", "environmentId")
    )
    system = cluster.require(cluster.systems, call.namespace, call.body.system_id)
    for template in _in_environment(cluster, project, environment):
        spec = template["spec"]
        if spec["name"] == call.body.name and spec["systemRef"]["name"] == system["metadata"]["name"]:
            await call.platform.writer.delete(cluster.templates, template)
            return Reply()
    raise errors.ApiError(
        404,
        "not_found",
        f'The environment "{environment}" does not have this system under the name that was given',
    )


async def _create(call: Call[None, rest.TemplateCreate]) -> tuple[ConnectionTemplateObject, SystemObject]:
    cluster, body = call.platform.cluster, call.body
    project = require_project(call)
    environment = require_environment(
        project, identifier=body.environment_id, fields=("environmentId", "environmentId")
    )
    system = cluster.find(cluster.systems, call.namespace, body.system_id)
    if system is None:
        raise errors.invalid("systemId", "is no system of this organisation")
    _refuse_taken_name(cluster, project, environment, body.name)
    template = await call.platform.writer.create(
        cluster.templates,
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


def _shown(
    call: AnyCall, template: ConnectionTemplateObject, system: SystemObject
) -> rest.ConnectionTemplate:
    cluster = call.platform.cluster
    judged = system_with_findings(cluster, system)
    static = not template["spec"].get("dynamic")
    linked = cluster.referred(cluster.connections, template, "connectionRef") if static else None
    return template_to_rest(template, judged, organisation=call.organisation.id, connection=linked)


def _refuse_unknown_schemes(
    cluster: ClusterCache, template: ConnectionTemplateObject, offered: list[str]
) -> None:
    if not offered:
        return
    known = {item["id"] for item in auth_scheme_items(_system_of(cluster, template))}
    for index, identifier in enumerate(offered):
        if identifier not in known:
            raise errors.invalid(
                f"authSchemeConfigIds[{index}]", "is the id of no auth scheme of the template's system"
            )


def _require_template(call: AnyCall, project: ProjectObject) -> ConnectionTemplateObject:
    return require_of_project(call, call.platform.cluster.templates, project, call.path["template_id"])


def _templates(call: AnyCall, env_id: str | None) -> list[ConnectionTemplateObject]:
    cluster = call.platform.cluster
    project = require_project(call)
    if env_id:
        found = _in_environment(cluster, project, require_environment(project, identifier=env_id))
    else:
        found = cluster.referring(cluster.templates, "project", call.namespace, project["metadata"]["name"])
    return found if call.reach is None else [one for one in found if call.reach.has_template(one)]


def _in_environment(
    cluster: ClusterCache, project: ProjectObject, environment: str
) -> list[ConnectionTemplateObject]:
    metadata = project["metadata"]
    return cluster.referring(
        cluster.templates, "environment", metadata["namespace"], metadata["name"], environment
    )


def _system_of(cluster: ClusterCache, template: ConnectionTemplateObject) -> SystemObject:
    system = cluster.referred(cluster.systems, template, "systemRef")
    if system is None:
        raise errors.conflict("The template's system does not exist: create it first")
    return system


def _refuse_taken_name(cluster: ClusterCache, project: ProjectObject, environment: str, name: str) -> None:
    if any(template["spec"]["name"] == name for template in _in_environment(cluster, project, environment)):
        raise errors.conflict(f'The environment has a template named "{name}" already: choose another name')
