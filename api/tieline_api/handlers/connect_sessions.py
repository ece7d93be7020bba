"""Operations on connect sessions: what the customer's own server does for a user of its application."""

import logging
from contextlib import suppress
from datetime import UTC, datetime, timedelta

from tieline_api import cursors, errors
from tieline_api.auth import connect_sessions as sessions
from tieline_api.auth.connect_sessions import ConnectSession
from tieline_api.auth.permissions import Permission
from tieline_api.cluster.sorted_lists import position
from tieline_api.cluster.writer import IdTakenError, set_or_drop
from tieline_api.http.operation import ORGANISATION, Call, Operations, Reply
from tieline_api.schemas import connect_sessions as rest
from tieline_api.schemas.base import PageQuery
from tieline_api.schemas.names import check_new_external_id
from tieline_api.use_cases.user_create import create_user
from tieline_api.views.activation_lookup import EnvironmentRef, dynamic_templates, find_environment
from tieline_core.identity.ids import format_time, new_id, object_id
from tieline_core.kubernetes.resources import SECRETS
from tieline_core.objects import Object
from tieline_core.resources.objects import EndUserObject, SystemObject
from tieline_protocol.url_inputs import url_inputs

logger = logging.getLogger(__name__)

SESSIONS = f"{ORGANISATION}/connect-sessions"
SESSION = f"{SESSIONS}/{{session_id}}"
MAX_OF_USER = 100
MAX_OF_ORGANISATION = 20_000
"""Those that ended within the last hour included."""
_FULL_SECONDS = 60
_NO_INPUT = (
    "is no input of a system that the session is good for: correct the name, or add the input to the system"
)
_CREATE_USERS = Permission("create", "endusers")
# Nobody lends what they do not have: a session may do all of this for its user.
_LENT = (
    *(Permission(verb, "activations") for verb in ("get", "list", "create", "patch", "delete")),
    *(Permission(verb, "connections") for verb in ("get", "list", "create", "patch", "delete")),
)

OPERATIONS = Operations("Connect sessions")


@OPERATIONS.add(
    "POST",
    SESSIONS,
    id="createConnectSession",
    summary="Create a connect session for an end user",
    permissions=_LENT,
    link_sources={"session_id": "/id"},
    link_parameters={"environmentId": "environment_id"},
    success=201,
    errors=(429,),
)
async def create_session(call: Call[None, rest.ConnectSessionCreate]) -> Reply[rest.NewConnectSession]:
    """Creates a session for one user of your application, and the user, if the external id is new.

    The token reaches what is this user's own in the environment: activations, variables, connections and
    authorisations. Call this from your server, and pass the token (or the URL of the hosted page) to the browser.
    """
    platform, body = call.platform, call.body
    environment = find_environment(call, body.environment_id)
    if environment is None:
        raise errors.invalid("environmentId", "is no environment of this organisation")
    _check_templates(call, environment)
    user = await _user(call)
    _check_connection(call, user)
    _check_variables(call, environment)
    _check_room(call)
    now = datetime.now(UTC)
    session = ConnectSession(
        id=new_id(),
        external_id=body.user.external_id,
        environment=environment.id,
        templates=tuple(dict.fromkeys(body.templates)),
        connection=body.connection or "",
        origins=tuple(dict.fromkeys(body.allowed_origins)),
        return_url=body.return_url or "",
        variables=tuple(sessions.FixedVariable(one.name, one.value, one.hidden) for one in body.variables),
        inputs=None if body.inputs is None else tuple(dict.fromkeys(body.inputs)),
        created_by=call.caller.username,
        created_at=now,
        expires_at=now + timedelta(seconds=body.expires_in),
    )
    token = sessions.new_token(call.organisation.id)
    made = await platform.kube.create(SECRETS, sessions.manifest(token, session, user=user))
    platform.cluster.connect_sessions.observe(made)
    _audit(call, "created", session)
    page = platform.settings.connect_page(f"{call.organisation.id}/{sessions.page_key(token)}")
    shown = rest.NewConnectSession(
        id=session.id,
        token=token,
        url=f"{page}#{token}" if page else None,
        expires_at=format_time(session.expires_at),
    )
    return Reply(body=shown, headers={"Cache-Control": "no-store"})


@OPERATIONS.add("GET", SESSIONS, id="listConnectSessions", summary="List connect sessions", permissions=_LENT)
async def list_sessions(call: Call[PageQuery, None]) -> Reply[rest.ConnectSessionPage]:
    """Returns a page of the sessions that have not ended, oldest first, without their tokens."""
    live = {session.id: session for session in call.platform.connect_sessions.live(call.namespace)}
    secrets = call.platform.cluster.connect_sessions.list(call.namespace)
    found = [secret for secret in secrets if object_id(secret) in live]
    page = cursors.cut(found, kind="connect-sessions", position=position, **call.query.window)
    items = [_shown(live[object_id(secret)]) for secret in page.items]
    return Reply(
        body=rest.ConnectSessionPage(total_count=page.total, items=items, next=page.next, prev=page.prev)
    )


@OPERATIONS.add("GET", SESSION, id="getConnectSession", summary="Get a connect session", permissions=_LENT)
async def get_session(call: Call[None, None]) -> Reply[rest.ConnectSession]:
    """Returns a session that has not ended, without its token."""
    return Reply(body=_shown(_require(call)))


@OPERATIONS.add(
    "DELETE",
    SESSION,
    id="revokeConnectSession",
    summary="Revoke a connect session",
    permissions=_LENT,
    success=204,
)
async def revoke_session(call: Call[None, None]) -> Reply[None]:
    """Revokes a session: its token is good for nothing from now on. What the user has connected stays."""
    session, cache = _require(call), call.platform.cluster.connect_sessions
    secret = call.platform.connect_sessions.secret(call.namespace, session.id)
    if secret is None:
        raise errors.not_found("connect session", session.id)
    metadata = secret["metadata"]
    await call.platform.kube.delete(SECRETS, metadata["name"], call.namespace, uid=metadata["uid"])
    cache.forget(secret)
    _audit(call, "revoked", session)
    return Reply()


def _require(call: Call[None, None]) -> ConnectSession:
    identifier = call.path["session_id"]
    found = call.platform.connect_sessions.find(call.namespace, identifier)
    if found is None:
        raise errors.not_found("connect session", identifier)
    return found


def _check_templates(call: Call[None, rest.ConnectSessionCreate], environment: EnvironmentRef) -> None:
    known = {object_id(template) for template in dynamic_templates(call, environment)}
    for index, identifier in enumerate(call.body.templates):
        if identifier not in known:
            raise errors.invalid(
                f"templates[{index}]", "is no dynamic connection template of the environment: correct the id"
            )


def _check_connection(call: Call[None, rest.ConnectSessionCreate], user: EndUserObject) -> None:
    if call.body.connection is None:
        return
    cluster = call.platform.cluster
    found = cluster.find(cluster.connections, call.namespace, call.body.connection)
    if found is None or found["spec"].get("endUserRef", {}).get("name") != user["metadata"]["name"]:
        raise errors.invalid("connection", "is no connection of the user: correct the id, or leave it out")


def _check_variables(call: Call[None, rest.ConnectSessionCreate], environment: EnvironmentRef) -> None:
    """ApiError 422 for a variable or input that no system of the session has, or a value that one does not allow."""
    body = call.body
    offered = [url_inputs(system["spec"]) for system in _systems(call, environment)]
    for index, one in enumerate(body.variables):
        rules = [inputs[one.name] for inputs in offered if one.name in inputs]
        if not rules:
            raise errors.invalid(f"variables[{index}].name", _NO_INPUT)
        if one.name in [other.name for other in body.variables[:index]]:
            raise errors.invalid(f"variables[{index}].name", "is given twice: leave one out")
        for rule in rules:
            if problem := rule.value_problem(one.value):
                raise errors.invalid(f"variables[{index}].value", problem)
    for index, name in enumerate(body.inputs or ()):
        if not any(name in inputs for inputs in offered):
            raise errors.invalid(f"inputs[{index}]", _NO_INPUT)


def _systems(call: Call[None, rest.ConnectSessionCreate], environment: EnvironmentRef) -> list[SystemObject]:
    """The systems that a session is good for."""
    cluster, wanted = call.platform.cluster, set(call.body.templates)
    templates = [
        one for one in dynamic_templates(call, environment) if not wanted or object_id(one) in wanted
    ]
    found = [cluster.referred(cluster.systems, one, "systemRef") for one in templates]
    again = cluster.find(cluster.connections, call.namespace, call.body.connection or "")
    found += [cluster.referred(cluster.systems, again, "systemRef")] if again else []
    return [system for system in found if system is not None]


def _check_room(call: Call[None, rest.ConnectSessionCreate]) -> None:
    known = call.platform.connect_sessions
    of_user = len(known.of_user(call.namespace, call.body.user.external_id))
    if of_user >= MAX_OF_USER or known.stored(call.namespace) >= MAX_OF_ORGANISATION:
        raise errors.too_many_requests(
            "Too many connect sessions have not ended: revoke some, or let them end",
            retry_after=_FULL_SECONDS,
        )


async def _user(call: Call[None, rest.ConnectSessionCreate]) -> EndUserObject:
    """The user with the external id, made where there is none. An id of a user does not stand for it here."""
    cluster, given = call.platform.cluster, call.body.user
    found = cluster.external_user(call.namespace, given.external_id)
    if found is not None:
        return found
    if not await call.platform.access.allowed(call.caller, call.namespace, _CREATE_USERS):
        raise errors.invalid(
            "user.externalId",
            f"is no user of this organisation, and you may not create one: it needs the permission {_CREATE_USERS}",
        )
    try:
        check_new_external_id(given.external_id)
    except ValueError as problem:
        raise errors.invalid("user.externalId", str(problem)) from None
    spec: Object = {"externalId": given.external_id}
    set_or_drop(spec, "displayName", given.display_name)
    with suppress(IdTakenError):
        return await create_user(call, spec)
    found = cluster.external_user(call.namespace, given.external_id)
    if found is None:
        raise errors.unavailable(
            "Another request has just created the user: try again in a moment", retry_after=1
        )
    return found


def _shown(session: ConnectSession) -> rest.ConnectSession:
    return rest.ConnectSession(
        id=session.id,
        user=rest.SessionUser(external_id=session.external_id),
        environment_id=session.environment,
        templates=list(session.templates),
        connection=session.connection or None,
        allowed_origins=list(session.origins),
        return_url=session.return_url or None,
        variables=[
            rest.FixedVariable(name=one.name, value=one.value, hidden=one.hidden) for one in session.variables
        ],
        inputs=None if session.inputs is None else list(session.inputs),
        created_by=session.created_by,
        created_at=format_time(session.created_at),
        expires_at=format_time(session.expires_at),
    )


def _audit(
    call: Call[None, rest.ConnectSessionCreate] | Call[None, None], what: str, session: ConnectSession
) -> None:
    logger.info(
        "Connect session %s",
        what,
        extra={
            "session": session.id,
            "end_user": session.external_id,
            "environment": session.environment,
            "organisation": call.organisation.id,
            "user": call.caller.username,
        },
    )
