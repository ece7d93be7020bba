"""How a credential's tokens come about and stay good, and that no provider is asked twice for one."""

import asyncio
from base64 import b64decode
from datetime import timedelta
from typing import Any

import pytest

from tests.unit.oauth.token_shop import NOW, Provider, Shop, kept
from tieline_core.credentials.token_manager import UnresolvedError
from tieline_core.identity.names import tokens_name
from tieline_core.oauth import token_secret_codec
from tieline_protocol.oauth.token_client import RefusedError


async def test_client_credentials_are_fetched_and_fetched_again(
    provider: Provider, token_manager_of: Any
) -> None:
    shop = Shop(provider, "oauth2-client", grant="clientCredentials", client={}, defaultScopes=["read"])
    shop.store(clientId="me", clientSecret="s3cret")
    provider.answers = [{"refresh_token": None}] * 3
    token_manager = token_manager_of(shop)
    assert (await kept(token_manager, shop)).access_token == "at1"
    assert provider.asked == [{"grant_type": "client_credentials", "scope": "read"}]
    shop.now += timedelta(minutes=46)
    assert (await kept(token_manager, shop)).access_token == "at2"
    assert (await kept(token_manager, shop, rejected="at2")).access_token == "at3"
    assert "s3cret" not in str(shop.tokens_secret)


async def test_a_corrected_client_secret_lifts_a_refusal(provider: Provider, token_manager_of: Any) -> None:
    shop = Shop(provider, "oauth2-client", grant="clientCredentials", client={})
    shop.store(clientId="me", clientSecret="wrong")
    provider.answers = [{"error": "invalid_client"}]
    token_manager = token_manager_of(shop)
    for _ in range(3):
        with pytest.raises(RefusedError):
            await kept(token_manager, shop)
    assert len(provider.asked) == 1
    shop.store(clientId="me", clientSecret="right")
    assert (await kept(token_manager, shop)).access_token == "at2"


async def test_a_refused_client_is_tried_again_after_an_hour(
    provider: Provider, token_manager_of: Any
) -> None:
    shop = Shop(provider, "oauth2-client", grant="clientCredentials", client={})
    shop.store(clientId="me", clientSecret="s3cret")
    provider.answers = [{"error": "invalid_client"}]
    with pytest.raises(RefusedError):
        await kept(token_manager_of(shop), shop)
    shop.now += timedelta(minutes=61)
    assert (await kept(token_manager_of(shop), shop)).access_token == "at2"


async def test_a_password_brings_tokens_and_new_ones_when_the_refresh_token_has_ended(
    provider: Provider, token_manager_of: Any
) -> None:
    shop = Shop(provider, "oauth2-password", grant="password")
    shop.store(username="ada", password="pa&ss")
    token_manager = token_manager_of(shop)
    await kept(token_manager, shop)
    shop.now += timedelta(minutes=46)
    provider.answers = [{"error": "invalid_grant"}]
    assert (await kept(token_manager, shop)).access_token == "at3"
    kinds = [form["grant_type"] for form in provider.asked]
    assert kinds == ["password", "refresh_token", "password"]
    assert provider.asked[0]["password"] == "pa&ss"


async def test_given_tokens_are_used_as_they_are_until_they_are_due(
    provider: Provider, token_manager_of: Any
) -> None:
    shop = Shop(provider, "oauth2-token")
    shop.store(accessToken="mine", refreshToken="r0", scopes="a b")
    token_manager = token_manager_of(shop)
    assert (await kept(token_manager, shop)).access_token == "mine"
    assert provider.asked == []
    assert (await kept(token_manager, shop, rejected="mine")).access_token == "at1"
    assert provider.asked[0]["refresh_token"] == "r0"
    assert token_secret_codec.read(shop.tokens_secret).tokens.scopes == ("a", "b")
    assert b64decode(shop.kube.objects["Secret", "acme", "main"]["data"]["accessToken"]) == b"mine"


async def test_given_tokens_without_a_refresh_token_need_no_secret_and_end_some_day(
    provider: Provider, token_manager_of: Any
) -> None:
    shop = Shop(provider, "oauth2-token")
    shop.store(accessToken="mine", expiresAt="2026-01-01T12:10:00Z")
    token_manager = token_manager_of(shop)
    found = await token_manager.fresh(shop.connection, "main")
    assert (found.tokens.access_token, found.due_at) == ("mine", NOW + timedelta(minutes=10))
    assert ("Secret", "acme", tokens_name("login", "main")) not in shop.kube.objects
    for options in ({"rejected": "mine"}, {}):
        with pytest.raises(RefusedError) as caught:
            await kept(token_manager, shop, **options)
        assert caught.value.code == "not_renewable"
        shop.now += timedelta(minutes=11)
    assert provider.asked == []


async def test_what_is_missing_is_said_before_anybody_is_asked(
    provider: Provider, token_manager_of: Any
) -> None:
    shop = Shop(provider, "oauth2-client", grant="clientCredentials", client={})
    with pytest.raises(UnresolvedError) as caught:
        await kept(token_manager_of(shop), shop)
    assert caught.value.problems[0].reason == "SecretNotFound"
    assert provider.asked == []


async def test_a_storm_of_calls_is_one_look_at_the_cluster(provider: Provider, token_manager_of: Any) -> None:
    shop = Shop(provider, "oauth2-client", grant="clientCredentials", client={})
    shop.store(clientId="me", clientSecret="s3cret")
    token_manager = token_manager_of(shop)
    await kept(token_manager, shop)
    shop.kube.reads = 0
    found = await asyncio.gather(*(kept(token_manager, shop, rejected="at1") for _ in range(200)))
    assert {one.access_token for one in found} == {"at2"}
    assert shop.kube.reads <= 2


async def test_a_refresh_goes_where_the_first_answer_said(provider: Provider, token_manager_of: Any) -> None:
    refresh_url = provider.url.replace("/token", "/tenants/{tenant}/token")
    keep = {"keep": [{"path": "tenant", "variable": "tenant"}]}
    shop = Shop(provider, "oauth2-password", grant="password", refreshUrl=refresh_url, tokenAnswer=keep)
    shop.store(username="ada", password="pa&ss")
    provider.answers = [{"tenant": "b"}]
    await kept(token_manager_of(shop), shop)
    read, shop.lookups.secret_reads = shop.lookups.secret_reads, 0
    assert (await kept(token_manager_of(shop), shop, rejected="at1")).access_token == "at2"
    assert provider.paths == ["/token", "/tenants/b/token"]
    assert (read, shop.lookups.secret_reads) == (1, 1), "the credential is resolved once"
