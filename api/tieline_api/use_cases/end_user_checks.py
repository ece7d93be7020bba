"""What end users may do, an operation each: everything in a request that is not theirs is refused.

Whatever belongs to others is answered as what does not exist, word by word. A check returns the call with the ids of
the user in place of what the request said or left out.
"""

from dataclasses import replace
from typing import NoReturn

from tieline_api import errors
from tieline_api.auth.end_user_reach import EndUserReach
from tieline_api.conversion.connections import tools_to_rest
from tieline_api.conversion.systems import limits_to_rest
from tieline_api.http.operation import AnyCall, Call
from tieline_api.schemas import connections as rest
from tieline_api.schemas.url_variables import UrlVariable
from tieline_api.schemas.users import ActivationCreate, UserCreate
from tieline_api.use_cases.connection_checks import check_of
from tieline_api.use_cases.end_user_credentials import CredentialChecks
from tieline_api.use_cases.url_values import as_variables, own_values
from tieline_core.resources.objects import ConnectionObject, ConnectionTemplateObject


def itself(call: AnyCall) -> AnyCall:
    """An operation on the caller itself."""
    return call


def own_user(call: AnyCall) -> AnyCall:
    """The user in the path ``user_id``."""
    return _with_path(call, user_id=_own_id(call, call.path["user_id"]))


def own_user_created(call: Call[None, UserCreate]) -> AnyCall:
    """A new user: nobody but themselves."""
    _require_user_of_session(_reach(call))
    if call.body.external_id != _reach(call).scope.external_id:
        raise errors.invalid("externalId", "is not yours: you can create yourself only")
    return call


def own_activations(call: AnyCall) -> AnyCall:
    """The activations of the user in the path, in an environment."""
    _require_environment(call)
    return _with_path(call, external_user_id=_own_id(call, call.path["external_user_id"]))


def own_activation(call: AnyCall) -> AnyCall:
    """The activation in the path."""
    if "environment_id" in call.path:
        _require_environment(call)
    cluster, identifier = call.platform.cluster, call.path["activation_id"]
    found = cluster.find(cluster.activations, call.namespace, identifier)
    if found is None or not _reach(call).has_activation(found):
        raise errors.not_found("activation", identifier)
    return call


def connection_of_own_activation(call: AnyCall) -> AnyCall:
    """The activation and the template in the path."""
    _require_template(call, call.path["connection_template_id"])
    return own_activation(call)


async def activation(call: Call[None, ActivationCreate]) -> AnyCall:
    """A new activation of the user, with connections that are theirs."""
    reach, body, cluster = _reach(call), call.body, call.platform.cluster
    _refuse_reconnecting(reach)
    if not reach.is_user(body.user_id):
        raise errors.invalid("userId", "is no user of this organisation: create the user first")
    if not reach.has_environment(body.environment_id):
        raise errors.invalid("environmentId", "is no environment of this organisation")
    checked = []
    for index, given in enumerate(body.connections):
        path = f"connections[{index}]"
        template = cluster.find(cluster.templates, call.namespace, given.connection_template_id)
        if template is None or not reach.has_template(template):
            raise errors.invalid(
                f"{path}.connectionTemplateId", "is no connection template of the environment"
            )
        if given.connection is not None:
            variables = await _check_new(call, given.connection, template, path=f"{path}.connection")
            new = given.connection.model_copy(update={"variables": variables})
            checked.append(given.model_copy(update={"connection": new}))
            continue
        existing = cluster.find(cluster.connections, call.namespace, given.existing_connection_id or "")
        if existing is None or not reach.owns(existing):
            raise errors.invalid(f"{path}.existingConnectionId", "is no connection of this organisation")
        checked.append(given)
    return replace(call, body=body.model_copy(update={"user_id": reach.user_id, "connections": checked}))


def own_connections(call: Call[rest.ConnectionsQuery, None]) -> AnyCall:
    """The list of connections: those of the user, whether the request asks for them alone or not."""
    query = call.query
    user = _reach(call).user_id if query.end_user_id is None else _own_id(call, query.end_user_id)
    return replace(call, query=query.model_copy(update={"end_user_id": user}))


def own_connection(call: AnyCall) -> AnyCall:
    """The connection in the path."""
    _require_connection(call)
    return call


def checked_connection(call: Call[None, rest.ConnectionTest]) -> AnyCall:
    """The connection in the path, by the check request of its system alone."""
    connection = _require_connection(call)
    for field in ("method", "path"):
        if getattr(call.body, field) is not None:
            _refuse_field(field)
    if (
        check_of(call.platform.cluster.referred(call.platform.cluster.systems, connection, "systemRef"))
        is None
    ):
        raise errors.conflict("The system names no check request, so the connection cannot be tested here")
    return call


def deleted_connection(call: AnyCall) -> AnyCall:
    """The connection in the path, which is to go."""
    _require_connection(call)
    _refuse_reconnecting(_reach(call))
    return call


async def created_connection(call: Call[None, rest.ConnectionCreate]) -> AnyCall:
    """A new connection of the user."""
    reach, body = _reach(call), call.body
    _refuse_reconnecting(reach)
    _require_user_of_session(reach)
    template = _require_template(call, body.connection_template_id)
    variables = await _check_new(call, body.connection, template, path="connection")
    given = body.connection.model_copy(update={"external_id": reach.user_id, "variables": variables})
    return replace(call, body=body.model_copy(update={"connection": given}))


async def updated_connection(call: Call[None, rest.ConnectionUpdate]) -> AnyCall:
    """A change of the connection in the path: of its name, its credentials, and inputs of its system."""
    body, cluster = call.body, call.platform.cluster
    obj = _require_connection(call)
    if body.base_url is not None and body.base_url != obj["spec"].get("baseUrl", ""):
        _refuse_field("baseUrl")
    if body.limits is not None and body.limits != limits_to_rest(obj["spec"]):
        _refuse_field("limits")
    if body.tools is not None and body.tools != tools_to_rest(obj["spec"]):
        _refuse_field("tools")
    system = cluster.referred(cluster.systems, obj, "systemRef")
    live, scope = obj["spec"].get("variables") or {}, _reach(call).scope
    given = body.variables if body.variables is not None else as_variables(live)
    values = own_values(given, scope, system, live=live, field="variables")
    if body.variables is not None or values != live:
        body = body.model_copy(update={"variables": as_variables(values)})
    if body.credentials:
        checks = CredentialChecks(call, system=system, template=None, live=obj)
        await checks.check(body.credentials, path="credentials")
    return replace(call, body=body)


def project_with_environment(call: AnyCall) -> AnyCall:
    """The project in the path, with an environment that the token is good for."""
    cluster, identifier = call.platform.cluster, call.path["project_id"]
    found = cluster.find(cluster.projects, call.namespace, identifier)
    if found is None or not _reach(call).has_project(found):
        raise errors.not_found("project", identifier)
    return call


async def _check_new(
    call: AnyCall, given: rest.NewConnection, template: ConnectionTemplateObject, *, path: str
) -> list[UrlVariable]:
    """The variables of a new connection. ApiError 422 where it has more than an end user may say."""
    cluster = call.platform.cluster
    if given.external_id is not None and not _reach(call).is_user(given.external_id):
        raise errors.invalid(f"{path}.externalId", "is another user: leave it out")
    if given.base_url:
        _refuse_field(f"{path}.baseUrl")
    if given.limits is not None:
        _refuse_field(f"{path}.limits")
    if given.tools is not None:
        _refuse_field(f"{path}.tools")
    system = cluster.referred(cluster.systems, template, "systemRef")
    checks = CredentialChecks(call, system=system, template=template, live=None)
    await checks.check(given.credentials, path=f"{path}.credentials")
    scope = _reach(call).scope
    return as_variables(own_values(given.variables or (), scope, system, live={}, field=f"{path}.variables"))


def _reach(call: AnyCall) -> EndUserReach:
    if call.reach is None:
        raise LookupError("The caller is no end user")
    return call.reach


def _own_id(call: AnyCall, given: str) -> str:
    reach = _reach(call)
    if not reach.is_user(given):
        raise errors.not_found("user", given)
    return reach.user_id


def _require_environment(call: AnyCall) -> None:
    identifier = call.path["environment_id"]
    if not _reach(call).has_environment(identifier):
        raise errors.not_found("environment", identifier)


def _require_template(call: AnyCall, identifier: str) -> ConnectionTemplateObject:
    cluster = call.platform.cluster
    found = cluster.find(cluster.templates, call.namespace, identifier)
    if found is None or not _reach(call).has_template(found):
        raise errors.not_found("connection template", identifier)
    return found


def _require_connection(call: AnyCall) -> ConnectionObject:
    cluster, identifier = call.platform.cluster, call.path["connection_id"]
    found = cluster.find(cluster.connections, call.namespace, identifier)
    if found is None or not _reach(call).has_connection(found):
        raise errors.not_found("connection", identifier)
    return found


def _require_user_of_session(reach: EndUserReach) -> None:
    """A session makes no user: one whose user was deleted is about to end."""
    if reach.scope.session and reach.user is None:
        raise errors.unauthenticated("The connect session's user was deleted: begin a new one")


def _refuse_reconnecting(reach: EndUserReach) -> None:
    if reach.scope.connection:
        raise errors.forbidden(
            "The connect session is for connecting one connection again: begin another one for anything else"
        )


def _refuse_field(field: str) -> NoReturn:
    raise errors.invalid(field, "is not for end users to set: leave it out")


def _with_path(call: AnyCall, **values: str) -> AnyCall:
    return replace(call, path={**call.path, **values})
