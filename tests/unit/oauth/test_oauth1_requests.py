"""Requests for temporary and token credentials of OAuth 1.0, at a signing that checks with code of its own."""

from typing import Any

import pytest

from tests.unit.oauth.oauth1_consumer import METHODS, STYLES, consumer, endpoint
from tests.unit.oauth.oauth1_provider import CONSUMER, SECRET, OAuth1Provider
from tieline_core.oauth.oauth1_requests import Consumer, ParameterError, authorization_url, check_params
from tieline_core.oauth.oauth1_tokens import Issued, temporary_credentials, token_credentials
from tieline_protocol.oauth.token_client import (
    MisconfiguredError,
    RefusedError,
    TokenClient,
    UnreachableError,
)

CALLBACK = "https://tieline.example/oauth2/callback?state=S.1"


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("method", METHODS)
async def test_rfc_5849_read_anew_accepts_both_requests(
    signing: OAuth1Provider, client: TokenClient, method: str, style: str
) -> None:
    params = [
        {"parameterName": "scope", "location": "LOCATION_QUERY", "value": "a b&c=ü"},
        {"parameterName": "note", "location": "LOCATION_BODY", "value": "x+y/ü"},
        {"parameterName": "xoauth_lang", "location": "LOCATION_HEADER_PARAMETER", "value": 'de-ü, "1"'},
    ]
    first = endpoint(f"{signing.url}/a/temporary?z=1%2F2&z=0", *params, style=style)
    issued = await temporary_credentials(client, first, consumer(method), callback=CALLBACK, params={})
    seen = signing.parameters()
    assert seen["oauth_callback"] == CALLBACK
    assert (seen["scope"], seen["note"], seen["xoauth_lang"]) == ("a b&c=ü", "x+y/ü", 'de-ü, "1"')
    assert signing.seen[-1].headers.get("Authorization", "").startswith("OAuth ") is (style == STYLES[0])
    assert (b"oauth_signature" in signing.seen[-1].body) is (style == STYLES[1])
    assert ("oauth_signature" in str(signing.seen[-1].url)) is (style == STYLES[2])
    signing.callbacks[issued.token] = "https://x.example?state=s"
    back = signing.agree(f"https://x.example?oauth_token={issued.token}")
    second = endpoint(f"{signing.url}/a/token", *params, style=style)
    got = await token_credentials(
        client, second, consumer(method), temporary=issued, verifier=back["oauthVerifier"], params={}
    )
    assert signing.issued == {got.token: got.secret}
    with pytest.raises(RefusedError, match="http_401"):
        await token_credentials(
            client, second, consumer(method), temporary=issued, verifier=back["oauthVerifier"], params={}
        )


async def test_each_parameter_goes_where_its_location_says_under_its_target_name(
    signing: OAuth1Provider, client: TokenClient
) -> None:
    params: list[dict[str, Any]] = [
        {"parameterName": "ignored", "location": "LOCATION_IGNORE", "value": "no", "required": True},
        {"parameterName": "nothing", "value": "no"},
        {"parameterName": "body", "location": "LOCATION_BODY", "value": "b", "targetName": "in_body"},
        {"parameterName": "head", "location": "LOCATION_HEADER", "value": "h", "targetName": "X-Head"},
        {"parameterName": "query", "location": "LOCATION_QUERY", "value": "q", "targetName": "in_query"},
        {"parameterName": "shop", "location": "LOCATION_ENDPOINT", "value": "ä/b", "targetName": "name"},
        {
            "parameterName": "oauth",
            "location": "LOCATION_HEADER_PARAMETER",
            "value": "o",
            "targetName": "x_o",
        },
        {
            "parameterName": "later",
            "location": "LOCATION_QUERY",
            "value": "no",
            "usages": "USAGE_TOKEN_REQUEST_ENDPOINT",
        },
        {
            "parameterName": "now",
            "location": "LOCATION_QUERY",
            "value": "yes",
            "usages": "USAGE_TEMP_CREDENTIAL_ENDPOINT",
        },
        {"parameterName": "any", "location": "LOCATION_QUERY", "value": "yes", "usages": "USAGE_UNKNOWN"},
    ]
    first = endpoint(f"{signing.url}/{{name}}/temporary", *params)
    await temporary_credentials(client, first, consumer(), callback=CALLBACK, params={})
    seen = signing.seen[-1]
    assert seen.url.raw_path == "/%C3%A4%2Fb/temporary"
    assert dict(seen.url.query) == {"in_query": "q", "now": "yes", "any": "yes"}
    assert seen.body == b"in_body=b"
    assert seen.headers["X-Head"] == "h"
    assert ', x_o="o"' in seen.headers["Authorization"]
    assert b"no" not in seen.body


def test_a_user_may_change_what_is_modifiable_and_nothing_else() -> None:
    params: list[dict[str, Any]] = [
        {"parameterName": "shop", "location": "LOCATION_ENDPOINT", "modifiable": True, "required": True},
        {"parameterName": "fixed", "location": "LOCATION_QUERY", "value": "1"},
    ]
    one = endpoint("https://{shop}.example/authorize", *params)
    url = authorization_url(one, token="t/1", params={"shop": "acme", "fixed": "2"})
    assert url == "https://acme.example/authorize?fixed=1&oauth_token=t%2F1"
    check_params({None: one}, {"shop": "acme"})
    for given, told in (
        ({}, "is required"),
        ({"shop": "acme", "fixed": "2"}, "may not be changed"),
        ({"shop": "acme", "other": "2"}, "none of the auth scheme's"),
        ({"shop": "evil.com/"}, "host's name"),
        ({"shop": "a@evil.com"}, "host's name"),
        ({"shop": "a\r\nb"}, "cannot be sent"),
    ):
        with pytest.raises(ParameterError, match=told):
            check_params({None: one}, given)


@pytest.mark.parametrize(
    ("params", "told"),
    [
        ([{"parameterName": "oauth_token", "location": "LOCATION_QUERY", "value": "x"}], "protocol sets"),
        ([{"parameterName": "Host", "location": "LOCATION_HEADER", "value": "x"}], "as the header"),
        ([{"parameterName": "a", "location": "LOCATION_BODY", "required": True}], "lacks its value"),
    ],
)
async def test_parameters_that_cannot_be_sent_are_told_by_name_and_nobody_is_asked(
    signing: OAuth1Provider, client: TokenClient, params: list[dict[str, Any]], told: str
) -> None:
    one = endpoint(f"{signing.url}/a/temporary", *params)
    with pytest.raises(ParameterError, match=told):
        await temporary_credentials(client, one, consumer(), callback=CALLBACK, params={})
    with pytest.raises(MisconfiguredError, match="placeholders"):
        await temporary_credentials(
            client, endpoint(f"{signing.url}/{{x}}"), consumer(), callback=CALLBACK, params={}
        )
    assert signing.seen == []


async def test_answers_are_told_apart_and_neither_messages_nor_debug_logs_hold_a_secret(
    signing: OAuth1Provider, client: TokenClient, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    one = endpoint(f"{signing.url}/a/token")
    given = Issued(token="t0ken", secret="t0ken-s3cret")

    async def asked(method: str = "HMAC-SHA1", secret: str = SECRET) -> str:
        who = Consumer(key=CONSUMER, secret=secret, method=method)
        with pytest.raises((RefusedError, UnreachableError, MisconfiguredError)) as raised:
            await token_credentials(client, one, who, temporary=given, verifier="ver1fier", params={})
        told = f"{type(raised.value).__name__}: {raised.value} {raised.value!r}"
        assert not any(secret in told for secret in ("t0ken", "ver1fier", SECRET))
        return told

    assert (await asked()).startswith("RefusedError")
    signing.failing, signing.problem = 401, "token_expired"
    assert "token_expired" in await asked()
    signing.problem = "t0ken"
    assert "(http_401)" in await asked()
    signing.failing = 503
    assert (await asked()).startswith("UnreachableError")
    assert "private key in PEM" in await asked("RSA-SHA1", "no key")
    await asked("PLAINTEXT")
    logged = caplog.text
    assert not any(secret in logged for secret in ("t0ken", "ver1fier", "consumer%20secret", SECRET))


async def test_a_provider_that_does_not_confirm_the_callback_is_not_used(
    signing: OAuth1Provider, client: TokenClient
) -> None:
    signing.confirms = False
    with pytest.raises(MisconfiguredError, match="does not confirm the callback"):
        await temporary_credentials(
            client, endpoint(f"{signing.url}/a/temporary"), consumer(), callback=CALLBACK, params={}
        )
