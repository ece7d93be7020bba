"""Environments of a project: creating, copying, promoting and deleting them."""

from dataclasses import replace
from typing import Any

from tieline_api import errors
from tieline_api.auth.permissions import Permission, permission
from tieline_api.conversion import projects as convert
from tieline_api.handlers.activation_lookup import check_variables
from tieline_api.handlers.activations import create_or_change
from tieline_api.handlers.projects import PROJECT
from tieline_api.http.operation import Call, Operation, Reply
from tieline_api.schemas import environments as rest
from tieline_api.schemas.projects import Project
from tieline_api.use_cases.environment_changes import add_environment, refuse_new_name, remove_environment
from tieline_api.use_cases.project_files_input import refuse_unrunnable
from tieline_api.use_cases.project_lookup import (
    change_project,
    need_environment,
    need_project,
    project_reply,
    set_environment,
    versions_of,
)
from tieline_api.use_cases.rollout_wait import wait_for_rollout
from tieline_api.use_cases.template_copies import copy_templates, new_objects
from tieline_core.identity.ids import environment_id, object_id, static_activation_id
from tieline_core.objects import Object, ObjectView

ENVIRONMENTS = f"{PROJECT}/environments"
ENVIRONMENT = f"{ENVIRONMENTS}/{{environment_id}}"


async def create_environment(call: Call[None, rest.EnvironmentCreate]) -> Reply:
    """Creates a draft environment. A project has at most 20."""
    name = call.body.name

    def change(live: Object, mine: Object) -> None:
        add_environment(live, mine, name)

    return await project_reply(call.platform, await change_project(call, need_project(call), change))


async def delete_environment(call: Call[None, None]) -> Reply:
    """Stops what an environment runs and deletes it, with the templates, activations and notifications that REST
    created for it. Its queued events are deleted an hour later. The answer is 409 for the only environment of a
    project."""
    platform = call.platform
    obj = need_project(call)
    name = need_environment(obj, identifier=call.path["environment_id"])

    def change(live: Object, mine: Object) -> None:
        remove_environment(live, mine, name)

    async def delete_parts() -> None:
        world = platform.world
        for cache in (world.activations, world.templates, world.notifications):
            found = await world.referring_now(cache, "projectRef", call.namespace, obj["metadata"]["name"])
            for one in found:
                if one["spec"]["environment"] == name:
                    await platform.writer.delete_if_ours(cache, one)

    return await project_reply(platform, await change_project(call, obj, change, prepare=delete_parts))


async def clone_environment(call: Call[None, rest.EnvironmentClone]) -> Reply:
    """Copies an environment: the copy has its runtime settings and, where asked for, its connection templates and
    static variables. The copy is a draft: deploy to it, or promote to it. Users are not activated on it."""
    platform, body = call.platform, call.body
    world = platform.world
    obj = need_project(call)
    old, new = need_environment(obj, name=body.old_env_name), body.new_env_name
    refuse_new_name(obj, new)
    place = (call.namespace, obj["metadata"]["name"], old)
    templates = world.referring(world.templates, "environment", *place) if body.clone_systems else []
    static = world.static_activation(*place) if body.copy_static_user_variables else None
    variables = (static["spec"].get("variables") if static else None) or {}
    if variables:
        await check_variables(call, obj, variables, field="copyStaticUserVariables")

    def add(live: Object, mine: Object) -> None:
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


async def sync_environments(call: Call[rest.WaitQuery, rest.EnvironmentSync]) -> Reply:
    """Promotes: deploys the version that was deployed to the source environment to the target environment. The answer
    is 409 when nothing is deployed to the source, or when its last rollout failed."""
    platform, body = call.platform, call.body
    obj = need_project(call)
    source = need_environment(obj, name=body.source_env_name)
    target = need_environment(obj, name=body.target_env_name)
    if source == target:
        raise errors.invalid("targetEnvName", "is the source environment: name another one")
    version = _version_to_promote(call, obj, source)
    files = await platform.files.of_version(version)
    await refuse_unrunnable(platform, obj, target, files, version["spec"].get("labels") or {})

    def change(live: Object, mine: Object) -> None:
        set_environment(live, mine, target, version=version["metadata"]["name"], suspended=False)

    changed = await change_project(call, obj, change)
    if call.query.wait:
        changed = await wait_for_rollout(platform, changed, target, seconds=call.query.wait)
    return await project_reply(platform, changed)


def _version_to_promote(call: Call[Any, Any], project: ObjectView, source: str) -> ObjectView:
    """The version that was deployed to an environment last; ApiError 409 where there is none that can run."""
    item = next(one for one in convert.environment_items(project) if one["name"] == source)
    status = convert.environment_status(project, source)
    version = convert.chosen_version(item, status, versions_of(call.platform.world, project))
    if version is None:
        raise errors.conflict(f'Nothing is deployed to the environment "{source}": deploy to it first')
    rollout = convert.rollout(project, item, version)
    if rollout is not None and rollout.state == "failed":
        raise errors.conflict(
            f'The last deploy to the environment "{source}" failed ({rollout.reason}): deploy a version that runs, '
            "or deploy the version that you mean by its id"
        )
    return version


async def _set_variables(
    call: Call[Any, Any], project: ObjectView, environment: str, variables: Object
) -> None:
    """Sets the variables of the static activation of a new environment."""
    name = project["metadata"]["name"]
    there = call.platform.world.static_activation(call.namespace, name, environment)
    identifier = static_activation_id(environment_id(object_id(project), environment))
    spec = {"projectRef": {"name": name}, "environment": environment, "variables": variables}

    def change(_live: Object, mine: Object) -> None:
        mine["spec"]["variables"] = variables

    await create_or_change(call, there, identifier, spec=spec, change=change)


async def _remove(call: Call[Any, Any], project: ObjectView, name: str) -> None:
    def change(live: Object, mine: Object) -> None:
        remove_environment(live, mine, name)

    await change_project(call, project, change)


_DELETE = (
    Permission("patch", "projects"),
    Permission("delete", "connectiontemplates"),
    Permission("delete", "activations"),
    Permission("delete", "notifications"),
)


def _deletion(method: str, identifier: str) -> Operation:
    return Operation(
        id=identifier,
        method=method,
        path=ENVIRONMENT,
        summary="Delete an environment",
        handler=delete_environment,
        permissions=_DELETE,
        response=Project,
    )


OPERATIONS = (
    Operation(
        id="createEnvironment",
        method="POST",
        path=ENVIRONMENTS,
        summary="Create an environment",
        handler=create_environment,
        permissions=permission("patch", "projects"),
        response=Project,
    ),
    Operation(
        id="cloneEnvironment",
        method="POST",
        path=f"{ENVIRONMENTS}/clone",
        summary="Copy an environment",
        handler=clone_environment,
        permissions=(
            Permission("patch", "projects"),
            Permission("create", "connectiontemplates"),
            Permission("create", "activations"),
        ),
        response=Project,
    ),
    Operation(
        id="syncEnvironments",
        method="POST",
        path=f"{ENVIRONMENTS}/sync",
        summary="Promote: deploy an environment's version to another one",
        handler=sync_environments,
        permissions=permission("patch", "projects"),
        response=Project,
    ),
    _deletion("DELETE", "deleteEnvironment"),
    _deletion("POST", "deleteEnvironmentByPost"),
)
