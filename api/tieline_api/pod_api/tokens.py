"""``POST /internal/v1/connections/…/credentials/…/token``: another access token, after a 401.

A pod shows the token that was rejected. It gets the one that is kept by now, or one that is asked for just then;
never what it was asked with.
"""

import logging
from datetime import UTC, datetime

from aiohttp import web

from tieline_api import errors
from tieline_api.conversion.connections import scheme_item
from tieline_api.conversion.times import expired
from tieline_api.credentials.tokens_in_use import ConnectionTokens
from tieline_api.dependencies import Dependencies
from tieline_api.http.request_body import parse_json, read_body
from tieline_api.pod_api.configuration import connection_in_use
from tieline_api.pod_api.environment import authenticated_workload, endpoint, workload_environment
from tieline_core.credentials.grant_request import UnresolvedError
from tieline_core.credentials.validation.credential_findings import OAUTH2
from tieline_core.identity.ids import credential_id, object_id
from tieline_core.oauth import token_secret_codec
from tieline_core.objects import Json
from tieline_core.resources.objects import ConnectionCredentialDict, ConnectionObject
from tieline_core.systems import connection_base_url
from tieline_protocol.oauth.token_client import RefusedError, TokenError, Tokens, UnreachableError

logger = logging.getLogger(__name__)

PATH = "/internal/v1/connections/{connection_id}/credentials/{credential_id}/token"
_MAX_BODY = 128 * 1024
_RETRY_SECONDS = 10.0


def add_internal_tokens(app: web.Application, platform: Dependencies) -> None:
    """Adds the endpoint."""
    app.router.add_post(PATH, endpoint("internalToken", answer, platform))


async def answer(request: web.Request, platform: Dependencies) -> web.Response:
    """200 with an access token that is not the rejected one, unless that is brand new.

    ApiError 404 for what is none of the environment's credentials, 409 where the provider says no or something
    has to be put right, 503 where it cannot be asked now.
    """
    namespace, workload = await authenticated_workload(request, platform)
    connection, item = _credential(request, platform, namespace, workload)
    body = await _body(request)
    _check_base_url(platform, connection, body)
    found = await access_token(platform, connection, item, rejected=_rejected(body))
    if found is None:
        raise errors.not_found("access token of the credential", request.match_info["credential_id"])
    return web.json_response(token_body(found), headers={"Cache-Control": "no-store"})


async def access_token(
    platform: Dependencies, connection: ConnectionObject, item: ConnectionCredentialDict, *, rejected: str
) -> Tokens | None:
    """Tokens of a credential that are not the rejected one, unless that is brand new. ApiError as in ``answer``."""
    kept = ConnectionTokens(platform.cluster, connection).of(item["id"]).secret
    # Some systems answer 401 for what no token can open: the provider is not to be asked for each such request.
    if kept is not None and rejected and platform.token_ages.is_young(kept):
        known = token_secret_codec.read(kept).tokens
        if known.access_token == rejected:
            return known
    try:
        found = await platform.token_manager.fresh(connection, item["id"], rejected=rejected)
    except TokenError as error:
        logger.info("No access token: %s", error, extra={"object": _name(connection)})
        raise _as_answer(error) from None
    return found.tokens if found is not None else None


def _credential(
    request: web.Request, platform: Dependencies, namespace: str, workload: str
) -> tuple[ConnectionObject, ConnectionCredentialDict]:
    organisation, project, name = workload_environment(request, platform, namespace, workload)
    cluster, wanted = platform.cluster, request.match_info["credential_id"]
    connection = connection_in_use(cluster, organisation, project, name, request.match_info["connection_id"])
    if connection is None:
        raise errors.not_found("connection of this environment", request.match_info["connection_id"])
    identifier = object_id(connection)
    system = cluster.referred(cluster.systems, connection, "systemRef")
    for item in connection["spec"].get("credentials") or ():
        if credential_id(identifier, item) == wanted and item["type"] in OAUTH2:
            if scheme_item(item, system) is None or expired(item, datetime.now(UTC)):
                raise errors.conflict("The credential has expired, or its auth scheme is gone")
            return connection, item
    raise errors.not_found("credential with tokens", wanted)


async def _body(request: web.Request) -> Json:
    body = parse_json(request, await read_body(request, limit=_MAX_BODY))
    return body if isinstance(body, dict) else {}


def _check_base_url(platform: Dependencies, connection: ConnectionObject, body: Json) -> None:
    """ApiError 409 for a pod that would send the token elsewhere: it does not know yet that a value has changed."""
    found = ConnectionTokens(platform.cluster, connection)
    url = connection_base_url(connection["spec"], found.system_spec, found.kept)
    if body.get("baseUrl", url) != url:
        raise errors.conflict("The connection's base URL has changed: read the configuration again")


def _rejected(body: Json) -> str:
    rejected = body.get("rejected")
    if not isinstance(rejected, str):
        raise errors.invalid("rejected", "must be the access token that was answered with 401")
    return rejected


def token_body(tokens: Tokens) -> Json:
    """What whoever sends requests gets of tokens."""
    body: Json = {
        "accessToken": tokens.access_token,
        "tokenType": tokens.token_type,
        "scopes": list(tokens.scopes),
    }
    if tokens.expires_at:
        body["expiresAt"] = token_secret_codec.written(tokens.expires_at)
    return body


def _as_answer(error: TokenError) -> errors.ApiError:
    match error:
        case RefusedError():
            return errors.ApiError(409, "credential_refused", str(error))
        case UnresolvedError():
            return errors.ApiError(409, "credential_unresolved", str(error))
        case UnreachableError(retry_after=seconds):
            return errors.unavailable(str(error), retry_after=seconds or _RETRY_SECONDS)
    return errors.unavailable(str(error), retry_after=_RETRY_SECONDS)


def _name(connection: ConnectionObject) -> str:
    return f"{connection['metadata']['namespace']}/{connection['metadata']['name']}"
