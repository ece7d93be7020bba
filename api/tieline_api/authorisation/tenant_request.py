"""The tenant that an authorisation begins for: by the values of the request, or stored ones."""

import json

from tieline_api import errors
from tieline_api.authorisation.authorization_request import AuthorizationRequest
from tieline_api.schemas.authorisations import OAuth2Initialise
from tieline_api.schemas.url_variables import stored_variables
from tieline_core.credentials.tenants import Tenant, tenant_of
from tieline_core.objects import ObjectView
from tieline_core.resources.objects import AuthSchemeConfigDict
from tieline_protocol.url_inputs import UrlInputError, UrlTemplateError


def tenant_asked(
    request: AuthorizationRequest, body: OAuth2Initialise, scheme: AuthSchemeConfigDict | None
) -> Tenant:
    """The tenant that a request is for; the URLs of ``scheme`` decide about it.

    ApiError 422 for a variable that the system's URLs do not have.
    """
    spec = request.system["spec"]
    stored: ObjectView = request.candidates[0].connection["spec"] if len(request.candidates) == 1 else {}
    variables = {**(stored.get("variables") or {}), **(stored_variables(body.variables) or {})}
    tenant = tenant_of({**stored, "variables": variables}, spec, scheme)
    for index, one in enumerate(body.variables or ()):
        if one.name not in tenant.names and one.name not in tenant.inputs:
            raise errors.invalid(
                f"variables[{index}].name", "is no input of the system: correct the name, or leave it out"
            )
    return tenant


def filled_authorize_url(tenant: Tenant, body: OAuth2Initialise) -> str:
    """The authorise URL with its values. ApiError 422."""
    url = body.authorize_url
    if "{" not in url and "}" not in url:
        return url
    try:
        return tenant.url(url)
    except UrlTemplateError as error:
        raise errors.invalid("authorizeUrl", str(error)) from None
    except UrlInputError as error:
        raise errors.invalid("variables", str(error)) from None


def begun_with(tenant: Tenant, body: OAuth2Initialise) -> str:
    """What is kept of the values until the user comes back."""
    values = {**tenant.identifying, **(stored_variables(body.variables) or {})}
    return json.dumps(values, sort_keys=True) if values else ""
