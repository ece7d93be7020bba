"""Token URLs that lead inside: refused before anything is sent, with what to do."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest

from tests.integration.api.conftest import Client
from tests.integration.api.oauth_provider import CLIENT_ID, Provider
from tests.integration.api.objects import make_system, make_template
from tieline_core.identity.ids import new_id

pytestmark = pytest.mark.cluster


ALLOW = "an administrator can allow it in TIELINE_EGRESS_ALLOWED"


@pytest.mark.parametrize(
    ("host", "words"),
    [
        ("127.0.0.1", ALLOW),
        ("localhost", ALLOW),
        ("[::ffff:127.0.0.1]", ALLOW),
        ("2130706433", "is not a URL"),
        ("a..b", "has a host that cannot be one"),
        ("a" * 64, "has a host that cannot be one"),
    ],
)
def test_a_code_is_not_sent_to_an_inner_address(
    client: Client, login: Provider, host: str, words: str
) -> None:
    url = f"http://{host}:{urlsplit(login.url).port}/token"
    scheme = login.scheme(tokenUrl=url)
    system = make_system(client, [scheme])["id"]
    _, template = make_template(client, system=system)
    scheme["oauth2"]["grant"]["authorizationCode"].pop("clientSecret")
    named = {"id": new_id(), "organisationId": client.organisation}
    begun = client.ok(
        "POST",
        f"/systems/{system}/oauth2/initialise",
        {"credential": named, "authorizeUrl": f"{login.url}/authorize", "clientId": CLIENT_ID},
    )
    credential = {
        "id": "login",
        "authSchemeConfig": scheme,
        "credential": {
            "id": named["id"],
            "type": "oauth2-code",
            "data": {"oauth2Code": login.agree(begun["url"])},
        },
    }
    body = {
        "connectionTemplateId": template["connectionTemplateId"],
        "connection": {"name": "Login", "credentials": [credential]},
    }
    answer = client("POST", "/connections", body)
    assert answer.status == 422, answer.raw
    assert words in answer.raw.decode()
    assert login.requests == []
