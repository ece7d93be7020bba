"""The JSON Schema of a project's dynamic variables."""

import asyncio
from collections.abc import Callable

import jsonpatch
import jsonpointer
import orjson

from tieline_api import errors
from tieline_api.auth.permissions import permission
from tieline_api.cluster import indexes
from tieline_api.cluster.etags import etag
from tieline_api.cluster.field_managers import other_managers
from tieline_api.conversion.projects import EMPTY_SCHEMA
from tieline_api.handlers.projects import PROJECT
from tieline_api.http.operation import AnyCall, Call, Operations, Reply
from tieline_api.schemas import projects as rest
from tieline_api.use_cases import end_user_checks
from tieline_api.views.activation_lookup import verdict_or_429
from tieline_api.views.project_lookup import change_project, require_project
from tieline_core.evaluation.variables_checker import check_all
from tieline_core.objects import Object
from tieline_core.resources.objects import ActivationObject, ProjectObject
from tieline_protocol.schema_limits import MAX_BYTES

VARIABLES = f"{PROJECT}/variables"
_PROPERTIES = "/properties/"
_AT_ONCE = 200
_WARNING_SECONDS = 5.0

OPERATIONS = Operations("Projects")


@OPERATIONS.add(
    "GET",
    VARIABLES,
    id="getVariablesSchema",
    summary="Get project variables schema",
    permissions=permission("get", "projects"),
    end_user=end_user_checks.project_with_environment,
    conditional=True,
)
async def get_schema(call: Call[None, None]) -> Reply[rest.VariablesSchema]:
    """Returns the JSON Schema of the project's variables; an empty object schema for a project that has none."""
    obj = require_project(call)
    return Reply(body=rest.VariablesSchema(_schema(obj)), etag=etag(obj))


@OPERATIONS.add(
    "PUT",
    VARIABLES,
    id="setVariablesSchema",
    summary="Set project variables schema",
    permissions=permission("patch", "projects"),
    conditional=True,
)
async def put_schema(call: Call[None, rest.VariablesSchema]) -> Reply[rest.VariablesSchema]:
    """Replaces the JSON Schema of the project's variables.

    Values that are set stay. A Warning header counts the activations whose values no longer fit.
    """
    return await _write(call, lambda _old: call.body.root)


@OPERATIONS.add(
    "PATCH",
    VARIABLES,
    id="patchVariablesSchema",
    summary="Patch project variables schema",
    permissions=permission("patch", "projects"),
    conditional=True,
)
async def patch_schema(call: Call[None, rest.SchemaPatch]) -> Reply[rest.VariablesSchema]:
    """Applies one JSON Patch operation (RFC 6902) to the schema of the project's variables."""
    body = call.body
    if body.op != "remove" and "value" not in body.model_fields_set:
        raise errors.invalid("value", f"is required for {body.op}")
    return await _write(call, lambda old: patched(old, body))


def patched(schema: Object, patch: rest.SchemaPatch) -> Object:
    """``schema`` after one operation; ``properties`` is made when something is added to it. ApiError 422."""
    result: Object = orjson.loads(_text(schema))
    if patch.op == "add" and patch.path.startswith(_PROPERTIES) and "properties" not in result:
        result["properties"] = {}
    operation = {"op": patch.op, "path": patch.path}
    if patch.op != "remove":
        operation["value"] = patch.value
    try:
        changed = jsonpatch.apply_patch(result, [operation], in_place=True)
    except (jsonpatch.JsonPatchException, jsonpointer.JsonPointerException, TypeError, ValueError):
        raise errors.invalid(
            "path", f"cannot {patch.op} there: the path leads nowhere in the schema"
        ) from None
    if not isinstance(changed, dict):
        raise errors.invalid("value", "must leave a JSON Schema, which is an object")
    return changed


async def check_schema(call: AnyCall, schema: Object) -> None:
    """ApiError: 413 for one that is too large, 422 for one that is no JSON Schema or takes too much to check."""
    if len(_text(schema)) > MAX_BYTES:
        raise errors.too_large("The schema", limit=MAX_BYTES)
    verdict = await verdict_or_429(call, schema, {})
    if verdict.problem is not None:
        raise errors.invalid("", f"this is no usable JSON Schema: {verdict.problem}")


def _text(schema: Object) -> bytes:
    try:
        return orjson.dumps(schema)
    except TypeError as error:
        raise errors.invalid("", f"this cannot be written as JSON: {error}") from error


async def _write(call: AnyCall, compute: Callable[[Object], Object]) -> Reply[rest.VariablesSchema]:
    before = require_project(call)
    new: Object = {}

    def change(live: ProjectObject, mine: Object) -> None:
        nonlocal new
        old = _schema(live)
        new = compute(old)
        managers = other_managers(live, ("spec", "dynamicVariablesSchema"))
        if managers and new != old:
            raise errors.conflict(
                f'The schema belongs to "{managers[0]}": change it there, or make that manager give it up',
                managers=managers,
            )
        mine["spec"]["dynamicVariablesSchema"] = new

    changed = await change_project(call, before, change, prepare=lambda: check_schema(call, new))
    broken = await _broken_by(call, before, changed)
    return Reply(body=rest.VariablesSchema(_schema(changed)), etag=etag(changed), warnings=broken)


async def _broken_by(call: AnyCall, before: ProjectObject, project: ProjectObject) -> tuple[str, ...]:
    """A warning when activations have values that no longer fit."""
    old, new = _schema(before), _schema(project)
    if old == new:
        return ()
    values = [activation["spec"].get("variables") or {} for activation in _activations(call, project)]
    count = 0
    loop = asyncio.get_running_loop()
    until = loop.time() + _WARNING_SECONDS
    for start in range(0, len(values), _AT_ONCE):
        found = await check_all(
            call.platform.checker,
            call.namespace,
            new,
            values[start : start + _AT_ONCE],
            seconds=until - loop.time(),
        )
        count += sum(verdict is not None and not verdict.fit for verdict in found)
        if None in found:
            return ("Not all activations could be checked yet: see their variableErrors",)
        # Others have their turn.
        await asyncio.sleep(0)
    if not count:
        return ()
    which = "One activation has" if count == 1 else f"{count} activations have"
    return (f"{which} values that no longer fit (see variableErrors): code keeps the last ones that did",)


def _activations(call: AnyCall, project: ProjectObject) -> list[ActivationObject]:
    """All activations of a project."""
    name, cache = project["metadata"]["name"], call.platform.cluster.activations
    environment_keys = [
        indexes.key(call.namespace, name, environment) for environment in indexes.environment_names(project)
    ]
    return [
        activation
        for environment_key in environment_keys
        for activation in cache.by_index("environment", environment_key)
    ]


def _schema(project: ProjectObject) -> Object:
    return dict(project["spec"].get("dynamicVariablesSchema") or EMPTY_SCHEMA)
