"""Token requests against a real Keycloak: what is asked for is what it understands, and its noes are noes."""

from __future__ import annotations

import base64
import json
import secrets
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Literal
from urllib.parse import parse_qs, urlsplit

import aiohttp
import pytest

from tests.harness.identity.certificate_authority import Authority, pem
from tests.harness.identity.keycloak import Application, Keycloak
from tieline_api.authorisation.authorize_url import AuthorizeUrlParameters, authorize_url
from tieline_protocol.egress import Egress
from tieline_protocol.oauth.token_client import (
    Endpoint,
    MisconfiguredError,
    RefusedError,
    TokenClient,
    Tokens,
    UnreachableError,
    client_certificate,
)

REDIRECT = "https://tieline.example/oauth2/callback"
Authentication = Literal["header", "body"]


@pytest.fixture
async def tokens() -> AsyncIterator[TokenClient]:
    connector = Egress.parse(allowed=["127.0.0.0/8"]).connector()
    async with aiohttp.ClientSession(connector=connector) as session:
        yield TokenClient(session)


def new_verifier() -> str:
    return secrets.token_urlsafe(32)


def endpoint(keycloak: Keycloak, application: Application, **more: Any) -> Endpoint:
    return Endpoint(
        **{
            "token_url": keycloak.token_url,
            "client_id": application.id,
            "client_secret": application.secret,
            **more,
        }
    )


def ends_after(seconds: int, found: Tokens) -> list[datetime]:
    """When tokens of this lifetime may end: Keycloak tells whole seconds, and may begin another while it answers."""
    return [found.issued_at + timedelta(seconds=each) for each in (seconds, seconds - 1)]


def consented(
    keycloak: Keycloak,
    application: Application,
    *,
    verifier: str | None,
    scopes: tuple[str, ...] = ("openid",),
) -> dict[str, str]:
    """What comes back with the browser after somebody has logged in by our authorise URL."""
    wanted = AuthorizeUrlParameters(
        authorize_url=keycloak.authorize_url, client_id=application.id, scopes=scopes
    )
    url = authorize_url(wanted, redirect_uri=REDIRECT, state="the-state", verifier=verifier)
    location = keycloak.log_in(url, keycloak.person())
    assert location.startswith(REDIRECT), location
    return {name: values[0] for name, values in parse_qs(urlsplit(location).query).items()}


@pytest.mark.parametrize("authentication", ["header", "body"])
async def test_a_code_brings_tokens_with_the_scopes_that_were_granted(
    keycloak: Keycloak, tokens: TokenClient, authentication: Authentication
) -> None:
    application = keycloak.register(lifetime=77)
    verifier = new_verifier()
    back = consented(keycloak, application, verifier=verifier)
    assert back["state"] == "the-state"
    found = await tokens.exchange(
        endpoint(keycloak, application, authentication=authentication),
        code=back["code"],
        redirect_uri=REDIRECT,
        verifier=verifier,
    )
    assert claims(found.access_token)["azp"] == application.id
    assert found.refresh_token
    assert found.token_type == "Bearer"
    assert found.expires_at in ends_after(77, found)
    assert set(found.scopes) == {"openid", "email", "profile", "offline_access"}


async def test_a_code_is_worth_nothing_without_its_own_verifier(
    keycloak: Keycloak, tokens: TokenClient
) -> None:
    application = keycloak.register()
    for wrong in ("", new_verifier()):
        back = consented(keycloak, application, verifier=new_verifier())
        with pytest.raises(RefusedError) as caught:
            await tokens.exchange(
                endpoint(keycloak, application), code=back["code"], redirect_uri=REDIRECT, verifier=wrong
            )
        assert caught.value.code == "invalid_grant"


async def test_a_provider_that_requires_pkce_is_refused_without_it(keycloak: Keycloak) -> None:
    back = consented(keycloak, keycloak.register(), verifier=None)
    assert back["error"] == "invalid_request"


async def test_a_code_is_good_once(keycloak: Keycloak, tokens: TokenClient) -> None:
    application, verifier = keycloak.register(), new_verifier()
    back = consented(keycloak, application, verifier=verifier)
    given = {"code": back["code"], "redirect_uri": REDIRECT, "verifier": verifier}
    await tokens.exchange(endpoint(keycloak, application), **given)
    with pytest.raises(RefusedError):
        await tokens.exchange(endpoint(keycloak, application), **given)


async def test_refresh_tokens_rotate_and_a_used_one_takes_all_with_it(
    keycloak: Keycloak, tokens: TokenClient
) -> None:
    application, verifier = keycloak.register(), new_verifier()
    back = consented(keycloak, application, verifier=verifier)
    asked = endpoint(keycloak, application)
    first = await tokens.exchange(asked, code=back["code"], redirect_uri=REDIRECT, verifier=verifier)
    second = await tokens.refresh(asked, refresh_token=first.refresh_token, scopes=first.scopes)
    assert second.refresh_token not in ("", first.refresh_token)
    assert second.access_token != first.access_token
    assert set(second.scopes) == set(first.scopes)
    with pytest.raises(RefusedError) as reused:
        await tokens.refresh(asked, refresh_token=first.refresh_token)
    assert reused.value.code == "invalid_grant"
    # This is what a refresh storm costs: the tokens that were good are void too.
    with pytest.raises(RefusedError):
        await tokens.refresh(asked, refresh_token=second.refresh_token)


async def test_what_a_person_takes_back_is_refused(keycloak: Keycloak, tokens: TokenClient) -> None:
    application, verifier, person = keycloak.register(), new_verifier(), keycloak.person()
    wanted = AuthorizeUrlParameters(authorize_url=keycloak.authorize_url, client_id=application.id)
    url = authorize_url(wanted, redirect_uri=REDIRECT, state="s", verifier=verifier)
    code = parse_qs(urlsplit(keycloak.log_in(url, person)).query)["code"][0]
    asked = endpoint(keycloak, application)
    found = await tokens.exchange(asked, code=code, redirect_uri=REDIRECT, verifier=verifier)
    keycloak.end_sessions(person, application)
    with pytest.raises(RefusedError) as caught:
        await tokens.refresh(asked, refresh_token=found.refresh_token)
    assert caught.value.code == "invalid_grant"


async def test_a_person_who_says_no_comes_back_with_an_error(keycloak: Keycloak) -> None:
    application, verifier = keycloak.register(consentRequired=True), new_verifier()
    wanted = AuthorizeUrlParameters(authorize_url=keycloak.authorize_url, client_id=application.id)
    url = authorize_url(wanted, redirect_uri=REDIRECT, state="s", verifier=verifier)
    location = keycloak.log_in(url, keycloak.person(), grant=False)
    assert parse_qs(urlsplit(location).query)["error"] == ["access_denied"]


@pytest.mark.parametrize("authentication", ["header", "body"])
async def test_client_credentials_bring_the_clients_own_token(
    keycloak: Keycloak, tokens: TokenClient, authentication: Authentication
) -> None:
    application = keycloak.register_service(lifetime=60)
    asked = endpoint(keycloak, application, authentication=authentication)
    found = await tokens.client_credentials(asked, scopes=["email"])
    assert claims(found.access_token)["azp"] == application.id
    assert "email" in found.scopes
    assert found.refresh_token == ""
    assert found.expires_at in ends_after(60, found)
    with pytest.raises(RefusedError) as caught:
        await tokens.client_credentials(replace(asked, client_secret="another"))
    assert caught.value.code == "unauthorized_client"


@pytest.mark.parametrize("authentication", ["header", "body"])
async def test_a_secret_with_characters_that_forms_know_arrives_as_it_is(
    keycloak: Keycloak, tokens: TokenClient, authentication: Authentication
) -> None:
    secret = "ä:b c+d&e=f%20/ü"
    application = keycloak.register_service(secret=secret)
    asked = endpoint(keycloak, application, client_secret=secret, authentication=authentication)
    assert (await tokens.client_credentials(asked)).access_token


async def test_a_name_and_a_password_bring_tokens(keycloak: Keycloak, tokens: TokenClient) -> None:
    application, person = keycloak.register_for_passwords(), keycloak.person()
    asked = endpoint(keycloak, application)
    found = await tokens.password(asked, username=person.name, password=person.password)
    assert claims(found.access_token)["preferred_username"] == person.name
    assert (await tokens.refresh(asked, refresh_token=found.refresh_token)).access_token
    with pytest.raises(RefusedError) as caught:
        await tokens.password(asked, username=person.name, password="another")
    assert caught.value.code == "invalid_grant"


async def test_a_scope_that_there_is_not_is_refused_with_its_own_code(
    keycloak: Keycloak, tokens: TokenClient
) -> None:
    application = keycloak.register_service()
    with pytest.raises(RefusedError) as caught:
        await tokens.client_credentials(endpoint(keycloak, application), scopes=["no-such-scope"])
    assert caught.value.code == "invalid_scope"


async def test_a_client_certificate_is_the_clients_proof(keycloak: Keycloak, tokens: TokenClient) -> None:
    certificate, key = keycloak.authority.issue("our-service")
    application = keycloak.register_for_certificate("CN=our-service")
    tls = client_certificate(certificate=certificate, key=pem(key), ca=keycloak.authority.ca)
    asked = endpoint(keycloak, application, token_url=keycloak.tls_token_url, client_secret="", tls=tls)
    found = await tokens.client_credentials(asked)
    assert claims(found.access_token)["azp"] == application.id

    other, other_key = keycloak.authority.issue("another-service")
    wrong = client_certificate(certificate=other, key=pem(other_key), ca=keycloak.authority.ca)
    with pytest.raises(RefusedError):
        await tokens.client_credentials(replace(asked, tls=wrong))


async def test_a_certificate_of_a_stranger_is_no_proof(keycloak: Keycloak, tokens: TokenClient) -> None:
    certificate, key = Authority().issue("our-service")
    application = keycloak.register_for_certificate("CN=our-service")
    tls = client_certificate(certificate=certificate, key=pem(key), ca=keycloak.authority.ca)
    asked = endpoint(keycloak, application, token_url=keycloak.tls_token_url, client_secret="", tls=tls)
    with pytest.raises((RefusedError, UnreachableError)):
        await tokens.client_credentials(asked)


async def test_a_provider_whose_certificate_nobody_vouches_for_gets_no_secret(
    keycloak: Keycloak, tokens: TokenClient
) -> None:
    application = keycloak.register_service()
    with pytest.raises(UnreachableError):
        await tokens.client_credentials(endpoint(keycloak, application, token_url=keycloak.tls_token_url))
    assert keycloak.events("CLIENT_LOGIN", application) == []


async def test_a_url_that_is_no_token_endpoint_says_nothing_about_the_credentials(
    keycloak: Keycloak, tokens: TokenClient
) -> None:
    application = keycloak.register_service()
    for url in (keycloak.issuer, f"{keycloak.url}/nowhere"):
        with pytest.raises(MisconfiguredError):
            await tokens.client_credentials(endpoint(keycloak, application, token_url=url))


def claims(token: str) -> dict[str, Any]:
    """What a JWT says, unchecked."""
    part = token.split(".")[1]
    found: dict[str, Any] = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    return found
