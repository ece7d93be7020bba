"""The emulator refuses what providers refuse, and answers in their words."""

from __future__ import annotations

import hashlib
import hmac
from typing import Any
from urllib.parse import parse_qs

import pytest
from yarl import URL

from tests.unit.emulator.providers import (
    BACK,
    CHALLENGE,
    GITHUB,
    GOOGLE,
    LONG_LIVED,
    NOTION,
    ROTATING,
    SHOPIFY,
    SLACK,
    asked,
    authorise,
    call,
    connect,
    decide,
    entry,
    exchange,
    token,
)
from tieline.emulator.callbacks import Forgery
from tieline.emulator.provider import Provider


@pytest.mark.parametrize(
    ("entry", "query", "code"),
    [
        (GOOGLE, {"scope": "mail offline_access"}, "invalid_scope"),
        (GOOGLE, {"prompt": "login"}, "invalid_request"),
        (GOOGLE, {"nonsense": "1"}, "invalid_request"),
        (GOOGLE, {"response_type": "token"}, "unsupported_response_type"),
        (GOOGLE, {"code_challenge": None}, "invalid_request"),
        (GOOGLE, {"code_challenge_method": "plain"}, "invalid_request"),
        (SLACK, {"scope": "chat:write users:read"}, "invalid_scope"),
        (SLACK, {"prompt": "consent"}, "invalid_request"),
        (SLACK, {"code_challenge": CHALLENGE}, "invalid_request"),
        (NOTION, {}, "invalid_request"),
    ],
)
def test_an_undocumented_authorise_request_is_refused(
    entry: dict[str, Any], query: dict[str, str | None], code: str
) -> None:
    reply = authorise(Provider(entry), **query)
    assert reply.status == 302
    back = URL(reply.headers["Location"])
    assert (back.query["error"], back.query["state"]) == (code, "s1")
    assert str(back).startswith(BACK)


@pytest.mark.parametrize("wrong", [{"client_id": "other"}, {"redirect_uri": "https://evil.example/"}])
def test_no_stranger_gets_a_callback(wrong: dict[str, str]) -> None:
    reply = authorise(Provider(GOOGLE, redirect_uris=frozenset({BACK})), **wrong)
    assert (reply.status, "Location" in reply.headers) == (400, False)


def test_the_prompt_that_the_entry_sends_exists() -> None:
    provider = Provider(entry("prompting", {"authorization": {"prompt": "consent"}}))
    assert authorise(provider, prompt="consent").status == 200
    assert (
        dict(URL(authorise(provider, prompt="login").headers["Location"]).query)["error"] == "invalid_request"
    )


def test_an_error_page_ends_at_providers_that_have_one() -> None:
    reply = authorise(Provider({**SLACK, "emulator": {"errorsAt": "page"}}), scope="nonsense")
    assert reply.status == 400
    assert b"invalid_scope" in reply.body


def test_documented_requests_show_the_scopes() -> None:
    reply = authorise(
        Provider(GOOGLE), scope="mail", prompt="consent", access_type="offline", login_hint="ann"
    )
    assert reply.status == 200
    assert b"<li>mail</li>" in reply.body
    assert b"Emulated" in reply.body


def test_a_denial_is_reported_as_documented() -> None:
    assert decide(Provider(GOOGLE), "deny") == {"error": "access_denied", "state": "s1"}
    odd = {**GOOGLE, "emulator": {"denied": {"oauth_verifier": ""}}}
    assert decide(Provider(odd), "deny") == {"oauth_verifier": "", "state": "s1"}


def test_a_code_works_once_for_its_request() -> None:
    provider = Provider(GOOGLE)
    code = decide(provider, "allow", scope="mail")["code"]
    assert exchange(provider, code, code_verifier="x" * 43).content["error"] == "invalid_grant"
    assert exchange(provider, code, redirect_uri="https://other.example/").content["error"] == "invalid_grant"
    issued = exchange(provider, code).content
    assert (issued["expires_in"], issued["scope"]) == (3600, "mail")
    assert call(provider, issued["access_token"]).status == 200
    assert exchange(provider, code).content["error"] == "invalid_grant"
    assert call(provider, issued["access_token"]).status == 401, "a code that is used twice ends its tokens"


def test_a_code_expires() -> None:
    provider = Provider(ROTATING)
    code = decide(provider, "allow")["code"]
    provider.advance(30)
    assert exchange(provider, code).content["error"] == "invalid_grant"


@pytest.mark.parametrize(
    ("fields", "headers"),
    [
        ({"client_secret": "wrong"}, {}),
        ({"client_id": "other"}, {}),
        ({"client_secret": None}, {}),
        ({}, {"Authorization": "Basic Z29vZ2xlLWNsaWVudDpnb29nbGUtc2VjcmV0"}),
        (
            {"client_id": None, "client_secret": None},
            {"Authorization": "Basic Z29vZ2xlLWNsaWVudDpnb29nbGUtc2VjcmV0"},
        ),
    ],
)
def test_other_ways_to_authenticate_are_refused(
    fields: dict[str, str | None], headers: dict[str, str]
) -> None:
    provider = Provider(GOOGLE)
    code = decide(provider, "allow")["code"]
    asked_for = {"grant_type": "authorization_code", "code": code, "redirect_uri": BACK}
    reply = token(provider, {**asked_for, **fields}, headers=headers)
    assert reply.status == 400
    assert reply.content["error"] in ("invalid_client", "invalid_request")


def test_unknown_grants_and_parameters_are_refused() -> None:
    provider = Provider(GOOGLE)
    assert token(provider, {"grant_type": "magic"}).content["error"] == "unsupported_grant_type"
    assert token(provider, {"grant_type": "client_credentials"}).content["error"] == "unauthorized_client"
    assert (
        token(provider, {"grant_type": "refresh_token", "audience": "x"}).content["error"]
        == "invalid_request"
    )


def test_a_password_is_that_of_the_account() -> None:
    grant = {"type": "password", "password": {}}
    provider = Provider(entry("direct", {"grant": grant}))
    fields = {"grant_type": "password", "username": provider.user, "password": provider.api_key}
    assert token(provider, fields).status == 200
    for wrong in ({"password": "mistyped"}, {"username": "somebody"}, {"password": None}):
        refused = token(provider, {**fields, **wrong})
        assert (refused.status, refused.content["error"]) == (400, "invalid_grant")


def test_a_json_endpoint_refuses_forms_and_missing_headers() -> None:
    provider = Provider(NOTION)
    code = decide(provider, "allow", owner="user")["code"]
    basic = {"Authorization": "Basic bm90aW9uLWNsaWVudDpub3Rpb24tc2VjcmV0", "Notion-Version": "2022-06-28"}
    body = {"grant_type": "authorization_code", "code": code, "redirect_uri": BACK}
    url = "https://notion.example/token"
    assert asked(provider, "POST", url, form=body, headers=basic).status == 400
    without = {name: value for name, value in basic.items() if name == "Authorization"}
    assert asked(provider, "POST", url, content=body, headers=without).status == 400
    issued = asked(provider, "POST", url, content=body, headers=basic)
    assert issued.status == 200
    bearer = issued.content["access_token"]
    assert call(provider, bearer).status == 400, "the API wants its version too"
    assert call(provider, bearer, Notion_Version="2022-06-28").status == 200


def test_refresh_tokens_exist_as_documented() -> None:
    google = Provider(GOOGLE)
    assert "refresh_token" not in connect(google)
    assert "refresh_token" not in connect(google, access_type="offline"), "not at a second consent"
    assert "refresh_token" in connect(google, access_type="offline", prompt="consent")
    assert "refresh_token" in connect(Provider(GOOGLE), access_type="offline")
    assert "refresh_token" not in connect(Provider(SLACK), scope="chat:write")


def test_a_rotated_refresh_token_ends_after_its_grace() -> None:
    provider = Provider(ROTATING)
    first = connect(provider)["refresh_token"]
    second = token(provider, {"grant_type": "refresh_token", "refresh_token": first}).content["refresh_token"]
    assert second != first
    provider.advance(59)
    assert token(provider, {"grant_type": "refresh_token", "refresh_token": first}).status == 200
    provider.advance(1)
    assert (
        token(provider, {"grant_type": "refresh_token", "refresh_token": first}).content["error"]
        == "invalid_grant"
    )
    assert token(provider, {"grant_type": "refresh_token", "refresh_token": second}).status == 200


def test_an_early_refresh_is_no_revocation() -> None:
    provider = Provider({**ROTATING, "emulator": {"refreshTokens": {"earliestSeconds": 60}}})
    issued = connect(provider)
    fields = {"grant_type": "refresh_token", "refresh_token": issued["refresh_token"]}
    assert token(provider, fields).content["error"] == "invalid_request"
    provider.advance(60)
    assert token(provider, fields).status == 200
    assert token(provider, fields).content["error"] == "invalid_request"
    provider.expire()
    assert token(provider, fields).status == 200, "a token that has ended is not young"


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"client_secret": "long-secret"}, 200),
        ({"client_secret": "wrong"}, 400),
        ({}, 400),
    ],
)
def test_an_exchange_has_the_parameters_that_the_entry_names(fields: dict[str, str], status: int) -> None:
    provider = Provider(LONG_LIVED)
    short = connect(provider)["access_token"]
    query = {"grant_type": "long_exchange", "access_token": short, **fields}
    url = URL("https://graph.long.example/exchange").with_query(query)
    assert asked(provider, "GET", url).status == status


def test_tokens_expire_and_are_revoked_in_the_providers_words() -> None:
    google, slack = Provider(GOOGLE), Provider(SLACK)
    bearer = connect(google)["access_token"]
    google.advance(3600)
    assert call(google, bearer).status == 401
    bearer = connect(slack, scope="chat:write,users:read")["access_token"]
    assert call(slack, bearer).content == {"ok": True, "team": "T1"}
    slack.advance(10**9)
    assert call(slack, bearer).content["ok"] is True, "it does not expire"
    slack.expire()
    assert call(slack, bearer).content == {"error": "token_expired"}
    slack.revoke()
    assert call(slack, bearer).content == {"error": "token_revoked"}


def test_answers_and_errors_have_the_providers_form() -> None:
    answer = connect(Provider(SLACK), scope="chat:write,users:read")
    assert (answer["ok"], answer["scope"], answer["team"]) == (True, "chat:write,users:read", {"id": "T1"})
    assert "token_type" not in answer
    refused = exchange(Provider(SLACK), "nonsense")
    assert (refused.status, refused.content["ok"], refused.content["error"]) == (200, False, "invalid_grant")
    github = Provider(GITHUB)
    reply = exchange(github, "nonsense")
    assert (reply.status, reply.content["error"]) == (200, "bad_verification_code")
    code = decide(github, "allow", scope="repo")["code"]
    fields = {"grant_type": "authorization_code", "code": code, "redirect_uri": BACK}
    form = token(github, fields, headers={"Accept": "*/*"})
    assert "access_token" in parse_qs(form.body.decode())


def test_a_code_of_one_tenant_is_refused_at_another() -> None:
    provider = Provider(SHOPIFY)
    code = decide(provider, "allow", scope="read_orders")["code"]
    fields = {"grant_type": "authorization_code", "code": code, "redirect_uri": BACK}
    assert (
        token(provider, fields, url="https://other.shopify.example/token").content["error"] == "invalid_grant"
    )
    issued = token(provider, fields).content
    base = provider.base_url
    assert base == "https://my-shop.shopify.example/admin"
    assert call(provider, issued["access_token"]).status == 401, "not in Authorization"
    own = {"X-Shopify-Access-Token": issued["access_token"]}
    assert asked(provider, "GET", f"{base}/me", headers=own).status == 200


def test_what_the_entry_keeps_is_in_the_answer() -> None:
    answer = {
        "expiresIn": "expires_at",
        "expiresUnit": "epochMilliseconds",
        "keep": [{"path": "a.0.id", "variable": "x"}],
    }
    entry = {**ROTATING, "emulator": {"inputs": {"x": "7"}}}
    entry["system"] = {**entry["system"]}
    scheme = entry["system"]["authSchemeConfigs"][0]
    entry["system"]["authSchemeConfigs"] = [{**scheme, "oauth2": {**scheme["oauth2"], "tokenAnswer": answer}}]
    provider = Provider(entry)
    issued = connect(provider)
    assert issued["a"] == [{"id": "7"}]
    assert issued["expires_at"] == pytest.approx((provider.clock.now() + 3600) * 1000, abs=60_000)


def test_hosts_that_an_answer_names_are_served() -> None:
    scheme = {
        "tokenAnswer": {"keep": [{"path": "api.url", "as": "baseUrl"}, {"path": "host", "variable": "host"}]}
    }
    answer = {"api": {"url": "https://eu.kept.example/v2"}, "host": "eu"}
    provider = Provider(entry("kept", scheme, emulator={"tokenAnswer": answer}))
    issued = connect(provider)
    assert (issued["api"], provider.values["host"]) == (answer["api"], "eu")
    assert provider.serves("eu.kept.example")
    bearer = {"Authorization": f"Bearer {issued['access_token']}"}
    assert asked(provider, "GET", "https://eu.kept.example/v2/me", headers=bearer).status == 200
    assert call(provider, issued["access_token"]).status == 200, "at the base URL too"
    assert Provider(entry("kept", scheme)).values["baseUrl"] == "https://kept.example/api"


SIGNED = {
    "parameter": "hmac",
    "expect": [{"parameter": "shop", "value": "{shop}.shopify.example"}],
    "timestampParameter": "timestamp",
}


def digest_of(query: dict[str, str], secret: str) -> str:
    text = "&".join(f"{name}={value}" for name, value in sorted(query.items()) if name != "hmac")
    return hmac.new(secret.encode(), text.encode(), hashlib.sha256).hexdigest()


def test_a_callback_is_signed_where_the_entry_says_so() -> None:
    scheme = SHOPIFY["system"]["authSchemeConfigs"][0]["oauth2"]
    signing = {
        **SHOPIFY["system"]["authSchemeConfigs"][0],
        "oauth2": {**scheme, "authorization": {"callbackSignature": SIGNED}},
    }
    provider = Provider({**SHOPIFY, "system": {**SHOPIFY["system"], "authSchemeConfigs": [signing]}})
    query = decide(provider, "allow", scope="read_orders")
    assert query["shop"] == "my-shop.shopify.example"
    assert query["timestamp"].isdigit()
    assert query["hmac"] == digest_of(query, provider.client.secret)
    provider.forgery = Forgery.SIGNATURE
    query = decide(provider, "allow", scope="read_orders")
    assert query["hmac"] != digest_of(query, provider.client.secret)
    provider.forgery = Forgery.ACCOUNT
    query = decide(provider, "allow", scope="read_orders")
    assert query["hmac"] == digest_of(query, provider.client.secret)
    assert query["shop"] == "somebody-else.shopify.example"
    provider.forgery = Forgery.ADDED
    query = decide(provider, "allow", scope="read_orders")
    assert query["hmac"] == digest_of(
        {name: one for name, one in query.items() if name != "added"}, provider.client.secret
    )
    assert "hmac" not in decide(Provider(SHOPIFY), "allow", scope="read_orders")
