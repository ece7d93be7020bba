"""The operation that starts an authorisation by OAuth 1.0 (RFC 5849, section 2)."""

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from tieline_api import errors
from tieline_api.auth.permissions import permission
from tieline_api.engine.operation import Call, Operation, Reply
from tieline_api.models import oauth1_initialise as rest
from tieline_api.oauth.beginning import Obj, finishable, holders, redirect_uri
from tieline_api.operations import examples
from tieline_api.operations.systems import SYSTEM
from tieline_core.ids import object_id
from tieline_core.oauth.linking import Problem
from tieline_core.oauth.oauth1_consumers import consumer_of
from tieline_core.oauth.oauth1_requests import (
    TEMPORARY,
    TOKEN,
    Consumer,
    ParameterError,
    authorization_url,
    check_params,
)
from tieline_core.oauth.oauth1_tokens import temporary_credentials
from tieline_core.oauth.states import Pending, new_state
from tieline_core.oauth.tokens import TokenClient, TokenError, UnreachableError
from tieline_core.resources import System
from tieline_core.resources.auth_schemes import OAuth1, OAuth1Endpoint
from tieline_core.resources.connections import CredentialType

_SCHEME = "authSchemeConfigId"
_FINISHABLE = (CredentialType.OAUTH1,)


async def initialise(call: Call[None, rest.OAuth1Initialise]) -> Reply:
    """Asks for temporary credentials; answers the URL to send a user to, which is good once and for minutes."""
    platform, body = call.platform, call.body
    system = platform.world.need(platform.world.systems, call.namespace, call.path["system_id"])
    if body.credential.organisation_id != call.organisation.id:
        raise errors.invalid("credential", "is of another organisation: OAuth 1.0 takes one's own only")
    back = redirect_uri(platform.settings, body.redirect_url)
    scheme, params = _scheme(system, body.auth_scheme_config_id), body.params or {}
    temporary, authorization, token = _endpoints(scheme)
    found = holders(call, system, body.credential.id, _FINISHABLE)
    consumer = await _consumer(call, scheme, found)
    state = new_state(call.organisation.id)
    callback = f"{back}{'&' if urlsplit(back).query else '?'}state={state}"
    try:
        # Everything that is wrong is found before the provider is asked.
        check_params({TEMPORARY: temporary, None: authorization, TOKEN: token}, params)
        authorization_url(authorization, token=state, params=params)
        issued = await temporary_credentials(
            TokenClient(platform.outgoing), temporary, consumer, callback=callback, params=params
        )
        url = authorization_url(authorization, token=issued.token, params=params)
    except TokenError as error:
        raise _told(error, params) from None
    connection, item = await finishable(call, found)
    pending = Pending(
        organisation_id=call.organisation.id,
        system_id=object_id(system),
        credential_id=body.credential.id,
        credential_organisation_id=body.credential.organisation_id,
        client_id=consumer.key,
        redirect_uri=back,
        requested_by=call.caller.username,
        connection=connection,
        item_id=item,
        oauth1_token=issued.token,
        oauth1_secret=issued.secret,
        oauth1_params=json.dumps(params) if params else "",
    )
    await platform.oauth_states.remember(state, pending, system=system)
    return Reply(body=rest.OAuth1Url(url=url, state=state), headers={"Cache-Control": "no-store"})


def _scheme(system: Obj, wanted: str | None) -> OAuth1:
    schemes = [one for one in System.read(system).spec.auth_scheme_configs if one.oauth1]
    fitting = [one for one in schemes if wanted in (None, one.id)]
    if len(fitting) == 1 and fitting[0].oauth1:
        return fitting[0].oauth1
    if fitting:
        names = ", ".join(one.id for one in fitting)
        raise errors.invalid(_SCHEME, f"is required: the system has several oauth1 auth schemes: {names}")
    raise errors.invalid(_SCHEME, "names no oauth1 auth scheme of the system: correct it, or add the scheme")


def _endpoints(scheme: OAuth1) -> tuple[OAuth1Endpoint, OAuth1Endpoint, OAuth1Endpoint]:
    temporary, token = scheme.temp_credential_endpoint, scheme.token_endpoint
    authorization = scheme.resource_owner_authorization_endpoint
    if temporary and authorization and token:
        return temporary, authorization, token
    raise errors.invalid(
        _SCHEME,
        "names a scheme without all of tempCredentialEndpoint, resourceOwnerAuthorizationEndpoint and "
        "tokenEndpoint: add them",
    )


async def _consumer(
    call: Call[None, rest.OAuth1Initialise], scheme: OAuth1, found: list[tuple[Obj, Obj]]
) -> Consumer:
    reference: Mapping[str, Any] = (found[0][1].get("secretRef") or {}) if len(found) == 1 else {}
    lookups = call.platform.lookups
    data = await lookups.secret(call.namespace, reference["name"]) if reference else None
    own = {key: value.decode("utf-8", "replace") for key, value in (data or {}).items()}
    consumer = await consumer_of(lookups, call.namespace, scheme, own)
    if isinstance(consumer, Problem):
        raise errors.invalid(_SCHEME, consumer.message)
    return consumer


def _told(error: TokenError, params: Mapping[str, str]) -> errors.ApiError:
    match error:
        case UnreachableError():
            return errors.ApiError(502, "provider_unreachable", str(error), headers={"Retry-After": "10"})
        case ParameterError() if error.modifiable or error.parameter in params:
            return errors.invalid(f"params.{error.parameter}", str(error))
    return errors.invalid(_SCHEME, str(error))


OPERATIONS = (
    Operation(
        id="initialiseOAuth1",
        method="POST",
        path=f"{SYSTEM}/oauth1/initialise",
        summary="Initialise OAuth 1.0 connection",
        tag="Systems",
        handler=initialise,
        permissions=permission("create", "connections"),
        body=rest.OAuth1Initialise,
        response=rest.OAuth1Url,
        example=examples.OAUTH1_INITIALISE,
        response_example={
            "url": "https://shop.example/oauth/authorize?oauth_token=hh5s93j4hdidpola",
            "state": "01JD3Y8B2C8F3XK5D1VJ7Q4M6N.oOUkkbGFpXBPbJvLlYCLNbIIV2uQxKYSbXw3YoDHzsU",
        },
    ),
)
