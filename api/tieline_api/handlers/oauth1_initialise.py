"""The operation that starts an authorisation by OAuth 1.0 (RFC 5849, section 2)."""

import json
from collections.abc import Mapping
from urllib.parse import urlsplit

from tieline_api import errors
from tieline_api.auth.permissions import permission
from tieline_api.handlers.systems import SYSTEM
from tieline_api.http.operation import Call, Operation, Reply
from tieline_api.oauth.authorization_request import AuthorizationRequest
from tieline_api.oauth.oauth1_schemes import choose
from tieline_api.schemas import authorisations as rest
from tieline_api.schemas import examples
from tieline_core.oauth.oauth1_requests import (
    TEMPORARY,
    TOKEN,
    ParameterError,
    authorization_url,
    check_params,
)
from tieline_core.oauth.oauth1_tokens import temporary_credentials
from tieline_core.oauth.token_client import TokenClient, TokenError, UnreachableError
from tieline_core.resources.connections import CredentialType

_FINISHABLE = (CredentialType.OAUTH1,)


async def initialise(call: Call[None, rest.OAuth1Initialise]) -> Reply:
    """Obtains temporary credentials and returns the URL that a user opens in a browser to authorise.

    The user comes back with a token and a verifier. Store them with the state as a credential of type oauth1.
    """
    platform, body = call.platform, call.body
    auth_request = AuthorizationRequest.of(call, _FINISHABLE)
    if body.credential.organisation_id not in (None, call.organisation.id):
        raise errors.invalid("credential", "is of another organisation: OAuth 1.0 takes one's own only")
    chosen, params = (
        choose(auth_request.system, auth_request.candidates, body, organisation=call.organisation.id),
        body.params or {},
    )
    temporary, authorization, token = chosen.endpoints()
    names = chosen.stored_secrets(platform.lookups, call.namespace, auth_request.candidates)
    if chosen.given and auth_request.candidates and names:
        # The request says where the stored secret goes: that is a change of its connection, if for once only.
        await platform.access.check(call.caller, call.organisation, permission("patch", "connections"))
        await platform.references.check(call.caller, auth_request.candidates[0].connection, names)
    consumer = await chosen.consumer(platform.lookups, call.namespace, auth_request.candidates)
    redirect_uri, state = auth_request.redirect_uri, auth_request.state
    callback = f"{redirect_uri}{'&' if urlsplit(redirect_uri).query else '?'}state={state}"
    try:
        # Everything that is wrong is found before the provider is asked.
        check_params({TEMPORARY: temporary, None: authorization, TOKEN: token}, params)
        authorization_url(authorization, token=state, params=params)
        issued = await temporary_credentials(
            TokenClient(platform.outgoing), temporary, consumer, callback=callback, params=params
        )
        url = authorization_url(authorization, token=issued.token, params=params)
    except TokenError as error:
        raise _as_api_error(error, params, field=chosen.field) from None
    await auth_request.remember(
        client_id=consumer.key,
        oauth1_token=issued.token,
        oauth1_secret=issued.secret,
        oauth1_params=json.dumps(params) if params else "",
    )
    return Reply(body=rest.OAuth1Url(url=url, state=state), headers={"Cache-Control": "no-store"})


def _as_api_error(error: TokenError, params: Mapping[str, str], *, field: str) -> errors.ApiError:
    match error:
        case UnreachableError():
            return errors.ApiError(502, "provider_unreachable", str(error), headers={"Retry-After": "10"})
        case ParameterError() if error.modifiable or error.parameter in params:
            return errors.invalid(f"params.{error.parameter}", str(error))
    return errors.invalid(field, str(error))


OPERATIONS = (
    Operation(
        id="initialiseOAuth1",
        method="POST",
        path=f"{SYSTEM}/oauth1/initialise",
        summary="Initialise OAuth 1.0 connection",
        handler=initialise,
        permissions=permission("create", "connections"),
        response=rest.OAuth1Url,
        example=examples.OAUTH1_INITIALISE,
        response_example={
            "url": "https://shop.example/oauth/authorize?oauth_token=hh5s93j4hdidpola",
            "state": "01JD3Y8B2C8F3XK5D1VJ7Q4M6N.oOUkkbGFpXBPbJvLlYCLNbIIV2uQxKYSbXw3YoDHzsU",
        },
    ),
)
