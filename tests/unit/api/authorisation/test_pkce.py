"""Which authorisations by OAuth 2.0 use PKCE: those whose scheme demands it, whoever's scheme that is."""

from typing import Any

import pytest

from tests.unit.oauth.memory_lookups import ACME, credential, make, oauth2, system
from tieline_api.authorisation.authorization_request import CandidateCredential
from tieline_api.authorisation.oauth2_schemes import PossibleSchemes
from tieline_api.errors import ApiError
from tieline_api.schemas.authorisations import OAuth2Initialise


def body(**changes: Any) -> OAuth2Initialise:
    given = {
        "credential": {"id": "main", "organisationId": ACME},
        "authorizeUrl": "https://shop.example/authorize",
        "clientId": "app",
        **changes,
    }
    return OAuth2Initialise.model_validate(given, by_alias=True)


def held(scheme: dict[str, Any] | None = None, *, named: str = "oauth") -> list[CandidateCredential]:
    item = credential(kind="oauth2-code", scheme=named)
    if scheme is not None:
        del item["authSchemeConfigId"]
        item["authSchemeConfig"] = scheme
    return [CandidateCredential(make("Connection", "login", credentials=[item]), item)]


def given(*, pkce: bool) -> dict[str, Any]:
    return {
        "type": "oauth2",
        "oauth2": {**oauth2(pkce=pkce)["oauth2"], "id": "own", "authorizeUrl": "https://a.b/c"},
    }


PLAIN, SAFE = oauth2(), oauth2(pkce=True)


@pytest.mark.parametrize(
    ("case", "schemes", "own", "asked", "expected"),
    [
        ("the system's demands it", [SAFE], [], {}, True),
        ("the system's does not", [PLAIN], [], {}, False),
        ("the connection's own demands it", [PLAIN], held(SAFE), {}, True),
        ("the connection's own does not", [SAFE], held(PLAIN), {}, False),
        ("the one that the connection names", [PLAIN, oauth2("b", pkce=True)], held(named="b"), {}, True),
        ("no scheme is known yet", [], [], {}, True),
        ("the request brings it", [PLAIN], [], {"authSchemeConfig": given(pkce=True)}, True),
        ("the request brings another", [SAFE], [], {"authSchemeConfig": given(pkce=False)}, False),
        ("the request undoes nothing", [PLAIN], held(SAFE), {"authSchemeConfig": given(pkce=False)}, True),
        ("the request names it", [PLAIN, oauth2("b", pkce=True)], [], {"authSchemeConfigId": "b"}, True),
        ("of equals one demands it", [PLAIN, oauth2("b", pkce=True)], [], {}, True),
        (
            "the client decides",
            [PLAIN, oauth2("b", pkce=True, client={"clientId": "other"})],
            [],
            {"clientId": "other"},
            True,
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_scheme_decides(
    case: str,
    schemes: list[dict[str, Any]],
    own: list[CandidateCredential],
    asked: dict[str, Any],
    expected: bool,
) -> None:
    assert PossibleSchemes.of(system(*schemes), own, body(**asked)).requires_pkce is expected, case


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        ({"authSchemeConfigId": "missing"}, "authSchemeConfigId"),
        ({"authSchemeConfigId": "x", "authSchemeConfig": given(pkce=True)}, "authSchemeConfigId"),
        ({"authSchemeConfig": {"type": "none", "none": {"id": "own"}}}, "authSchemeConfig.type"),
    ],
)
def test_a_scheme_that_is_none_is_refused(asked: dict[str, Any], field: str) -> None:
    with pytest.raises(ApiError) as caught:
        PossibleSchemes.of(system(PLAIN), [], body(**asked))
    assert (caught.value.status, caught.value.fields[0].field) == (422, field)
