"""How an environment runs its code: replicas, resources, scaling, image and environment variables."""

from tieline_api import errors
from tieline_api.auth.permissions import permission
from tieline_api.cluster.etags import etag
from tieline_api.http.operation import ORGANISATION, Call, Operations, Reply
from tieline_api.schemas import environments as rest
from tieline_api.use_cases.environment_changes import set_runtime
from tieline_api.views.activation_lookup import (
    EnvironmentRef,
    environment_in_path,
    environment_object_in_path,
)
from tieline_api.views.project_lookup import change_project
from tieline_api.views.status_overlay import secret_facts
from tieline_core.credentials.validation.variable_findings import variable_problem
from tieline_core.objects import Object
from tieline_core.resources.objects import ProjectObject

OPERATIONS = Operations("Environments")


async def _environment_alone(call: Call[None, rest.EnvironmentConfigUpdate]) -> tuple[str, ...]:
    """An image is code, as files are: that is for who may change the project."""
    return () if call.body.image is not None else await environment_object_in_path(call)


@OPERATIONS.add(
    "PUT",
    f"{ORGANISATION}/environments/{{environment_id}}/config",
    id="updateEnvironmentConfig",
    summary="Update how an environment runs its code",
    permissions=permission("patch", "projects"),
    by_environment=_environment_alone,
    success=204,
    conditional=True,
)
async def update_config(call: Call[None, rest.EnvironmentConfigUpdate]) -> Reply[None]:
    """Changes how an environment runs its code; what you leave out stays. Pods are replaced one by one where that is
    needed. The values are those of the environment; where it has none, the project's apply."""
    body = call.body
    environment = environment_in_path(call)
    changes: Object = {}
    if body.deployment_spec.replicas is not None:
        changes["replicas"] = body.deployment_spec.replicas
    if body.deployment_spec.resources is not None:
        given = body.deployment_spec.resources.model_dump(by_alias=True, exclude_none=True)
        changes["resources"] = {part: amounts for part, amounts in given.items() if amounts}
    if body.image is not None:
        changes["image"] = body.image.strip()
    if body.scaling is not None:
        changes["scaling"] = body.scaling.model_dump(by_alias=True, exclude_none=True)
    if body.env is not None:
        changes["env"] = [one.model_dump(by_alias=True, exclude_none=True) for one in body.env]
        if len({one.name for one in body.env}) != len(body.env):
            raise errors.invalid("env", "has a name twice: give each name once")

    def change(live: ProjectObject, mine: Object) -> None:
        set_runtime(live, mine, environment.name, changes)

    changed = await change_project(call, environment.project, change)
    return Reply(etag=etag(changed), warnings=await _warnings(call, environment))


async def _warnings(
    call: Call[None, rest.EnvironmentConfigUpdate], environment: EnvironmentRef
) -> tuple[str, ...]:
    """Why variables cannot have their values yet: pods are not replaced until they can."""
    platform, project = call.platform, environment.project["metadata"]["name"]
    keys = [(one.name, one.value_from.secret_key_ref) for one in call.body.env or () if one.value_from]
    await platform.secret_reads.fetch(call.namespace, {key.name for _, key in keys})
    warnings = []
    for name, key in keys:
        facts = secret_facts(platform.cluster, call.namespace, key.name)
        if problem := variable_problem(facts, key.key, project, environment.name):
            warnings.append(f"The environment variable {name}: {problem}")
    return tuple(warnings)
