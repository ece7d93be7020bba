"""What clients of the endpoint are told of where they sign in."""

from typing import Any

import pytest

from tieline_api import errors
from tieline_api.agents.sign_in import challenge, metadata
from tieline_api.auth.issuers import Issuer
from tieline_core.identity.ids import new_id

ORGANISATION = new_id()
RESOURCE = f"https://tieline.example/api/v2/o/{ORGANISATION}/mcp"


def issuer(name: str = "https://login.example", **more: Any) -> Issuer:
    return Issuer.model_validate(
        {"issuer": name, "jwksUrl": f"{name}/keys", "audiences": ["tieline"], **more}
    )


def test_the_metadata_names_the_issuers_and_their_scopes() -> None:
    issuers = [issuer(scopes=["openid", "tieline"]), issuer("https://other.example", scopes=["tieline"])]
    assert metadata(RESOURCE, issuers, ORGANISATION) == {
        "resource": RESOURCE,
        "resource_name": "Tieline",
        "authorization_servers": ["https://login.example", "https://other.example"],
        "bearer_methods_supported": ["header"],
        "scopes_supported": ["openid", "tieline"],
    }


@pytest.mark.parametrize(
    "found",
    [
        [],
        [issuer(signIn=False)],
        [issuer(endUsers=True, organisations=[new_id()])],
    ],
)
def test_without_an_issuer_to_sign_in_at_there_is_no_metadata(found: list[Issuer]) -> None:
    assert metadata(RESOURCE, found, ORGANISATION) is None
    assert metadata(RESOURCE, [*found, issuer(endUsers=True, organisations=[ORGANISATION])], ORGANISATION)


def test_a_401_says_where_the_metadata_is() -> None:
    path = f"/api/v2/o/{ORGANISATION}/mcp"
    header = challenge(errors.unauthenticated("x"), "https://tieline.example", path).headers[
        "WWW-Authenticate"
    ]
    assert header.startswith('Bearer realm="tieline"')
    url = f"https://tieline.example/.well-known/oauth-protected-resource{path}"
    assert header.endswith(f'resource_metadata="{url}"')
    hostile = challenge(errors.unauthenticated("x"), "https://t.example", '/a\r\nX: 1/b", c="\udcff/mcp')
    assert hostile.headers["WWW-Authenticate"].endswith('/a%0D%0AX%3A%201/b%22%2C%20c%3D%22%ED%B3%BF/mcp"')
    for error, base in (
        (errors.unauthenticated("x"), ""),
        (errors.forbidden("x"), "https://tieline.example"),
    ):
        assert "resource_metadata" not in str(challenge(error, base, path).headers)
