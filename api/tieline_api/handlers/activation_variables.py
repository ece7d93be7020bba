"""Operations on the variables of activations."""

import re
from collections.abc import Collection
from typing import Any

from tieline_api import errors
from tieline_api.auth.permissions import Permission, permission
from tieline_api.cluster.etags import etag
from tieline_api.cluster.writer import refuse_removal, set_or_drop
from tieline_api.handlers.activations import ACTIVATION, create_or_change, environment_spec
from tieline_api.http.operation import ORGANISATION, AnyCall, Call, Operations, Reply
from tieline_api.schemas import users as rest
from tieline_api.use_cases import end_user_checks
from tieline_api.views.activation_lookup import check_variables, environment_in_path, find_activation
from tieline_core.identity.ids import static_activation_id
from tieline_core.objects import Object
from tieline_core.resources.objects import ActivationObject

_VARIABLE = re.compile(r"[^\x00-\x1f]{1,256}")

OPERATIONS = Operations("Activations")


@OPERATIONS.add(
    "PATCH",
    f"{ACTIVATION}/variables",
    id="updateActivationVariables",
    summary="Update activation variables",
    permissions=permission("patch", "activations"),
    end_user=end_user_checks.own_activation,
    conditional=True,
)
async def patch_variables(call: Call[rest.VariablesQuery, rest.Variables]) -> Reply[rest.Variables]:
    """Merges variables over those that are set, by top-level name, removes those that ``unset`` names, and validates
    the result against the schema."""
    return await _merge(call, call.path["activation_id"], call.body.root, unset=call.query.unset or ())


@OPERATIONS.add(
    "PUT",
    f"{ACTIVATION}/variables/{{name}}",
    id="setActivationVariable",
    summary="Set one variable of an activation",
    permissions=permission("patch", "activations"),
    end_user=end_user_checks.own_activation,
    conditional=True,
)
async def put_variable(call: Call[None, rest.VariableValue]) -> Reply[rest.Variables]:
    """Sets one variable and validates all of them against the schema."""
    name = call.path["name"]
    if not _VARIABLE.fullmatch(name):
        raise errors.invalid("name", "must have 1 to 256 printable characters")
    return await _merge(call, call.path["activation_id"], {name: call.body.value})


@OPERATIONS.add(
    "GET",
    f"{ORGANISATION}/environments/{{environment_id}}/variables",
    id="getStaticVariables",
    summary="Get the variables of an environment's static activation",
    permissions=permission("get", "activations"),
)
async def get_static_variables(call: Call[None, None]) -> Reply[rest.Variables]:
    """Returns the variables of the environment's static activation that are set."""
    environment = environment_in_path(call)
    obj = find_activation(call, environment, static_activation_id(environment.id))
    return Reply(body=rest.Variables((obj["spec"].get("variables") or {}) if obj else {}))


@OPERATIONS.add(
    "PATCH",
    f"{ORGANISATION}/environments/{{environment_id}}/variables",
    id="updateStaticVariables",
    summary="Update the variables of an environment's static activation",
    permissions=(Permission("create", "activations"), Permission("patch", "activations")),
    conditional=True,
)
async def patch_static_variables(call: Call[rest.VariablesQuery, rest.Variables]) -> Reply[rest.Variables]:
    """Merges variables over those of the environment's static activation, removes those that ``unset`` names, and
    validates the result."""
    identifier = static_activation_id(environment_in_path(call).id)
    return await _merge(call, identifier, call.body.root, unset=call.query.unset or ())


async def _merge(
    call: AnyCall, identifier: str, variables: dict[str, Any], *, unset: Collection[str] = ()
) -> Reply[rest.Variables]:
    if both := sorted(variables.keys() & set(unset)):
        raise errors.invalid("unset", f'has "{both[0]}", which the body sets')
    environment = environment_in_path(call)
    obj = find_activation(call, environment, identifier)
    if obj is None:
        await check_variables(call, environment.project, variables)
    merged: Object = {}

    def change(live: ActivationObject, mine: Object) -> None:
        nonlocal merged
        before = live["spec"].get("variables") or {}
        for name in before.keys() & set(unset):
            refuse_removal(live, ("variables", name), what=f'The variable "{name}"')
        merged = {name: value for name, value in before.items() if name not in unset} | variables
        set_or_drop(mine["spec"], "variables", merged)

    async def check() -> None:
        await check_variables(call, environment.project, merged)

    changed = await create_or_change(
        call,
        obj,
        static_activation_id(environment.id),
        spec={**environment_spec(environment), "variables": variables},
        change=change,
        if_match=call.if_match,
        prepare=check,
    )
    return Reply(body=rest.Variables(changed["spec"].get("variables") or {}), etag=etag(changed))
