"""The emulator's OAuth 1.0: it takes what RFC 5849 signs, and nothing else."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl

import pytest
from multidict import CIMultiDict, CIMultiDictProxy
from oauthlib import oauth1
from yarl import URL

from tests.unit.emulator.providers import asked
from tieline.emulator.authorisation import Client
from tieline.emulator.connection import connection
from tieline.emulator.facts import ProviderFacts
from tieline.emulator.grants import Clock, Grant, Grants, Token
from tieline.emulator.messages import Asked
from tieline.emulator.oauth1 import OAuth1
from tieline.emulator.provider import Provider
from tieline.emulator.server import Emulator

BACK = "https://tieline.example/callback?state=s1"
TEMPORARY, AUTHORISE, TOKEN = (
    f"https://boards.example/{name}" for name in ("temporary", "authorise", "token")
)
API = "https://api.boards.example/1/members/me?fields=all%20of%20it"


def entry(*, method: str = "HMAC-SHA1", **emulator: Any) -> dict[str, Any]:
    sent = [{"parameterName": "scope", "location": "LOCATION_QUERY", "value": "read"}]
    options = {
        "signatureMethod": method,
        "tempCredentialEndpoint": {"url": TEMPORARY},
        "resourceOwnerAuthorizationEndpoint": {"url": AUTHORISE, "additionalParamConfigs": sent},
        "tokenEndpoint": {"url": TOKEN},
    }
    system = {
        "name": "Boards",
        "domain": "boards.example",
        "templateBaseUrl": "https://api.boards.example/1",
        "check": {"path": "/members/me"},
        "authSchemeConfigs": [{"id": "oauth1", "type": "oauth1", "oauth1": options}],
    }
    return {"key": "boards", "system": system, "emulator": {"expiresIn": "none", **emulator}}


def signed(provider: Provider, method: Any, url: str, *, secret: str = "", **protocol: Any) -> dict[str, str]:
    """The header of a request that a library signs."""
    client = oauth1.Client(provider.client.id, secret or provider.client.secret, **protocol)
    headers: dict[str, str] = client.sign(url, http_method=method)[1]
    return headers


def issued(provider: Provider, url: str, **protocol: Any) -> dict[str, str]:
    reply = asked(provider, "POST", url, headers=signed(provider, "POST", url, **protocol))
    return {"status": str(reply.status), **dict(parse_qsl(reply.body.decode()))}


def begin(provider: Provider) -> dict[str, str]:
    return issued(provider, TEMPORARY, callback_uri=BACK)


def decide(provider: Provider, begun: dict[str, str], decision: str, **query: str) -> Any:
    url = URL(AUTHORISE).with_query({"oauth_token": begun["oauth_token"], "scope": "read", **query})
    return asked(provider, "POST", url, form={"decision": decision})


def allowed(provider: Provider, begun: dict[str, str]) -> dict[str, str]:
    return dict(URL(decide(provider, begun, "allow").headers["Location"]).query)


def exchanged(provider: Provider, begun: dict[str, str], **protocol: Any) -> dict[str, str]:
    token = {"resource_owner_key": begun["oauth_token"], "resource_owner_secret": begun["oauth_token_secret"]}
    return issued(provider, TOKEN, **{**token, **protocol})


def connected(provider: Provider, **more: Any) -> dict[str, str]:
    begun = begin(provider)
    found = exchanged(provider, begun, verifier=allowed(provider, begun)["oauth_verifier"], **more)
    return {
        "resource_owner_key": found["oauth_token"],
        "resource_owner_secret": found["oauth_token_secret"],
    }


def call(provider: Provider, **protocol: Any) -> int:
    return asked(
        provider, "GET", URL(API, encoded=True), headers=signed(provider, "GET", API, **protocol)
    ).status


def test_the_example_of_the_rfc_is_taken_once() -> None:
    client = Client("dpf43f3p2l4k3l03", "kd94hf93k423kf44")
    grants = Grants("photos", Clock(source=lambda: 137131200.0))
    token = Token("nnch734d00sl2jdk", Grant({}, (), offline=False), issued_at=0)
    grants.access[token.value] = token
    photos = OAuth1({}, ProviderFacts(), client, grants, token_secrets={token.value: "pfkkdhi9sl3r4s00"})
    header = (
        'OAuth realm="Photos", oauth_consumer_key="dpf43f3p2l4k3l03", oauth_token="nnch734d00sl2jdk", '
        'oauth_signature_method="HMAC-SHA1", oauth_timestamp="137131202", oauth_nonce="chapoH", '
        'oauth_signature="MdpQcU8iPSUjWoN%2FUDMsK2sui9I%3D"'
    )
    headers = CIMultiDictProxy(CIMultiDict({"Authorization": header}))
    url = URL("http://photos.example.net/photos?file=vacation.jpg&size=original")
    assert photos.token_of(Asked(method="GET", url=url, headers=headers)) is token
    assert photos.token_of(Asked(method="GET", url=url, headers=headers)) is None, "a nonce is good once"


def test_a_person_connects_and_requests_are_signed() -> None:
    provider = Provider(entry())
    token = connected(provider)
    assert call(provider, **token) == 200
    assert call(provider, **{**token, "resource_owner_secret": "guessed"}) == 401
    assert call(provider, **token, secret="guessed") == 401
    assert call(provider) == 401
    assert call(provider, **token, timestamp="1000000000") == 401
    provider.revoke()
    assert call(provider, **token) == 401


@pytest.mark.parametrize("style", [oauth1.SIGNATURE_TYPE_QUERY, oauth1.SIGNATURE_TYPE_BODY])
def test_parameters_may_travel_in_the_query_or_a_form(style: str) -> None:
    provider = Provider(entry())
    client = oauth1.Client(
        provider.client.id, provider.client.secret, callback_uri=BACK, signature_type=style
    )
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    url, headers, body = client.sign(TEMPORARY, http_method="POST", body="a=b+c", headers=form)
    fields = dict(parse_qsl(body))
    assert asked(provider, "POST", URL(url, encoded=True), form=fields, headers=headers).status == 200


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"secret": "another"}, "signature_invalid"),
        ({"signature_method": oauth1.SIGNATURE_HMAC_SHA256}, "signature_method_rejected"),
        ({"timestamp": "1000000000"}, "timestamp_refused"),
        ({"callback_uri": None}, "parameter_absent"),
    ],
)
def test_a_wrong_first_request_gets_no_token(change: dict[str, Any], problem: str) -> None:
    found = issued(Provider(entry()), TEMPORARY, **{"callback_uri": BACK, **change})
    assert found == {"status": "401", "oauth_problem": problem}


def test_a_verifier_is_good_once_and_for_its_own_token() -> None:
    provider = Provider(entry())
    begun, other = begin(provider), begin(provider)
    verifier = allowed(provider, begun)["oauth_verifier"]
    allowed(provider, other)
    assert exchanged(provider, other, verifier=verifier)["oauth_problem"] == "verifier_invalid"
    assert (
        exchanged(provider, begun, resource_owner_secret="x", verifier=verifier)["oauth_problem"]
        == "signature_invalid"
    )
    assert exchanged(provider, begun, verifier=verifier)["status"] == "200"
    assert exchanged(provider, begun, verifier=verifier)["oauth_problem"] == "token_rejected"
    assert exchanged(provider, begin(provider), verifier="")["oauth_problem"] == "verifier_invalid"


def test_what_a_person_denies_gets_no_token() -> None:
    provider = Provider(entry())
    begun = begin(provider)
    assert URL(decide(provider, begun, "deny").headers["Location"]).query["denied"] == begun["oauth_token"]
    assert exchanged(provider, begun, verifier="v")["oauth_problem"] == "token_rejected"
    silent = Provider(entry(denied={}))
    assert "Access was denied" in decide(silent, begin(silent), "deny").body.decode()


@pytest.mark.parametrize("query", [{"expiry": "never"}, {"scope": "admin"}, {"oauth_token": "boards-code-0"}])
def test_the_page_refuses_what_is_not_documented(query: dict[str, str]) -> None:
    provider = Provider(entry(scopes=["read", "write"]))
    assert decide(provider, begin(provider), "allow", **query).status == 400


def test_code_is_given_a_token_and_signs_for_the_emulators_address() -> None:
    provider = Provider(entry())
    address = "http://127.0.0.1:9100"
    made = connection(provider, address)
    (credential,) = made["credentials"]
    data, url = credential["data"], f"{address}/api.boards.example/1/members/me"
    assert (credential["type"], made["baseUrl"]) == ("oauth1", f"{address}/api.boards.example/1")
    assert credential["authScheme"]["oauth1"]["consumerKey"] == provider.client.id
    token = {"resource_owner_key": data["oauthToken"], "resource_owner_secret": data["oauthTokenSecret"]}
    headers = signed(provider, "GET", url, **token)
    request, _ = Emulator([provider]).read("GET", URL(url), headers, b"")
    assert request is not None
    reply = provider.serve(request)
    assert reply is not None
    assert reply.status == 200
