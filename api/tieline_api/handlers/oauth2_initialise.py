"""The operation that starts an OAuth 2.0 authorisation code flow."""

from tieline_api import errors
from tieline_api.auth.permissions import permission
from tieline_api.handlers.systems import SYSTEM
from tieline_api.http.operation import Call, Operation, Reply
from tieline_api.oauth.authorization_request import AuthorizationRequest
from tieline_api.oauth.authorize_url import AuthorizeUrlError, AuthorizeUrlParameters, authorize_url, scopes
from tieline_api.oauth.pkce import requires_pkce
from tieline_api.schemas import authorisations as rest
from tieline_api.schemas import examples
from tieline_core.credentials.linker import Problem, client_of
from tieline_core.oauth.state_store import new_verifier
from tieline_core.resources.auth_schemes import OAuth2Client
from tieline_core.resources.connections import CredentialType

# Credentials that tokens of an authorisation can replace.
_FINISHABLE = (CredentialType.OAUTH2_CODE, CredentialType.OAUTH2_TOKEN)


async def initialise(call: Call[None, rest.OAuth2Initialise]) -> Reply:
    """Returns the URL that a user opens in a browser to authorise.

    The user comes back with a code and a state. Store both as a credential of type oauth2-code; the service exchanges
    them for tokens. The state is good once, for ten minutes unless configured otherwise, and for this credential only.
    """
    body = call.body
    auth_request = AuthorizationRequest.of(call, _FINISHABLE)
    _check_credential(call)
    verifier = new_verifier() if requires_pkce(auth_request.system, auth_request.candidates, body) else None
    try:
        wanted = _wanted(body)
        url = authorize_url(
            wanted, redirect_uri=auth_request.redirect_uri, state=auth_request.state, verifier=verifier
        )
        asked = scopes(wanted.scopes, offline=not wanted.disable_offline_access)
    except AuthorizeUrlError as error:
        raise errors.invalid(error.field, error.message) from None
    await auth_request.remember(
        client_id=body.client_id, code_verifier=verifier or "", scopes=" ".join(asked)
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


def _wanted(body: rest.OAuth2Initialise) -> AuthorizeUrlParameters:
    return AuthorizeUrlParameters(
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
        handler=initialise,
        permissions=permission("create", "connections"),
        response=rest.OAuth2Url,
        example=examples.OAUTH2_INITIALISE,
        response_example={"url": "https://shop.example/oauth/authorize?response_type=code&client_id=tieline"},
    ),
)
