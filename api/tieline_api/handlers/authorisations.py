"""The operations that start an authorisation: an OAuth 2.0 authorisation code flow, or OAuth 1.0 (RFC 5849)."""

import json
from collections.abc import Mapping
from urllib.parse import urlsplit

from tieline_api import errors
from tieline_api.auth.permissions import permission
from tieline_api.authorisation.authorization_request import AuthorizationRequest
from tieline_api.authorisation.authorize_url import (
    OFFLINE_ACCESS,
    AuthorizeUrlError,
    AuthorizeUrlParameters,
    authorize_url,
)
from tieline_api.authorisation.oauth1_schemes import choose
from tieline_api.authorisation.oauth2_schemes import PossibleSchemes
from tieline_api.authorisation.tenant_request import begun_with, filled_authorize_url, tenant_asked
from tieline_api.handlers.systems import SYSTEM
from tieline_api.http.operation import Call, Operations, Reply
from tieline_api.schemas import authorisations as rest
from tieline_api.use_cases.end_user_credentials import own_authorisation
from tieline_core.credentials.linker import Problem, client_of
from tieline_core.oauth.oauth1_requests import (
    TEMPORARY,
    TOKEN,
    ParameterError,
    authorization_url,
    check_params,
)
from tieline_core.oauth.oauth1_tokens import temporary_credentials
from tieline_core.oauth.state_store import new_verifier
from tieline_core.resources.auth_schemes import OAuth2, OAuth2Client
from tieline_core.resources.connections import CredentialType
from tieline_core.resources.oauth2_dialect import AuthorizationDialect
from tieline_protocol.oauth.token_client import TokenClient, TokenError, UnreachableError

# Credentials that tokens of an authorisation can replace; none is one that is still to be connected.
_OAUTH2_TYPES = (CredentialType.OAUTH2_CODE, CredentialType.OAUTH2_TOKEN, CredentialType.NONE)
_OAUTH1_TYPES = (CredentialType.OAUTH1, CredentialType.NONE)

OPERATIONS = Operations("Systems")


@OPERATIONS.add(
    "POST",
    f"{SYSTEM}/oauth2/initialise",
    id="initialiseOAuth2",
    summary="Initialise OAuth 2.0 connection",
    permissions=permission("create", "connections"),
    end_user=own_authorisation,
)
async def initialise_oauth2(call: Call[None, rest.OAuth2Initialise]) -> Reply[rest.OAuth2Url]:
    """Returns the URL that a user opens in a browser to authorise.

    The user comes back with a code and a state. Store both as a credential of type oauth2-code; the service exchanges
    them for tokens. The state is good once, for ten minutes unless configured otherwise, and for this credential only.
    """
    body = call.body
    auth_request = AuthorizationRequest.of(call, _OAUTH2_TYPES)
    _check_credential(call)
    schemes = PossibleSchemes.of(auth_request.system, auth_request.candidates, body)
    tenant = tenant_asked(auth_request, body, schemes.for_tenant)
    verifier = new_verifier() if schemes.requires_pkce else None
    try:
        wanted = _url_parameters(body, schemes.in_use, url=filled_authorize_url(tenant, body))
        url = authorize_url(
            wanted, redirect_uri=auth_request.redirect_uri, state=auth_request.state, verifier=verifier
        )
        asked = wanted.asked_scopes()
    except AuthorizeUrlError as error:
        raise errors.invalid(error.field, error.message) from None
    await auth_request.remember(
        client_id=body.client_id,
        url=url,
        code_verifier=verifier or "",
        scopes=" ".join(asked),
        variables=begun_with(tenant, body),
    )
    return Reply(body=rest.OAuth2Url(url=url), headers={"Cache-Control": "no-store"})


def _check_credential(call: Call[None, rest.OAuth2Initialise]) -> None:
    """ApiError 422 for another organisation's credential that it has not granted."""
    given = call.body.credential
    if given.organisation_id in (None, call.organisation.id):
        return
    client = OAuth2Client(credential_id=given.id, organisation_id=given.organisation_id)
    found = client_of(call.platform.lookups, call.namespace, client)
    if isinstance(found, Problem):
        raise errors.invalid("credential", found.message)


def _url_parameters(
    body: rest.OAuth2Initialise, scheme: OAuth2 | None, *, url: str
) -> AuthorizeUrlParameters:
    follows = bool(body.follow_scheme) and scheme is not None
    additional = body.additional_params
    if scheme is not None and follows and additional is None:
        additional = scheme.additional_authorize_params
    known = [*(one.name for one in scheme.scopes), *scheme.default_scopes] if scheme else []
    return AuthorizeUrlParameters(
        authorize_url=url,
        client_id=body.client_id,
        scopes=tuple(body.scopes or ()),
        disable_offline_access=bool(body.disable_offline_access),
        prompt=body.prompt or "",
        additional_params=additional or "",
        scope_separator=scheme.scope_separator if scheme else " ",
        dialect=(scheme.authorization if scheme else None) or AuthorizationDialect(),
        follows_scheme=follows,
        lists_offline_access=OFFLINE_ACCESS in known,
    )


@OPERATIONS.add(
    "POST",
    f"{SYSTEM}/oauth1/initialise",
    id="initialiseOAuth1",
    summary="Initialise OAuth 1.0 connection",
    permissions=permission("create", "connections"),
    end_user=own_authorisation,
)
async def initialise_oauth1(call: Call[None, rest.OAuth1Initialise]) -> Reply[rest.OAuth1Url]:
    """Obtains temporary credentials and returns the URL that a user opens in a browser to authorise.

    The user comes back with a token and a verifier. Store them with the state as a credential of type oauth1.
    """
    platform, body = call.platform, call.body
    auth_request = AuthorizationRequest.of(call, _OAUTH1_TYPES)
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
        url=url,
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
