"""Operations on the connect session that a request comes with: what a page for end users works with."""

import logging
from collections.abc import Sequence
from dataclasses import replace

from tieline_api import errors
from tieline_api.auth.connect_sessions import ConnectSession
from tieline_api.auth.end_user_reach import EndUserReach
from tieline_api.conversion.catalogue import credential_help
from tieline_api.conversion.projects import EMPTY_SCHEMA
from tieline_api.conversion.systems import template_to_rest
from tieline_api.http.operation import Call, Operations, Reply
from tieline_api.schemas import connect_sessions as rest
from tieline_api.schemas.base import JsonObject
from tieline_api.schemas.connections import Connection
from tieline_api.schemas.templates import ConnectionTemplate
from tieline_api.use_cases import end_user_checks
from tieline_api.use_cases.url_values import may_set
from tieline_api.views.activation_lookup import (
    EnvironmentRef,
    activation_to_rest,
    activations_of,
    dynamic_templates,
    find_environment,
    verdicts_about,
)
from tieline_api.views.connections import connection_reply
from tieline_api.views.status_overlay import system_with_findings
from tieline_core.identity.ids import format_time, object_id
from tieline_core.kubernetes.resources import SECRETS
from tieline_core.resources.objects import ConnectionObject, ConnectionTemplateObject, SystemObject

logger = logging.getLogger(__name__)

CURRENT = "/api/v2/connect/session"
_MAX_CONNECTIONS = 200

OPERATIONS = Operations("Connect sessions")


@OPERATIONS.add(
    "GET",
    CURRENT,
    id="getCurrentConnectSession",
    summary="Get the connect session of the request, and what its user can connect",
    permissions=(),
    end_user=end_user_checks.itself,
    errors=(403, 404),
)
async def get_current_session(call: Call[None, None]) -> Reply[rest.CurrentConnectSession]:
    """Returns the session that the request comes with, what its user can connect, and what is connected.

    Of more than 200 connections, the newest are returned; the list of connections has all of them.
    """
    call, session, reach = _require(call)
    environment = find_environment(call, session.environment)
    if environment is None:
        raise errors.not_found("environment", session.environment)
    activations = activations_of(call, environment, reach.user) if reach.user else []
    active = activations[0] if activations else None
    verdicts = await verdicts_about(call, environment, activations[:1])
    project, offered = environment.project, _offered(call, environment, reach)
    body = rest.CurrentConnectSession(
        id=session.id,
        organisation_id=call.organisation.id,
        user=rest.SessionUser(
            external_id=session.external_id,
            display_name=reach.user["spec"].get("displayName", "") if reach.user else "",
        ),
        project=rest.Named(id=object_id(project), name=project["spec"]["name"]),
        environment=rest.Named(id=environment.id, name=environment.name),
        connection=session.connection or None,
        return_url=session.return_url or None,
        allowed_origins=list(session.origins),
        expires_at=format_time(session.expires_at),
        templates=[
            _with_inputs_to_ask(
                template_to_rest(template, system, organisation=call.organisation.id), reach, system
            )
            for template, system in offered
        ],
        variables=_shown_variables(session, [system for _, system in offered]),
        systems=list({one.id: one for one in map(_named, (system for _, system in offered))}.values()),
        connections=_connections(call, reach),
        activation=activation_to_rest(call, environment, active, verdicts) if active else None,
        variables_schema=JsonObject(dict(project["spec"].get("dynamicVariablesSchema") or EMPTY_SCHEMA)),
    )
    return Reply(body=body, headers={"Cache-Control": "no-store"})


@OPERATIONS.add(
    "DELETE",
    CURRENT,
    id="endCurrentConnectSession",
    summary="End the connect session of the request",
    permissions=(),
    end_user=end_user_checks.itself,
    success=204,
    errors=(403, 404),
)
async def end_current_session(call: Call[None, None]) -> Reply[None]:
    """Ends the session that the request comes with: its token is good for nothing from now on."""
    call, session, _ = _require(call)
    sessions, cache = call.platform.connect_sessions, call.platform.cluster.connect_sessions
    secret = sessions.secret(call.namespace, session.id)
    if secret is not None:
        metadata = secret["metadata"]
        await call.platform.kube.delete(SECRETS, metadata["name"], call.namespace, uid=metadata["uid"])
        cache.forget(secret)
    extra = {"session": session.id, "organisation": call.organisation.id, "user": call.caller.username}
    logger.info("Connect session ended by its user", extra=extra)
    return Reply()


def _require(call: Call[None, None]) -> tuple[Call[None, None], ConnectSession, EndUserReach]:
    """The call in the organisation of its session, the session, and what it reaches. ApiError 403 without one."""
    scope, platform = call.caller.end_user, call.platform
    if scope is None or not scope.session:
        raise errors.forbidden("This is about the connect session of the request, and it has none")
    (identifier,) = call.caller.organisations or ("",)
    organisation = platform.cluster.organisation(identifier)
    session = platform.connect_sessions.find(organisation.namespace, scope.session) if organisation else None
    if organisation is None or session is None:
        raise errors.unavailable("This replica does not know the session yet: try again", retry_after=1)
    there = replace(call, organisation=organisation)
    return there, session, EndUserReach(platform.cluster, organisation.namespace, scope)


def _offered(
    call: Call[None, None], environment: EnvironmentRef, reach: EndUserReach
) -> list[tuple[ConnectionTemplateObject, SystemObject]]:
    """The templates that the user can connect, each with its system."""
    cluster = call.platform.cluster
    found = [one for one in dynamic_templates(call, environment) if reach.has_template(one)]
    if reach.scope.connection:
        again = cluster.find(cluster.connections, call.namespace, reach.scope.connection)
        reference = again["spec"]["systemRef"] if again else None
        found = [one for one in found if one["spec"]["systemRef"] == reference]
    return [
        (one, system_with_findings(cluster, system))
        for one in found
        if (system := cluster.referred(cluster.systems, one, "systemRef")) is not None
    ]


def _with_inputs_to_ask(
    template: ConnectionTemplate, reach: EndUserReach, system: SystemObject
) -> ConnectionTemplate:
    asked = [one for one in template.inputs or () if may_set(reach.scope, system, one.name)]
    return template.model_copy(update={"inputs": asked or None})


def _shown_variables(session: ConnectSession, systems: Sequence[SystemObject]) -> list[rest.ShownVariable]:
    """What the application has set, of the inputs of these systems, and does not hide."""
    values = {one.name: one.value for one in session.variables if not one.hidden}
    return [
        rest.ShownVariable(
            name=about["name"],
            value=values[about["name"]],
            system_id=identifier,
            label=about.get("label"),
            suffix=about.get("suffix"),
        )
        for identifier, system in {object_id(one): one for one in systems}.items()
        for about in system["spec"].get("inputs") or ()
        if about["name"] in values
    ]


def _named(system: SystemObject) -> rest.SessionSystem:
    spec = system["spec"]
    key, found = credential_help(spec)
    return rest.SessionSystem(
        id=object_id(system),
        name=spec["name"],
        has_check=bool(spec.get("check")),
        catalogue=key,
        help=found or None,
    )


def _connections(call: Call[None, None], reach: EndUserReach) -> list[Connection]:
    cluster = call.platform.cluster
    found: Sequence[ConnectionObject] = (
        cluster.referring(cluster.connections, "user", call.namespace, reach.user["metadata"]["name"])
        if reach.user
        else []
    )
    own = [one for one in found if reach.has_connection(one)][-_MAX_CONNECTIONS:]
    return [connection_reply(call, one) for one in own]
