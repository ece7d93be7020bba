"""Environments of a project: creating, copying, promoting and deleting them."""

from dataclasses import replace
from typing import Any

from tieline_api import errors
from tieline_api.auth.permissions import Permission, permission
from tieline_api.conversion import projects as convert
from tieline_api.handlers.activations import create_or_change
from tieline_api.handlers.projects import PROJECT
from tieline_api.http.operation import AnyCall, Call, Operations, Reply
from tieline_api.schemas import environments as rest
from tieline_api.schemas.projects import Project
from tieline_api.use_cases.environment_changes import add_environment, refuse_new_name, remove_environment
from tieline_api.use_cases.project_files_input import DeployCandidate, refuse_unrunnable
from tieline_api.use_cases.rollout_wait import wait_for_rollout
from tieline_api.use_cases.template_copies import copy_templates, new_objects
from tieline_api.views.activation_lookup import check_variables
from tieline_api.views.project_lookup import (
    change_project,
    deploy_note,
    environment_object,
    project_reply,
    require_environment,
    require_project,
    set_environment,
    versions_of,
)
from tieline_api.views.quotas import require_place
from tieline_core.identity.ids import environment_id, object_id, static_activation_id
from tieline_core.kubernetes import Informer
from tieline_core.objects import Object
from tieline_core.resources.objects import (
    ActivationObject,
    PartialEnvironmentSpecDict,
    PartialEnvironmentStatusDict,
    ProjectObject,
    ProjectVersionObject,
)

ENVIRONMENTS = f"{PROJECT}/environments"
ENVIRONMENT = f"{ENVIRONMENTS}/{{environment_id}}"
_DELETE = (
    Permission("patch", "projects"),
    Permission("delete", "connectiontemplates"),
    Permission("delete", "activations"),
    Permission("delete", "notifications"),
)

OPERATIONS = Operations("Environments")


@OPERATIONS.add(
    "POST",
    ENVIRONMENTS,
    id="createEnvironment",
    summary="Create an environment",
    permissions=permission("patch", "projects"),
)
async def create_environment(call: Call[None, rest.EnvironmentCreate]) -> Reply[Project]:
    """Creates a draft environment. A project has at most 20."""
    name = call.body.name

    def change(live: ProjectObject, mine: Object) -> None:
        add_environment(live, mine, name)

    return await project_reply(call.platform, await change_project(call, require_project(call), change))


@OPERATIONS.add(
    "POST", ENVIRONMENT, id="deleteEnvironmentByPost", summary="Delete an environment", permissions=_DELETE
)
@OPERATIONS.add(
    "DELETE", ENVIRONMENT, id="deleteEnvironment", summary="Delete an environment", permissions=_DELETE
)
async def delete_environment(call: Call[None, None]) -> Reply[Project]:
    """Stops what an environment runs and deletes it, with the templates, activations and notifications that REST
    created for it. Its queued events are deleted an hour later. The answer is 409 for the only environment of a
    project."""
    platform = call.platform
    obj = require_project(call)
    name = require_environment(obj, identifier=call.path["environment_id"])

    def change(live: ProjectObject, mine: Object) -> None:
        remove_environment(live, mine, name)

    async def delete_parts() -> None:
        cluster = platform.cluster
        caches: tuple[Informer[Any], ...] = (cluster.activations, cluster.templates, cluster.notifications)
        for cache in caches:
            found = await cluster.referring_now(cache, "projectRef", call.namespace, obj["metadata"]["name"])
            for one in found:
                if one["spec"]["environment"] == name:
                    await platform.writer.delete_if_ours(cache, one)

    return await project_reply(platform, await change_project(call, obj, change, prepare=delete_parts))


@OPERATIONS.add(
    "POST",
    f"{ENVIRONMENTS}/clone",
    id="cloneEnvironment",
    summary="Copy an environment",
    permissions=(
        Permission("patch", "projects"),
        Permission("create", "connectiontemplates"),
        Permission("create", "activations"),
    ),
)
async def clone_environment(call: Call[None, rest.EnvironmentClone]) -> Reply[Project]:
    """Copies an environment: the copy has its runtime settings and, where asked for, its connection templates and
    static variables. The copy is a draft: deploy to it, or promote to it. Users are not activated on it."""
    platform, body = call.platform, call.body
    cluster = platform.cluster
    obj = require_project(call)
    old, new = require_environment(obj, name=body.old_env_name), body.new_env_name
    refuse_new_name(obj, new)
    place = (call.namespace, obj["metadata"]["name"], old)
    templates = cluster.referring(cluster.templates, "environment", *place) if body.clone_systems else []
    static = cluster.static_activation(*place) if body.copy_static_user_variables else None
    variables = (static["spec"].get("variables") if static else None) or {}
    if variables:
        await check_variables(call, obj, variables, field="copyStaticUserVariables")

    def add(live: ProjectObject, mine: Object) -> None:
        copied = next((one for one in convert.environment_items(live) if one["name"] == old), None)
        if copied is None:
            raise errors.conflict(f'The environment "{old}" was removed meanwhile')
        add_environment(live, mine, new, copied.get("runtime"))

    async with new_objects(platform) as made:
        changed = await change_project(call, obj, add)
        made.on_failure(lambda: _remove(call, changed, new))
        kept = await copy_templates(platform, templates, project=changed, environment=new, made=made)
        if variables:
            await _set_variables(call, changed, new, variables)
    return replace(await project_reply(platform, changed), warnings=kept)


async def _target(call: Call[rest.WaitQuery, rest.EnvironmentSync]) -> tuple[str, ...]:
    project = require_project(call)
    return (environment_object(project, require_environment(project, name=call.body.target_env_name)),)


@OPERATIONS.add(
    "POST",
    f"{ENVIRONMENTS}/sync",
    id="syncEnvironments",
    summary="Promote: deploy an environment's version to another one",
    permissions=permission("patch", "projects"),
    by_environment=_target,
)
async def sync_environments(call: Call[rest.WaitQuery, rest.EnvironmentSync]) -> Reply[Project]:
    """Promotes: deploys the version that was deployed to the source environment to the target environment. The answer
    is 409 when nothing is deployed to the source, and, unless ``force`` is set, when that version does not serve
    there."""
    platform, body = call.platform, call.body
    obj = require_project(call)
    source = require_environment(obj, name=body.source_env_name)
    target = require_environment(obj, name=body.target_env_name)
    if source == target:
        raise errors.invalid("targetEnvName", "is the source environment: name another one")
    require_place(call, obj, target)
    version = _version_to_promote(call, obj, source)
    files = await platform.files.of_version(version)
    candidate = DeployCandidate(
        organisation=call.organisation.id,
        project=obj,
        environment=target,
        files=files,
        labels=version["spec"].get("labels") or {},
    )
    warnings = await refuse_unrunnable(platform, candidate)
    name = version["metadata"]["name"]
    note = deploy_note(name, call.caller.username, body, described=f"promoted from {source}")

    def change(live: ProjectObject, mine: Object) -> None:
        set_environment(live, mine, target, version=name, suspended=False, deployNote=note)

    changed = await change_project(call, obj, change)
    if call.query.wait:
        changed = await wait_for_rollout(platform, changed, target, seconds=call.query.wait)
    return replace(await project_reply(platform, changed), warnings=warnings)


def _version_to_promote(
    call: Call[object, rest.EnvironmentSync], project: ProjectObject, source: str
) -> ProjectVersionObject:
    """The version that was deployed to an environment last; ApiError 409 unless it serves there, or with ``force``."""
    item = convert.environment_item(project, source)
    status = convert.environment_status(project, source)
    version = convert.chosen_version(project, item, status, versions_of(call.platform.cluster, project))
    if version is None:
        raise errors.conflict(f'Nothing is deployed to the environment "{source}": deploy to it first')
    if not call.body.force and not convert.serves(item, status, version):
        raise errors.conflict(
            f'Version "{convert.version_name(version)}" does not serve in the environment "{source}" '
            f"({_instead(project, item, status, call)}). Wait until it does, deploy a version that runs, or set force "
            "to promote it as it is"
        )
    return version


def _instead(
    project: ProjectObject,
    item: PartialEnvironmentSpecDict,
    status: PartialEnvironmentStatusDict,
    call: AnyCall,
) -> str:
    """What an environment does instead of serving the version that was deployed to it."""
    if item.get("suspended"):
        return "it is suspended"
    versions = versions_of(call.platform.cluster, project)
    rollout = convert.rollout(project, item, versions)
    found = versions(status.get("version") or "")
    serving = f'"{convert.version_name(found)}" serves' if found else "nothing serves"
    state = rollout.state if rollout else "unknown"
    reason = f", {rollout.reason}: {rollout.message}" if rollout and rollout.reason else ""
    return f"{serving}; rollout: {state}{reason}"


async def _set_variables(call: AnyCall, project: ProjectObject, environment: str, variables: Object) -> None:
    """Sets the variables of the static activation of a new environment."""
    name = project["metadata"]["name"]
    there = call.platform.cluster.static_activation(call.namespace, name, environment)
    identifier = static_activation_id(environment_id(object_id(project), environment))
    spec = {"projectRef": {"name": name}, "environment": environment, "variables": variables}

    def change(_live: ActivationObject, mine: Object) -> None:
        mine["spec"]["variables"] = variables

    await create_or_change(call, there, identifier, spec=spec, change=change)


async def _remove(call: AnyCall, project: ProjectObject, name: str) -> None:
    def change(live: ProjectObject, mine: Object) -> None:
        remove_environment(live, mine, name)

    await change_project(call, project, change)
