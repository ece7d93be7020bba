"""How an environment runs its code: replicas, resources, image and environment variables."""

from tieline_api import errors
from tieline_api.auth.permissions import permission
from tieline_api.handlers.activation_lookup import environment_in_path
from tieline_api.http.operation import ORGANISATION, Call, Operation, Reply
from tieline_api.schemas import environments as rest
from tieline_api.store.etags import etag
from tieline_api.use_cases.environment_changes import set_runtime
from tieline_api.use_cases.project_lookup import change_project
from tieline_core.objects import Object


async def update_config(call: Call[None, rest.EnvironmentConfigUpdate]) -> Reply:
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
    if body.env is not None:
        changes["env"] = [one.model_dump(by_alias=True, exclude_none=True) for one in body.env]
        if len({one.name for one in body.env}) != len(body.env):
            raise errors.invalid("env", "has a name twice: give each name once")

    def change(live: Object, mine: Object) -> None:
        set_runtime(live, mine, environment.name, changes)

    return Reply(etag=etag(await change_project(call, environment.project, change)))


OPERATIONS = (
    Operation(
        id="updateEnvironmentConfig",
        method="PUT",
        path=f"{ORGANISATION}/environments/{{environment_id}}/config",
        summary="Update how an environment runs its code",
        handler=update_config,
        permissions=permission("patch", "projects"),
        success=204,
        conditional=True,
    ),
)
