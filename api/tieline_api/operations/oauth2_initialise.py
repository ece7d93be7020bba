"""The operation that starts an OAuth 2.0 authorisation code flow."""

from collections.abc import Mapping
from typing import Any

from tieline_api import errors
from tieline_api.conversion.systems import auth_scheme_items
from tieline_api.engine.operation import Call, Operation, Reply, permission
from tieline_api.models import oauth2_initialise as rest
from tieline_api.oauth.authorize_url import Authorization, RefusedError, authorize_url
from tieline_api.oauth.states import Pending, new_state, new_verifier
from tieline_api.operations import examples
from tieline_api.operations.systems import SYSTEM
from tieline_core.resources.auth_schemes import AuthSchemeType, OAuth2GrantType

CALLBACK = "/oauth/callback"


async def initialise(call: Call[None, rest.OAuth2Initialise]) -> Reply:
    """S3: the URL to send a user to. Its state is good once, for minutes, and for this credential alone."""
    platform, body = call.platform, call.body
    system = platform.world.need(platform.world.systems, call.namespace, call.path["system_id"])
    if body.credential.organisation_id != call.organisation.id:
        raise errors.invalid(
            "credential.organisationId",
            "must be the organisation in the path: credentials of others cannot be used here",
        )
    if not platform.settings.public_api_url:
        raise errors.ApiError(
            503,
            "not_configured",
            "This API does not know the address that browsers reach it at: "
            "ask its operators to set TIELINE_PUBLIC_API_URL",
        )
    scheme = scheme_of(system, body)
    verifier = new_verifier() if scheme.get("pkce") else None
    redirect_uri = f"{platform.settings.public_api_url}{CALLBACK}"
    state = new_state(call.organisation.id)
    try:
        url = authorize_url(_wanted(body), redirect_uri=redirect_uri, state=state, verifier=verifier)
    except RefusedError as error:
        raise errors.invalid(error.field, error.message) from None
    pending = Pending(
        organisation_id=call.organisation.id,
        system_id=call.path["system_id"].upper(),
        credential_id=body.credential.id,
        client_id=body.client_id,
        redirect_uri=redirect_uri,
        requested_by=call.caller.username,
        code_verifier=verifier or "",
    )
    await platform.oauth_states.remember(state, pending, system=system)
    return Reply(body=rest.OAuth2Url(url=url), headers={"Cache-Control": "no-store"})


def scheme_of(system: Mapping[str, Any], body: rest.OAuth2Initialise) -> Mapping[str, Any]:
    """The OAuth 2.0 scheme of a system that a request is about; empty when the system has none.

    Of several the one that agrees in most: the credential first, then the client, then the URL.
    """
    found = [
        scheme
        for item in auth_scheme_items(system)
        if item["type"] == AuthSchemeType.OAUTH2
        and (scheme := item.get("oauth2") or {}).get("grant", {}).get("type")
        == OAuth2GrantType.AUTHORIZATION_CODE
    ]

    def agreement(scheme: Mapping[str, Any]) -> tuple[bool, bool, bool]:
        client = scheme["grant"].get("authorizationCode") or {}
        return (
            client.get("credentialId") == body.credential.id,
            client.get("clientId") == body.client_id,
            scheme.get("authorizeUrl") == body.authorize_url,
        )

    return max(found, key=agreement, default={})


def _wanted(body: rest.OAuth2Initialise) -> Authorization:
    return Authorization(
        authorize_url=body.authorize_url,
        client_id=body.client_id,
        scopes=tuple(body.scopes or ()),
        disable_offline_access=bool(body.disable_offline_access),
        prompt=body.prompt or "",
        additional_params=body.additional_params or "",
    )


OPERATIONS = (
    Operation(
        id="initialiseOAuth2",
        method="POST",
        path=f"{SYSTEM}/oauth2/initialise",
        summary="Initialise OAuth 2.0 connection",
        tag="Systems",
        handler=initialise,
        permissions=permission("create", "connections"),
        body=rest.OAuth2Initialise,
        response=rest.OAuth2Url,
        example=examples.OAUTH2_INITIALISE,
        response_example={"url": "https://shop.example/oauth/authorize?response_type=code&client_id=tieline"},
    ),
)
