"""Which tenant an authorisation begins for: the scheme that the request brings, names or agrees with decides."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.unit.oauth.memory_lookups import ACME, oauth2, system
from tieline_api.authorisation.authorization_request import AuthorizationRequest
from tieline_api.authorisation.oauth2_schemes import PossibleSchemes
from tieline_api.authorisation.tenant_request import begun_with, filled_authorize_url, tenant_asked
from tieline_api.errors import ApiError
from tieline_api.schemas.authorisations import OAuth2Initialise

URL = "https://{shop}.login.example/authorize"
SHOP = [{"name": "shop", "value": "mine"}]


def filled(*schemes: dict[str, Any], **asked: Any) -> tuple[str, str]:
    """The authorise URL of a request with the variable shop, and what is kept of its values."""
    given = {
        "credential": {"id": "main", "organisationId": ACME},
        "authorizeUrl": URL,
        "clientId": "app",
        "variables": SHOP,
        **asked,
    }
    body = OAuth2Initialise.model_validate(given, by_alias=True)
    request = cast(AuthorizationRequest, SimpleNamespace(system=system(*schemes), candidates=[]))
    found = PossibleSchemes.of(request.system, request.candidates, body)
    tenant = tenant_asked(request, body, found.for_tenant)
    return filled_authorize_url(tenant, body), begun_with(tenant, body)


BROUGHT = {
    "type": "oauth2",
    "oauth2": {**oauth2(authorizeUrl=URL)["oauth2"], "id": "own", "hosts": ["*.login.example"]},
}


@pytest.mark.parametrize(
    ("schemes", "asked"),
    [
        ([oauth2(authorizeUrl=URL)], {}),
        ([oauth2("a"), oauth2("b", authorizeUrl=URL)], {}),
        ([oauth2("a", authorizeUrl=URL)], {"authSchemeConfigId": "a"}),
        ([], {"authSchemeConfig": BROUGHT}),
        ([oauth2()], {"authSchemeConfig": BROUGHT}),
    ],
    ids=["the only one", "the one with the URL", "named", "brought", "brought beside another"],
)
def test_the_variables_of_the_schemes_urls_may_be_given(
    schemes: list[dict[str, Any]], asked: dict[str, Any]
) -> None:
    assert filled(*schemes, **asked) == ("https://mine.login.example/authorize", '{"shop": "mine"}')


def test_a_variable_that_no_url_has_is_refused() -> None:
    with pytest.raises(ApiError) as caught:
        filled(oauth2())
    assert [one.field for one in caught.value.fields] == ["variables[0].name"]
